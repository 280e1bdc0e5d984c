// The heads of the events table: sorted by a click, moved by a drag, made wider at their edge.
import { html } from "../core/html.js";
import { columnWidths } from "../core/preferences.js";
import { patch, route } from "../core/route.js";
import { GLOSSARY, termOf } from "../ui/glossary.js";
import { moveColumn, resizeColumn } from "./columns.js";

const STEP = 1; // rem, by the arrow keys

/** The order of the loaded rows: `{name, falling}`, or null for the newest first. */
export function sortOf({ sort }) {
  if (!sort) return null;
  return { name: sort.replace(/^-/, ""), falling: sort.startsWith("-") };
}

export function ColumnHeads({ columns, widths }) {
  const sort = sortOf(route.value.params);
  return html`<tr aria-rowindex="1">${columns.map(
    (column, n) => html`<${Head} key=${column.name} column=${column} columns=${columns} width=${widths[n]} sort=${sort} />`,
  )}</tr>`;
}

function Head({ column, columns, width, sort }) {
  const { name, label, fixed, number } = column;
  const falling = sort?.name === name ? sort.falling : null;
  const meaning = GLOSSARY[termOf(label)];
  const next = falling === null ? name : falling ? null : `-${name}`;
  const drop = (event) => {
    event.preventDefault();
    const other = event.dataTransfer.getData("text/column");
    const place = (one) => columns.findIndex((each) => each.name === one);
    if (other && other !== name) moveColumn(columns, other, place(name) - place(other));
  };
  return html`<th class=${number ? "number" : ""} title=${meaning}
    aria-sort=${falling === null ? undefined : falling ? "descending" : "ascending"}
    onDragOver=${(e) => !fixed && e.preventDefault()} onDrop=${fixed ? undefined : drop}>
    <button class="head" draggable=${!fixed} onDragStart=${(e) => e.dataTransfer.setData("text/column", name)}
      onClick=${() => patch({ sort: next }, { replace: true })}>${label}${falling === null ? "" : falling ? " ↓" : " ↑"}</button>
    <${Edge} name=${name} label=${label} width=${width} />
  </th>`;
}

/** A separator that is drawn by the pointer, or moved by the arrow keys. */
function Edge({ name, label, width }) {
  const begin = (event) => {
    event.preventDefault();
    const edge = event.currentTarget;
    const [from, start] = [event.clientX, edge.parentElement.getBoundingClientRect().width];
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const move = ({ clientX }) => resizeColumn(name, (start + clientX - from) / rem);
    edge.setPointerCapture(event.pointerId);
    edge.addEventListener("pointermove", move);
    edge.addEventListener("lostpointercapture", () => edge.removeEventListener("pointermove", move), { once: true });
  };
  const keys = {
    ArrowLeft: () => resizeColumn(name, (columnWidths.peek()[name] ?? width) - STEP),
    ArrowRight: () => resizeColumn(name, (columnWidths.peek()[name] ?? width) + STEP),
    Escape: () => resizeColumn(name, null),
  };
  const press = (event) => {
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  };
  return html`<i class="edge" role="separator" aria-orientation="vertical" tabindex="0" aria-label=${`Width of ${label}`}
    aria-valuenow=${Math.round(width)} aria-valuemin="3" aria-valuemax="60" title="Drag, or double-click for its own width"
    onPointerDown=${begin} onDblClick=${() => resizeColumn(name, null)} onKeyDown=${press}></i>`;
}
