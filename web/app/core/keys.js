// Keyboard shortcuts of whatever is shown.
import { useLayoutEffect, useRef } from "../../vendor/hooks.js";
import { signal } from "../../vendor/signals.js";

/** True if the filter box gets the focus as soon as it is there: its tab may still be loading. */
export const filterWanted = signal(false);

const typing = (target) =>
  target.isContentEditable || ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName);

/** `keys` maps a KeyboardEvent's `key` to an action, while the calling component is shown. */
export function useKeys(keys) {
  const latest = useRef(keys);
  latest.current = keys;
  // Before the paint, so that whatever can be seen already listens.
  useLayoutEffect(() => {
    const listen = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (typing(event.target) || document.querySelector("dialog[open]")) return;
      const action = latest.current[event.key];
      // A focused button or link keeps its own Enter and Space.
      const pressesButton = event.target.closest?.("button, a, summary");
      if (!action || (pressesButton && ["Enter", " "].includes(event.key))) return;
      event.preventDefault();
      action(event);
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}
