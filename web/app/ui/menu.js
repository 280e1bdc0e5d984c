import { html } from "../core/html.js";
import { Icon } from "./icons.js";
import { useSheet } from "./sheet.js";

/** A button with a sheet under it; `children(close)` is the sheet's content. */
export function Menu({ label, icon, small, children }) {
  const { open, anchor, close, toggle } = useSheet();
  return html`<div class="sheet-anchor" ref=${anchor}>
    <button type="button" class="button ${small ? "small" : ""}" aria-expanded=${String(open)} data-focus=${`menu ${label}`}
      onClick=${toggle}><${Icon} name=${icon} />${label}</button>
    ${open && html`<div class="sheet menu" role="group" aria-label=${label}>${children(close)}</div>`}
  </div>`;
}
