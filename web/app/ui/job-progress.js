import { html } from "../core/html.js";
import { said } from "../core/format.js";
import { cancelJob } from "../core/jobs.js";
import { Alert } from "./panel.js";

/** A job's progress and a way to cancel it, or why it ended without a result. */
export function JobProgress({ job, noun = "job", children }) {
  if (job.state === "failed") return html`<div class="job-line"><${Alert}>${said(job.error)}<//></div>`;
  if (job.state === "cancelled") return html`<p class="job-line soft">The ${noun} was cancelled.</p>`;
  return html`<div class="job-line" role="status">
    <div class="job-line-text">
      <span>${children}</span>
      <button class="button small" onClick=${() => cancelJob(job)}>Cancel</button>
    </div>
    <progress max="100" value=${job.percent} aria-label=${`Progress of job ${job.id}`}></progress>
  </div>`;
}
