// Asks for the chain, follows the job and shows the result. The number of the job is in the URL, so
// that a link or a reload comes back to it.
import { useEffect, useMemo, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api, startChain } from "../core/api.js";
import { bytes, count, plural, seconds, time } from "../core/format.js";
import { download, readJsonLines } from "../core/download.js";
import { hasEnded, useJob } from "../core/jobs.js";
import { attempt } from "../core/notices.js";
import { useResource } from "../core/resource.js";
import { href, hrefHere, patch, route } from "../core/route.js";
import { mayWrite } from "../core/session.js";
import { Caveats } from "../ui/caveats.js";
import { CopyButton } from "../ui/copy.js";
import { Expert } from "../ui/fold.js";
import { reloadExports, useExports } from "../ui/exports-table.js";
import { Icon } from "../ui/icons.js";
import { JobProgress } from "../ui/job-progress.js";
import { about, Pin, TypeMark, Value } from "../ui/marks.js";
import { Alert, Panel, pending } from "../ui/panel.js";

const PLAIN_NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$/;
const LISTED = ".jsonl"; // the format that the page can read back

export function ChainJob({ a, b }) {
  const [summary, setSummary] = useState(null);
  const job = useJob(route.value.params.job);
  const result = job?.result ?? summary;
  const isMine = (one) => String(one.from) === a && String(one.to) === b;
  const mine = result && isMine(result) ? result : null;
  // If this page ran no job, the chain is read from an export made earlier.
  const known = useExports().data?.find((one) => isMine(one) && one.file.endsWith(LISTED));
  const listed = mine?.file ? (mine.file.endsWith(LISTED) ? mine : null) : known;

  const start = async (file) => {
    setSummary(null);
    await attempt(async () => {
      const answer = await startChain(a, b, file);
      if (answer.job) patch({ job: String(answer.job.id) }, { replace: true });
      else setSummary(answer.summary);
    });
  };

  useEffect(() => {
    if (mine) reloadExports();
  }, [mine?.location]);

  return html`<${Panel} title="Chain" note="every event on a causal path between A and B"
      tools=${html`<a class="button small" href=${href("space-time", { event: b })}>
        <${Icon} name="diagram" />Space-time</a>`}>
      <${ExportForm} a=${a} b=${b} onStart=${start} busy=${job && !hasEnded(job)} />
      ${job && html`<${Progress} job=${job} />`}
      ${mine?.file && html`<${Summary} result=${mine} />`}
    <//>
    ${listed && html`<${ChainList} result=${listed} />`}
    ${mine?.file && !listed &&
    html`<${Alert} tone="calm">Export the chain as .jsonl to list it here as well.<//>`}`;
}

function ExportForm({ a, b, onStart, busy }) {
  const { data: formats = [] } = useResource(api.formats, [], { every: 0 });
  const [name, setName] = useState(null);
  const [extension, setExtension] = useState(LISTED);
  const shown = name ?? `chain-${a}-${b}`;
  const file = `${shown}${extension}`;
  const valid = PLAIN_NAME.test(file);
  const submit = (event) => {
    event.preventDefault();
    if (valid && !busy) onStart(file);
  };
  return html`<form class="export-form" onSubmit=${submit}>
    <label class="field name"><span>File name</span>
      <input class="input" value=${shown} aria-invalid=${String(!valid)} spellcheck=${false}
        onInput=${(e) => setName(e.currentTarget.value)} aria-describedby="file-name-rule" />
    </label>
    <label class="field format"><span>Format</span>
      <select class="select" value=${extension} onChange=${(e) => setExtension(e.currentTarget.value)}>
        ${(formats.length ? formats : [{ extension: LISTED, title: "JSON, one event a line" }]).map(
          (f) => html`<option key=${f.extension} value=${f.extension} selected=${f.extension === extension}>
            ${f.extension}: ${f.title}</option>`,
        )}
      </select>
    </label>
    <button class="button main" disabled=${!valid || !mayWrite.value}
      aria-disabled=${String(Boolean(busy))}>
      ${busy ? "Running …" : "Restore and export"}</button>
    <p class="small soft form-note" id="file-name-rule">
      ${!mayWrite.value
        ? "Only an administrator may export. Exports made by others can be downloaded below."
        : valid
          ? ""
          : "A plain name: letters, digits, . _ - and no dot at the start."}
    </p>
  </form>`;
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
    </div>
    <${Expert} what="plan and checksum">
      <dl class="facts"><dt>Plan</dt><dd>${result.plan ? `${result.plan.form}: ${result.plan.reason}` : "–"}</dd>
        <dt>SHA-256</dt><dd><code class="small">${result.sha256}</code>${" "}
          <${CopyButton} text=${() => result.sha256} label="Copy" title="Copy the checksum" /></dd></dl>
    <//>
  </div>`;
}

const MOST_LISTED = 1000;

/** The chain from its export, in stamping order, which never puts an effect before its cause. */
function ChainList({ result }) {
  const loaded = useResource((s) => readJsonLines(result.location, MOST_LISTED, s), [result.location], { every: 0 });
  const { data } = loaded;
  const ends = { [result.from]: "A", [result.to]: "B" };
  return html`<${Panel} title="Events of the chain" flush
    note="in the order they were stamped; neighbours may be concurrent"
    foot=${data?.more && `The first ${count(MOST_LISTED)} are listed. The export holds all ${count(result.events)}.`}>
    ${!data
      ? pending(loaded, "the chain")
      : html`<ol class="chain-list">
          ${data.rows
            .filter((event) => Number.isInteger(event.id))
            .map((event, i) => html`<${Step} key=${event.id} event=${event} index=${i} end=${ends[event.id]} />`)}
        </ol>`}
  <//>`;
}

function Step({ event, index, end }) {
  return html`<li>
    <a class="chain-step ${end ? "end-of-chain" : ""}" href=${hrefHere({ event: String(event.id) })}>
      <span class="faint">${end ? html`<${Pin} letter=${end} />` : index + 1}</span>
      <span class="number">#${event.id}</span>
      <${TypeMark} type=${event.type} />
      <bdi class="cut">${about(event)}</bdi>
      <span class="cut wide soft"><${Value}>${event.participant_name}<//></span>
      <span class="faint end wide">${event.recorded_at ? time(event.recorded_at) : ""}</span>
    </a>
  </li>`;
}
