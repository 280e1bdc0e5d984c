// Jobs of the service: following one until it ends, listing all, cancelling.
import { useEffect, useState } from "../../vendor/hooks.js";
import { signal } from "../../vendor/signals.js";
import { api, stream } from "./api.js";
import { attempt } from "./notices.js";
import { refreshSeconds } from "./preferences.js";
import { ASK_AGAIN_MS, isOutage, useResource } from "./resource.js";

const POLL_MS = 1000;
const BUSY_SECONDS = 1;
const ENDED = new Set(["succeeded", "failed", "cancelled"]);
export const hasEnded = (job) => ENDED.has(job.state);

export const cancelJob = ({ id }) =>
  attempt(() => api.cancelJob(id), `Job ${id} is being cancelled.`);

/** Follows job `id` while the component is shown; null until it is known, or when it is gone. */
export function useJob(id) {
  const [job, setJob] = useState(null);
  useEffect(() => {
    setJob(null);
    if (!id) return undefined;
    const controller = new AbortController();
    follow(id, setJob, controller.signal);
    return () => controller.abort();
  }, [id]);
  return job && String(job.id) === String(id) ? job : null;
}

/** By the job's stream of progress; by polling if the stream breaks. */
async function follow(id, setJob, abort) {
  try {
    await stream(api.jobProgressUrl(id), { signal: abort, onEvent: ({ data }) => setJob(data) });
    setJob(await api.job(id, abort));
  } catch {
    if (!abort.aborted) await poll(id, setJob, abort);
  }
}

async function poll(id, setJob, abort) {
  const again = (after) => setTimeout(() => !abort.aborted && poll(id, setJob, abort), after);
  try {
    const job = await api.job(id, abort);
    setJob(job);
    if (!hasEnded(job)) again(POLL_MS);
  } catch (error) {
    if (isOutage(error)) again(ASK_AGAIN_MS);
    else setJob(null);
  }
}

const running = signal(false);

/** All jobs, newest first; refreshed every second while one runs, whatever the page's refresh. */
export function useJobs() {
  return useResource(loadJobs, [], { every: running.value ? BUSY_SECONDS : refreshSeconds.value });
}

async function loadJobs(abort) {
  const list = await api.jobs(abort);
  running.value = list.some((job) => !hasEnded(job));
  return list.sort((x, y) => y.id - x.id);
}
