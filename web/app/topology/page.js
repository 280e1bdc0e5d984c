import { useMemo } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { count, dateTime, plural, seconds } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { href, patch, route, vhost } from "../core/route.js";
import { mayWrite } from "../core/session.js";
import { busiestVhost } from "../core/traces.js";
import { Alert, Choice, Empty, Panel, pending } from "../ui/panel.js";
import { Value } from "../ui/marks.js";
import { countedFlows, CountingLine, useCounting } from "./counted.js";
import { FIELDS, flowsOf } from "./flows.js";
import { CountedDeliveriesTable, DeliveriesTable, PublishesTable } from "./flow-tables.js";
import { FlowMap } from "./map.js";

const PAGE = 500;
const MOST_COUNTED = 5000; // flows of each kind in a counted topology
const AMOUNTS = [1000, 5000, 20_000];
const COUNTED = "counted";
const BY = [
  ["user", "Users"],
  ["participant", "Participants"],
];

/** The period that a job counted, if there is one, or the newest events: a choice. */
export default function Topology() {
  const name = vhost.value ?? busiestVhost();
  const { params } = route.value;
  const counted = useResource((s) => (name == null ? null : lastCounted(name, s)), [name], { every: 0 });
  const counting = useCounting(name, () => {
    patch({ newest: null });
    counted.reload();
  });
  const amount = Number(params.newest) || (counted.data === null ? AMOUNTS[0] : 0);
  const by = params.by === "participant" && amount ? "participant" : "user";
  const events = useResource((s) => (name == null || !amount ? [] : newest(name, amount, s)), [name, amount], { every: 0 });
  const shown = amount ? events : counted;
  const flows = useMemo(() => flowsFor(amount, shown.data, by), [amount, shown.data, by]);
  const period = amount ? {} : { since: counted.data?.since, until: counted.data?.until };
  const reload = () => (amount ? events : counted).reload();

  return html`<div class="page-inner">
    <div class="page-title"><h1>Topology</h1>
      <p>Who publishes where, which queues that reaches, and who receives it.</p></div>
    <${Panel} title=${name == null ? "Topology" : html`<${Value}>${name}<//>`} id="topology-panel"
      note=${flows ? (amount ? spanOf(shown.data, flows) : periodOf(shown.data, flows)) : undefined}
      tools=${html`
        ${amount > 0 && html`<${Choice} label="Show" options=${BY} value=${by} onChange=${(v) => patch({ by: v === "user" ? null : v })} small />`}
        <${Source} amount=${amount} counted=${counted.data} />
        ${mayWrite.value && name != null && html`<button class="button" disabled=${counting.running} onClick=${counting.start}
          title="A job counts every event of the last hour">${counting.running ? "Counting …" : "Count the last hour"}</button>`}
        <button class="button" onClick=${reload}>Refresh</button>`}>
      <${CountingLine} job=${counting.job} />
      ${!amount && flows && html`<${Lacking} topology=${shown.data} />`}
      ${!shown.data
        ? pending(shown, "the topology")
        : !flows
          ? html`<${Nothing} topology=${amount ? null : shown.data} />`
          : html`<${FlowMap} flows=${flows} vhost=${name} by=${by} period=${period} />`}
    <//>
    ${flows && (amount
      ? html`<${DeliveriesTable} flows=${flows} vhost=${name} />`
      : html`<${CountedDeliveriesTable} flows=${flows} vhost=${name} period=${period} />`)}
    ${flows && html`<${PublishesTable} flows=${flows} vhost=${name} period=${period} />`}
  </div>`;
}

function flowsFor(amount, data, by) {
  if (!data) return null;
  if (amount) return data.length ? flowsOf(data, by) : null;
  const flows = countedFlows(data);
  return flows.events ? flows : null;
}

function Source({ amount, counted }) {
  return html`<select class="select" aria-label="From which events" value=${amount ? String(amount) : COUNTED}
    onChange=${(e) => patch({ newest: e.currentTarget.value === COUNTED ? null : e.currentTarget.value })}>
    ${counted && html`<option value=${COUNTED} selected=${!amount}>counted period</option>`}
    ${AMOUNTS.map((n) => html`<option key=${n} value=${String(n)} selected=${n === amount}>newest ${count(n)}</option>`)}
  </select>`;
}

/** What is missing from the numbers of a counted period. */
function Lacking({ topology }) {
  const { gaps, publishes, routes, deliveries } = topology;
  const cut = [publishes, routes, deliveries].some((list) => list.length >= MOST_COUNTED);
  return html`${gaps.length > 0 &&
    html`<${Alert} tone="warn">Events may be missing: the period holds ${plural(gaps.length, "gap")}.<//>`}
    ${cut && html`<${Alert} tone="calm">These numbers include only the ${count(MOST_COUNTED)} busiest flows of each kind.<//>`}`;
}

function Nothing({ topology }) {
  const actions = html`<a class="button" href=${href("overview")}>To the traces</a>`;
  if (!topology) {
    return html`<${Empty} title="No messages yet" actions=${actions}>
      The map is drawn from traced events, and there are none here yet.<//>`;
  }
  return html`<${Empty} title="No messages in the counted period" actions=${actions}>
    No event was traced here from ${dateTime(topology.since)} to ${dateTime(topology.until)}. Choose the newest events
    above, or count another hour.<//>`;
}

function spanOf(events, flows) {
  const first = dateTime(events.at(-1).recorded_at);
  return `from the newest ${plural(events.length, "event")}: ${seconds(flows.seconds)} since ${first}`;
}

const periodOf = ({ since, until }, flows) =>
  `from all ${plural(flows.events, "event")} of ${dateTime(since)} to ${dateTime(until)}, counted by a job`;

/** The topology counted last, or null if none was. */
async function lastCounted(vhostName, signal) {
  try {
    return await api.topology(vhostName, signal);
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
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
