import { useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { GLOSSARY, termOf } from "./glossary.js";
import { Word } from "./term.js";

/**
 * A table that scrolls sideways where it is wider than the window. `heads` are the heads of its columns,
 * parted by `|`; `#` begins that of numbers, and one without a word stands over buttons. `sort`: by `useSort`.
 */
export function Table({ label, heads, sort, children }) {
  return html`<div class="list-scroll" tabindex="0" role="group" aria-label=${label}>
    <table class="list">
      <thead><tr>${heads.split("|").map((head, column) => html`<${Head} key=${head} head=${head} column=${column} sort=${sort} />`)}</tr></thead>
      <tbody>${children}</tbody>
    </table>
  </div>`;
}

function Head({ head, column, sort }) {
  const word = head.replace(/^#/, "");
  const name = word === head ? undefined : "number";
  if (!word) return html`<th><span class="unseen">Actions</span></th>`;
  if (!sort?.keys[column]) return html`<th class=${name}><${Word}>${word}<//></th>`;
  const falling = sort.column === column ? sort.falling : null;
  return html`<th class=${name} title=${GLOSSARY[termOf(word)]}
    aria-sort=${falling === null ? undefined : falling ? "descending" : "ascending"}>
    <button class="head" onClick=${() => sort.choose(column)}>${word}${falling === null ? "" : falling ? " ↓" : " ↑"}</button></th>`;
}

/**
 * `{rows, …}`: the rows by the column whose head was pressed: first up, then down, then as they came. `keys` are by
 * column: `(row) => number or text`, or null where there is nothing to sort by. Without a value a row is last.
 */
export function useSort(rows, keys) {
  const [{ column, falling }, setOrder] = useState({ column: null, falling: false });
  const key = keys[column];
  const order = (a, b) => {
    const [x, y] = [key(a), key(b)];
    if (x == null || y == null) return (x == null) - (y == null);
    return (x < y ? -1 : x > y ? 1 : 0) * (falling ? -1 : 1);
  };
  const choose = (next) => setOrder(next !== column ? { column: next, falling: false } : falling ? { column: null, falling: false } : { column, falling: true });
  return { rows: key ? [...rows].sort(order) : rows, keys, column, falling, choose };
}
