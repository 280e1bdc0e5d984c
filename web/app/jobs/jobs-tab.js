import { html } from "../core/html.js";
import { count, dateTime, said, seconds, toMicros } from "../core/format.js";
import { download } from "../core/download.js";
import { jobsLack } from "../core/health.js";
import { cancelJob, hasEnded, useJobs } from "../core/jobs.js";
import { attempt } from "../core/notices.js";
import { href, vhost } from "../core/route.js";
import { mayWrite } from "../core/session.js";
import { ExportsTable } from "../ui/exports-table.js";
import { Icon } from "../ui/icons.js";
import { StateMark, Value } from "../ui/marks.js";
import { Empty, Panel, pending } from "../ui/panel.js";
import { Table } from "../ui/table.js";

const WHAT = "Jobs restore chains, count topologies, make reports and write files in the background.";

export default function JobsTab() {
  const loaded = useJobs();
  const list = loaded.data?.filter((job) => !vhost.value || job.vhost === vhost.value);
  return html`<div class="page-inner">
    <div class="page-title"><h1>Jobs</h1><p>${jobsLack.value ? html`<${Value}>${jobsLack.value}<//>` : WHAT}</p></div>
    <${Panel} title="Jobs" flush note="newest first">
      ${!list ? pending(loaded, "jobs") : list.length ? html`<${List} jobs=${list} reload=${loaded.reload} />` : html`<${NoJobs} />`}
    <//>
    <${ExportsTable} />
  </div>`;
}

function NoJobs() {
  return html`<${Empty} title="No job has run yet"
    actions=${html`<a class="button" href=${href("chain")}>Compare and chain</a>`}>
    Pin two events and restore the chain between them: its job will appear here.<//>`;
}

function List({ jobs, reload }) {
  return html`<${Table} label="Jobs" heads="Job|State|Progress|Request|Virtual host|#Events|Started|#Took|"
      rows=${jobs} by=${["id", "state", "percent", "kind", "vhost", ({ result }) => result?.events, ({ started_at: at, created_at: made }) => at ?? made, secondsOf]}>
    ${(job) => html`<${Row} key=${job.id} job=${job} reload=${reload} />`}
  <//>`;
}

function Row({ job, reload }) {
  const { result } = job;
  return html`<tr>
      <td class="nowrap">${job.id} <span class="soft">${job.kind}</span></td>
      <td><${StateMark} state=${job.state} /></td>
      <td class="job-progress">${hasEnded(job)
        ? html`<span class="soft">${job.state === "succeeded" ? "done" : "–"}</span>`
        : html`<span class="small soft">${job.stage ?? "waiting"}</span>
            <progress max="100" value=${job.percent} aria-label=${`Progress of job ${job.id}`}></progress>`}</td>
      <td class="name text"><${Request} job=${job} /></td>
      <td><${Value}>${job.vhost}<//></td>
      <td class="number">${count(result?.events ?? (job.rows_written || null))}</td>
      <td class="tabular">${dateTime(job.started_at ?? job.created_at)}</td>
      <td class="number">${seconds(secondsOf(job))}</td>
      <td class="end nowrap"><${Action} job=${job} reload=${reload} /></td>
    </tr>
    ${job.error && html`<tr class="under"><td colspan="9"><span class="small">${said(job.error)}</span></td></tr>`}`;
}

function Request({ job }) {
  const { kind, request = {}, vhost: name } = job;
  if (kind === "chain") {
    const pins = { a: String(request.from), b: String(request.to), job: String(job.id) };
    return html`<a href=${href("chain", pins)}>#${request.from} – #${request.to}</a>${" "}
      <span class="soft"><${Value}>${request.file}<//></span>`;
  }
  if (kind === "report") {
    const view = request.report === "assertions" ? "assertions" : null;
    return html`<a href=${href("learn", { vhost: name, view, job: String(job.id) })}><${Value}>${request.report}<//></a>`;
  }
  if (kind === "touched") return html`<a href=${href("events", { event: String(request.event) })}>since #${request.event}</a>`;
  if (kind === "topology") {
    const [since, until] = [request.since, request.until].map((micros) => dateTime(micros / 1000));
    return html`<a href=${href("topology", { vhost: name })}>${since} to ${until}</a>`;
  }
  if (kind === "period" || kind === "spans") {
    const [since, until] = [request.since, request.until].map((micros) => dateTime(micros / 1000));
    return html`<${Value}>${request.file ?? "spans"}<//>${" "}<span class="soft">${since} to ${until}</span>`;
  }
  return html`<${Value}>${JSON.stringify(request)}<//>`;
}

const secondsOf = ({ started_at: from, finished_at: to }) => (from && to ? (toMicros(to) - toMicros(from)) / 1e6 : null);

function Action({ job, reload }) {
  if (!hasEnded(job)) {
    const cancel = async () => {
      await cancelJob(job);
      reload();
    };
    return html`<button class="button small" disabled=${!mayWrite.value} onClick=${cancel}
      aria-label=${`Cancel job ${job.id}`}>Cancel</button>`;
  }
  if (!job.result?.location) return null;
  return html`<button class="button small" aria-label=${`Download ${job.result.file}`}
    onClick=${() => attempt(() => download(job.result.location, job.result.file))}>
    <${Icon} name="download" /><span class="roomy">Download</span></button>`;
}
