// The chain as a file: a menu for administrators, the job that writes it, and what it wrote. The number
// of the job is in the address, so that a link or a reload comes back to it.
import { useEffect, useMemo, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api, startChain } from "../core/api.js";
import { bytes, count, plural, said, seconds } from "../core/format.js";
import { download } from "../core/download.js";
import { hasEnded, useJob } from "../core/jobs.js";
import { attempt } from "../core/notices.js";
import { useResource } from "../core/resource.js";
import { patch, route } from "../core/route.js";
import { mayWrite } from "../core/session.js";
import { Caveats } from "../ui/caveats.js";
import { CopyButton } from "../ui/copy.js";
import { Expert } from "../ui/fold.js";
import { reloadExports } from "../ui/exports-table.js";
import { FileForm } from "../ui/file-form.js";
import { Icon } from "../ui/icons.js";
import { JobProgress } from "../ui/job-progress.js";
import { Menu } from "../ui/menu.js";

const LIKELY = [{ extension: ".jsonl", title: "JSON, one event a line" }];

/** The job of the address, its result if it is of this chain, and `start(file)`. */
export function useExport(a, b, via) {
  const [summary, setSummary] = useState(null);
  const job = useJob(route.value.params.job);
  const result = job?.result ?? summary;
  const mine = result && String(result.from) === a && String(result.to) === b ? result : null;
  const start = async (file) => {
    setSummary(null);
    await attempt(async () => {
      const answer = await startChain(a, b, file, via);
      if (answer.job) patch({ job: String(answer.job.id) }, { replace: true });
      else setSummary(answer.summary);
    });
  };
  useEffect(() => {
    if (mine) reloadExports();
  }, [mine?.location]);
  return { job, result: mine, start, busy: Boolean(job && !hasEnded(job)) };
}

export function ExportMenu({ a, b, via, work }) {
  const { data } = useResource(api.formats, [], { every: 0 });
  return html`<${Menu} label="Export" icon="download" small>
    ${(close) => html`<p class="small soft">A job on Spark writes every event of the chain, with its payload, to a file.</p>
      <${FileForm} name=${`chain-${a}-${b}${via === "any" ? "" : `-${via}`}`} formats=${data?.length ? data : LIKELY} busy=${work.busy}
        button="Restore and export" onSubmit=${(file) => (close(), work.start(file))} />
      ${!mayWrite.value && html`<p class="small soft">Only an administrator may export. Exports made by others can be downloaded below.</p>`}`}
  <//>`;
}

export function ExportResult({ work: { job, result } }) {
  if (!job && !result?.file) return null;
  return html`<div class="panel-body export-result">
    ${job && html`<${Progress} job=${job} />`}
    ${result?.file && html`<${Summary} result=${result} />`}
  </div>`;
}

function Progress({ job }) {
  if (job.state !== "succeeded") {
    return html`<${JobProgress} job=${job}>Job ${job.id}: ${job.stage ?? job.state}${
      job.rows_read ? `, ${plural(job.rows_read, "event")} read` : ""}<//>`;
  }
  if (job.result?.file) return null;
  return html`<div class="job-line soft">There is no chain between these events, so nothing was written.</div>`;
}

function Summary({ result }) {
  const facts = useMemo(() => [
    ["Events", count(result.events)],
    ["Participants", count(result.participants)],
    ["Direction", result.relation === "after" ? "from B to A: B happened first" : "from A to B"],
    ["File", `${result.file}, ${bytes(result.bytes)}`],
    ["Took", seconds(result.seconds?.total)],
  ], [result]);
  return html`<div class="chain-result">
    <${Caveats} answer=${result} />
    <dl class="facts">${facts.map(([k, v]) => html`<dt key=${k}>${k}</dt><dd>${v}</dd>`)}</dl>
    <div class="drawer-line">
      <button class="button main" onClick=${() => attempt(() => download(result.location, result.file))}>
        <${Icon} name="download" />Download</button>
      <button class="button quiet" onClick=${() => patch({ job: null }, { replace: true })}>Hide</button>
    </div>
    <${Expert} what="plan and checksum">
      <dl class="facts"><dt>Plan</dt><dd>${result.plan ? `${result.plan.form}: ${said(result.plan.reason)}` : "–"}</dd>
        <dt>SHA-256</dt><dd><code class="small">${result.sha256}</code>${" "}
          <${CopyButton} text=${() => result.sha256} label="Copy" title="Copy the checksum" /></dd></dl>
    <//>
  </div>`;
}
