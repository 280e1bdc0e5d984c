import { html } from "../core/html.js";
import { tell } from "../core/notices.js";
import { Icon } from "./icons.js";

export const NO_COPY = "The browser lets a page copy only over https or from localhost.";

/** Copies what `text()` returns; the label says what that is. */
export function CopyButton({ text, label, title, icon = "copy" }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
      tell("Copied.");
    } catch {
      tell(NO_COPY, "bad");
    }
  };
  return html`<button class="button small" title=${title} onClick=${copy}>
    <${Icon} name=${icon} />${label}
  </button>`;
}
