// Present failures: how many lately and before that, and what failed most.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { count, dateTime, moment, plural } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { hrefFailures } from "../core/route.js";
import { KindMark } from "../ui/failure-mark.js";
import { askFailures, incidentOf, IncidentQueue, incidentsOf, Places, Told } from "../ui/incidents.js";
import { Value } from "../ui/marks.js";
import { shortOf } from "../ui/names.js";
import { Failure, Panel } from "../ui/panel.js";
import { Table } from "../ui/table.js";

const MINUTES = 15;
const WORST = 3;
const EVERY_SECONDS = 30;

/** Only counts are needed, so a page of one failure is enough. */
async function lately(vhost, signal) {
  const [now, since, before] = [0, MINUTES, 2 * MINUTES].map((ago) => new Date(Date.now() - ago * 60_000).toISOString());
  const [last, earlier] = await Promise.all([askFailures({ vhost, since, until: now, limit: 1 }, signal), api.failures({ vhost, since: before, until: since, limit: 1 }, signal)]);
  return { last, earlier, since };
}

export const useFailures = (vhost) => useResource((signal) => lately(vhost, signal), [vhost], { every: EVERY_SECONDS, memory: "failures" });

/** The number of present failures, beside that of before. */
export const failuresFigure = ({ data }, vhost) =>
  data && ["Failures", atLeast(data.last), html`<a href=${hrefFailures({ vhost, since: data.since })}>in the last ${MINUTES} minutes</a>, ${atLeast(data.earlier)} in the ${MINUTES} min before`, data.last.counted > 0 && "bad"];

export function FailuresNow({ vhost, loaded: { data, error, reload } }) {
  if (!data) return error ? html`<${Failure} error=${error} onRetry=${reload} />` : html`<${Panel} title="Failures" flush id="failures-now"><p class="nothing">Counting …</p><//>`;
  const { last, earlier, since } = data;
  const old = new Set(earlier.groups.map(incidentOf));
  const short = shortOf(last.groups.flatMap(({ by }) => by));
  const worst = incidentsOf(last.groups).slice(0, WORST);
  return html`<${Panel} title="Failures" flush note=${`what failed most in the last ${MINUTES} minutes`} id="failures-now"
      foot=${worst.length > 0 && html`<span><${Told} of=${last} /></span>`}
      tools=${last.counted > 0 && html`<a class="button small" href=${hrefFailures({ vhost, since })}>Show them</a>`}>
    ${worst.length
      ? html`<${Table} label="What failed most" heads="#Failures|What happened|Queue|Message type|Had it last|Since|Newest|Virtual hosts"
            rows=${worst} lines by=${["count", "kind", "queue", "type", ({ by }) => by[0], "first_at", "last_at", ({ places }) => places[0].vhost]}>
          ${(one) => html`<${Incident} key=${JSON.stringify(one)} of=${one} only=${{ vhost, since }} isOld=${old.has(incidentOf(one))} short=${short} />`}
        <//>`
      : html`<p class="nothing">Nothing that was recorded failed in the last ${MINUTES} minutes.</p>`}
  <//>`;
}

const atLeast = ({ counted, counted_all: all }) => (all ? count(counted) : `${count(counted)} or more`);

/** `isOld`: it was there before, too. */
function Incident({ of, only, isOld, short }) {
  const { kind, queue, reason, type, exception, vhost, by } = of;
  const these = { ...only, kind, queue, reason, type, exception };
  return html`<tr>
    <td class="number at-first"><a href=${hrefFailures(these)} aria-label=${`These ${plural(of.count, "failure")}`}>${count(of.count)}</a></td>
    <td class="at-first-end"><${KindMark} kind=${kind} reason=${reason} vhost=${vhost} /></td>
    <td class="name at-second"><${IncidentQueue} of=${of} /></td>
    <td class="name"><${Value}>${type ?? "–"}<//></td>
    <td class="name"><${Value}>${by.length ? by.map(short).join(", ") : "–"}<//></td>
    <td class="tabular">${isOld ? `before ${moment(only.since)}` : moment(of.first_at)}</td>
    <td class="tabular" title=${dateTime(of.last_at)}>${moment(of.last_at)}</td>
    <td class="name at-end"><${Places} of=${of} to=${(one) => hrefFailures({ ...these, vhost: one })} /></td>
  </tr>`;
}
