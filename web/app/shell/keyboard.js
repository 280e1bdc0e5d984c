// The keys that work on every tab. A tab adds its own by `useKeys`.
import { useLayoutEffect, useRef } from "../../vendor/hooks.js";
import { go, openEvent, patch, TABS } from "../core/route.js";
import { helpOpen } from "./help.js";

const typing = (target) =>
  target.isContentEditable || ["INPUT", "SELECT", "TEXTAREA"].includes(target.tagName);

/** `keys` maps a KeyboardEvent's `key` to an action, while the calling component is shown. */
export function useKeys(keys) {
  const latest = useRef(keys);
  latest.current = keys;
  // Not after the paint: what can be seen already listens.
  useLayoutEffect(() => {
    const listen = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
      if (typing(event.target) || document.querySelector("dialog[open]")) return;
      const action = latest.current[event.key];
      // A button or link that has the focus keeps its own Enter and Space.
      const pressesButton = event.target.closest?.("button, a, summary");
      if (!action || (pressesButton && ["Enter", " "].includes(event.key))) return;
      event.preventDefault();
      action(event);
    };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}

function focusFilter() {
  const box = document.getElementById("event-filter");
  box?.focus();
  return box !== null;
}

export function useGlobalKeys() {
  const keys = {
    "?": () => (helpOpen.value = true),
    "/": () => {
      if (focusFilter()) return;
      go("events");
      requestAnimationFrame(focusFilter);
    },
    x: () => patch({ a: null, b: null }),
    Escape: () => patch({ event: null }),
    a: () => openEvent.value && patch({ a: openEvent.value }),
    b: () => openEvent.value && patch({ b: openEvent.value }),
  };
  TABS.forEach(([name], i) => (keys[i + 1] = () => go(name)));
  useKeys(keys);
}
