// Settings of each trace, chosen at its first start.
import { html } from "../core/html.js";
import { count, dateTime, plural, visible } from "../core/format.js";
import { outage } from "../core/health.js";
import { href, vhost } from "../core/route.js";
import { user } from "../core/session.js";
import { traces } from "../core/traces.js";
import { StateMark, Value } from "../ui/marks.js";
import { Panel } from "../ui/panel.js";
import { Table } from "../ui/table.js";
import { TraceButton } from "../ui/trace-button.js";

/** One participant in words, by the policy's name. */
const ONE = {
  client: "a program at one address",
  host: "a user at one address",
  user: "a user, wherever it is",
  connection: "a connection",
  channel: "a channel",
};

const oneOf = ({ participant }) => ONE[participant] ?? participant;

export function TraceSettings() {
  const known = traces.value.data ?? [];
  const ones = [...new Set(known.map(oneOf))];
  const isAlike = ones.length === 1; // said once, above the table
  const by = new Map(known.map((trace) => [trace.vhost, trace]));
  const names = [...new Set([...user.value.vhosts, ...by.keys()])]
    .filter((name) => !vhost.value || name === vhost.value)
    .sort();
  return html`<${Panel} title="What is recorded" flush
    note=${`each publish and each delivery costs the broker one more message, and disk for its event${isAlike ? `; one participant is ${ones[0]}` : ""}`}
    foot=${html`How long it is kept is set where rabbitmq-itc starts: <code>ITC_RETENTION_DAYS</code> (days), <code>ITC_RETENTION_EVENTS</code> (the newest events); how much of a body: <code>ITC_PAYLOAD_MAX_BYTES</code> (bytes).`}>
    <${Table} label="What is recorded" heads=${`Virtual host|State|What is taken|Bodies|${isAlike ? "" : "One participant is|"}Since|#Events|#Last event|`} lines
        rows=${names.map((name) => ({ vhost: name, trace: by.get(name) }))}
        by=${["vhost", of("state"), null, of("bodies"), ...(isAlike ? [] : [of("participant")]), of("created_at"), of("events"), of("last_event_id")]}>
      ${(row) => html`<${Row} key=${row.vhost} ...${row} isAlike=${isAlike} />`}
    <//>
  <//>`;
}

const of = (name) => ({ trace }) => trace?.[name];
const counted = (name) => ({ trace }) => trace?.counters[name];

/** The messages that are taken: all, or those of some exchanges and queues. */
function Taken({ trace: { exchanges, queues, quiet } }) {
  const named = [["exchange", exchanges], ["queue", queues]].filter(([, names]) => names);
  const lists = [...named, ...(quiet.length ? [["not followed", quiet]] : [])];
  const title = lists.map(([what, names]) => `${what}: ${visible(names.map((name) => name || "(default)").join(", "))}`).join("; ");
  return html`<span title=${title || undefined}>${named.length ? `messages of ${named.map(([what, names]) => plural(names.length, what)).join(", ")}` : "all messages"}</span>`;
}

function Row({ vhost: name, trace, isAlike }) {
  return html`<tr>
    <td class="name at-first"><${Value}>${name}<//></td>
    <td class="at-first-end">${trace ? html`<${StateMark} state=${trace.state} stale=${outage.value !== null} />` : html`<span class="badge">not recorded</span>`}</td>
    ${trace
      ? html`<td class="at-second"><${Taken} trace=${trace} /></td>
          <td>${trace.bodies ? "kept" : html`<span class="soft" title="Only their digests: they cannot be shown or searched">not kept</span>`}</td>
          ${!isAlike && html`<td>${oneOf(trace)}</td>`}
          <td class="tabular">${dateTime(trace.created_at)}</td>
          <td class="number ${trace.events ? "" : "faint"}">${count(trace.events)}</td>
          <td class="number">${trace.last_event_id && html`<a href=${href("events", { vhost: name, event: String(trace.last_event_id), at: String(trace.last_event_id) })}>#${trace.last_event_id}</a>`}</td>`
      : html`<td colspan=${isAlike ? 5 : 6}></td>`}
    <td class="end at-end"><${TraceButton} vhost=${name} state=${trace?.state ?? "none"} /></td>
  </tr>`;
}

/** The counters of each trace since it was first started. */
export function TraceCounters() {
  const shown = (traces.value.data ?? []).filter((trace) => !vhost.value || trace.vhost === vhost.value);
  const numbers = ({ restarts, counters: { redelivered, dead_lettered: dead, quarantined }, pending_copies: waiting }) => [restarts, redelivered, dead, quarantined, waiting];
  return html`<${Panel} title="Counters of the traces" flush note="since each was first started">
    <${Table} label="Counters of the traces" heads="Virtual host|#Restarts|#Redelivered|#Dead-lettered|#Quarantined|#Copies waiting" rows=${shown.map((trace) => ({ trace }))}
        by=${[of("vhost"), of("restarts"), counted("redelivered"), counted("dead_lettered"), counted("quarantined"), of("pending_copies")]}>
      ${({ trace }) => html`<tr key=${trace.vhost}><td class="name"><${Value}>${trace.vhost}<//></td>
        ${numbers(trace).map((n, at) => html`<td class="number ${n ? "" : "faint"}" key=${at}>${count(n)}</td>`)}</tr>`}
    <//>
  <//>`;
}
