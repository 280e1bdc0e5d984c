// Keeps the keyboard focus. When the focused element goes away (closed, replaced, disabled) a browser
// starts again at the top of the page; here the focus moves to its successor instead.
import { useEffect } from "../../vendor/hooks.js";

const MOST = 20;
const FALLBACK = "page";

export function useKeptFocus() {
  useEffect(() => {
    const trail = []; // what has had the focus, newest last
    const entered = ({ target }) => {
      if (trail.at(-1) !== target) trail.push(target);
      if (trail.length > MOST) trail.shift();
    };
    const changed = () => {
      const lost = trail.at(-1);
      const unheld = [null, document.body, lost].includes(document.activeElement);
      if (lost && unheld && isLost(lost)) goOn(lost, trail.slice(0, -1).reverse());
    };
    const watcher = new MutationObserver(changed);
    watcher.observe(document.body, { childList: true, subtree: true, attributeFilter: ["disabled"] });
    addEventListener("focusin", entered);
    return () => {
      watcher.disconnect();
      removeEventListener("focusin", entered);
    };
  }, []);
}

const isLost = (element) => !element.isConnected || element.matches(":disabled");

/** Tries elements with the same name, then those focused before, then the page. */
function goOn(lost, way) {
  const successors = [...named(lost), ...way, document.getElementById(FALLBACK)];
  successors.find((element) => {
    if (!element || isLost(element)) return false;
    element.focus({ preventScroll: true });
    return document.activeElement === element;
  });
}

/** For the lost element and each of its ancestors: the one that now has the same name. */
function* named(lost) {
  for (let element = lost; element && element !== document.body; element = element.parentElement) {
    const name = nameOf(element);
    if (name) yield [...document.querySelectorAll(NAMED)].find((other) => nameOf(other) === name && !isLost(other));
  }
}

const NAMED = "[data-focus], [aria-label], [title]";
const nameOf = ({ dataset, ariaLabel, title }) => dataset.focus || ariaLabel || title;
