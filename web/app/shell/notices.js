import { html } from "../core/html.js";
import { dismiss, notices } from "../core/notices.js";
import { Icon } from "../ui/icons.js";

/** The notices, in a corner of the page. */
export function Notices() {
  return html`<div class="notices" role="status" aria-live="polite">
    ${notices.value.map(
      ({ id, text, tone }) => html`<div class="notice ${tone}" key=${id}>
        <p>${text}</p>
        <button class="button quiet icon small" aria-label="Close this message"
          onClick=${() => dismiss(id)}><${Icon} name="close" /></button>
      </div>`,
    )}
  </div>`;
}
