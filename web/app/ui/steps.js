// Walking through a table by keys.
import { useKeys } from "../core/keys.js";

/** ↓ and ↑, or J and K, move the focus to the next or previous row's element that fits `selector`. */
export function useSteps(selector) {
  const step = (by) => {
    const links = [...document.querySelectorAll(selector)];
    const at = links.indexOf(document.activeElement?.closest?.("tr")?.querySelector(selector));
    links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
  };
  useKeys({ ArrowDown: () => step(1), ArrowUp: () => step(-1), j: () => step(1), k: () => step(-1) });
}
