// The keys of the diagram: steps along lanes and messages, zoom, pages.
import { patch, route } from "../core/route.js";
import { useKeys } from "../shell/keyboard.js";
import { NONE } from "./model.js";

export function useDiagramKeys(stage) {
  const { scene } = stage;
  const { view } = scene;
  const choose = (index) => index !== NONE && patch({ event: String(scene.model.id[index]) });
  const from = () => (scene.selected !== NONE ? scene.selected : (scene.inSight(1)[0] ?? NONE));
  const step = (next) => () => {
    if (scene.selected === NONE) return choose(from());
    return choose(next(scene.selected));
  };
  const move = (action) => () => {
    action();
    stage.redraw();
  };
  useKeys({
    ArrowDown: step((i) => scene.model.after(i)),
    ArrowUp: step((i) => scene.model.before[i]),
    ArrowRight: step((i) => scene.model.firstEffect(i)),
    ArrowLeft: step((i) => scene.model.cause[i]),
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
