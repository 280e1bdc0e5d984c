// Queues and services that became slow within the last hour, and since when.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { uncountedText } from "../core/counted.js";
import { count, moment, seconds } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { href } from "../core/route.js";
import { Queue, Value } from "./marks.js";
import { Failure, Panel } from "./panel.js";
import { Table } from "./table.js";

const EVERY_SECONDS = 30;
const MOST = 10;
const QUANTILES = { median: "median", p90: "9 of 10" };

export const useSlow = (vhost) => useResource((signal) => api.slow(vhost, signal), [vhost], { every: EVERY_SECONDS });

/** The number of queues and services that became slow, and since when. */
export function slowFigure({ data }, vhost) {
  const since = data?.items.map(({ change }) => change.since).sort()[0];
  if (data && !data.looked_at) return ["Slow", "–", "too little to compare"];
  return data && ["Slow", count(data.items.length), since ? html`<a href=${href("durations", { vhost })}>became slow</a>, since ${moment(since)}` : "within the last hour", data.items.length > 0 && "warn"];
}

/** `tools`: what leads on. */
export function SlowNow({ loaded: { data, error, reload }, tools }) {
  if (!data) return error ? html`<${Failure} error=${error} onRetry=${reload} />` : html`<${Panel} title="Became slow" flush><p class="nothing">Comparing …</p><//>`;
  const { items, looked_at: all, looked_at_all: isWhole, as_of } = data;
  return html`<${Panel} title="Became slow" flush id="slow-now"
      note="within the last hour, against the hour before" foot=${[items.length > MOST && `The ${MOST} slowest of ${items.length} are shown.`, !isWhole && "Only the busiest queues and services of each user were looked at.", uncountedText(as_of)].filter(Boolean).join(" ")} tools=${tools}>
    ${items.length
      ? html`<${Table} label="What became slow" heads="Who|#Before → now|Since|What|Virtual host" rows=${items.slice(0, MOST)} lines
            by=${[({ queue, service }) => queue ?? service, ({ change }) => change.after, ({ change }) => change.since, "measured", "vhost"]}>
          ${(one) => html`<${Slow} key=${JSON.stringify([one.vhost, one.queue, one.service, one.measured])} ...${one} />`}
        <//>`
      : html`<p class="nothing">${all ? `No queue or service became slow: ${count(all)} were compared.` : "Too little to compare."}</p>`}
  <//>`;
}

function Slow({ vhost, queue, service, measured, change }) {
  const these = href("durations", { vhost, queue, service });
  return html`<tr>
    <td class="name at-first">${queue == null ? html`<${Value}>${service}<//>` : html`<${Queue} vhost=${vhost} name=${queue} />`} <span class="soft">${queue == null ? "service" : "queue"}</span></td>
    <td class="number at-first-end"><a href=${these} title="Draw it over time">${seconds(change.before)} → <b>${seconds(change.after)}</b></a></td>
    <td class="tabular at-end">${moment(change.since)}</td>
    <td class="at-second">${measured}, ${QUANTILES[change.quantile]}</td>
    <td class="name"><${Value}>${vhost}<//></td>
  </tr>`;
}
