// Failures that are alike, whatever their virtual host: one incident, and the places where it is.
import { html } from "../core/html.js";
import { count } from "../core/format.js";
import { Queue, Value } from "./marks.js";

const NAMED = 2;

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
