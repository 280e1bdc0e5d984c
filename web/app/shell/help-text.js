import { html } from "../core/html.js";
import { TABS } from "../core/route.js";
import { FirstVisit, Words } from "./first-visit.js";

// Keys, parted by blanks, and what they do.
const GROUPS = [
  ["Everywhere", ["?: this help", ...TABS.map(([label], i) => `${i + 1}: ${label}`), "/: find here, or filter events", "Esc: close the event"]],
  ["Events", ["↓ ↑: next, previous row (also J, K)", "Enter: open the event", "Home: go to the newest", "Space: pause or resume the live tail", "Tab: complete, in the filter box"]],
  ["Failures", ["↓ ↑: next, previous failure (also J, K)", "← →: on the plot: next, previous bar"]],
  ["Rules", ["↓ ↑: next, previous message for which an assertion did not hold (also J, K)"]],
  ["A conversation", ["↓ ↑: next, previous message", "→ ←: unfold, fold what it led to", "Enter: open the event at the side", "+ − F: zoom in, out, all of it"]],
  ["The open event", ["A: pin it, or the focused row, as A", "B: pin it, or the focused row, as B", "C: go to its cause", "X: unpin both"]],
  ["Space-time", [
    "↓ ↑: next, previous on its lane", "→ ←: to its effect, to its cause", "+ −: zoom in, out", "F: fit all loaded events", "[ ]: narrower, wider lanes",
    "PgDn PgUp: a page down, up", "Home End: oldest, newest loaded event", "L: list the events in view", "G: legend of every sign", "Space: follow new events, or stop",
  ]],
].map(([title, lines]) => [title, lines.map((line) => [line.slice(0, line.indexOf(": ")).split(" "), line.slice(line.indexOf(": ") + 2)])]);

export default function HelpText({ onLeave }) {
  return html`<${FirstVisit} onLeave=${onLeave} />
    <h3>Keys</h3>
    <div class="keys">
      ${GROUPS.map(
        ([title, keys]) => html`<section key=${title}>
          <h4>${title}</h4>
          <dl>${keys.map(
            ([names, text]) => html`<dt>${names.map((n) => html`<kbd>${n}</kbd>`)}</dt>
              <dd>${text}</dd>`,
          )}</dl>
        </section>`,
      )}
    </div>
    <${Words} />
    <p>For programs: <a href="docs">the REST API</a>.</p>`;
}
