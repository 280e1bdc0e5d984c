// Who counts as a participant, what is quiet and what is taken is chosen at a trace's first start.
import { useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { count, dateTime, visible } from "../core/format.js";
import { outage } from "../core/health.js";
import { vhost } from "../core/route.js";
import { mayWrite, user } from "../core/session.js";
import { traces } from "../core/traces.js";
import { StateMark, Value } from "../ui/marks.js";
import { Panel } from "../ui/panel.js";
import { Table } from "../ui/table.js";
import { TraceButton } from "../ui/trace-button.js";

const POLICIES = [
  ["client", "A program: user and place, and its own name where several share a place."],
  ["host", "A user at a place: all programs there act as one."],
  ["user", "A user, wherever it connects from."],
  ["connection", "A connection: only if each consumes and publishes on the same one."],
  ["channel", "A channel: only if each consumes and publishes on the same one."],
];

export function TraceSettings() {
  const known = traces.value.data ?? [];
  const by = new Map(known.map((trace) => [trace.vhost, trace]));
  const names = [...new Set([...user.value.vhosts, ...by.keys()])]
    .filter((name) => !vhost.value || name === vhost.value)
    .sort();
  return html`<${Panel} title="Trace settings" flush
    note="who counts as a participant, what joins no clocks, and what is taken">
    <${Table} label="Trace settings"
        heads="Virtual host|State|Participant|Created|#Restarts|#Redelivered|#Dead-lettered|#Quarantined|#Copies waiting|">
      ${names.map((name) => html`<${Row} key=${name} vhost=${name} trace=${by.get(name)} />`)}
    <//>
  <//>`;
}

function Row({ vhost: name, trace }) {
  const [policy, setPolicy] = useState("client");
  const [quiet, setQuiet] = useState("");
  const [bodies, setBodies] = useState(true);
  const [exchanges, setExchanges] = useState("");
  const [queues, setQueues] = useState("");
  const wish = {
    participant: policy,
    quiet: quiet.trim() ? quiet.trim().split(/\s+/) : undefined,
    bodies: bodies ? undefined : false,
    exchanges: patternsOf(exchanges),
    queues: patternsOf(queues),
  };
  return html`<tr>
    <td class="name"><${Value}>${name}<//></td>
    <td>${trace ? html`<${StateMark} state=${trace.state} stale=${outage.value !== null} />` : html`<span class="badge">not traced</span>`}</td>
    <td>${trace
      ? html`<span title=${`quiet: ${visible(trace.quiet.join(" "))}`}>${trace.participant}${!trace.bodies && ", no bodies"}${(trace.exchanges || trace.queues) && ", partial"}</span>`
      : html`<select class="select" value=${policy} disabled=${!mayWrite.value}
          aria-label="What counts as a participant" onChange=${(e) => setPolicy(e.currentTarget.value)}>
          ${POLICIES.map(([value]) => html`<option key=${value}>${value}</option>`)}
        </select>`}</td>
    ${trace
      ? html`<td class="tabular">${dateTime(trace.created_at)}</td>
          <td class="number">${count(trace.restarts)}</td>
          <td class="number">${count(trace.counters.redelivered)}</td>
          <td class="number">${count(trace.counters.dead_lettered)}</td>
          <td class="number">${count(trace.counters.quarantined)}</td>
          <td class="number">${count(trace.pending_copies)}</td>`
      : html`<td colspan="6" class="soft small">${POLICIES.find(([value]) => value === policy)[1]}
          <input class="input" style=${{ display: "block", width: "100%" }} aria-label="Quiet traffic" disabled=${!mayWrite.value} value=${quiet}
            placeholder="Quiet traffic, such as queue:audit.*; Celery's control traffic by default"
            onInput=${(e) => setQuiet(e.currentTarget.value)} />
          <${Only} what="exchanges" example=${'orders billing.#, or "" for the default one'} value=${exchanges} onInput=${setExchanges} />
          <${Only} what="queues" example="work work.*.retry" value=${queues} onInput=${setQueues} />
          <label class="check"><input type="checkbox" checked=${bodies} disabled=${!mayWrite.value}
            onChange=${(e) => setBodies(e.currentTarget.checked)} />Store messages’ bodies, and read them for links</label></td>`}
    <td class="end"><${TraceButton} vhost=${name} state=${trace?.state} wish=${trace ? undefined : wish} /></td>
  </tr>`;
}

const Only = ({ what, example, value, onInput }) => html`<input class="input" style=${{ display: "block", width: "100%" }}
  aria-label=${`Only these ${what}`} disabled=${!mayWrite.value} value=${value}
  placeholder=${`Only these ${what}, such as ${example}; all by default`}
  onInput=${(e) => onInput(e.currentTarget.value)} />`;

/** Names and patterns between spaces; `""` is the default exchange. */
function patternsOf(text) {
  const found = text.trim().split(/\s+/).filter(Boolean);
  return found.length ? found.map((each) => (each === '""' ? "" : each)) : undefined;
}
