// Settings of each trace, chosen at its first start.
import { html } from "../core/html.js";
import { ageOf, count, moment, plural, visible } from "../core/format.js";
import { outage } from "../core/health.js";
import { href, vhost } from "../core/route.js";
import { user } from "../core/session.js";
import { isSilent } from "../core/silence.js";
import { traces } from "../core/traces.js";
import { isChosen, isMute, losses } from "../ui/gaps.js";
import { StateMark, Value } from "../ui/marks.js";
import { Panel } from "../ui/panel.js";
import { Table } from "../ui/table.js";
import { isRunning, TraceButton } from "../ui/trace-button.js";

/** One participant in words, by the policy's name. */
const ONE = {
  client: "a program at one address",
  host: "a user at one address",
  user: "a user, wherever it is",
  connection: "a connection",
  channel: "a channel",
};

const oneOf = ({ participant }) => ONE[participant] ?? participant;

/** `participants` of the traces, those first that acted last. */
export function TraceSettings({ participants }) {
  const known = traces.value.data ?? [];
  const ones = [...new Set(known.map(oneOf))];
  const isAlike = ones.length === 1; // said once, below the table
  const by = new Map(known.map((trace) => [trace.vhost, trace]));
  const names = [...new Set([...user.value.vhosts, ...by.keys()])]
    .filter((name) => !vhost.value || name === vhost.value)
    .sort();
  const rows = names.map((name) => {
    const newest = participants.find((who) => who.vhost === name);
    return { vhost: name, trace: by.get(name), last: newest?.last_event_at, event: String(newest?.last_event_id) };
  });
  return html`${traces.value.data && html`<p class="verdict">${recordText(rows)}</p>`}
    <${Panel} title="What is recorded" flush
      foot=${html`<details><summary>Costs, and how long events are kept</summary>
        <p>Each publish and each delivery costs the broker one more message, and disk for its event${isAlike ? `; one participant is ${ones[0]}` : ""}. How long it is kept is set where rabbitmq-itc starts: <code>ITC_RETENTION_DAYS</code> (days), <code>ITC_RETENTION_EVENTS</code> (the newest events); how much of a body: <code>ITC_PAYLOAD_MAX_BYTES</code> (bytes).</p></details>`}>
      <${Table} label="What is recorded" heads=${`Virtual host|State|Record|#Last event|#Events|What is taken|Bodies|${isAlike ? "" : "One participant is|"}`} lines rows=${rows}
          by=${["vhost", of("state"), of("created_at"), "last", of("events"), null, of("bodies"), ...(isAlike ? [] : [of("participant")])]}>
        ${(row) => html`<${Row} key=${row.vhost} ...${row} isAlike=${isAlike} />`}
      <//>
    <//>`;
}

/** The buttons that end a recording, apart from all else. */
export function StopTraces({ shown }) {
  const running = shown.filter(({ state }) => isRunning(state));
  return running.length > 0 && html`<details class="expert"><summary>Stop a trace …</summary>
    <p class="soft small">What happens until it is started again is lost: a gap, across which no answer is complete.</p>
    <div class="stops">${running.map((trace) => html`<span class="labelled" key=${trace.vhost}><${Value} cut>${trace.vhost}<//><${TraceButton} vhost=${trace.vhost} state=${trace.state} /></span>`)}</div>
  </details>`;
}

const MOST_NAMED = 3;

/** `6 of 7 virtual hosts are recorded, without a gap. lab is not.` */
function recordText(rows) {
  const now = rows.filter(({ trace }) => trace && !isMute(trace));
  const gaps = rows.reduce((sum, { trace }) => sum + (trace ? losses(trace) : 0), 0);
  const one = rows.length === 1;
  const recorded = one ? `${visible(rows[0].vhost)} is ${now.length ? "" : "not "}recorded` : `${now.length === rows.length ? "All" : `${count(now.length)} of`} ${count(rows.length)} virtual hosts are recorded`;
  const others = rows.filter((row) => !now.includes(row)).map(({ vhost }) => visible(vhost));
  const rest = now.length && others.length && others.length <= MOST_NAMED ? ` ${others.join(", ")} ${others.length > 1 ? "are" : "is"} not.` : "";
  return `${recorded}${gaps ? `, with ${plural(gaps, "gap")}` : now.length ? ", without a gap" : ""}.${rest}`;
}

/** `complete since 2026-01-02 03:00:00`, or what is missing of it; never complete of a trace that does not record now. */
function Completeness({ trace }) {
  const lost = losses(trace);
  const word = lost ? `${plural(lost, "gap")} since` : trace.gaps.some(isChosen) ? "partial by choice since" : isMute(trace) ? "begun" : "complete since";
  return html`<span class=${lost ? "warn-text" : ""}>${word}</span> <span class="soft">${moment(trace.created_at)}</span>`;
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

function Row({ vhost: name, trace, last, event, isAlike }) {
  if (!trace) {
    return html`<tr>
      <td class="name at-first"><${Value}>${name}<//></td>
      <td class="at-first-end"><span class="badge">not recorded</span></td>
      <td colspan=${isAlike ? 5 : 6}></td>
      <td class="end at-end"><${TraceButton} vhost=${name} state="none" /></td></tr>`;
  }
  const [isIdle, isOn] = [isSilent(trace, last), isRunning(trace.state)];
  return html`<tr>
    <td class="name at-first"><${Value}>${name}<//></td>
    <td class="at-first-end"><${StateMark} state=${isIdle ? "idle" : trace.state} stale=${outage.value !== null}>${isIdle ? `idle for ${ageOf(last)}` : undefined}<//>${trace.sound === false && html` <span class="badge warn" title=${trace.doubts.join(" ")}>not sound</span>`}</td>
    <td class="at-second"><${Completeness} trace=${trace} /></td>
    <td class="number ${isOn ? "at-end" : ""}">${last && html`<a title=${`Event #${event}`} href=${href("events", { vhost: name, event, at: event })}>${moment(last)}</a>`}</td>
    <td class="number ${trace.events ? "" : "faint"}">${count(trace.events)}</td>
    <td><${Taken} trace=${trace} /></td>
    <td>${trace.bodies ? "kept" : html`<span class="soft" title="Only their digests: they cannot be shown or searched">not kept</span>`}</td>
    ${!isAlike && html`<td>${oneOf(trace)}</td>`}
    <td class="end ${isOn ? "" : "at-end"}">${!isOn && html`<${TraceButton} vhost=${name} state=${trace.state} />`}</td>
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
