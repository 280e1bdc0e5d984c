// Jobs, from any tab: a button that counts those at work, and the newest of them.
import { html } from "../core/html.js";
import { said } from "../core/format.js";
import { download } from "../core/download.js";
import { cancelJob, hasEnded, useJobs } from "../core/jobs.js";
import { attempt } from "../core/notices.js";
import { href } from "../core/route.js";
import { mayWrite } from "../core/session.js";
import { Icon } from "../ui/icons.js";
import { StateMark, Value } from "../ui/marks.js";
import { useSheet } from "../ui/sheet.js";

const SHOWN = 5;

export function JobTray() {
  const { data = [], reload } = useJobs();
  const { open, anchor, close, toggle } = useSheet();
  const running = data.filter((job) => !hasEnded(job)).length;
  const label = running ? `Jobs: ${running} running` : "Jobs: none running";
  return html`<div class="sheet-anchor" ref=${anchor}>
    <button class="button quiet icon" aria-label=${label} title=${label} data-focus="jobs"
      aria-expanded=${String(open)} onClick=${toggle}>
      <${Icon} name="tray" />${running > 0 && html`<span class="tray-count">${running}</span>`}
    </button>
    ${open &&
    html`<div class="sheet job-tray" role="group" aria-label="The newest jobs">
      ${data.length === 0 && html`<p class="soft">No job has run yet.</p>`}
      ${data.slice(0, SHOWN).map((job) => html`<${Row} key=${job.id} job=${job} reload=${reload} />`)}
      <a href=${href("jobs")} onClick=${close}>All jobs and exports</a>
    </div>`}
  </div>`;
}

function Row({ job, reload }) {
  const { id, kind, state, result } = job;
  return html`<div class="job-tray-row">
    <div class="drawer-line"><strong>${id} ${kind}</strong><${StateMark} state=${state} />
      <span class="end small"><${Value} cut>${job.vhost}<//></span></div>
    ${!hasEnded(job) &&
    html`<div class="drawer-line"><progress max="100" value=${job.percent} aria-label=${`Job ${id}`}></progress>
      <button class="button small" disabled=${!mayWrite.value} aria-label=${`Cancel the job ${id}`}
        onClick=${() => cancelJob(job).then(reload)}>Cancel</button></div>`}
    ${job.error && html`<p class="small bad-text">${said(job.error)}</p>`}
    ${result?.location &&
    html`<button class="button small" onClick=${() => attempt(() => download(result.location, result.file))}>
      <${Icon} name="download" /><${Value} cut>${result.file}<//></button>`}
  </div>`;
}
