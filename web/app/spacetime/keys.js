// The keys of the diagram: steps along lanes and messages, zoom, pages.
import { useMemo } from "../../vendor/hooks.js";
import { api } from "../core/api.js";
import { useKeys } from "../core/keys.js";
import { attempt } from "../core/notices.js";
import { openEvent, patch } from "../core/route.js";
import { NONE } from "./model.js";
import { toggleLegend, toggleList, toggleLive } from "./stage.js";

export const ZOOM = 1.4;
const WIDEN = 1.3;
const PAGE = 0.85; // of the view

export function useDiagramKeys(stage) {
  const step = useMemo(() => makeSteps(stage), [stage]);
  const move = (change) => () => stage.move(change);
  useKeys({
    ArrowDown: step("next"),
    ArrowUp: step("previous"),
    ArrowRight: step("effect"),
    ArrowLeft: step("cause"),
    "+": move((view) => view.zoomRows(ZOOM)),
    "=": move((view) => view.zoomRows(ZOOM)),
    "-": move((view) => view.zoomRows(1 / ZOOM)),
    "[": move((view) => view.zoomLanes(1 / WIDEN)),
    "]": move((view) => view.zoomLanes(WIDEN)),
    PageDown: move((view) => view.pan(0, -view.height * PAGE)),
    PageUp: move((view) => view.pan(0, view.height * PAGE)),
    Home: move((view) => view.pan(0, Infinity)),
    End: move((view) => view.pan(0, -Infinity)),
    f: () => stage.fit(),
    g: toggleLegend,
    l: toggleList,
    " ": toggleLive,
  });
}

/** Steps one after another, each from where the one before has led. */
function makeSteps(stage) {
  const { scene, loader, model } = stage;
  const choose = (id) => id != null && patch({ event: String(id) });
  const step = async (way) => {
    const from = openEvent.peek();
    if (from) {
      const id = await neighbour(stage, Number(from), way);
      return openEvent.peek() === from && choose(id); // unless another was chosen meanwhile
    }
    await loader.running;
    const [first] = scene.inView(1);
    return first !== undefined && choose(model.id[first]);
  };
  let last = Promise.resolve();
  return (way) => () => {
    last = last.then(() => stage.isOpen() && attempt(() => step(way)));
  };
}

const LOADED = {
  next: (model, i) => model.after(i),
  previous: (model, i) => model.before[i],
  effect: (model, i) => model.firstEffect(i),
  cause: (model, i) => model.firstCause(i),
};

// Asks the API where the loaded events end, so that no key fails because an event was not fetched yet.
const STORED = {
  next: ({ participant }, id, fetch) => fetch({ participant, after: id }),
  previous: ({ participant }, id, fetch) => fetch({ participant, before: id }),
  effect: ({ type }, id) => (type === "published" ? firstDelivery(id) : firstNaming(id)),
  cause: ({ cause, links }) => cause ?? links[0]?.cause ?? null,
};

/** The id of the event next to `id` on its lane or along its messages, or null. */
async function neighbour({ model, vhost }, id, way) {
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
  const found = queues.flatMap((queue) => [...queue.deliveries, ...queue.dead_letters]);
  return found.length ? Math.min(...found.map((event) => event.id)) : null;
}

async function firstNaming(id) {
  const { named_by: naming } = await api.event(id);
  return naming.links[0]?.effect ?? null;
}
