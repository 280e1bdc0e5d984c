// The job that counts a topology, and what it counted, in the form of `flowsOf`. It counts every event of
// a period, so the percentiles come from the job, and those of several flows cannot be combined.
import { useEffect, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { toMicros } from "../core/format.js";
import { hasEnded, useJob } from "../core/jobs.js";
import { attempt } from "../core/notices.js";
import { JobProgress } from "../ui/job-progress.js";
import { COLUMNS } from "./flows.js";

/** `topology` as in the API. Flows as in flows.js, and `deliveries` by publisher. */
export function countedFlows(topology) {
  const { publishes, routes, deliveries, since, until } = topology;
  const nodes = Object.fromEntries(COLUMNS.map((name) => [name, new Map()]));
  const links = [new Map(), new Map(), new Map()];
  for (const flow of publishes) {
    add(nodes.publishers, [flow.publisher], flow);
    add(nodes.exchanges, [flow.exchange], flow);
    add(links[0], [flow.publisher, flow.exchange], flow);
  }
  for (const flow of routes) {
    add(nodes.exchanges, [flow.exchange], { messages: 0 });
    add(nodes.queues, [flow.queue], { messages: 0 });
    add(links[1], [flow.exchange, flow.queue], flow);
  }
  for (const flow of deliveries) {
    add(nodes.queues, [flow.queue], flow);
    add(nodes.receivers, [flow.receiver], flow);
    add(links[2], [flow.queue, flow.receiver], flow);
  }
  return {
    nodes,
    links,
    seconds: (toMicros(until) - toMicros(since)) / 1e6,
    events: total(publishes) + total(deliveries),
    deliveries,
  };
}

const total = (flows) => flows.reduce((sum, flow) => sum + flow.messages, 0);

function add(map, ends, { messages, unmatched = 0, seconds = null }) {
  const key = ends.join("\n");
  if (!map.has(key)) {
    map.set(key, { key, from: ends[0], to: ends.at(-1), count: 0, unmatched: 0, waits: [], waited: 0 });
  }
  const entry = map.get(key);
  entry.count += messages;
  entry.unmatched += unmatched;
  if (!seconds) return;
  entry.waited += 1;
  entry.seconds = entry.waited === 1 ? seconds : null;
}

/** Counts the last hour when asked: `{start, running, job}`; `onCounted()` runs after each job that succeeds. */
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
