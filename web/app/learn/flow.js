// A variant of conversations as a small tree: what led to what.
import { html } from "../core/html.js";
import { Value } from "../ui/marks.js";

export function Flow({ flow }) {
  if (!flow) return html`<span class="faint">too large to be shown</span>`;
  return html`<${Steps} steps=${flow.steps} />${flow.truncated && html`<span class="soft small">and more</span>`}`;
}

const Steps = ({ steps }) => html`<ul class="small-flow">${steps.map(
  (one, place) => html`<li key=${place}>
    <span class=${one.failures.length ? "step bad" : one.waits ? "step waits" : "step"}><${Value}>${one.type}<//>${
      one.count > 1 && html` <span class="soft">× ${one.count}</span>`}</span>
    ${one.failures.map((each) => html` <span class="badge bad" key=${each}>${each}</span>`)}
    ${one.waits && html` <span class="soft small">not handed over</span>`}
    ${one.also_after.length > 0 && html` <span class="soft small">also after ${one.also_after.join(", ")}</span>`}
    ${one.steps.length > 0 && html`<${Steps} steps=${one.steps} />`}
  </li>`)}</ul>`;
