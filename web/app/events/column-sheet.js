import { html } from "../core/html.js";
import { Icon } from "../ui/icons.js";
import { useSheet } from "../ui/sheet.js";
import { moveColumn, resetColumns, toggleColumn } from "./columns.js";

export function ColumnSheet({ all, shown }) {
  const { open, anchor, toggle } = useSheet();
  const names = new Set(shown.map((column) => column.name));

  return html`<div class="sheet-anchor" ref=${anchor}>
    <button class="button" aria-expanded=${String(open)} onClick=${toggle}>
      <${Icon} name="columns" />Columns
    </button>
    ${open &&
    html`<fieldset class="sheet columns-sheet">
      <legend class="unseen">Columns to show</legend>
      ${[...shown, ...all.filter((column) => !names.has(column.name))].filter((column) => !column.fixed).map(
        ({ name, label }) => html`<div class="column-choice" key=${name}>
          <label class="check"><input type="checkbox" checked=${names.has(name)}
            onChange=${(e) => toggleColumn(all, name, e.currentTarget.checked)} />${label}</label>
          ${names.has(name) &&
          html`<button class="button quiet icon small" data-focus=${`up ${name}`} aria-label=${`Move the column ${label} to the left`}
              onClick=${() => moveColumn(shown, name, -1)}>←</button>
            <button class="button quiet icon small" data-focus=${`down ${name}`} aria-label=${`Move the column ${label} to the right`}
              onClick=${() => moveColumn(shown, name, 1)}>→</button>`}
        </div>`,
      )}
      <button class="button small" onClick=${resetColumns}>Default columns</button>
    </fieldset>`}
  </div>`;
}
