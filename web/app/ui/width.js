// The width of an element, for drawings in it.
import { useLayoutEffect, useState } from "../../vendor/hooks.js";

export const NARROW = 620; // pixels; there what is asked for should begin in the first screen

/** The width in pixels of the element that `box` refers to, `first` until it is measured; `isDrawn`: whether it is there. */
export function useWidth(box, first, isDrawn = true) {
  const [width, setWidth] = useState(first);
  useLayoutEffect(() => {
    if (!isDrawn) return undefined;
    const watcher = new ResizeObserver(([entry]) => setWidth(entry.contentRect.width));
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, [isDrawn]);
  return width;
}
