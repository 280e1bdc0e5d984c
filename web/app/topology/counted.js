// The job that counts a topology, and what it counted, in the form of `flowsOf`. It counts every event of
// a period, so the percentiles come from the job, and those of several flows cannot be combined.
import { useEffect, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { toMicros } from "../core/format.js";
import { hasEnded, useJob } from "../core/jobs.js";
import { attempt } from "../core/notices.js";
import { JobProgress } from "../ui/job-progress.js";
import { add, addDeath, addPublishes, addRejection, emptyFlows, NOBODY } from "./flows.js";

/** `topology` as in the API. Flows as in flows.js, and `deliveries` by publisher. */
export function countedFlows(topology) {
  const { publishes, routes, deliveries, deaths, programs, since, until } = topology;
  const flows = emptyFlows();
  const { nodes, links } = flows;
  for (const flow of publishes) {
    addFlow(nodes.publishers, [flow.publisher], { ...flow, failed: flow.unroutable });
    if (flow.unroutable) addPublishes(flows, { ...flow, who: flow.publisher, queue: null, messages: flow.unroutable });
  }
  for (const flow of routes) {
    // Dead letters come from the queue that they died in.
    const messages = flow.messages - flow.dead_lettered;
    if (messages) addPublishes(flows, { ...flow, who: flow.publisher ?? NOBODY, messages });
  }
  for (const flow of deliveries) {
    const about = { ...flow, failed: flow.redelivered };
    addFlow(nodes.queues, [flow.queue], about);
    addFlow(nodes.receivers, [flow.receiver], about);
    addFlow(links[1], [flow.queue, flow.receiver], about);
  }
  for (const death of deaths) {
    addDeath(flows, death);
    const ways = [...links[1].values()].filter(({ from }) => from === death.queue);
    if (death.reason === "rejected" && ways.length === 1) addRejection(flows, { queue: death.queue, receiver: ways[0].to }, death.messages);
  }
  for (const flow of programs) addProgram(flows, flow);
  return {
    ...flows,
    seconds: (toMicros(until) - toMicros(since)) / 1e6,
    events: total(publishes) + total(deliveries),
    deliveries,
  };
}

const total = (flows) => flows.reduce((sum, flow) => sum + flow.messages, 0);

/** A receiver's handling time of a queue's messages; of several, the one with most publishes. */
function addProgram({ nodes, programs }, { queue, receiver, messages, seconds }) {
  const key = `${queue}\n${receiver}`;
  if (programs.get(key)?.count >= messages) return;
  programs.set(key, { queue, receiver, count: messages, seconds });
  const node = nodes.receivers.get(receiver);
  if (node) node.worked = node.worked === undefined ? seconds : null;
}

function addFlow(map, ends, flow) {
  const entry = add(map, ends, flow);
  if (flow.seconds) entry.seconds = entry.seconds === undefined ? flow.seconds : null;
}

/**
 * Counts a period ({since, until}; else the last hour) when asked: `{start, running, job}`; `onCounted()`
 * runs after each job that succeeds.
 */
export function useCounting(vhost, period, onCounted) {
  const [id, setId] = useState(null);
  const [asking, setAsking] = useState(false);
  const job = useJob(id);
  useEffect(() => setId(null), [vhost]);
  useEffect(() => {
    if (job?.state === "succeeded") onCounted();
  }, [job?.state]);
  const start = async () => {
    setAsking(true);
    await attempt(async () => setId(await api.countTopology(vhost, period)));
    setAsking(false);
  };
  return { start, running: asking || Boolean(id && !(job && hasEnded(job))), job };
}

export function CountingLine({ job }) {
  if (!job || job.state === "succeeded") return null;
  return html`<div class="counting">
    <${JobProgress} job=${job} noun="count">Counting: ${job.stage ?? job.state}<//></div>`;
}
