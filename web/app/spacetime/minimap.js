// The whole loaded span in a narrow strip, with a frame round what is in sight.
import { NONE } from "./model.js";

const BINS = 400;

/** How many events each of the strip's bins holds, relative to the fullest. */
export function densities({ rows, model }) {
  const bins = new Float32Array(BINS);
  if (!rows.height) return bins;
  for (let i = 0; i < model.length; i += 1) {
    bins[Math.min(BINS - 1, ((rows.y[i] / rows.height) * BINS) | 0)] += 1;
  }
  const most = bins.reduce((a, b) => Math.max(a, b), 1);
  return bins.map((n) => Math.sqrt(n / most));
}

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
    context.fillRect(0, y(gap.row), width, 2);
  }
  const top = Math.max(0, y(view.top));
  const bottom = Math.min(height, Math.max(y(view.bottom), top + 8));
  context.strokeStyle = palette.past;
  context.lineWidth = 2;
  context.strokeRect(2, top + 1, width - 4, Math.max(6, bottom - top - 2));
}

function paintLit(context, { rows, selected, pins }, palette, width, y) {
  const marked = [...pins.map(({ index, color }) => [index, color]), [selected, palette.brand]];
  for (const [index, color] of marked) {
    if (index === NONE || index >= rows.y.length) continue;
    context.fillStyle = color;
    context.fillRect(2, y(rows.y[index]) - 1, width - 4, 3);
  }
}
