// Caveats of an answer, as the service says them: gaps in its span, doubts about who acts, quiet traffic.
import { html } from "../core/html.js";
import { sentence } from "../core/format.js";
import { href } from "../core/route.js";
import { Alert } from "./panel.js";

export function Caveats({ answer: { caveats, complete, sound } }) {
  if (!caveats.length) return null;
  return html`<${Alert} tone=${complete && sound ? "calm" : "warn"}
      action=${!complete && html`<a class="button small" href=${href("overview")}>Show the gaps</a>`}>
      ${caveats.map(sentence).join(" ")}<//>`;
}

/** The same below a list. */
export const Footnotes = ({ answer }) =>
  answer.caveats.map((text) => html`<p class="small soft" key=${text}>${sentence(text)}</p>`);
