// The canvas and the hands on it: wheel, drag, pinch by ctrl + wheel, click, hover, minimap.
import { useEffect, useRef } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { NONE } from "./model.js";
import { densities, paintMinimap } from "./minimap.js";
import { paint } from "./painter.js";
import { GUTTER } from "./view.js";

const CLICK_PIXELS = 4;
const ZOOM_STEP = 1.0015;

/** Gives a canvas the pixels of its box on this screen; the context draws in CSS pixels. */
function fitted(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}

/**
 * `stage` is the object that owns the scene and the colours; its `redraw` is set here. `version`
 * changes with the loaded rows. `onMoved(drawn)` follows each redraw.
 */
export function DiagramCanvas({ stage, onSelect, onHover, onMoved, label, describedBy }) {
  const canvas = useRef(null);
  const map = useRef(null);
  const latest = useRef({});
  latest.current = { onSelect, onHover, onMoved };

  useEffect(() => {
    const { scene } = stage;
    const element = canvas.current;
    const strip = map.current;
    let frame = 0;
    let bins = null;
    let binsOf = null;
    const draw = () => {
      frame = 0;
      const { context } = fitted(element);
      const drawn = paint(context, scene, stage.palette);
      if (binsOf !== scene.rows) {
        binsOf = scene.rows;
        bins = densities(scene);
      }
      const fit = fitted(strip);
      paintMinimap(fit.context, scene, bins, stage.palette, fit);
      latest.current.onMoved(drawn);
    };
    stage.redraw = () => (frame ||= requestAnimationFrame(draw));

    const watcher = new ResizeObserver(() => {
      scene.view.resize(element.clientWidth, element.clientHeight);
      stage.redraw();
    });
    watcher.observe(element);
    const release = [
      listenCanvas(element, stage, latest),
      listenMap(strip, stage),
    ];
    return () => {
      watcher.disconnect();
      release.forEach((stop) => stop());
      cancelAnimationFrame(frame);
      stage.redraw = () => {};
    };
  }, [stage]);

  return html`<canvas class="diagram-canvas" ref=${canvas} tabindex="0" role="img"
      aria-label=${label} aria-describedby=${describedBy}></canvas>
    <canvas class="diagram-map" ref=${map} aria-hidden="true"></canvas>`;
}

function listening(element, listeners) {
  for (const [name, listen] of Object.entries(listeners)) {
    element.addEventListener(name, listen, { passive: name !== "wheel" });
  }
  return () => {
    for (const [name, listen] of Object.entries(listeners)) element.removeEventListener(name, listen);
  };
}

function listenCanvas(element, stage, latest) {
  const { view } = stage.scene;
  let drag = null;
  const hover = (index, x = 0, y = 0) => {
    if (stage.scene.hovered === index) return;
    stage.scene.hovered = index;
    latest.current.onHover(index === NONE ? null : { index, x, y });
    stage.redraw();
  };
  return listening(element, {
    wheel(event) {
      event.preventDefault();
      hover(NONE);
      const unit = event.deltaMode === 1 ? 20 : 1;
      if (event.ctrlKey || event.metaKey) {
        const factor = ZOOM_STEP ** (-event.deltaY * unit * 2);
        view.zoomRows(factor, event.offsetY);
        if (event.shiftKey) view.zoomLanes(factor, event.offsetX);
      } else if (event.shiftKey) view.pan(-event.deltaY * unit, 0);
      else view.pan(-event.deltaX * unit, -event.deltaY * unit);
      stage.redraw();
    },
    pointerdown(event) {
      if (event.button !== 0) return;
      element.setPointerCapture(event.pointerId);
      drag = { x: event.offsetX, y: event.offsetY, moved: 0 };
    },
    pointermove(event) {
      if (!drag) {
        const index = event.offsetX > GUTTER ? stage.scene.hit(event.offsetX, event.offsetY) : NONE;
        return hover(index, event.offsetX, event.offsetY);
      }
      const dx = event.offsetX - drag.x;
      const dy = event.offsetY - drag.y;
      drag = { x: event.offsetX, y: event.offsetY, moved: drag.moved + Math.abs(dx) + Math.abs(dy) };
      if (drag.moved <= CLICK_PIXELS) return undefined;
      hover(NONE);
      view.pan(dx, dy);
      return stage.redraw();
    },
    pointerup(event) {
      if (drag && drag.moved <= CLICK_PIXELS) {
        latest.current.onSelect(stage.scene.hit(event.offsetX, event.offsetY));
      }
      drag = null;
    },
    pointerleave: () => hover(NONE),
  });
}

function listenMap(element, stage) {
  let dragging = false;
  const jump = (event) => {
    const { view, rows } = stage.scene;
    const row = (event.offsetY / element.clientHeight) * rows.height;
    view.top = row - view.height / view.rowPixels / 2;
    view.clamp();
    stage.redraw();
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
