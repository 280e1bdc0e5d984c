// The keys that work on every tab; each tab adds its own.
import { useKeys } from "../core/keys.js";
import { go, openEvent, patch, TABS } from "../core/route.js";
import { helpOpen } from "./help.js";

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
