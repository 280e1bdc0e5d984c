// Reports of some kinds: those that there are, one of them opened, and a form to have another made by a job.
import { useEffect, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api, startReport } from "../core/api.js";
import { dateTime, reasonOf } from "../core/format.js";
import { hasEnded, useJob } from "../core/jobs.js";
import { useResource } from "../core/resource.js";
import { hrefHere, patch, route, vhost } from "../core/route.js";
import { mayWrite } from "../core/session.js";
import { busiestVhost } from "../core/traces.js";
import { JobProgress } from "./job-progress.js";
import { Value } from "./marks.js";
import { Menu } from "./menu.js";
import { Alert, Choice, Empty, Panel, pending } from "./panel.js";
import { Table } from "./table.js";

/**
 * `kinds`: [kind, its name, what it says]. `columns`: heads of the cells that `Cells` shows of a report's
 * facts. `Fields`: what the form asks besides the period, of `kind`, `values` (at first those of `begin`),
 * `set(name, value)` and `error`, why the service refused what was asked last; `asked(kind, values)`: what
 * that comes to, as parameters and perhaps a `body`. `Shown`: one report.
 */
export function Reports({ title, note, kinds, none, columns, Cells, Fields, asked, begin = {}, Shown }) {
  const { report, job: number } = route.value.params;
  const loaded = useResource(api.reports, []);
  const isOurs = (one) => kinds.some(([kind]) => kind === one.report) && (!vhost.value || one.vhost === vhost.value);
  const list = loaded.data?.filter(isOurs);
  const job = useJob(number);
  const done = job?.state === "succeeded" ? job.result : null;
  const shown = report ?? done?.id;
  useEffect(() => {
    if (done) loaded.reload();
  }, [done?.id]);
  return html`<${Panel} title=${title} id="reports-panel" flush note=${note}
      tools=${mayWrite.value && html`<${NewReport} kinds=${kinds} Fields=${Fields} asked=${asked} begin=${begin} busy=${job && !hasEnded(job)} />`}>
    ${job && !done && html`<div class="panel-body"><${JobProgress} job=${job}>Job ${job.id}: ${job.stage ?? job.state}<//></div>`}
    ${!list
      ? pending(loaded, "reports")
      : list.length === 0
        ? html`<${Empty} title="No report yet"
            actions=${!mayWrite.value && html`<span class="soft small">Only an administrator may start one.</span>`}>${none}<//>`
        : html`<${Table} label="Reports" heads=${`Report|Virtual host|Period|${columns}|Made|`}>
            ${list.map((one) => html`<${Row} key=${one.id} one=${one} word=${wordOf(kinds, one.report)} Cells=${Cells} isOpen=${one.id === shown} />`)}
          <//>`}
  <//>
  ${shown && html`<${Shown} id=${shown} key=${shown} />`}`;
}

const wordOf = (kinds, report) => kinds.find(([kind]) => kind === report)[1];

function Row({ one, word, Cells, isOpen }) {
  return html`<tr class=${isOpen ? "open" : ""}>
    <td>${word}</td>
    <td><${Value}>${one.vhost}<//></td>
    <td class="tabular">${dateTime(one.since)} to ${dateTime(one.until)}</td>
    <${Cells} one=${one} />
    <td class="tabular">${dateTime(one.made_at)}</td>
    <td class="end"><a class="button small" href=${hrefHere({ report: one.id, job: null })}
      aria-label=${`Open the ${one.report} of ${one.vhost}, ${dateTime(one.since)}`} aria-current=${isOpen ? "true" : undefined}>Open</a></td>
  </tr>`;
}

const PERIODS = [[3600, "the last hour"], [86_400, "the last day"], [604_800, "the last 7 days"]];

function NewReport({ kinds, Fields, asked, begin, busy }) {
  const [kind, setKind] = useState(kinds[0][0]);
  const [back, setBack] = useState(PERIODS[0][0]);
  const [values, setValues] = useState({});
  const [error, setError] = useState(null);
  const name = vhost.value ?? busiestVhost();
  const { since, until } = route.value.params;
  const choose = (one) => (setKind(one), setError(null));
  const start = async (close) => {
    const now = Date.now();
    const period = back ? { since: new Date(now - back * 1000).toISOString(), until: new Date(now).toISOString() } : { since, until };
    const { body, ...more } = asked(kind, { ...begin, ...values });
    setError(null);
    try {
      const { job, summary } = await startReport(kind, { vhost: name, ...period, ...more }, body);
      close();
      patch(job ? { job: String(job.id), report: null } : { report: summary.id, job: null }, { replace: true });
    } catch (refused) {
      setError(refused);
    }
  };
  return html`<${Menu} label="New report" icon="plus" small>
    ${(close) => html`<form class="report-form" onSubmit=${(event) => (event.preventDefault(), start(close))}>
      ${kinds.length > 1 && html`<${Choice} label="Kind of report" options=${kinds} value=${kind} onChange=${choose} />`}
      <p class="small soft">${kinds.find(([one]) => one === kind)[2]}, of <${Value}>${name}<//>.</p>
      <label class="field"><span>Period</span>
        <select class="select" value=${String(back)} onChange=${(e) => setBack(Number(e.currentTarget.value))}>
          ${PERIODS.map(([one, word]) => html`<option key=${one} value=${String(one)} selected=${one === back}>${word}</option>`)}
          ${(since || until) && html`<option value="0" selected=${back === 0}>that of the filters above</option>`}
        </select></label>
      <${Fields} kind=${kind} values=${{ ...begin, ...values }} error=${error}
        set=${(field, value) => (setError(null), setValues((before) => ({ ...before, [field]: value })))} />
      ${error && html`<${Alert}>${reasonOf(error)}<//>`}
      <button class="button main" disabled=${busy || name == null}>${busy ? "Running …" : "Start"}</button>
    </form>`}
  <//>`;
}
