import { html } from "../core/html.js";
import { dateTime, said } from "../core/format.js";
import { href } from "../core/route.js";
import { isChosen } from "./gaps.js";
import { Value } from "./marks.js";
import { Panel } from "./panel.js";
import { Table } from "./table.js";

/** Spans in which trace messages may have been lost, or were not asked for; renders nothing if there are none. */
export function GapsTable({ traces }) {
  const gaps = traces.flatMap((trace) => trace.gaps.map((gap) => ({ ...gap, vhost: trace.vhost })));
  if (!gaps.length) return null;
  return html`<${Panel} title="Gaps" flush
    note="trace messages may have been lost here, or were left out by choice: chains across a gap are marked incomplete">
    <${Table} label="Gaps" heads="Virtual host|Since|Until|After event|Reason" rows=${gaps} by=${["vhost", "since", "until", "after_event_id", "reason"]}>
      ${(gap) => html`<tr key=${`${gap.vhost} ${gap.id}`}>
          <td class="name"><${Value}>${gap.vhost}<//></td>
          <td class="tabular">${dateTime(gap.since)}</td>
          <td class="tabular">${gap.until ? dateTime(gap.until) : html`<span class="badge ${isChosen(gap) ? "" : "warn"}">${isChosen(gap) ? "by choice" : "still open"}</span>`}</td>
          <td>${gap.after_event_id
            ? html`<a href=${href("events", { vhost: gap.vhost, event: String(gap.after_event_id), at: String(gap.after_event_id) })}>#${gap.after_event_id}</a>`
            : "before the first"}</td>
          <td class="text">${said(gap.reason)}</td>
        </tr>`}
    <//>
  <//>`;
}
