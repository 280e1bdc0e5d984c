// A dead message, back in the queue where it died.
import { html } from "../core/html.js";
import { visible } from "../core/format.js";
import { hrefHere } from "../core/route.js";
import { CopyButton } from "./copy.js";

/** The publish that put a dead message back, or the command that would; `words` say what it puts where. */
export function PutBack({ event, command, words = "Put back" }) {
  if (event) return html`<a class="small" href=${hrefHere({ event: String(event) })}>put back as #${event}</a>`;
  return command && html`<details class="small"><summary title="How it is published into the queue where it died">${words}</summary>
    <code>${visible(command)}</code> <${CopyButton} text=${() => command} label="Copy" title="Copy the command" /></details>`;
}
