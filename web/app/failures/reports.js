// Where the order of messages mattered, found by jobs: races and inversions over a period.
import { useEffect, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api, startReport } from "../core/api.js";
import { count, dateTime } from "../core/format.js";
import { hasEnded, useJob } from "../core/jobs.js";
import { attempt } from "../core/notices.js";
import { useResource } from "../core/resource.js";
import { hrefHere, patch, route, vhost } from "../core/route.js";
import { mayWrite } from "../core/session.js";
import { busiestVhost } from "../core/traces.js";
import { JobProgress } from "../ui/job-progress.js";
import { Value } from "../ui/marks.js";
import { Menu } from "../ui/menu.js";
import { Choice, Empty, Panel, pending } from "../ui/panel.js";
import { Table } from "../ui/table.js";
import { Report } from "./report.js";

const KINDS = [
  ["races", "Races", "Publishes into one queue of which neither knew of the other"],
  ["inversions", "Inversions", "Messages of which one came of the other and was handed over before it"],
];

export function Reports() {
  const { report, job: number } = route.value.params;
  const loaded = useResource(api.reports, []);
  const list = loaded.data?.filter((one) => !vhost.value || one.vhost === vhost.value);
  const job = useJob(number);
  const done = job?.state === "succeeded" ? job.result : null;
  const shown = report ?? done?.id;
  useEffect(() => {
    if (done) loaded.reload();
  }, [done?.id]);
  return html`<${Panel} title="Does order matter?" id="reports-panel" flush
      note="races and inversions over a period, found by jobs"
      tools=${mayWrite.value && html`<${NewReport} busy=${job && !hasEnded(job)} />`}>
    ${job && !done && html`<div class="panel-body"><${JobProgress} job=${job}>Job ${job.id}: ${job.stage ?? job.state}<//></div>`}
    ${!list
      ? pending(loaded, "reports")
      : list.length === 0
        ? html`<${NoReports} />`
        : html`<${List} reports=${list} open=${shown && String(shown)} />`}
  <//>
  ${shown && html`<${Report} id=${shown} key=${shown} />`}`;
}

function NoReports() {
  return html`<${Empty} title="No report yet"
      actions=${!mayWrite.value && html`<span class="soft small">Only an administrator may start one.</span>`}>
    A report says which messages raced into one queue, so that they might as well have come in the other order, and
    which were handed over before the one that they came of.<//>`;
}

const wordOf = (kind) => KINDS.find(([key]) => key === kind)?.[1] ?? kind;

function List({ reports, open }) {
  return html`<${Table} label="Reports" heads="Report|Virtual host|Period|Key|#Found|Made|">
    ${reports.map((one) => html`<tr key=${one.id} class=${String(one.id) === open ? "open" : ""}>
      <td>${wordOf(one.report)}</td>
      <td><${Value}>${one.vhost}<//></td>
      <td class="tabular">${dateTime(one.since)} to ${dateTime(one.until)}</td>
      <td class="name">${one.key ? html`<${Value}>${one.key}<//>` : html`<span class="faint">–</span>`}</td>
      <td class="number">${one.counted_all ? "" : "over "}${count(one.count)}</td>
      <td class="tabular">${dateTime(one.made_at)}</td>
      <td class="end"><a class="button small" href=${hrefHere({ report: String(one.id), job: null })}
        aria-label=${`Open the ${one.report} of ${one.vhost}, ${dateTime(one.since)}`} aria-current=${String(one.id) === open ? "true" : undefined}>Open</a></td>
    </tr>`)}
  <//>`;
}

const PERIODS = [[3600, "the last hour"], [86_400, "the last day"], [604_800, "the last 7 days"]];

function NewReport({ busy }) {
  const [kind, setKind] = useState("races");
  const [back, setBack] = useState(PERIODS[0][0]);
  const [key, setKey] = useState("");
  const name = vhost.value ?? busiestVhost();
  const { since, until } = route.value.params;
  const start = async () => {
    const now = Date.now();
    const period = back ? { since: new Date(now - back * 1000).toISOString(), until: new Date(now).toISOString() } : { since, until };
    await attempt(async () => {
      const { job, summary } = await startReport(kind, { vhost: name, ...period, key: key.trim() });
      patch(job ? { job: String(job.id), report: null } : { report: String(summary.id), job: null }, { replace: true });
    });
  };
  return html`<${Menu} label="New report" icon="plus" small>
    ${(close) => html`<form class="report-form" onSubmit=${(event) => (event.preventDefault(), close(), start())}>
      <${Choice} label="Kind of report" options=${KINDS.map(([one, word, title]) => [one, word, title])} value=${kind} onChange=${setKind} />
      <p class="small soft">${KINDS.find(([one]) => one === kind)[2]}, of <${Value}>${name}<//>.</p>
      <label class="field"><span>Period</span>
        <select class="select" value=${String(back)} onChange=${(e) => setBack(Number(e.currentTarget.value))}>
          ${PERIODS.map(([one, word]) => html`<option key=${one} value=${String(one)} selected=${one === back}>${word}</option>`)}
          ${(since || until) && html`<option value="0" selected=${back === 0}>that of the filters above</option>`}
        </select></label>
      <label class="field"><span>Only for the same key (optional)</span>
        <input class="input" value=${key} placeholder="correlation_id, header.NAME, body.NAME" spellcheck=${false}
          onInput=${(e) => setKey(e.currentTarget.value)} /></label>
      <button class="button main" disabled=${busy || name == null}>${busy ? "Running …" : "Start"}</button>
    </form>`}
  <//>`;
}
