// Conversations in which a message has waited in its queue for a while, those of longest first.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { ageOf, count, moment, secondsSince } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { href } from "../core/route.js";
import { Queue, Value } from "../ui/marks.js";
import { Failure, Panel } from "../ui/panel.js";
import { Table } from "../ui/table.js";

const EVERY_SECONDS = 30;
const MOST = 5;
const LEAST_SECONDS = 10; // what waits for less is under way

export const useWaiting = (vhost) => useResource((signal) => api.conversations({ vhost, state: "waiting" }, signal), [vhost], { every: EVERY_SECONDS, memory: "waiting" });

const longOf = (data) => (data?.items ?? [])
  .filter(({ position }) => secondsSince(position.since) >= LEAST_SECONDS)
  .sort((a, b) => (a.position.since < b.position.since ? -1 : 1));

/** The number of conversations that have waited for a while, and the longest time. */
export function waitingFigure({ data }, vhost) {
  const items = longOf(data);
  return data && ["Waiting", `${count(items.length)}${data.truncated ? "+" : ""}`, items.length ? html`<a href=${href("conversations", { vhost, state: "waiting" })}>the longest for ${ageOf(items[0].position.since)}</a>` : `none for ${LEAST_SECONDS} s or more`, items.length > 0 && "warn"];
}

export function WaitingNow({ vhost, loaded: { data, error, reload } }) {
  const items = longOf(data);
  const all = href("conversations", { vhost, state: "waiting" });
  return html`<${Panel} title="Waiting for longest" flush id="waiting-now" tools=${items.length > 0 && html`<a class="button small" href=${all}>Show all</a>`}
      note=${items.length > 0 && `${count(items.length)}${data.truncated ? "+" : ""} with a message that no consumer took for ${LEAST_SECONDS} s or more`}>
    ${error && !data ? html`<${Failure} error=${error} onRetry=${reload} />`
      : !items.length ? html`<p class="nothing">${data ? `No message waits for ${LEAST_SECONDS} s or more.` : "Counting …"}</p>`
      : html`<${Table} label="Waiting for longest" heads="Conversation|Waits|In the queue|#For|Since|Virtual host" rows=${items.slice(0, MOST)}
            lines by=${[({ keys }) => keys[0], ({ position }) => position.type, ({ position }) => position.queue, ({ position }) => secondsSince(position.since), ({ position }) => position.since, "vhost"]}>
          ${(one) => html`<tr key=${one.root}>
            <td class="name at-first"><a href=${href("conversations", { vhost: one.vhost, event: String(one.root) })}><${Value}>${one.keys[0] ?? `#${one.root}`}<//></a></td>
            <td class="name at-second"><${Value}>${one.position.type}<//></td>
            <td class="name at-end"><${Queue} vhost=${one.vhost} name=${one.position.queue} /><span class="on-phone soft"> · <${Value} cut>${one.vhost}<//></span></td>
            <td class="number at-first-end"><span class="on-phone soft">${moment(one.position.since)} · </span>${ageOf(one.position.since)}</td>
            <td class="tabular">${moment(one.position.since)}</td>
            <td class="name"><${Value}>${one.vhost}<//></td>
          </tr>`}
        <//>`}
  <//>`;
}
