// The events next to one along its lane and its messages. Where the loaded events end, the API is
// asked, so that a key never does nothing because something has not been fetched yet.
import { api } from "../core/api.js";
import { NONE } from "./model.js";

const LOADED = {
  next: (model, i) => model.after(i),
  previous: (model, i) => model.before[i],
  effect: (model, i) => model.firstEffect(i),
  cause: (model, i) => model.cause[i],
};

const STORED = {
  next: ({ participant }, id, fetch) => fetch({ participant, after: id }),
  previous: ({ participant }, id, fetch) => fetch({ participant, before: id }),
  effect: ({ type }, id) => (type === "published" ? firstDelivery(id) : null),
  cause: ({ cause }) => cause,
};

/** The id of the neighbour of event `id` that lies `way`, or null where there is none. */
export async function neighbour({ model, vhost }, id, way) {
  const index = model.indexOf(id);
  const loaded = index === NONE ? NONE : LOADED[way](model, index);
  if (loaded !== NONE) return model.id[loaded];
  const event = index === NONE ? await api.event(id) : model.describe(index);
  return STORED[way](event, id, async (filters) => {
    const [found] = await api.events({ vhost, ...filters, page_size: 1, columns: "id", payload: "none" });
    return found?.id ?? null;
  });
}

async function firstDelivery(id) {
  const { queues } = await api.deliveries(id);
  const found = queues.flatMap((queue) => [...queue.deliveries, ...(queue.dead_letters ?? [])]);
  return found.length ? Math.min(...found.map((event) => event.id)) : null;
}
