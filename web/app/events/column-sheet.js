import { useEffect, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { Icon } from "../ui/icons.js";
import { moveColumn, resetColumns, toggleColumn } from "./columns.js";

export function ColumnSheet({ all, shown }) {
  const [open, setOpen] = useState(false);
  const anchor = useRef(null);
  const names = new Set(shown.map((column) => column.name));

  useEffect(() => {
    if (!open) return undefined;
    const outside = (event) => {
      if (event.key === "Escape" || (event.type === "pointerdown" && !anchor.current.contains(event.target))) {
        setOpen(false);
        if (event.key) event.preventDefault();
      }
    };
    addEventListener("pointerdown", outside);
    addEventListener("keydown", outside, true);
    return () => {
      removeEventListener("pointerdown", outside);
      removeEventListener("keydown", outside, true);
    };
  }, [open]);

  return html`<div class="sheet-anchor" ref=${anchor}>
    <button class="button" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}>
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
