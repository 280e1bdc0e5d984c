// Starts a job that counts the last hour, and shows its progress.
import { useEffect, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { hasEnded, useJob } from "../core/jobs.js";
import { attempt } from "../core/notices.js";
import { JobProgress } from "../ui/job-progress.js";

/** `{start, running, job}`; `onCounted()` runs after each job that succeeds. */
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
  return html`<div class="counting">
    <${JobProgress} job=${job} noun="count">Counting: ${job.stage ?? job.state}<//></div>`;
}
