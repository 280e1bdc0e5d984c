// The canvas, the minimap beside it, and the pointer on both.
import { effect } from "../../vendor/signals.js";
import { useEffect, useRef } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { plural } from "../core/format.js";
import { openEvent } from "../core/route.js";
import { densities, paintMinimap } from "./frame.js";
import { paint } from "./painter.js";
import { fitted } from "../ui/fitted.js";
import { GUTTER } from "./view.js";

const CLICK_PIXELS = 4;
const ZOOM_STEP = 1.0015;

export function DiagramCanvas({ stage, describedBy }) {
  const canvas = useRef(null);
  const map = useRef(null);

  useEffect(() => {
    const stops = [
      painting(canvas.current, map.current, stage),
      resizing(canvas.current, stage),
      listenCanvas(canvas.current, stage),
      listenMap(map.current, stage),
    ];
    return () => stops.forEach((stop) => stop());
  }, [stage]);

  const { events, kind, lanes } = stage.drawn.value;
  const rows = kind === "time" ? "time" : "cause";
  const label = `Space-time diagram by ${rows}: ${plural(events, "event")} of ${plural(lanes.length, "lane")} in view`;
  return html`<canvas class="diagram-canvas" ref=${canvas} tabindex="0" role="img"
      aria-label=${label} aria-describedby=${describedBy}></canvas>
    <canvas class="diagram-map" ref=${map} aria-hidden="true"></canvas>`;
}

/** Paints the scene once a frame at most, whenever the stage asks for it. */
function painting(canvas, map, stage) {
  const { scene } = stage;
  let frame = 0;
  let bins = null;
  let binsOf = null;
  const draw = () => {
    frame = 0;
    const palette = stage.palette.peek();
    const drawn = paint(fitted(canvas).context, scene, palette);
    if (binsOf !== scene.rows) {
      binsOf = scene.rows;
      bins = densities(scene);
    }
    const fit = fitted(map);
    paintMinimap(fit.context, scene, bins, palette, fit);
    stage.painted(drawn);
  };
  const stop = effect(() => {
    stage.turn.value;
    stage.palette.value;
    frame ||= requestAnimationFrame(draw);
  });
  return () => {
    stop();
    cancelAnimationFrame(frame);
  };
}

function resizing(canvas, stage) {
  const watcher = new ResizeObserver(() => {
    stage.move((view) => view.resize(canvas.clientWidth, canvas.clientHeight));
    stage.scene.reveal(stage.indexOf(openEvent.peek())); // on a phone its panel takes half the height
  });
  watcher.observe(canvas);
  return () => watcher.disconnect();
}

function listening(element, listeners) {
  for (const [name, listen] of Object.entries(listeners)) {
    element.addEventListener(name, listen, { passive: name !== "wheel" });
  }
  return () => {
    for (const [name, listen] of Object.entries(listeners)) element.removeEventListener(name, listen);
  };
}

/** Wheel, drag, click and hover; a pinch arrives as ctrl + wheel. */
function listenCanvas(element, stage) {
  let drag = null;
  return listening(element, {
    wheel(event) {
      event.preventDefault();
      stage.hover();
      stage.move((view) => turnWheel(event, view));
    },
    pointerdown(event) {
      if (event.button !== 0) return;
      element.setPointerCapture(event.pointerId);
      drag = { x: event.offsetX, y: event.offsetY, moved: 0 };
    },
    pointermove({ offsetX: x, offsetY: y }) {
      if (!drag) return x > GUTTER ? stage.hover(x, y) : stage.hover();
      const dx = x - drag.x;
      const dy = y - drag.y;
      drag = { x, y, moved: drag.moved + Math.abs(dx) + Math.abs(dy) };
      if (drag.moved <= CLICK_PIXELS) return undefined;
      stage.hover();
      return stage.move((view) => view.pan(dx, dy));
    },
    pointerup({ offsetX: x, offsetY: y }) {
      if (drag && drag.moved <= CLICK_PIXELS) stage.choose(stage.scene.hit(x, y));
      drag = null;
    },
    pointerleave: () => stage.hover(),
  });
}

function turnWheel(event, view) {
  const unit = event.deltaMode === 1 ? 20 : 1;
  if (event.ctrlKey || event.metaKey) {
    const factor = ZOOM_STEP ** (-event.deltaY * unit * 2);
    view.zoomRows(factor, event.offsetY);
    if (event.shiftKey) view.zoomLanes(factor, event.offsetX);
  } else if (event.shiftKey) view.pan(-event.deltaY * unit, 0);
  else view.pan(-event.deltaX * unit, -event.deltaY * unit);
}

function listenMap(element, stage) {
  let dragging = false;
  const jump = (event) => {
    const row = (event.offsetY / element.clientHeight) * stage.scene.rows.height;
    stage.move((view) => view.centre(row));
  };
  return listening(element, {
    pointerdown(event) {
      element.setPointerCapture(event.pointerId);
      dragging = true;
      jump(event);
    },
    pointermove: (event) => dragging && jump(event),
    pointerup: () => (dragging = false),
  });
}
