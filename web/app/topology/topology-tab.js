import { useMemo } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { count, dateTime, seconds } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { href, patch, route, vhost } from "../core/route.js";
import { busiestVhost } from "../core/traces.js";
import { Choice, Empty, Panel, pending } from "../ui/panel.js";
import { Value } from "../ui/marks.js";
import { FIELDS, flowsOf } from "./flows.js";
import { DeliveriesTable, PublishesTable } from "./flow-tables.js";
import { FlowMap } from "./map.js";

const PAGE = 500;
const AMOUNTS = [1000, 5000, 20_000];
const BY = [
  ["user", "Users"],
  ["participant", "Participants"],
];

export function TopologyTab() {
  const name = vhost.value ?? busiestVhost();
  const { params } = route.value;
  const amount = Number(params.newest) || AMOUNTS[0];
  const by = params.by === "participant" ? "participant" : "user";
  const loaded = useResource((s) => (name == null ? [] : newest(name, amount, s)), [name, amount], { every: 0 });
  const events = loaded.data;
  const flows = useMemo(() => events?.length && flowsOf(events, by), [events, by]);

  return html`<div class="page-inner">
    <div class="page-title"><h1>Topology</h1>
      <p>Who publishes where, which queues that reaches, and who receives it, as it was seen.</p></div>
    <${Panel} title=${name == null ? "Topology" : html`<${Value}>${name}<//>`} id="topology-panel"
      note=${flows ? spanOf(events, flows) : undefined}
      tools=${html`
        <${Choice} label="Show" options=${BY} value=${by} onChange=${(v) => patch({ by: v === "user" ? null : v })} small />
        <select class="select" aria-label="From how many events" value=${amount}
          onChange=${(e) => patch({ newest: e.currentTarget.value })}>
          ${AMOUNTS.map((n) => html`<option key=${n} value=${n}>newest ${count(n)}</option>`)}
        </select>
        <button class="button" onClick=${loaded.reload}>Refresh</button>`}>
      ${!events
        ? pending(loaded, "events")
        : !flows
          ? html`<${Empty} title="Nothing has flowed yet"
              actions=${html`<a class="button" href=${href("overview")}>To the traces</a>`}>
              The map is drawn from traced events; there are none here so far.<//>`
          : html`<${FlowMap} flows=${flows} vhost=${name} by=${by} />`}
    <//>
    ${flows && html`<${DeliveriesTable} flows=${flows} vhost=${name} /><${PublishesTable} flows=${flows} vhost=${name} />`}
  </div>`;
}

function spanOf(events, flows) {
  const first = dateTime(events.at(-1).recorded_at);
  return `from the newest ${count(events.length)} events: ${seconds(flows.seconds)} since ${first}`;
}

/** The newest `amount` events, newest first, page by page. */
async function newest(vhostName, amount, signal) {
  const events = [];
  let before;
  while (events.length < amount) {
    const page = await api.events(
      { vhost: vhostName, before, page_size: PAGE, columns: FIELDS, payload: "none" },
      signal,
    );
    events.push(...page);
    if (page.length < PAGE) break;
    before = page.at(-1).id;
  }
  return events;
}
