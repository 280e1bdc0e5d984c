// Rows of equal height, of which only those in view exist. One is chosen; the list has the focus and
// says which (aria-activedescendant), so that rows may come and go while it scrolls.
import { useEffect, useLayoutEffect, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { keepInSight } from "../ui/in-sight.js";

const SPARE = 8;
const rowId = (name, index) => `${name}-${index}`;

/**
 * `row(index)` draws one: it gets its id, place and state as properties to spread. `head` stays at the
 * top. `onKey(key)` returns whether it has done something; `onWidth(pixels)` tells how wide the rows are.
 * `middle(index)` is where across a wide row its part is.
 */
export function Rows({ name, role, label, count, height, active, row, head, headHeight, onStep, onKey, onWidth, minWidth = 0, middle }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  useLayoutEffect(() => {
    const element = box.current;
    const look = () => {
      setView((before) => {
        const { scrollTop: top, clientHeight } = element;
        return before.top === top && before.height === clientHeight ? before : { top, height: clientHeight };
      });
    };
    const measure = () => {
      look();
      onWidth?.(element.clientWidth);
    };
    const watcher = new ResizeObserver(measure);
    watcher.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    measure();
    return () => {
      watcher.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, []);

  useEffect(() => {
    const element = box.current;
    keepInSight(element, active, height, headHeight);
    const across = active >= 0 && middle ? middle(active) - element.scrollLeft : 0;
    if (across < 0 || across > element.clientWidth) element.scrollLeft += across - element.clientWidth / 2;
  }, [active, count, height, minWidth]);

  const first = Math.max(0, Math.floor(view.top / height) - SPARE);
  const last = Math.min(count, Math.ceil((view.top + view.height) / height) + SPARE);
  const shown = [];
  for (let i = first; i < last; i += 1) shown.push(i);
  if (active >= 0 && active < count && (active < first || active >= last)) shown.push(active); // what the list points to exists

  const page = Math.max(1, Math.floor(view.height / height) - 2);
  const steps = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: page, PageUp: -page, Home: -count, End: count };
  const pressed = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const by = steps[event.key];
    if (by) onStep(Math.max(0, Math.min(count - 1, (active < 0 && by > 0 ? -1 : Math.max(active, 0)) + by)));
    else if (!onKey?.(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<div class="conv-rows" ref=${box}>
    <div class="conv-rows-inner" style=${{ minWidth: `${minWidth}px` }}>
      ${head}
      <div class="conv-list" role=${role} aria-label=${label} tabindex="0" data-focus=${name} onKeyDown=${pressed}
        aria-activedescendant=${active >= 0 && active < count ? rowId(name, active) : undefined}
        style=${{ height: `${count * height}px` }}>
        ${shown.map((index) => row(index, {
          id: rowId(name, index),
          top: `${index * height}px`,
          chosen: index === active,
        }))}
      </div>
    </div>
  </div>`;
}
