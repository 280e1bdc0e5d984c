import { useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { GLOSSARY, termOf } from "./glossary.js";
import { Word } from "./term.js";

/**
 * A table that scrolls sideways where it is wider than the window. `heads` are the heads of its columns,
 * parted by `|`; `#` begins that of numbers, and one without a word stands over buttons.
 *
 * `children(row)` draws each of `rows`, `most` of them. Where a head is pressed, rows are sorted by its column:
 * numbers the largest first, others the other way round; then turned; then as they came. `by` has a field's name
 * for each column, or `(row) => number or text`, or null where there is nothing to sort by. Without a value a row is last.
 * `lines`: a row takes two lines on a phone, of the cells with the classes at-first, at-first-end, at-second and at-end.
 */
export function Table({ label, heads, rows, by = [], most, lines, children }) {
  const [{ column, falling }, setOrder] = useState({ column: null, falling: false });
  const key = typeof by[column] === "string" ? (row) => row[by[column]] : by[column];
  const order = (a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x == null || y == null) return (x == null) - (y == null);
    return (x < y ? -1 : x > y ? 1 : 0) * (falling ? -1 : 1);
  };
  const choose = (next, first) =>
    setOrder(next !== column ? { column: next, falling: first } : falling === first ? { column, falling: !first } : { column: null, falling: false });
  return html`<div class="list-scroll" tabindex="0" role="group" aria-label=${label}>
    <table class=${lines ? "list two-lines" : "list"}>
      <thead><tr>${heads.split("|").map((head, at) => html`<${Head} key=${at} head=${head} falling=${at === column ? falling : null}
        onChoose=${by[at] && ((first) => choose(at, first))} />`)}</tr></thead>
      <tbody>${(key ? [...rows].sort(order) : rows).slice(0, most).map((row) => children(row))}</tbody>
    </table>
  </div>`;
}

function Head({ head, falling, onChoose }) {
  const word = head.replace(/^#/, "");
  const isNumber = word !== head;
  const name = isNumber ? "number" : undefined;
  if (!word) return html`<th><span class="unseen">Actions</span></th>`;
  if (!onChoose) return html`<th class=${name}><${Word}>${word}<//></th>`;
  return html`<th class=${name} title=${GLOSSARY[termOf(word)]}
    aria-sort=${falling === null ? undefined : falling ? "descending" : "ascending"}>
    <button class="head" onClick=${() => onChoose(isNumber)}>${word}${falling === null ? "" : falling ? " ↓" : " ↑"}</button></th>`;
}
