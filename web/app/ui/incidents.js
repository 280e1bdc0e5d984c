// Failures that are alike, whatever their virtual host: one incident, and the places where it is.
import { html } from "../core/html.js";
import { count, moment, visible } from "../core/format.js";
import { Queue, Value } from "./marks.js";
import { shortOf } from "./names.js";

const NAMED = 2;
const BUSY = 0.1; // of the most failures in a span
const FEWEST = 3;

/** `[{...the newest group, count, first_at, last_at, by, places}]`, the largest first; `places` are the groups, by virtual host. */
export function incidentsOf(groups) {
  const incidents = Map.groupBy(groups, ({ kind, queue, reason, type, exception }) => JSON.stringify([kind, queue, reason, type, exception]));
  const whole = (places) => ({
    ...places.reduce((a, b) => (b.last_at > a.last_at ? b : a)),
    count: places.reduce((sum, one) => sum + one.count, 0),
    first_at: places.map((one) => one.first_at).sort()[0],
    by: [...new Set(places.flatMap((one) => one.by))],
    places: [...places].sort((a, b) => b.count - a.count),
  });
  return [...incidents.values()].map(whole).sort((a, b) => b.count - a.count); // of as many, the newest first
}

/** The queue of an incident; in several virtual hosts it is as many queues. On a phone with the type, which has no column there. */
export function IncidentQueue({ of: { queue, vhost, type, places } }) {
  const kind = html`<${Value}>${type}<//>`;
  if (!queue) return html`<span class="on-phone">${kind}</span><span class="off-phone faint">–</span>`;
  return html`${places.length > 1 ? html`<${Value}>${queue}<//>` : html`<${Queue} vhost=${vhost} name=${queue} />`}<span class="on-phone"> · ${kind}</span>`;
}

/** The virtual hosts of an incident, those with the most first; `to(vhost)` is the address of its failures. */
export function Places({ of: { places }, to }) {
  const rest = places.length - NAMED;
  const shown = rest > 1 ? places.slice(0, NAMED) : places;
  return html`<span title=${places.map((one) => `${one.vhost}: ${count(one.count)}`).join(", ")}>${shown.map((one, i) => html`${i > 0 && ", "}<a key=${one.vhost} href=${to(one.vhost)}><${Value}>${one.vhost}<//></a>`)}${rest > 1 && ` and ${rest} others`}</span>`;
}

/** The last run of busy spans with no more than one between them: `{before, since, count}`, of the span before it, its begin, and all failures from then on; null where there is none. */
export function waveOf({ counts }) {
  const least = Math.max(1, BUSY * Math.max(0, ...counts.map((one) => one.count)));
  const isBusy = (at) => counts[at]?.count >= least;
  let first = counts.findLastIndex((_, at) => isBusy(at));
  while (isBusy(first - 1) || isBusy(first - 2)) first -= isBusy(first - 1) ? 1 : 2;
  const number = counts.slice(Math.max(0, first)).reduce((sum, one) => sum + one.count, 0);
  return number < FEWEST ? null : { before: counts[Math.max(0, first - 1)].at, since: counts[first].at, count: number };
}

/** The place to look for an incident's cause, since the present wave or since it began: `Look into the log of billing since 02:12:00.` */
export function NextLook({ of: { kind, reason, queue, vhost, by, places, first_at: first }, wave }) {
  if (reason === "expired" || reason === "maxlen") {
    return html`See who takes from ${places.length > 1 ? html`<${Value}>${queue}<//>` : html`<${Queue} vhost=${vhost} name=${queue} />`}.`;
  }
  if (!by.length || kind === "gone") return null;
  const names = [...new Set(by.map(shortOf(by)))].map((name) => visible(name));
  // The begin with the wave somewhere is the time; a span of the plot begins before.
  const [begin = wave?.since > first ? wave.since : first] = places.map((one) => one.first_at).filter((at) => at >= wave?.before).sort();
  return `Look into the log${names.length > 1 ? "s" : ""} of ${names.join(", ")} since ${moment(begin)}.`;
}
