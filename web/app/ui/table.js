import { html } from "../core/html.js";
import { Word } from "./term.js";

/**
 * A table that scrolls sideways where it is wider than the window. `heads` are the heads of its columns,
 * parted by `|`; `#` begins that of numbers, and one without a word stands over buttons.
 */
export function Table({ label, heads, children }) {
  return html`<div class="list-scroll" tabindex="0" role="group" aria-label=${label}>
    <table class="list">
      <thead><tr>${heads.split("|").map((head) =>
        head[0] === "#"
          ? html`<th class="number" key=${head}><${Word}>${head.slice(1)}<//></th>`
          : html`<th key=${head}>${head ? html`<${Word}>${head}<//>` : html`<span class="unseen">Actions</span>`}</th>`,
      )}</tr></thead>
      <tbody>${children}</tbody>
    </table>
  </div>`;
}
