// The keys of the diagram: steps along lanes and messages, zoom, pages.
import { useMemo } from "../../vendor/hooks.js";
import { openEvent, patch, route } from "../core/route.js";
import { useKeys } from "../shell/keyboard.js";
import { attempt } from "../shell/notices.js";
import { neighbour } from "./neighbours.js";

/** Steps one after another, each from where the one before it has led. */
function makeSteps(stage) {
  const { scene, loader } = stage;
  const choose = (id) => id != null && patch({ event: String(id) });
  const step = async (way) => {
    const from = openEvent.peek();
    if (from) {
      const id = await neighbour({ model: scene.model, vhost: stage.vhost }, Number(from), way);
      // Whoever has chosen another one meanwhile wants that.
      return openEvent.peek() === from && choose(id);
    }
    await loader.running;
    const [first] = scene.inSight(1);
    return first !== undefined && choose(scene.model.id[first]);
  };
  let last = Promise.resolve();
  return (way) => () => {
    last = last.then(() => stage.isOpen() && attempt(() => step(way)));
  };
}

export function useDiagramKeys(stage) {
  const { view } = stage.scene;
  const step = useMemo(() => makeSteps(stage), [stage]);
  const move = (action) => () => {
    action();
    stage.redraw();
  };
  useKeys({
    ArrowDown: step("next"),
    ArrowUp: step("previous"),
    ArrowRight: step("effect"),
    ArrowLeft: step("cause"),
    "+": move(() => view.zoomRows(1.4)),
    "=": move(() => view.zoomRows(1.4)),
    "-": move(() => view.zoomRows(1 / 1.4)),
    "[": move(() => view.zoomLanes(1 / 1.3)),
    "]": move(() => view.zoomLanes(1.3)),
    PageDown: move(() => view.pan(0, -view.height * 0.85)),
    PageUp: move(() => view.pan(0, view.height * 0.85)),
    Home: move(() => view.pan(0, Infinity)),
    End: move(() => view.pan(0, -Infinity)),
    f: move(() => view.fit()),
    l: () => patch({ list: route.peek().params.list === "on" ? null : "on" }, { replace: true }),
    " ": () => patch({ live: route.peek().params.live === "on" ? null : "on" }, { replace: true }),
  });
}
