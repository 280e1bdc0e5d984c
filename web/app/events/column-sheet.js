import { useEffect, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { Icon } from "../ui/icons.js";
import { resetColumns, toggleColumn } from "./columns.js";

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
      ${all.filter((column) => !column.fixed).map(
        ({ name, label }) => html`<label class="check" key=${name}>
          <input type="checkbox" checked=${names.has(name)}
            onChange=${(e) => toggleColumn(all, name, e.currentTarget.checked)} />${label}
        </label>`,
      )}
      <button class="button small" onClick=${resetColumns}>Default columns</button>
    </fieldset>`}
  </div>`;
}
