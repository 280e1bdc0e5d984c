// Since when it is slow: how long messages waited in a queue or on their way to a service, and were handled.
import { useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { uncountedText } from "../core/counted.js";
import { count, dateTime, moment, plural, seconds, span, visible } from "../core/format.js";
import { filterOfService } from "../core/participants.js";
import { useResource } from "../core/resource.js";
import { go, patch, route, vhost } from "../core/route.js";
import { busiestVhost, reloadTraces, traces } from "../core/traces.js";
import { useViewed } from "../core/viewed.js";
import { isChosen } from "../ui/gaps.js";
import { Queue, Value } from "../ui/marks.js";
import { Choice, Empty, Panel, pending } from "../ui/panel.js";
import { QUANTILES, SlowNow, useSlow } from "../ui/slow-now.js";
import { Table } from "../ui/table.js";
import { axisOf, HeatMap } from "./heat-map.js";

const PERIODS = [["3600", "Hour"], ["21600", "6 hours"], ["86400", "Day"], ["604800", "Week"]];
const BASELINES = { hour: "the hour before", day: "the day before", week: "the week before" };
const againstText = () => BASELINES[route.value.params.baseline ?? "hour"];
const SERIES = [
  ["waiting", "Waiting", "from publish to first delivery", "--received"],
  ["handling", "Handling", "from delivery until settled, or until the first message it led to", "--published"],
];

export default function DurationsPage() {
  const { queue, service } = route.value.params;
  const name = vhost.value ?? busiestVhost();
  if (name == null && !traces.value.data) return pending({ ...traces.value, reload: () => reloadTraces() }, "traces");
  return html`<div class="page-inner">
    ${name == null ? html`<${Title} owner=${null} /><${Empty} title="Nothing is traced">Durations are counted of what a trace has stored.<//>`
      : queue != null || service != null ? html`<${Durations} vhost=${name} queue=${queue} service=${service} />`
        : html`<${Slowest} name=${name} />`}
  </div>`;
}

const Title = ({ owner }) => html`<div class="page-title"><h1>Slow since</h1>
  <p>How long messages of ${owner == null ? "all virtual hosts" : html`<b><${Value}>${owner}<//></b>`} waited and were handled, and since when that is longer.</p></div>`;

/** The one that became slow most, where nobody chose, beside all that did. */
function Slowest({ name }) {
  const slow = useSlow(vhost.value);
  const [worst] = slow.data?.items ?? [];
  if (!slow.data && !slow.error) return pending(slow, "durations");
  return worst ? html`<${Durations} vhost=${worst.vhost} queue=${worst.service == null ? worst.queue : null} service=${worst.service} slow=${slow} />`
    : html`<${Durations} vhost=${name} slow=${slow} />`;
}

/** `slow`: what became slow, where nobody chose. */
function Durations({ vhost: name, queue, service, slow }) {
  const { baseline = "hour", period: chosen } = route.value.params;
  const period = Number(chosen) || 3600;
  const isOne = queue != null || service != null;
  const load = (signal) => api.durations({ vhost: name, queue, service, since: new Date(Date.now() - period * 1000).toISOString(), baseline }, signal);
  const loaded = useResource(load, [name, queue, service, period, baseline]);
  const { data } = loaded;
  useViewed(name, isOne ? data?.since : undefined, null, "the period shown");
  if (!isOne && data?.services.length === 1) return html`<${Durations} vhost=${name} service=${data.services[0]} slow=${slow} />`;
  return html`<${Title} owner=${isOne ? name : vhost.value} />
    ${isOne && data && html`<${Verdict} map=${data} />`}
    <div class="heat-tools">
      <${Owner} vhost=${name} queue=${queue} service=${service} data=${data} />
      ${isOne && html`<${Choice} label="Period" options=${PERIODS} value=${String(period)} onChange=${(value) => patch({ period: value })} small />
      <label class="labelled"><span>Against</span>
        <select class="select" aria-label="Against" value=${baseline} onChange=${(event) => patch({ baseline: event.currentTarget.value })}>
          ${Object.entries(BASELINES).map(([key, said]) => html`<option key=${key} value=${key}>${said}</option>`)}
        </select></label>`}
    </div>
    ${slow && (slow.data?.items.length !== 1 || !isOne) && html`<${SlowNow} loaded=${slow} />`}
    ${pending(loaded, "durations") ?? (isOne ? html`<${Shown} map=${data} />`
      : !data.queues.length && html`<${Panel} title="Durations"><${Empty} title="Nothing is counted yet">Messages are counted some seconds after they are stored.<//><//>`)}`;
}

/** `4.1 s, about 20 times as long as before (205 ms)`: values are to within 5 %. */
const longerText = ({ before, after }) => {
  const ratio = after / before;
  return `${seconds(after)}, about ${ratio < 10 ? Math.round(10 * ratio) / 10 : count(Math.round(ratio))} times as long as before (${seconds(before)})`;
};

/** The service or queue that became slow, since when and how much; and where to look for the cause. */
function Verdict({ map }) {
  const [kind, name] = map.queue == null ? ["Participant", map.service] : ["Queue", map.queue];
  const against = againstText();
  const slow = SERIES.filter(([key]) => map[key].change);
  if (!slow.length) return SERIES.every(([key]) => map[key].comparable) && html`<p class="verdict">${kind} <${Value}>${name}<//> is not clearly slower than ${against}.</p>`;
  return slow.map(([key]) => {
    const { change } = map[key];
    const { since, quantile } = change;
    const title = `${QUANTILES[quantile]} from ${span(map.since, since)}, ${against} included; a false alarm at most once in ${count(Math.round(1 / map.level))} answers`;
    return html`<div key=${key}><p class="verdict warn-text" title=${title}>${kind} <${Value}>${name}<//> has been slow since ${moment(since)}: ${key} takes ${longerText(change)}.</p>
      <p class="verdict-step"><${Look} map=${map} kind=${key} since=${since} /> <span class="soft small" title=${title}>${quantile === "median" ? "This is the median" : "9 of 10 take no longer"}; before is ${span(map.since, since)}, and ${against}.</span></p></div>`;
  });
}

/** The choice of a queue or service: `queue:NAME` or `service:NAME`. */
function Owner({ vhost: name, queue, service, data }) {
  const value = queue != null ? `queue:${queue}` : service != null ? `service:${service}` : "";
  const choose = ({ currentTarget: { value: chosen } }) => {
    const [kind, ...rest] = chosen.split(":");
    patch({ vhost: name, queue: null, service: null, ...(chosen && { [kind]: rest.join(":") }) });
  };
  const group = (kind, label, names, others) => html`<optgroup label=${label}>
    ${names.map((one) => html`<option key=${one} value=${`${kind}:${one}`}>${visible(one)}</option>`)}
    ${others > 0 && html`<option disabled>and others, with ${plural(others, "delivery", "deliveries")}</option>`}</optgroup>`;
  const known = { queue: data?.queues ?? [], service: data?.services ?? [] };
  if (queue != null && !known.queue.includes(queue)) known.queue = [...known.queue, queue];
  if (service != null && !known.service.includes(service)) known.service = [...known.service, service];
  return html`<select class="select" aria-label="Queue or participant" value=${value} onChange=${choose}>
      <option value="">${value ? "what became slow" : "choose …"}</option>
      ${group("service", "Participants", known.service, data?.other_services)}${group("queue", "Queues", known.queue, data?.other_queues)}
    </select>`;
}

function Shown({ map }) {
  const trace = (traces.value.data ?? []).find((one) => one.vhost === map.vhost);
  const holes = [...(trace?.gaps ?? []).filter((gap) => !isChosen(gap)).map(gapOf), ...before(trace), ...uncounted(map)];
  const [names, others] = map.queue == null ? [map.services, map.other_services] : [map.queues, map.other_queues];
  const isAmongOthers = others > 0 && !names.includes(map.queue ?? map.service);
  const late = uncountedText(map.as_of);
  return html`${late && html`<p class="soft small">${late}</p>`}
    ${isAmongOthers && html`<p class="soft small" role="status">Only the busiest of each user are counted by themselves: its messages, if any, are counted with others.</p>`}
    ${[...SERIES].sort(([a], [b]) => !map[a].change - !map[b].change).map(([key, title, said, token]) => html`<${Series} key=${key} map=${map} series=${map[key]} title=${title} said=${said} token=${token} holes=${holes} />`)}`;
}

const gapOf = ({ since, until }) => ({ from: Date.parse(since), to: until ? Date.parse(until) : Infinity });
const before = (trace) => (trace ? [{ from: -Infinity, to: Date.parse(trace.created_at) }] : []);
const uncounted = ({ as_of: at }) => (at ? [{ from: Date.parse(at), to: Infinity }] : []);

/** The place to look for the cause of what became slow. */
const Look = ({ map, kind, since }) => (kind === "handling" && map.service != null
  ? html`Look into the log of <${Value}>${map.service}<//> since ${moment(since)}.`
  : map.queue == null ? html`See what <${Value}>${map.service}<//> did since ${moment(since)}.`
    : html`See who takes from queue <${Queue} vhost=${map.vhost} name=${map.queue} />.`);

function Series({ map, series, title, said, token, holes }) {
  const { number, from, step } = axisOf(map);
  const [at, setAt] = useState(null); // ms: the axis moves on
  const newest = series.spans.length ? Math.round((Date.parse(series.spans.at(-1).at) - from) / step) : number - 1;
  const shown = Math.max(0, Math.min(at == null ? newest : Math.round((at - from) / step), number - 1));
  const iso = (n) => new Date(from + n * step).toISOString();
  const take = (n) => go("events", { vhost: map.vhost, type: "received", ...deliveriesOf(map), since: iso(n), until: iso(n + 1) });
  const { usual, baseline, spans, change } = series;
  return html`<${Panel} title=${title} note=${said}
      foot=${`${usual.count === map.handed_over ? "" : `${count(usual.count)} of `}${plural(map.handed_over, "delivery", "deliveries")}; times are exact to within 5 %. ${baseline.count ? `In ${againstText()}, ${span(map.baseline_since, map.baseline_until)}, the median was ${seconds(baseline.median)}, and 9 of 10 took at most ${seconds(baseline.p90)}.` : "Nothing is known of the time before."}`}>
    ${!change && spans.length > 0 && html`<p class="soft">${series.comparable ? "Not clearly longer than before." : `Too little to compare: messages in ${plural(baseline.spans, "span")} of ${seconds(map.seconds)} before, in ${count(usual.spans)} here.`}</p>`}
    ${spans.length
      ? html`<${HeatMap} label=${`${title} over time`} map=${map} series=${series} token=${token} holes=${holes} at=${shown} isMarked=${at != null} onMove=${(n) => setAt(from + n * step)} onOpen=${take} />
          <details class="heat-table"><summary>${title} as a table</summary><${Spans} label=${title} spans=${spans} /></details>`
      : html`<p class="nothing">It is not known of any message of this period.</p>`}
  <//>`;
}

const deliveriesOf = ({ queue, service }) => (queue == null ? filterOfService(service) : { queue });

function Spans({ label, spans }) {
  return html`<${Table} label=${`${label}, by time`} heads="From|#Messages|#Median|#9 of 10"
      rows=${spans} by=${["at", "count", "median", "p90"]}>
    ${(one) => html`<tr key=${one.at}><td class="tabular">${dateTime(one.at)}</td><td class="number">${count(one.count)}</td>
      <td class="number">${seconds(one.median)}</td><td class="number">${seconds(one.p90)}</td></tr>`}
  <//>`;
}
