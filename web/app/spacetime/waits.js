// Lanes that somebody looks for first: who rejected or holds a message, and who takes from a queue where one waits.
import { api } from "../core/api.js";

const MOST_QUEUES = 3;

/** `{first, waits}`: participants, and the messages that wait, `{id, since, to}`; without a subset the oldest ones of the virtual host. */
export async function loadWaits(vhost, subset, signal) {
  const here = subset ? subset.copies ?? [] : (await api.conversations({ vhost, state: "waiting" }, signal)).items.map(({ position }) => position);
  const waiting = here.filter(({ queue, state = "waiting" }) => queue != null && state === "waiting");
  const queues = [...new Set(waiting.map(({ queue }) => queue))].slice(0, MOST_QUEUES);
  const answers = await Promise.all(queues.map((queue) => api.queue(vhost, queue, signal)));
  const waits = answers.flatMap(({ queue, receivers, oldest, oldest_at: since }) => {
    const to = receivers.map(({ participant }) => participant.number);
    return subset ? waiting.filter((copy) => copy.queue === queue).map(({ id, waits_since }) => ({ id, since: waits_since, to })) : oldest ? [{ id: oldest, since, to }] : [];
  });
  const deliveries = subset ? here.flatMap((copy) => copy.deliveries) : [];
  const by = new Map(deliveries.map((one) => [one.event, one.participant]));
  const guilty = deliveries.flatMap(({ acts = [], settlement, participant }) => [...acts.map(({ cause }) => by.get(cause)), settlement === "in_hand" ? participant : undefined]);
  return { first: new Set([...waits.flatMap(({ to }) => to), ...guilty.filter((number) => number !== undefined)]), waits };
}
