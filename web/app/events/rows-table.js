// The virtual table: only the rows in view exist. All rows have the same height, so that their
// positions need no measuring.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { columnWidths, eventColumns } from "../core/preferences.js";
import { hrefHere, patch } from "../core/route.js";
import { keepInSight } from "../ui/in-sight.js";
import { shortOf } from "../ui/names.js";
import { ColumnHeads } from "./column-heads.js";
import { Cell, widthOf } from "./columns.js";

const SPARE_ROWS = 8;
const LOAD_AHEAD_ROWS = 60;

/**
 * Shows `rows`, those of the feed as they come or `sorted`; `found` are the filters in force. `active` is the index of the row with the cursor, `gapAfter` the ids that
 * a gap follows. `onTop(atTop)` says whether the newest row is in view, `onView(newest, oldest)` which
 * events are.
 */
export function RowsTable({ feed, rows, sorted, found, columns, openId, active, onActivate, onTop, onView, gapAfter, pins }) {
  const { moved, version, atNewest, atOldest } = feed.state.value;
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const rowHeight = useRowHeight(box);

  useLayoutEffect(() => {
    box.current.scrollTop = feed.top;
  }, [feed]);

  useLayoutEffect(() => {
    const element = box.current;
    const atTop = view.top < rowHeight / 2; // to ask the element would lay out the whole page first
    if (moved && !sorted && !(atTop && moved > 0 && atNewest)) element.scrollTop += moved * rowHeight;
    const anchor = feed.anchor ? rows.findIndex((event) => event.id <= feed.anchor) : -1;
    if (anchor < 0) return;
    feed.anchor = null;
    element.scrollTop = (anchor + 1) * rowHeight - element.clientHeight / 2;
  }, [version]);

  useEffect(() => {
    const element = box.current;
    const look = () => {
      if (!element.isConnected) return; // it is no longer where one looks
      feed.top = element.scrollTop;
      setView({ top: element.scrollTop, height: element.clientHeight });
    };
    const watcher = new ResizeObserver(look);
    watcher.observe(element);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      watcher.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, [feed]);

  const first = Math.max(0, Math.floor(view.top / rowHeight) - SPARE_ROWS);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / rowHeight) + SPARE_ROWS);

  useEffect(() => {
    const place = (y) => rows[Math.min(rows.length - 1, Math.max(0, Math.floor(y / rowHeight)))];
    onView(place(view.top), place(view.top + view.height - 2 * rowHeight));
  }, [view, version]);

  useEffect(() => {
    onTop(view.top < rowHeight / 2 && atNewest);
    if (!rows.length) return;
    if (sorted) return; // what comes would be anywhere among them
    if (!atOldest && last > rows.length - LOAD_AHEAD_ROWS) feed.older();
    if (!atNewest && first < LOAD_AHEAD_ROWS) feed.newer();
  }, [view, version]);

  useLayoutEffect(() => keepInSight(box.current, active, rowHeight, rowHeight), [active]);

  const short = useMemo(() => shortOf(rows.map((event) => event.participant_name ?? "")), [rows]);
  const slotOf = useSlots(moved, version, last - first);
  const marked = { gaps: gapAfter.size > 0 };
  const widths = columns.map((column) => widthOf(column, rows, marked));
  const width = widths.reduce((sum, one) => sum + one, 0);
  return html`<div class="rows" ref=${box}>
    <table class=${eventColumns.value ? "" : "in-lines"} aria-rowcount=${atOldest && atNewest ? rows.length + 1 : -1}
      style=${{ width: `max(100%, ${width}rem)` }} aria-label="Events, newest first">
      <${Columns} columns=${columns} widths=${widths} />
      <thead><${ColumnHeads} columns=${columns} widths=${widths} /></thead>
      <tbody>
        <${Spacer} height=${first * rowHeight} />
        ${rows.slice(first, last).map((event, i) => {
          const index = first + i;
          return html`<${Row} key=${slotOf(index)} event=${event} index=${index} columns=${columns} found=${found}
            short=${short} open=${String(event.id) === openId} active=${index === active}
            pin=${pins[event.id]} gap=${gapAfter.has(event.id)} onActivate=${onActivate} />`;
        })}
        <${Spacer} height=${(rows.length - last) * rowHeight} />
      </tbody>
    </table>
  </div>`;
}

function Columns({ columns, widths }) {
  return html`<colgroup>
    ${columns.map(
      (c, i) => html`<col key=${c.name} style=${{ width: c.grow && !columnWidths.value[c.name] ? undefined : `${widths[i]}rem` }} />`,
    )}
  </colgroup>`;
}

function Spacer({ height }) {
  if (height <= 0) return null;
  return html`<tr class="spacer" aria-hidden="true"><td style=${{ height: `${height}px` }}></td></tr>`;
}

const PINS = [["A", "a"], ["B", "b"]];

function Row({ event, index, columns, found, short, open, active, pin, gap, onActivate }) {
  const link = useRef(null);
  useEffect(() => {
    if (active && document.activeElement?.closest(".rows")) link.current?.focus({ preventScroll: true });
  }, [active]);
  const classes = ["row", open && "open", active && "active", gap && "after-gap", event.quiet && "muted"].filter(Boolean);
  return html`<tr class=${classes.join(" ")} aria-rowindex=${index + 2}
    onClick=${(e) => !e.target.closest("a, button") && onActivate(index, true)}>
    ${columns.map((column) =>
      column.name === "id"
        ? html`<td class="of-id tabular">
            <a ref=${link} data-focus=${`event ${event.id}`} href=${hrefHere({ event: String(event.id) })}
              tabindex=${active || (index === 0 && !active) ? 0 : -1}
              onClick=${(e) => (e.preventDefault(), onActivate(index, true))}
              onFocus=${() => onActivate(index, false)}>#${event.id}</a>
            ${pin ? html` <span class="pin ${pin.toLowerCase()}">${pin}</span>` : PINS.map(([letter, name]) => html`<button
              key=${letter} class="pin ${name} row-pin" tabindex="-1" aria-label=${`Pin #${event.id} as ${letter}`} title=${`Pin as ${letter}`}
              onClick=${() => patch({ [name]: String(event.id) })}>${letter}</button>`)}
            ${gap && html`<span class="gap-mark" title="Trace messages may have been lost right after this event">gap</span>`}
          </td>`
        : Cell({ column, event, found, short }), // called: a component for each cell would cost as much as the cell
    )}
  </tr>`;
}

/**
 * The slot of each row in view: a row keeps its own, also when others come before it, and what goes out
 * of view leaves its slot to what comes in. To change a row costs a fifth of making one.
 */
function useSlots(moved, version, count) {
  const before = useRef({ version, moved: 0 });
  if (before.current.version !== version) {
    before.current = { version, moved: before.current.moved + moved };
  }
  const from = before.current.moved;
  return (index) => (((index - from) % count) + count) % count;
}

/** The height of a row: measured when there is a first one, and when the size of text may have changed. */
function useRowHeight(box) {
  const [height, setHeight] = useState(28);
  const measured = useRef(false);
  const measure = () => {
    const found = box.current?.querySelector("tr.row")?.getBoundingClientRect().height;
    measured.current ||= Boolean(found);
    if (found && Math.abs(found - height) > 0.1) setHeight(found);
  };
  useLayoutEffect(() => {
    if (!measured.current) measure();
  });
  useEffect(() => {
    const watcher = new ResizeObserver(measure);
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, [height]);
  return height;
}
