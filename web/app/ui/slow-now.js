// Queues and services that became slow within the last hour, and since when.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { uncountedText } from "../core/counted.js";
import { count, moment, plural, seconds } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { href } from "../core/route.js";
import { Queue, Value } from "./marks.js";
import { Failure, Panel } from "./panel.js";
import { Table } from "./table.js";

const EVERY_SECONDS = 30;
const MOST = 10;
export const QUANTILES = { median: "median", p90: "9 of 10" };

/** A queue and the service that alone takes from it have the same messages, so the same figures: they are one of the items. */
export const useSlow = (of) => useResource(async (signal) => {
  const { items, ...answer } = await api.slow(of, signal);
  const alike = Map.groupBy(items, ({ vhost, measured, change }) => JSON.stringify([vhost, measured, change]));
  const isPair = (ones) => ones.length === 2 && (ones[0].queue == null) !== (ones[1].queue == null);
  return { ...answer, items: [...alike.values()].flatMap((ones) => (isPair(ones) ? { ...ones[0], queue: ones[0].queue ?? ones[1].queue, service: ones[0].service ?? ones[1].service } : ones)) };
}, [of], { every: EVERY_SECONDS, memory: "slow" });

/** The number of queues and services that became slow, and since when. */
export function slowFigure({ data }, vhost) {
  const since = data?.items.map(({ change }) => change.since).sort()[0];
  if (!data) return ["Slow", "…", "comparing"];
  if (!data.looked_at) return ["Slow", "–", "too little to compare"];
  return ["Slow", count(data.items.length), since ? html`<a href=${href("durations", { vhost })}>became slow</a>, since ${moment(since)}` : `of ${count(data.looked_at)} compared`, data.items.length > 0 && "warn"];
}

/** `tools`: what leads on. */
export function SlowNow({ loaded: { data, error, reload }, tools }) {
  if (!data) return error ? html`<${Failure} error=${error} onRetry=${reload} />` : html`<${Panel} title="Became slow" flush id="slow-now"><p class="nothing">Comparing …</p><//>`;
  const { items, looked_at: all, looked_at_all: isWhole, as_of, level } = data;
  const rareness = `A false alarm comes at most once in ${count(Math.round(1 / level))} answers.`;
  const notes = [items.length > MOST && `The ${MOST} slowest of ${items.length} are shown.`, !isWhole && "Only the busiest queues and participants of each user were looked at.", uncountedText(as_of)].filter(Boolean).join(" ");
  return html`<${Panel} title="Became slow" flush id="slow-now"
      note="within the last hour, against the hour before" foot=${(all > 0 || notes) && html`${all > 0 && html`<span title=${rareness}>${plural(all, "queue or participant", "queues and participants")} had enough messages to compare.</span> `}${notes}`} tools=${tools}>
    ${items.length
      ? html`<${Table} label="What became slow" heads="Who|#Before → now|Since|What|Virtual host" rows=${items.slice(0, MOST)} lines
            by=${[({ queue, service }) => queue ?? service, ({ change }) => change.after, ({ change }) => change.since, "measured", "vhost"]}>
          ${(one) => html`<${Slow} key=${JSON.stringify([one.vhost, one.queue, one.service, one.measured])} ...${one} />`}
        <//>`
      : html`<p class="nothing">${all
        ? "No queue or participant became slow: of none is the median of waiting or handling, or 9 of 10, clearly longer."
        : "Too little to compare: no queue or participant had messages in at least 10 minutes of the hour before, and in enough since."}</p>`}
  <//>`;
}

function Slow({ vhost, queue, service, measured, change }) {
  const these = href("durations", { vhost, ...(queue == null ? { service } : { queue }) });
  const isOne = queue === service;
  return html`<tr>
    <td class="name at-first">${queue != null && html`<${Queue} vhost=${vhost} name=${queue} /> <span class="soft">queue${service != null && " and "}</span>`}${service != null &&
      html`${!isOne && html`<${Value}>${service}<//>`} <span class="soft">participant</span>`}</td>
    <td class="number at-first-end"><a href=${these} title="Draw it over time">${seconds(change.before)} → <b>${seconds(change.after)}</b></a></td>
    <td class="tabular at-end">${moment(change.since)}</td>
    <td class="at-second">${measured}, ${QUANTILES[change.quantile]}</td>
    <td class="name"><${Value}>${vhost}<//></td>
  </tr>`;
}
