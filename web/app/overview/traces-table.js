import { html } from "../core/html.js";
import { compact, count, percent, rate, sentence } from "../core/format.js";
import { href } from "../core/route.js";
import { StateMark, Value } from "../ui/marks.js";
import { Panel } from "../ui/panel.js";
import { TraceButton } from "../ui/trace-button.js";

/** A row for each virtual host; `trace` may be null. */
export function TracesTable({ rows }) {
  return html`<${Panel} title="Traces" flush note="one per virtual host">
    <div class="list-scroll" tabindex="0" role="group" aria-label="Traces">
      <table class="list">
        <thead><tr>
          <th>Virtual host</th><th>State</th>
          <th class="number">Rate</th><th class="number">Lag</th>
          <th class="number">Events</th><th class="number">Participants</th>
          <th class="number">Unmatched</th><th class="number">Gaps</th><th><span class="unseen">Actions</span></th>
        </tr></thead>
        <tbody>${rows.map((row) => html`<${Row} key=${row.vhost} ...${row} />`)}</tbody>
      </table>
    </div>
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
      <td><${StateMark} state=${trace.state} /></td>
      <td class="number">${rate(trace.rate)}</td>
      <td class="number" title="Messages waiting in the trace queue">${compact(trace.lag)}</td>
      <td class="number">
        <a href=${href("events", { vhost })} title=${count(trace.events)}>${compact(trace.events)}</a>
      </td>
      <td class="number">${compact(trace.participants)}</td>
      <td class="number" title=${`${count(counters.unmatched)} of ${count(counters.received)} received`}>
        ${percent(counters.unmatched, counters.received)}</td>
      <td class="number">${trace.gaps.length
        ? html`<a href=${href("admin", { vhost })}>${count(trace.gaps.length)}</a>`
        : "0"}</td>
      <td class="end"><${TraceButton} vhost=${vhost} state=${trace.state} /></td>
    </tr>
    ${[
      why && `${trace.state === "waiting" ? "Waiting" : "Last error"}: ${why}`,
      ...trace.remarks,
      ...trace.doubts.map((doubt) => `Not sound. ${sentence(doubt)}`),
      trace.audit?.sentence,
    ].map(
      (text) => text && html`<tr class="under" key=${text}><td colspan="9" class=${trace.state === "failed" ? "" : "soft"}>
        <span class="small"><${Value}>${text}<//></span></td></tr>`,
    )}`;
}
