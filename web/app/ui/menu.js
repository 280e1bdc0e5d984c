// A button with a small sheet under it, which Escape or a click elsewhere closes.
import { useEffect, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { Icon } from "./icons.js";

/** `children(close)` is what the sheet holds. */
export function Menu({ label, icon, small, children }) {
  const [open, setOpen] = useState(false);
  const anchor = useRef(null);
  const close = () => setOpen(false);

  useEffect(() => {
    if (!open) return undefined;
    const outside = (event) => {
      if (event.key === "Escape") event.preventDefault();
      else if (event.key || anchor.current.contains(event.target)) return;
      close();
    };
    addEventListener("pointerdown", outside);
    addEventListener("keydown", outside, true);
    return () => {
      removeEventListener("pointerdown", outside);
      removeEventListener("keydown", outside, true);
    };
  }, [open]);

  return html`<div class="sheet-anchor" ref=${anchor}>
    <button type="button" class="button ${small ? "small" : ""}" aria-expanded=${String(open)} data-focus=${`menu ${label}`}
      onClick=${() => setOpen(!open)}><${Icon} name=${icon} />${label}</button>
    ${open && html`<div class="sheet menu" role="group" aria-label=${label}>${children(close)}</div>`}
  </div>`;
}
