import { html } from "../core/html.js";
import { tell } from "../core/notices.js";
import { Icon } from "./icons.js";

/** Copies what `text()` gives; the label says what that is. */
export function CopyButton({ text, label, title, icon = "copy" }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
      tell("Copied.");
    } catch {
      tell("The browser does not let this page copy. It does on https and on localhost.", "bad");
    }
  };
  return html`<button class="button small" title=${title} onClick=${copy}>
    <${Icon} name=${icon} />${label}
  </button>`;
}
