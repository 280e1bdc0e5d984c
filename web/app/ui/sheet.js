// A small sheet under a button, which Escape or a click elsewhere closes.
import { useLayoutEffect, useRef, useState } from "../../vendor/hooks.js";

/** `anchor` is the ref of the element that holds the button and the sheet. */
export function useSheet() {
  const [open, setOpen] = useState(false);
  const anchor = useRef(null);
  const close = () => setOpen(false);
  // Before it is visible, so that an Escape pressed at once counts.
  useLayoutEffect(() => {
    if (!open) return undefined;
    const outside = (event) => {
      if (event.key === "Escape") event.preventDefault();
      else if (event.key || anchor.current.contains(event.target)) return;
      close();
    };
    addEventListener("pointerdown", outside);
    addEventListener("keydown", outside, true);
    return () => {
      removeEventListener("pointerdown", outside);
      removeEventListener("keydown", outside, true);
    };
  }, [open]);
  return { open, anchor, close, toggle: () => setOpen(!open) };
}
