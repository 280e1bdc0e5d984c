// Reports on a period: a list, a form to order another from a job, and the chosen one drawn by its kind.
import { useEffect, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api, startReport } from "../core/api.js";
import { count, dateTime, reasonOf } from "../core/format.js";
import { hasEnded, useJob } from "../core/jobs.js";
import { useResource } from "../core/resource.js";
import { hrefHere, patch, route, vhost } from "../core/route.js";
import { mayWrite } from "../core/session.js";
import { busiestVhost } from "../core/traces.js";
import { JobProgress } from "../ui/job-progress.js";
import { Value } from "../ui/marks.js";
import { Menu } from "../ui/menu.js";
import { Alert, Choice, Empty, Panel, pending } from "../ui/panel.js";
import { Table } from "../ui/table.js";
import { AssertionFile } from "./assertion-file.js";
import { Shown } from "./shown.js";
import { Verdict } from "./words.js";

export const KINDS = [
  ["expectations", "Expectations", "What messages of each type lead to, how often and how fast, and which conversations went another way"],
  ["comparison", "Comparison", "What appeared, vanished or changed since the time before, as long as the period"],
  ["correlations", "Correlations", "Which fields of messages tie them together, as rules of links"],
  ["assertions", "Assertions", "Whether what should hold did"],
];

/** `file`: the assertions that a form begins with. */
export function Reports({ title, note = "on a period, made by jobs", kinds = KINDS, none, file }) {
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
      tools=${mayWrite.value && html`<${NewReport} kinds=${kinds} file=${file} busy=${job && !hasEnded(job)} />`}>
    ${job && !done && html`<div class="panel-body"><${JobProgress} job=${job}>Job ${job.id}: ${job.stage ?? job.state}<//></div>`}
    ${!list
      ? pending(loaded, "reports")
      : list.length === 0
        ? html`<${Empty} title="No report yet"
            actions=${!mayWrite.value && html`<span class="soft small">Only an administrator may start one.</span>`}>${none}<//>
          ${kinds.length > 1 && html`<dl class="facts report-kinds">${kinds.map(([kind, word, says]) => html`<dt key=${kind}>${word}</dt><dd>${says}</dd>`)}</dl>`}`
        : html`<${Table} label="Reports" heads="Report|Virtual host|Period|Found|Made|"
              rows=${list} by=${["report", "vhost", "since", null, "made_at"]}>
            ${(one) => html`<${Row} key=${one.id} one=${one} word=${wordOf(kinds, one.report)} isOpen=${one.id === shown} />`}
          <//>`}
  <//>
  ${shown && html`<${Shown} id=${shown} key=${shown} />`}`;
}

const FOUND = {
  expectations: (one) => `${count(one.variants_count)} variants, ${count(one.outliers_count)} out of the ordinary`,
  comparison: (one) => `${count(one.changes)} changed since ${dateTime(one.before_since)}`,
  correlations: (one) => `${count(one.reactions)} publishes that may have a cause`,
  assertions: (one) => html`<${Verdict} word=${one.verdict} />`,
};

const wordOf = (kinds, report) => kinds.find(([kind]) => kind === report)[1];

function Row({ one, word, isOpen }) {
  return html`<tr class=${isOpen ? "open" : ""}>
    <td>${word}</td>
    <td><${Value}>${one.vhost}<//></td>
    <td class="tabular">${dateTime(one.since)} to ${dateTime(one.until)}</td>
    <td>${FOUND[one.report](one)}</td>
    <td class="tabular">${dateTime(one.made_at)}</td>
    <td class="end"><a class="button small" href=${hrefHere({ report: one.id, job: null })}
      aria-label=${`Open the ${one.report} of ${one.vhost}, ${dateTime(one.since)}`} aria-current=${isOpen ? "true" : undefined}>Open</a></td>
  </tr>`;
}

const PERIODS = [[3600, "the last hour"], [86_400, "the last day"], [604_800, "the last 7 days"]];

function NewReport({ kinds, file, busy }) {
  const [kind, setKind] = useState(kinds[0][0]);
  const [back, setBack] = useState(PERIODS[0][0]);
  const [set, setValues] = useState({});
  const values = { file, ...set };
  const [error, setError] = useState(null);
  const name = vhost.value ?? busiestVhost();
  const choose = (one) => (setKind(one), setError(null));
  const start = async (close) => {
    const now = Date.now();
    const period = { since: new Date(now - back * 1000).toISOString(), until: new Date(now).toISOString() };
    const { body, ...more } = asked(kind, values);
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
        </select></label>
      <${Fields} kind=${kind} values=${values} error=${error}
        set=${(field, value) => (setError(null), setValues((before) => ({ ...before, [field]: value })))} />
      ${error && html`<${Alert}>${reasonOf(error)}<//>`}
      <button class="button main" disabled=${busy || name == null}>${busy ? "Running …" : "Start"}</button>
    </form>`}
  <//>`;
}

const ALONG = [
  ["links", "Links", "What messages and links join"],
  ["conversation", "Shared keys too", "What shares a key of a conversation, as well"],
];

function Fields({ kind, values, set, error }) {
  return html`
    ${kind !== "correlations" && html`<${Choice} small label="What belongs together" options=${ALONG}
      value=${values.via ?? "links"} onChange=${(via) => set("via", via)} />`}
    ${kind === "assertions" && html`<${AssertionFile} value=${values.file ?? ""} error=${error} onInput=${(file) => set("file", file)} />`}`;
}

function asked(kind, { via = "links", file = "" }) {
  if (kind === "correlations") return {};
  return kind === "assertions" ? { via, body: file } : { via };
}
