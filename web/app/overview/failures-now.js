// Present failures: how many lately and before that, and what failed most.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { count, moment } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { hrefFailures } from "../core/route.js";
import { askFailures, incidentOf, IncidentsTable, Told } from "../ui/incidents.js";
import { Failure, Panel } from "../ui/panel.js";

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
  const { length } = last.groups;
  return html`<${Panel} title="Failures" flush note=${length > 0 && html`<strong><${Told} of=${last} /></strong>`} id="failures-now"
      tools=${last.counted > 0 && html`<a class="button small" href=${hrefFailures({ vhost, since })}>Show them</a>`}>
    ${length
      ? html`<${IncidentsTable} label="What failed most" groups=${last.groups} several=${!vhost} most=${WORST} hrefOf=${(those) => hrefFailures({ vhost, since, ...those })}
          beginOf=${(one) => (old.has(incidentOf(one)) ? `before ${moment(since)}` : moment(one.first_at))} />`
      : html`<p class="nothing">Nothing that was recorded failed in the last ${MINUTES} minutes.</p>`}
  <//>`;
}

const atLeast = ({ counted, counted_all: all }) => (all ? count(counted) : `${count(counted)} or more`);
