import { html } from "../core/html.js";
import { dateTime } from "../core/format.js";
import { href } from "../core/route.js";
import { Value } from "./marks.js";
import { Panel } from "./panel.js";

/** When trace messages may have been lost; renders nothing if never. */
export function GapsTable({ traces }) {
  const gaps = traces.flatMap((trace) => trace.gaps.map((gap) => ({ ...gap, vhost: trace.vhost })));
  if (!gaps.length) return null;
  return html`<${Panel} title="Gaps" flush
    note="trace messages may have been lost here: chains across a gap are marked incomplete">
    <div class="list-scroll" tabindex="0" role="group" aria-label="Gaps">
      <table class="list">
        <thead><tr><th>Virtual host</th><th>Since</th><th>Until</th><th>After event</th><th>Reason</th></tr></thead>
        <tbody>${gaps.map(
          (gap) => html`<tr key=${`${gap.vhost} ${gap.id}`}>
            <td class="name"><${Value}>${gap.vhost}<//></td>
            <td class="tabular">${dateTime(gap.since)}</td>
            <td class="tabular">${gap.until ? dateTime(gap.until) : html`<span class="badge warn">still open</span>`}</td>
            <td>${gap.after_event_id
              ? html`<a href=${href("events", { vhost: gap.vhost, event: String(gap.after_event_id), at: String(gap.after_event_id) })}>#${gap.after_event_id}</a>`
              : "before the first"}</td>
            <td class="text"><${Value}>${gap.reason}<//></td>
          </tr>`,
        )}</tbody>
      </table>
    </div>
  <//>`;
}
