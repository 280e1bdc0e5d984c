// The diagram's scene with its loader, and what happens between them and the address.
import { patch, route } from "../core/route.js";
import { Loader } from "./loader.js";
import { Model, NONE } from "./model.js";
import { palette } from "./palette.js";
import { fittingKind } from "./rows.js";
import { Scene } from "./scene.js";

const EDGE_SCREENS = 1; // how near to the end of what is loaded more is fetched
const REMEMBER_MS = 400;
const NEARBY_EVENTS = 20_000;

export const rowKind = (params) => (params.rows === "time" ? "time" : "lamport");

/** `changed()` runs when what stands beside the canvas has to be drawn anew. */
export function makeStage(name, changed) {
  const model = new Model();
  const scene = new Scene(model);
  let timer = 0;
  let opened = false;
  const stage = {
    scene,
    vhost: name,
    palette: palette(),
    redraw: () => {},
    relight: () => {},
    loader: new Loader(model, name, ({ began }) => {
      if (!began) stage.loaded();
      changed();
    }),
    open() {
      const { at, event } = route.peek().params;
      return stage.loader.open(Number(at ?? event) || null);
    },
    isOpen: () => !stage.loader.abort.signal.aborted,
    close() {
      clearTimeout(timer);
      stage.loader.close();
    },
    loaded() {
      const first = !opened && model.length > 0;
      if (first && !route.peek().params.rows) patch({ rows: fittingKind(model) }, { replace: true });
      scene.kind = rowKind(route.peek().params);
      scene.layOut();
      stage.relight();
      if (first) stage.place();
      opened ||= first;
      stage.redraw();
    },
    /** Where the first sight falls: on the event of the link, or on the newest. */
    place() {
      const { at, event, zoom } = route.peek().params;
      if (zoom) scene.view.zoomRows(Number(zoom) / scene.view.rowPixels);
      const index = model.indexOf(Number(at ?? event));
      if (index !== NONE) scene.reveal(index, { centre: true });
      else scene.view.top = Infinity;
      scene.view.clamp();
    },
    /** New events of the live tail; the sight follows when it was at the end. */
    follow(events) {
      const { view } = scene;
      const atEnd = view.bottom >= scene.rows.height - 1;
      if (!model.append(events)) return;
      scene.layOut();
      stage.relight();
      if (atEnd) view.top = Infinity;
      view.clamp();
      stage.redraw();
    },
    loadAtEdges() {
      const { view, rows } = scene;
      const screen = (view.bottom - view.top) * EDGE_SCREENS;
      if (view.top < screen) stage.loader.older();
      else if (view.bottom > rows.height - screen) stage.loader.newer();
    },
    /** Puts what is in sight into the address, once it has come to rest. */
    remember() {
      clearTimeout(timer);
      timer = setTimeout(() => {
        const middle = scene.middle();
        if (!middle || !opened) return;
        patch({ at: String(middle.id), zoom: scene.view.rowPixels.toPrecision(3) }, { replace: true });
      }, REMEMBER_MS);
    },
  };
  return stage;
}

/**
 * Brings the chosen event into sight: a little way is loaded through, further off the span begins
 * anew. Another choice meanwhile ends it.
 */
export async function goTo(stage, id) {
  const { scene, loader } = stage;
  const missing = () => scene.model.indexOf(id) === NONE;
  const stillChosen = () => Number(route.peek().params.event) === id;
  const centre = missing();
  if (missing()) await loader.reach(id, NEARBY_EVENTS, stillChosen);
  if (missing() && stillChosen()) await loader.open(id);
  if (missing() || !stillChosen()) return; // of another virtual host, or no longer wanted
  scene.reveal(scene.model.indexOf(id), { centre });
  stage.redraw();
}
