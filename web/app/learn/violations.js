// Violations while events came, newest first; each leads to its conversation.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { count, dateTime, recent, sentence } from "../core/format.js";
import { usePages } from "../core/pages.js";
import { href, hrefFailures, hrefHere, route, vhost } from "../core/route.js";
import { Chip } from "../ui/chip.js";
import { Value } from "../ui/marks.js";
import { Empty, Failure, Panel, pending } from "../ui/panel.js";
import { useSteps } from "../ui/steps.js";
import { Table } from "../ui/table.js";

const PAGE = 100;
const KINDS = {
  overdue: ["warn", "Not in time", "It did not lead in time to what it should"],
  unpreceded: ["bad", "Not preceded", "What should have come before is not in its past"],
  concurrent: ["bad", "Concurrent", "Of two that must be in an order neither is before the other"],
  storm: ["bad", "Storm", "It caused more than it may"],
};

const WEBHOOK = { due: ["warn", "due"], delivered: ["good", "told"], given_up: ["bad", "given up"] };

export function Violations() {
  const { assertion } = route.value.params;
  const load = (before, signal) => api.violations({ vhost: vhost.value, assertion, limit: PAGE, before }, signal);
  const loaded = usePages(load, [vhost.value, assertion]);
  const { data, error, reload } = loaded;
  const items = data?.flatMap((page) => page.items) ?? [];
  useSteps("a.violation");
  return html`<${Panel} title="Violations" flush note="newest first; ↓ and ↑ step through them"
      tools=${html`<a class="button small" href=${hrefFailures({ kind: "overdue", vhost: vhost.value })}>Failures not in time</a>`}
      foot=${loaded.further && html`<button class="button small" onClick=${loaded.more}>Show ${PAGE} more</button>
        <span> ${count(items.length)} are shown.</span>`}>
    ${assertion && html`<div class="panel-body"><${Chip} name="assertion">${assertion}<//></div>`}
    ${data && error && html`<${Failure} error=${error} onRetry=${reload} />`}
    ${!data
      ? pending(loaded, "violations")
      : items.length
        ? html`<${Items} items=${items} />`
        : html`<${Empty} title="Nothing was found that did not hold">That is as far as events were judged.<//>`}
  <//>`;
}

function Items({ items }) {
  const told = items.some((one) => one.delivery !== "none");
  const several = !vhost.value;
  return html`<${Table} label="Violations"
      heads=${`Found|Assertion|What|In words|${several ? "Virtual host|" : ""}${told ? "Webhook|" : ""}#Event`} rows=${items}
      by=${["found_at", "assertion", "kind", "sentence", ...(several ? ["vhost"] : []), ...(told ? ["delivery"] : []), "event"]}>
    ${(one) => html`<${Item} key=${one.id} one=${one} told=${told} several=${several} />`}
  <//>`;
}

function Item({ one, told, several }) {
  const { assertion, kind, event, vhost: of } = one;
  const [tone, word, meaning] = KINDS[kind] ?? ["", kind];
  return html`<tr>
    <td class="tabular" title=${`Found at ${dateTime(one.found_at)}; recorded at ${dateTime(one.at)}`}>${recent(one.found_at).split(".")[0]}</td>
    <td class="name"><a href=${hrefHere({ assertion, vhost: of })} title="Only those of this assertion"><${Value}>${assertion}<//></a></td>
    <td><span class="badge ${tone}" title=${meaning}><span class="dot"></span>${word}</span>
      ${!one.complete && html` <span class="badge warn" title="A gap lies where it was looked for: it may have held">not certain</span>`}
      ${kind === "overdue" && html` <a class="small" href=${hrefFailures({ vhost: of, kind, reason: assertion })}
        aria-label=${`The failures of ${assertion}`}>failures</a>`}</td>
    <td class="text"><a class="violation" href=${href("conversations", { vhost: of, event: String(event) })} title="Open its conversation">${one.sentence === null ? "(withheld)" : sentence(one.sentence)}</a></td>
    ${several && html`<td><${Value}>${of}<//></td>`}
    ${told && html`<td><${Webhook} one=${one} /></td>`}
    <td class="number"><a href=${hrefHere({ event: String(event) })}>#${event}</a></td>
  </tr>`;
}

function Webhook({ one }) {
  const [tone, word] = WEBHOOK[one.delivery] ?? ["", "–"];
  return html`<span class="badge ${tone}" title=${one.error ?? undefined}>${word}</span>`;
}
