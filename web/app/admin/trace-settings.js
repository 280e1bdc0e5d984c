// Settings of each trace, chosen at its first start.
import { html } from "../core/html.js";
import { count, dateTime, visible } from "../core/format.js";
import { outage } from "../core/health.js";
import { vhost } from "../core/route.js";
import { user } from "../core/session.js";
import { traces } from "../core/traces.js";
import { StateMark, Value } from "../ui/marks.js";
import { Panel } from "../ui/panel.js";
import { Table } from "../ui/table.js";
import { TraceButton } from "../ui/trace-button.js";

export function TraceSettings() {
  const known = traces.value.data ?? [];
  const by = new Map(known.map((trace) => [trace.vhost, trace]));
  const names = [...new Set([...user.value.vhosts, ...by.keys()])]
    .filter((name) => !vhost.value || name === vhost.value)
    .sort();
  return html`<${Panel} title="Trace settings" flush
    note="who counts as a participant, what joins no clocks, and what is taken">
    <${Table} label="Trace settings"
        heads="Virtual host|State|Participant|Created|#Restarts|#Redelivered|#Dead-lettered|#Quarantined|#Copies waiting|"
        lines rows=${names.map((name) => ({ vhost: name, trace: by.get(name) }))}
        by=${["vhost", of("state"), of("participant"), of("created_at"), of("restarts"), counted("redelivered"), counted("dead_lettered"), counted("quarantined"), of("pending_copies")]}>
      ${(row) => html`<${Row} key=${row.vhost} ...${row} />`}
    <//>
  <//>`;
}

const of = (name) => ({ trace }) => trace?.[name];
const counted = (name) => ({ trace }) => trace?.counters[name];

function Row({ vhost: name, trace }) {
  return html`<tr>
    <td class="name at-first"><${Value}>${name}<//></td>
    <td class="at-first-end">${trace ? html`<${StateMark} state=${trace.state} stale=${outage.value !== null} />` : html`<span class="badge">not traced</span>`}</td>
    <td class="at-second">${trace && html`<span title=${`quiet: ${visible(trace.quiet.join(" "))}`}>${trace.participant}${!trace.bodies && ", no bodies"}${(trace.exchanges || trace.queues) && ", partial"}</span>`}</td>
    ${trace
      ? html`<td class="tabular">${dateTime(trace.created_at)}</td>
          ${[trace.restarts, trace.counters.redelivered, trace.counters.dead_lettered, trace.counters.quarantined, trace.pending_copies].map(
            (n, at) => html`<td class="number ${n ? "" : "faint"}" key=${at}>${count(n)}</td>`)}`
      : html`<td colspan="6"></td>`}
    <td class="end at-end"><${TraceButton} vhost=${name} state=${trace?.state ?? "none"} /></td>
  </tr>`;
}
