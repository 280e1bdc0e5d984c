// Has the last hour counted, and shows how far that is.
import { useEffect, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { hasEnded, useJob } from "../chain/chain-job.js";
import { attempt } from "../shell/notices.js";
import { Alert } from "../ui/panel.js";

/** `{start, running, job}`: `onCounted()` follows each job that went well. */
export function useCounting(vhost, onCounted) {
  const [id, setId] = useState(null);
  const [asking, setAsking] = useState(false);
  const job = useJob(id);
  useEffect(() => setId(null), [vhost]);
  useEffect(() => {
    if (job?.state === "succeeded") onCounted();
  }, [job?.state]);
  const start = async () => {
    setAsking(true);
    await attempt(async () => setId(await api.countTopology(vhost)));
    setAsking(false);
  };
  return { start, running: asking || Boolean(id && !(job && hasEnded(job))), job };
}

export function CountingLine({ job }) {
  if (!job || job.state === "succeeded") return null;
  if (job.state === "failed") return html`<${Alert}>${job.error}<//>`;
  if (job.state === "cancelled") return html`<p class="soft">The count was cancelled.</p>`;
  return html`<div class="counting" role="status">
    <div class="job-line-text">
      <span>Counting: ${job.stage ?? job.state}</span>
      <button class="button small" onClick=${() => attempt(() => api.cancelJob(job.id), `Job ${job.id} is being cancelled.`)}>Cancel</button>
    </div>
    <progress max="100" value=${job.percent} aria-label=${`Progress of job ${job.id}`}></progress>
  </div>`;
}
