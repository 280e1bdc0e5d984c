import { html } from "../core/html.js";
import { path } from "../core/api.js";
import { user, usesPassword } from "../core/session.js";
import { tell } from "../shell/notices.js";
import { Icon } from "../ui/icons.js";

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

/** The request for one event; curl asks for the password, which is never copied. */
export function curlFor(id) {
  const url = new URL(path("events", id), location.href.split("#")[0]);
  const credentials = usesPassword.value ? ` -u ${shellWord(user.value.name)}` : "";
  return `curl -s${credentials} ${shellWord(url.href)}`;
}

const shellWord = (text) =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
