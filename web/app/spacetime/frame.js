// The frame of the events: lanes, row labels, cut silences, gaps, and the minimap at the side.
import { said, seconds, time } from "../core/format.js";
import { drawLine } from "../ui/fitted.js";
import { placeOf } from "./layout.js";
import { NONE } from "./model.js";
import { GUTTER } from "./view.js";

const LEAST_LABEL_PIXELS = 22;
const LEAST_LABEL_ROWS = 4; // what a cut silence takes up

export function paintFrame(context, scene, palette, first, last) {
  paintLanes(context, scene, palette);
  if (last > first) paintLabels(context, scene, palette, first, last);
  paintCuts(context, scene, palette);
}

function paintLanes(context, { view, lanes, groups }, palette) {
  context.fillStyle = palette.stripe;
  groups.forEach((group, n) => {
    if (n % 2) return;
    const from = Math.max(GUTTER, view.x(group.from - 0.5));
    const to = view.x(group.to - 0.5);
    if (to > from) context.fillRect(from, 0, to - from, view.height);
  });
  Object.assign(context, { lineWidth: 1, globalAlpha: 0.6 * Math.min(1, view.lanePixels / 12) });
  palette.services.forEach((color, service) => {
    context.beginPath();
    lanes.forEach((lane, n) => {
      const x = Math.round(view.x(n)) + 0.5;
      if (lane.service !== service || x < GUTTER || x > view.width) return;
      context.moveTo(x, 0);
      context.lineTo(x, view.height);
    });
    context.strokeStyle = color;
    context.stroke();
  });
  context.globalAlpha = 1;
}

/** Lamport times or the wall clock of the rows at the left, as many as fit. */
function paintLabels(context, scene, palette, first, last) {
  const { view, rows, model, kind } = scene;
  context.font = "11px Inter, sans-serif";
  Object.assign(context, { textAlign: "right", textBaseline: "middle", fillStyle: palette.soft, strokeStyle: palette.line, lineWidth: 1 });
  context.beginPath();
  let free = -Infinity;
  for (let k = first; k < last; ) {
    const i = rows.order[k];
    const y = view.y(rows.y[i]);
    if (y >= 6 && y <= view.height - 6 && y >= free) {
      context.fillText(kind === "time" ? time(model.at[i] / 1000) : String(model.lamport[i]), GUTTER - 10, y);
      context.moveTo(GUTTER, Math.round(y) + 0.5);
      context.lineTo(view.width, Math.round(y) + 0.5);
      free = y + LEAST_LABEL_PIXELS;
    }
    k = placeOf(rows, view.rowAt(Math.max(free, y)), k + 1, last);
  }
  context.globalAlpha = 0.6;
  context.stroke();
  context.globalAlpha = 1;
}

function paintCuts(context, { rows, view }, palette) {
  if (view.rowPixels * LEAST_LABEL_ROWS < 2 * LEAST_LABEL_PIXELS) return;
  Object.assign(context, { textAlign: "right", textBaseline: "middle", font: "italic 11px Inter, sans-serif", fillStyle: palette.faint });
  for (const cut of rows.cuts) {
    const y = view.y(cut.y);
    if (y < -10 || y > view.height + 10) continue;
    context.fillText(`⋮ ${seconds(cut.micros / 1e6)} ⋮`, GUTTER - 10, y);
  }
}

/** Above everything else: where trace messages may have been lost. */
export function paintGaps(context, { gaps, view }, palette) {
  for (const gap of gaps) {
    const y = Math.round(view.y((gap.from + gap.to) / 2)) + 0.5;
    if (view.y(gap.to) < -10 || view.y(gap.from) > view.height + 10) continue;
    Object.assign(context, { globalAlpha: 0.12, fillStyle: palette.warn });
    context.fillRect(GUTTER, view.y(gap.from), view.width - GUTTER, view.y(gap.to) - view.y(gap.from));
    drawLine(context, [GUTTER, y, view.width, y], { globalAlpha: 1, strokeStyle: palette.warn, lineWidth: 1.5 }, [8, 5]);
    Object.assign(context, { font: "600 11px Inter, sans-serif", textAlign: "left", textBaseline: "bottom" });
    const text = `gap: ${said(gap.reason)}`.slice(0, 120);
    context.fillStyle = palette.ground;
    context.fillRect(GUTTER + 4, y - 18, context.measureText(text).width + 8, 16);
    context.fillStyle = palette.warn;
    context.fillText(text, GUTTER + 8, y - 4);
  }
}

const BINS = 400;

/** The events in each bin of the strip, relative to the fullest. */
export function densities({ rows, model }) {
  const bins = new Float32Array(BINS);
  if (!rows.height) return bins;
  for (let i = 0; i < model.length; i += 1) {
    bins[Math.min(BINS - 1, ((rows.y[i] / rows.height) * BINS) | 0)] += 1;
  }
  const most = bins.reduce((a, b) => Math.max(a, b), 1);
  return bins.map((n) => Math.sqrt(n / most));
}

/** The whole loaded span in a narrow strip, with a frame round the view. */
export function paintMinimap(context, scene, bins, palette, { width, height }) {
  const { view, rows } = scene;
  context.clearRect(0, 0, width, height);
  if (!rows.height) return;
  const y = (row) => (row / rows.height) * height;
  context.fillStyle = palette.lane;
  const step = height / BINS;
  for (let n = 0; n < BINS; n += 1) {
    if (bins[n]) context.fillRect(6, n * step, (width - 12) * bins[n], Math.max(1, step));
  }
  paintLit(context, scene, palette, width, y);
  for (const gap of scene.gaps) {
    context.fillStyle = palette.warn;
    context.fillRect(0, y(gap.from), width, Math.max(2, y(gap.to) - y(gap.from)));
  }
  const top = Math.max(0, y(view.top));
  const bottom = Math.min(height, Math.max(y(view.bottom), top + 8));
  Object.assign(context, { strokeStyle: palette.past, lineWidth: 2 });
  context.strokeRect(2, top + 1, width - 4, Math.max(6, bottom - top - 2));
}

function paintLit(context, { rows, selected, pins }, palette, width, y) {
  const marked = [...pins.map(({ index, letter }) => [index, palette.pins[letter]]), [selected, palette.brand]];
  for (const [index, color] of marked) {
    if (index === NONE || index >= rows.y.length) continue;
    context.fillStyle = color;
    context.fillRect(2, y(rows.y[index]) - 1, width - 4, 3);
  }
}
