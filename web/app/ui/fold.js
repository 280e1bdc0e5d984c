import { html } from "../core/html.js";
import { expertOpen } from "../core/preferences.js";

/** Parts for experts: closed until somebody opens one, and from then on open in this browser. */
export function Expert({ what, children }) {
  return html`<details class="expert" open=${expertOpen.value}
    onToggle=${({ currentTarget }) => (expertOpen.value = currentTarget.open)}>
    <summary>Advanced: ${what}</summary>
    ${children}
  </details>`;
}
