import { useMemo, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { ageOf, clockTime, count, dateTime, moment, ofClock, plural, secondsSince, span } from "../core/format.js";
import { newestEvents } from "../core/newest.js";
import { useResource } from "../core/resource.js";
import { href, patch, route, vhost } from "../core/route.js";
import { mayWrite } from "../core/session.js";
import { busiestVhost, traces } from "../core/traces.js";
import { useViewed } from "../core/viewed.js";
import { Alert, Choice, Empty, Panel, pending } from "../ui/panel.js";
import { Value } from "../ui/marks.js";
import { periodOf, PERIODS } from "../ui/period.js";
import { countedFlows, CountingLine, useCounting } from "./counted.js";
import { FIELDS, flowsOf, quietIn } from "./flows.js";
import { DeathsTable, DeliveriesTable, PublishesTable } from "./flow-tables.js";
import { FlowMap } from "./map.js";

const PAGE = 500;
const MOST_COUNTED = 5000; // flows of each kind in a counted topology
const AMOUNTS = [1000, 5000, 20_000];
const MOST_OF_PERIOD = 20_000;
const [COUNTED, OTHER] = ["counted", "other"];
const COLOURS = [["failures", "Failures"], ["waits", "Waits"]];
const BY = [["service", "By name"], ["user", "By user"], ["participant", "Each participant"]];
const RECENT = 60; // s: rates are as of now
const FORM = "YYYY-MM-DD hh:mm:ss";

/**
 * The period of the address, or else that which was counted last: as a job counted it, or else from the
 * newest of its events; or the newest events of all.
 */
export default function Topology() {
  const name = vhost.value ?? busiestVhost();
  const { params } = route.value;
  const { since, until } = params;
  const wanted = since || until ? { since, until } : null;
  const counted = useResource((s) => (name == null ? null : whatWasCounted(name, wanted, s)), [name, since, until], { every: 0 });
  const counting = useCounting(name, wanted, () => {
    patch({ newest: null });
    counted.reload();
  });
  const fallback = wanted ? MOST_OF_PERIOD : AMOUNTS[0];
  const amount = Number(params.newest) || (counted.data === null ? fallback : 0);
  const colour = params.colour === "waits" ? "waits" : "failures";
  const by = !amount ? "user" : BY.some(([one]) => one === params.by) ? params.by : "service"; // a job counts users
  const events = useResource((s) => (name == null || !amount ? NO_EVENTS : newest(name, amount, wanted, s)), [name, amount, since, until], { every: 0 });
  const shown = amount ? events : counted;
  const flows = useMemo(() => flowsFor(amount, shown.data, by), [amount, shown.data, by]);
  const isNow = name != null && !until;
  const { data: stuck } = useResource((s) => (isNow ? api.conversations({ vhost: name, state: "waiting" }, s) : null), [name, isNow]);
  const waiting = useMemo(() => waitingBy(stuck), [stuck]);
  const isQuiet = quietIn((traces.value.data ?? []).find((trace) => trace.vhost === name));
  const period = amount ? wanted ?? {} : { since: counted.data?.since, until: counted.data?.until };
  const reload = () => (amount ? events : counted).reload();
  const begin = period.since ?? (amount ? shown.data?.events.at(-1)?.recorded_at : null);
  useViewed(name, flows ? begin : undefined, period.until ?? null, "the period shown");

  return html`<div class="page-inner">
    <div class="page-title"><h1>Topology</h1>
      <p>Who publishes to which queue, as each message was routed, and who receives it.</p></div>
    <${Panel} title=${name == null ? "Topology" : html`<${Value}>${name}<//>`} id="topology-panel"
      note=${flows ? (amount ? spanOf(shown.data.events) : countedText(shown.data, flows)) : undefined}
      tools=${html`<${Period} amount=${amount} counted=${counted.data} shown=${period} key=${`${since} ${until} ${params.newest}`}>
          ${mayWrite.value && name != null && html`<button type="button" class="button" disabled=${counting.running} onClick=${counting.start}
            title="A job counts every event of it">${counting.running ? "Counting …" : wanted ? "Count this period" : "Count the last hour"}</button>`}
        <//>
        ${amount > 0 && html`<${Choice} label="Show" options=${BY} value=${by} onChange=${(v) => patch({ by: v === "service" ? null : v })} small />`}
        <div class="off-phone"><${Choice} label="Colours say" options=${COLOURS} value=${colour} onChange=${(v) => patch({ colour: v === "failures" ? null : v })} small /></div>
        <button class="button" onClick=${reload}>Refresh</button>`}>
      <${CountingLine} job=${counting.job} />
      ${!amount && flows && html`<${Lacking} topology=${shown.data} />`}
      ${!shown.data
        ? pending(shown, "the topology")
        : !flows
          ? html`<${Nothing} topology=${amount ? wanted : shown.data} />`
          : html`<${FlowMap} flows=${flows} vhost=${name} by=${by} colour=${colour} waiting=${waiting} isQuiet=${isQuiet} period=${period} />`}
    <//>
    ${flows && [DeliveriesTable, DeathsTable, PublishesTable].map((Flows) => html`<${Flows} key=${Flows.name} flows=${flows} vhost=${name} period=${period} counted=${!amount} />`)}
  </div>`;
}

/** Conversations that wait, by the queue in which they do. */
function waitingBy(page) {
  const by = new Map();
  for (const { position: { queue, since } } of page?.items ?? []) {
    const known = by.get(queue) ?? { count: 0, since, more: page.truncated };
    by.set(queue, { ...known, count: known.count + 1, since: known.since < since ? known.since : since });
  }
  return by;
}

function flowsFor(amount, data, by) {
  if (!data) return null;
  if (amount) return data.events.length ? flowsOf(data.events, by, data.died) : null;
  const flows = countedFlows(data);
  return flows.events ? flows : null;
}

/** The one control of what is shown: what a job counted, the newest events, a period up to now, or any other, of the reader's clock. */
function Period({ amount, counted, shown, children }) {
  const { since, until } = route.value.params;
  const [isOther, setOther] = useState(false);
  const [problem, setProblem] = useState(null);
  const value = isOther ? OTHER : since || until ? periodOf({ since, until }) : String(amount || COUNTED);
  const choose = ({ currentTarget: { value: chosen } }) => {
    setOther(chosen === OTHER);
    if (chosen === OTHER) return;
    const ago = PERIODS.some(([key]) => key === chosen) && new Date(Date.now() - chosen * 1000).toISOString();
    patch({ since: ago || null, until: null, newest: ago || chosen === COUNTED ? null : chosen });
  };
  const submit = (event) => {
    event.preventDefault();
    const { from, to } = event.currentTarget.elements;
    const [first, last] = [from, to].map(({ value: text }) => text.trim() && ofClock(text));
    if (first === null || last === null) return setProblem(`Write a time as ${FORM}.`);
    if (first && last && first >= last) return setProblem("It must begin before it ends.");
    return patch({ since: first || null, until: last || null, newest: null });
  };
  const option = ([key, words]) => html`<option key=${key} value=${key} selected=${key === value}>${words}</option>`;
  const end = (name, label, at) => html`<label class="labelled"><span>${label}</span>
    <input class="input" name=${name} placeholder=${FORM} spellcheck=${false} autocomplete="off" defaultValue=${at ? dateTime(at) : ""} /></label>`;
  return html`<form class="period" onSubmit=${submit}>
    <select class="select" aria-label="Period" value=${value} onChange=${choose}>
      ${counted && !since && !until && option([COUNTED, `${span(counted.since, counted.until)}, counted`])}
      ${AMOUNTS.map((n) => option([String(n), `last ${count(n)} events`]))}
      ${PERIODS.filter(([key]) => key).map(option)}
      ${option([OTHER, "from … to …"])}
    </select>
    ${value === OTHER && html`${end("from", "From", since ?? shown.since)}${end("to", "to", until ?? shown.until)}<button class="button">Show this period</button>
      <span class="warn-text" role="status">${problem}</span>`}
    ${children}
  </form>`;
}

/** Gaps in the numbers of a counted period. */
function Lacking({ topology }) {
  const { gaps, publishes, routes, deliveries } = topology;
  const cut = [publishes, routes, deliveries].some((list) => list.length >= MOST_COUNTED);
  return html`${gaps.length > 0 &&
    html`<${Alert} tone="warn">Events may be missing: the period holds ${plural(gaps.length, "gap")}.<//>`}
    ${cut && html`<${Alert} tone="calm">These numbers include only the ${count(MOST_COUNTED)} busiest flows of each kind.<//>`}`;
}

function Nothing({ topology }) {
  return html`<${Empty} title=${topology ? "No messages in this period" : "No messages yet"} actions=${html`<a class="button" href=${href("overview")}>To the traces</a>`}>
    ${topology ? `No event was traced here from ${dateTime(topology.since)} to ${dateTime(topology.until)}. Choose another time above.`
      : "The map is drawn from traced events, and there are none here yet."}<//>`;
}

/** The time that rates are of, and how long ago it was. */
function spanOf(events) {
  const [last, first] = [events[0], events.at(-1)].map((one) => one.recorded_at);
  const ago = secondsSince(last) < RECENT ? "" : `, ${ageOf(last)} ago`;
  return `rates of the last ${plural(events.length, "event")}, ${moment(first)} to ${clockTime(last)}${ago}`;
}

const countedText = ({ since, until }, flows) =>
  `from all ${plural(flows.events, "event")} of ${dateTime(since)} to ${dateTime(until)}, counted by a job`;

/** The topology of a period, or else the one counted last; null if none was. */
async function whatWasCounted(vhostName, period, signal) {
  try {
    const counted = await api.topology(vhostName, period, signal);
    return counted.routes.some(({ publisher }) => publisher === undefined) ? null : counted; // of an earlier version
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}

const NO_EVENTS = { events: [], died: new Map() };

/** `{events, died}`: the newest `amount` events of a period, newest first, and where dead letters died. */
async function newest(vhostName, amount, period, signal) {
  const events = await newestEvents(vhostName, amount, { ...period, columns: FIELDS, links: true }, signal);
  if (!events.some((event) => event.match === "dead_lettered")) return { events, died: new Map() };
  const filters = { vhost: vhostName, ...period, match: "dead_lettered" };
  const dead = await api.events({ ...filters, page_size: PAGE, columns: "id,properties", payload: "none" }, signal);
  return { events, died: new Map(dead.map((event) => [event.id, lastDeath(event)])) };
}

function lastDeath({ properties }) {
  const deaths = properties?.headers?.["x-death"];
  const [last] = Array.isArray(deaths) ? deaths : [];
  return { queue: last?.queue ?? null, reason: last?.reason ?? null };
}
