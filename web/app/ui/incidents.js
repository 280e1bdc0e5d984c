// Failures that are alike, whatever their virtual host: one incident, and the places where it is.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { count, dateTime, moment, plural, visible } from "../core/format.js";
import { href } from "../core/route.js";
import { KindMark, KINDS, reasonWord } from "./failure-mark.js";
import { Queue, Value } from "./marks.js";
import { shortOf } from "./names.js";
import { Table } from "./table.js";

const NAMED = 2;
const BUSY = 0.1; // of the most failures in a span
const FEWEST = 3;

/** The time of the first failure of some groups. */
export const firstOf = (groups) => groups.map((one) => one.first_at).sort()[0];

/** Equal for groups that are one incident. */
export const incidentOf = ({ kind, queue, reason, type, exception }) => JSON.stringify([kind, queue, reason, type, exception]);

/** `[{...the newest group, count, first_at, last_at, by, places}]`, the largest first; `places` are the groups, by virtual host. */
export function incidentsOf(groups) {
  const incidents = Map.groupBy(groups, incidentOf);
  const whole = (places) => ({
    ...places.reduce((a, b) => (b.last_at > a.last_at ? b : a)),
    count: places.reduce((sum, one) => sum + one.count, 0),
    first_at: firstOf(places),
    by: [...new Set(places.flatMap((one) => one.by))],
    places: [...places].sort((a, b) => b.count - a.count),
  });
  return [...incidents.values()].map(whole).sort((a, b) => b.count - a.count); // of as many, the newest first
}

/** Incidents, `most` of them. `hrefOf(filters)` leads to the failures of one, `beginOf` says since when it is there; `several`: of several virtual hosts. */
export function IncidentsTable({ label, groups, several, most, hrefOf, beginOf = (one) => moment(one.first_at) }) {
  const short = shortOf(groups.flatMap(({ by }) => by));
  const hasException = groups.some(({ exception }) => exception);
  return html`<${Table} label=${label} rows=${incidentsOf(groups).slice(0, most)} lines
      by=${["count", "kind", "queue", "type", ...(hasException ? ["exception"] : []), ({ by }) => by[0], "first_at", "last_at", ...(several ? [({ places }) => places[0].vhost] : [])]}
      heads=${`#Failures|What happened|Queue|Message type|${hasException ? "Exception|" : ""}Had it last|Since|Newest|${several ? "Virtual hosts|" : ""}`}>
    ${(one) => {
      const { kind, queue, reason, type, exception, vhost, newest, count: number, by: [first, ...others], last_at: last } = one;
      const those = { kind, queue, reason, type, exception };
      return html`<tr key=${incidentOf(one)}>
        <td class="number at-first"><a href=${hrefOf(those)} title="Only these" aria-label=${`Only these ${plural(number, "failure")}`}>${count(number)}</a></td>
        <td class="at-first-end"><${KindMark} kind=${kind} reason=${reason} vhost=${vhost} /></td>
        <td class="name at-second"><${IncidentQueue} of=${one} several=${several} /></td>
        <td class="name"><${Value}>${type}<//></td>
        ${hasException && html`<td class="name"><${Value}>${exception}<//></td>`}
        <td class="name"><${Value}>${first && `${short(first)}${others.length ? ` and ${plural(others.length, "other")}` : ""}`}<//></td>
        <td class="tabular" title=${dateTime(one.first_at)}>${beginOf(one)}</td>
        <td class="tabular at-end" title=${dateTime(last)}>${number > 1 && html`<span class="on-phone">${beginOf(one)} – </span>`}${moment(last)}</td>
        ${several && html`<td class="name"><${Places} of=${one} to=${(name) => hrefOf({ ...those, vhost: name })} /></td>`}
        <td class="end"><a class="button small" href=${href("conversations", { vhost, event: String(newest) })} aria-label=${`Open the conversation of the newest, #${newest}`}>Open</a></td>
      </tr>`;
    }}
  <//>`;
}

/** The queue of an incident; in several virtual hosts it is as many queues. On a phone with the type, which has no column there. */
function IncidentQueue({ of: { queue, vhost, type, places }, several }) {
  const where = several && html` · <${Value}>${vhost}<//>${places.length > 1 && ` and ${plural(places.length - 1, "other")}`}`;
  const kind = html`<${Value}>${type}<//>${where}`;
  if (!queue) return html`<span class="on-phone">${kind}</span><span class="off-phone faint">–</span>`;
  return html`${places.length > 1 ? html`<${Value}>${queue}<//>` : html`<${Queue} vhost=${vhost} name=${queue} />`}<span class="on-phone"> · ${kind}</span>`;
}

/** The virtual hosts of an incident, those with the most first; `to(vhost)` is the address of its failures. */
function Places({ of: { places }, to }) {
  const rest = places.length - NAMED;
  const shown = rest > 1 ? places.slice(0, NAMED) : places;
  return html`<span title=${places.map((one) => `${one.vhost}: ${count(one.count)}`).join(", ")}>${shown.map((one, i) => html`${i > 0 && ", "}<a key=${one.vhost} href=${to(one.vhost)}><${Value}>${one.vhost}<//></a>`)}${rest > 1 && ` and ${rest} others`}</span>`;
}

/** The begin of the last run of busy spans with no more than one between them, after others; null where there is none. */
function waveIn({ counts }) {
  const least = Math.max(1, BUSY * Math.max(0, ...counts.map((one) => one.count)));
  const isBusy = (at) => counts[at]?.count >= least;
  let first = counts.findLastIndex((_, at) => isBusy(at));
  while (isBusy(first - 1) || isBusy(first - 2)) first -= isBusy(first - 1) ? 1 : 2;
  const number = counts.slice(Math.max(0, first)).reduce((sum, one) => sum + one.count, 0);
  return first < 1 || number < FEWEST ? null : counts[first].at;
}

/** Failures as the API has them, with their `surge`: those since they come in numbers, or null. */
export async function askFailures(filters, signal) {
  const answer = await api.failures(filters, signal);
  const since = filters.before ? null : waveIn(answer.over_time);
  const surge = since && (await api.failures({ ...filters, since, limit: 1 }, signal));
  return { ...answer, surge: surge?.counted < answer.counted ? surge : null };
}

/** The surge of some failures, or else all of them, in a sentence; `children`; and where to look for the cause. */
export function Told({ of, children }) {
  const { groups, counted, counted_all: isAll } = of.surge ?? of;
  const [most] = incidentsOf(groups);
  const share = most.count === counted ? (counted === 1 ? "" : "all of them ") : `${count(most.count)} of them `;
  return html`${isAll ? "" : "At least "}${plural(counted, "failure")} since ${moment(firstOf(groups))}, ${share}${fateOf(most)}.${children}<span class="next-step"> <${NextLook} of=${most} /></span>`;
}

/** `rejected by billing`, `expired in billing`, `came back`: of an incident. */
function fateOf({ kind, reason, queue, by }) {
  if (kind === "overdue") return `${KINDS.overdue[1].toLowerCase()} for assertion ${visible(reason)}`;
  const fate = kind === "died" && reason ? reasonWord(reason) : KINDS[kind]?.[1].toLowerCase() ?? kind;
  if (reason === "rejected" && by.length === 1) return `${fate} by ${visible(shortOf(by)(by[0]))}`;
  return queue == null ? fate : `${fate} in ${visible(queue)}`;
}

/** The place to look for an incident's cause, since it began: `Look into the log of billing since 02:12:00.` */
export function NextLook({ of: { kind, reason, queue, vhost, by, places, first_at: first } }) {
  if (reason === "expired" || reason === "maxlen") {
    return html`See who takes from ${places.length > 1 ? html`<${Value}>${queue}<//>` : html`<${Queue} vhost=${vhost} name=${queue} />`}.`;
  }
  if (!by.length || kind === "gone") return null;
  const names = [...new Set(by.map(shortOf(by)))].map((name) => visible(name));
  return `Look into the log${names.length > 1 ? "s" : ""} of ${names.join(", ")} since ${moment(first)}.`;
}
