// The conversations that failed: those with messages that died, went to an error queue, could not be routed
// or came back again and again. Counted over time and as incidents, which narrow the list.
import { html } from "../../core/html.js";
import { ageOf, count, moment, plural, secondsSince } from "../../core/format.js";
import { usePages } from "../../core/pages.js";
import { href, hrefFailures, hrefHere, route, vhost } from "../../core/route.js";
import { traces } from "../../core/traces.js";
import { useViewed } from "../../core/viewed.js";
import { askFailures, firstOf, IncidentsTable, Told } from "../../ui/incidents.js";
import { Alert, Empty, Failure, Panel, pending } from "../../ui/panel.js";
import { useSteps } from "../../ui/steps.js";
import { Chips, Filters, filtersOf } from "./filters.js";
import { OverTime } from "./over-time.js";
import { ItemsTable } from "./tables.js";

const PAGE = 100;
const LIST = "Conversations that failed";

export default function FailedConversations() {
  const filters = filtersOf(route.value.params);
  const load = (before, signal) => askFailures({ vhost: vhost.value, ...filters, limit: PAGE, before }, signal);
  const loaded = usePages(load, [vhost.value, filters]);
  const { data, error, reload } = loaded;
  const first = data?.[0];
  // An answer on all virtual hosts has no gaps of its own: the banner has those of their traces.
  const { since, until } = first?.gaps ? first.period : {};
  useViewed(vhost.value, since, filters.until ? until : null, "these failures", first);
  useSteps(".failure");
  if (!data && error?.status === 404) return html`<${Nothing} title="This virtual host is not traced">Failures are found in what a trace has recorded.<//>`;
  return html`
    <${Filters} first=${first} />
    <${Chips} />
    ${data && error && html`<${Failure} error=${error} onRetry=${reload} />`}
    ${!data
      ? pending(loaded, "failures")
      : first.items.length
        ? html`<${Found} first=${first} loaded=${loaded} />`
        : html`<${None} filtered=${Object.keys(filters).length > 0} answer=${first} />`}`;
}

function Found({ first, loaded }) {
  const items = loaded.data.flatMap((page) => page.items);
  const several = !vhost.value;
  return html`
    <${Headline} of=${first} />
    ${!first.counted_all && html`<${Alert} tone="calm">Incidents and plot count the newest ${plural(first.counted, "failure")} only:
      there are more. Choose a period or a queue to count fewer.<//>`}
    <${Panel} title="Incidents" flush note=${`alike in reason, queue, message type and exception${several ? ", over all virtual hosts" : ""}; the largest first`}
        foot=${first.groups_truncated && `Those of the ${count(first.groups.length)} kinds with the newest failures are listed.`}>
      <${IncidentsTable} label="Incidents" groups=${first.groups} several=${several} hrefOf=${hrefHere} /><//>
    <${Panel} title="Over time" note=${`${first.counted_all ? "" : "the newest "}${plural(first.counted, "failure")}; choose a bar to see its time`}>
      <${OverTime} over=${first.over_time} /><//>
    <${Panel} title=${LIST} flush note=${html`${`${items.length < first.counted ? `the newest ${count(items.length)} of ` : ""}${plural(first.counted, "failure")}, newest first`}<span class="off-phone">; keys ↓ and ↑ go through them</span>`}
        foot=${loaded.further && html`<button class="button small" onClick=${loaded.more}>Show ${PAGE} more</button>
          <span> ${count(items.length)} are shown.</span>`}>
      <${ItemsTable} items=${items} several=${several} /><//>`;
}

const GOES_ON_SECONDS = 300;

/** `145 failures since 09:12:00, all of them rejected by billing. The last one was 20 s ago: it goes on.` And where to look, and how many there are in all. */
function Headline({ of }) {
  const { groups, counted, counted_all: isAll, surge } = of;
  const last = groups.map((one) => one.last_at).sort().at(-1);
  const { until } = route.value.params;
  const comes = traces.value.data?.some((one) => (!vhost.value || one.vhost === vhost.value) && one.rate > 0);
  const end = until ? `The last one was at ${moment(last)}.`
    : secondsSince(last) >= GOES_ON_SECONDS ? `None since ${moment(last)}, ${ageOf(last)} ago.`
    : counted > 1 ? `The last one was ${ageOf(last)} ago${comes ? ": it goes on" : ""}.` : `That was ${ageOf(last)} ago.`;
  return html`<p class="failures-headline"><strong><${Told} of=${of}> ${end}<//></strong>${surge && html` <span class="soft">${isAll ? "" : "At least "}${count(counted)} in all since ${moment(firstOf(groups))}.</span>`}</p>`;
}

function Nothing({ title, to = href("overview"), word = "To the traces", children }) {
  return html`<${Panel} title=${LIST}><${Empty} title=${title} actions=${html`<a class="button" href=${to}>${word}</a>`}>${children}<//><//>`;
}

function None({ filtered, answer }) {
  if (filtered) return html`<${Nothing} title="No failure fits these filters" to=${hrefFailures()} word="Show all">Take one of the filters above away, or choose another period.<//>`;
  const unsure = answer.complete === false || answer.sound === false;
  return html`<${Nothing} title=${unsure ? "No failure is known" : "No failures"}>${unsure
    ? "Nothing that was recorded died or was lost. What happened where trace messages are missing is not known."
    : "Of the messages that are stored none died, went to an error queue, could not be routed or came back again and again."}<//>`;
}
