import { html } from "../core/html.js";
import { ageOf, compact, count, percent, rate, sentence } from "../core/format.js";
import { outage } from "../core/health.js";
import { href } from "../core/route.js";
import { losses } from "../ui/gaps.js";
import { StateMark, Value } from "../ui/marks.js";
import { Panel } from "../ui/panel.js";
import { Table } from "../ui/table.js";
import { TraceButton } from "../ui/trace-button.js";

const of = (name) => ({ trace }) => trace?.[name];

/** A row for each virtual host; `trace` may be null. */
export function TracesTable({ rows }) {
  return html`<${Panel} title="Traces" flush note="one per virtual host">
    <${Table} label="Traces" heads="Virtual host|State|#Rate|#Lag|#Events|#Participants|#Unmatched|#Gaps|"
        rows=${rows} by=${["vhost", ...["state", "rate", "lag", "events", "participants"].map(of), ({ trace }) => trace?.counters.unmatched, ({ trace }) => trace && losses(trace)]}>
      ${(row) => html`<${Row} key=${row.vhost} ...${row} />`}
    <//>
  <//>`;
}

function Row({ vhost, trace }) {
  if (!trace) {
    return html`<tr>
      <td class="name"><${Value}>${vhost}<//></td>
      <td><span class="badge">not traced</span></td>
      <td colspan="6"></td>
      <td class="end"><${TraceButton} vhost=${vhost} state="none" /></td>
    </tr>`;
  }
  const { counters } = trace;
  const why = trace.state === "waiting" ? trace.waiting_for : trace.last_error;
  return html`<tr>
      <td class="name"><a href=${href("overview", { vhost })}><${Value}>${vhost}<//></a></td>
      <td><${StateMark} state=${trace.state} stale=${outage.value !== null} /></td>
      <td class="number">${rate(trace.rate)}</td>
      <td class="number" title="Messages waiting in the trace queue">${compact(trace.lag)}</td>
      <td class="number">
        <a href=${href("events", { vhost })} title=${count(trace.events)}>${compact(trace.events)}</a>
      </td>
      <td class="number">${compact(trace.participants)}</td>
      <td class="number" title=${`${count(counters.unmatched)} of ${count(counters.received)} received`}>
        ${percent(counters.unmatched, counters.received)}</td>
      <td class="number">${losses(trace)
        ? html`<a href=${href("admin", { vhost })}>${count(losses(trace))}</a>`
        : "0"}</td>
      <td class="end"><${TraceButton} vhost=${vhost} state=${trace.state} /></td>
    </tr>
    ${[
      why && `${trace.state === "waiting" ? "Waiting" : "Last error"}: ${why}`,
      ...trace.remarks,
      ...trace.doubts,
      trace.audit && `${trace.audit.sentence}${trace.audit.as_of ? `: ${ageOf(trace.audit.as_of)} ago` : ""}`,
    ].map(
      (text) => text && html`<tr class="under" key=${text}><td colspan="9" class=${trace.state === "failed" ? "" : "soft"}>
        <span class="small">${sentence(text)}</span></td></tr>`,
    )}
    ${(Object.keys(trace.links).length > 0 || Object.keys(trace.unread).length > 0 || trace.evidence.spanned > 0) &&
    html`<tr class="under"><td colspan="9" class="soft"><div class="small"><${Coverage} ...${trace} /></div></td></tr>`}`;
}

const MISSING = { unseen: "never seen", forgotten: "forgotten", ambiguous: "ambiguous", early: "perhaps before the rule held" };

/** Never 100 % where something is missing. */
const tenths = (share) => `${Math.floor(1000 * share) / 10} %`;

/** By rule: how many of the causes that messages named were found, and how many were known anyway. */
function Coverage({ links, evidence, unread }) {
  const named = ([, counts]) => counts.found + Object.keys(MISSING).reduce((sum, reason) => sum + counts[reason], 0);
  const rules = Object.entries(links).sort((a, b) => named(b) - named(a));
  const left = Object.entries(unread).map(([reason, bodies]) => `${count(bodies)} (${reason})`).join(", ");
  return html`${sentence(evidence.sentence)} ${left && `Bodies that could not be read: ${left}.`} <ul class="coverage">${rules.map(
    ([rule, counts]) => html`<li key=${rule}><${Value}>${rule}<//> ${[
      `${count(counts.found)} of ${count(named([rule, counts]))} found`,
      ...Object.entries(MISSING).map(([reason, words]) => counts[reason] > 0 && `${count(counts[reason])} ${words}`),
          counts.hidden > 0 && `${count(counts.hidden)} by a way outside the broker`,
    ].filter(Boolean).join(", ")}${counts.fit !== null && html`, <${Fit} ...${counts} />`}</li>`,
  )}</ul>`;
}

const FIT = "of the causes that came by the broker were known to who published, without the link. Where it is less than all, participants are finer than programs.";

const Fit = ({ known, missed, fit }) =>
  html`<span class=${missed > 0 ? "warn-text" : ""} title="${count(known)} of ${count(known + missed)} ${FIT}">fit ${tenths(fit)}</span>`;
