// What stands behind the events: lanes, row labels, gaps and cut silences.
import { clock } from "../core/preferences.js";
import { seconds, visible } from "../core/format.js";
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
  context.beginPath();
  for (let lane = 0; lane < lanes.length; lane += 1) {
    const x = Math.round(view.x(lane)) + 0.5;
    if (x < GUTTER || x > view.width) continue;
    context.moveTo(x, 0);
    context.lineTo(x, view.height);
  }
  context.strokeStyle = palette.lane;
  context.lineWidth = 1;
  context.globalAlpha = Math.min(1, view.lanePixels / 12);
  context.stroke();
  context.globalAlpha = 1;
}

/** The rows' Lamport times or wall clock at the left, as many as have room. */
function paintLabels(context, scene, palette, first, last) {
  const { view, rows, model, kind } = scene;
  context.font = "11px Inter, sans-serif";
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.fillStyle = palette.soft;
  context.strokeStyle = palette.line;
  context.lineWidth = 1;
  context.beginPath();
  let free = -Infinity;
  for (let k = nextFrom(rows, first, last, -Infinity); k < last; ) {
    const i = rows.order[k];
    const y = view.y(rows.y[i]);
    if (y >= 6 && y <= view.height - 6 && y >= free) {
      context.fillText(kind === "time" ? clockText(model.at[i]) : String(model.lamport[i]), GUTTER - 10, y);
      context.moveTo(GUTTER, Math.round(y) + 0.5);
      context.lineTo(view.width, Math.round(y) + 0.5);
      free = y + LEAST_LABEL_PIXELS;
    }
    k = nextFrom(rows, k + 1, last, view.rowAt(Math.max(free, y)));
  }
  context.globalAlpha = 0.6;
  context.stroke();
  context.globalAlpha = 1;
}

/** The first place in `order` from `k` on whose row is at least `row`: a search, not a walk. */
function nextFrom({ y, order }, k, last, row) {
  let low = k;
  let high = last;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (y[order[middle]] < row) low = middle + 1;
    else high = middle;
  }
  return low;
}

const pad = (n, width = 2) => String(n).padStart(width, "0");

function clockText(micros) {
  const date = new Date(micros / 1000);
  const utc = clock.peek() === "utc" ? "UTC" : "";
  const get = (name) => date[`get${utc}${name}`]();
  return `${pad(get("Hours"))}:${pad(get("Minutes"))}:${pad(get("Seconds"))}.${pad(get("Milliseconds"), 3)}`;
}

function paintCuts(context, { rows, view }, palette) {
  if (view.rowPixels * LEAST_LABEL_ROWS < 2 * LEAST_LABEL_PIXELS) return;
  context.textAlign = "right";
  context.textBaseline = "middle";
  context.font = "italic 11px Inter, sans-serif";
  context.fillStyle = palette.faint;
  for (const cut of rows.cuts) {
    const y = view.y(cut.y);
    if (y < -10 || y > view.height + 10) continue;
    context.fillText(`⋮ ${seconds(cut.micros / 1e6)} ⋮`, GUTTER - 10, y);
  }
}

/** Over everything: where trace messages may have been lost. */
export function paintGaps(context, { gaps, view }, palette) {
  for (const gap of gaps) {
    const y = Math.round(view.y(gap.row)) + 0.5;
    if (y < -10 || y > view.height + 10) continue;
    context.strokeStyle = palette.warn;
    context.lineWidth = 1.5;
    context.setLineDash([8, 5]);
    context.beginPath();
    context.moveTo(GUTTER, y);
    context.lineTo(view.width, y);
    context.stroke();
    context.setLineDash([]);
    context.font = "600 11px Inter, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "bottom";
    const text = `gap: ${visible(gap.reason)}`.slice(0, 120);
    context.fillStyle = palette.ground;
    context.fillRect(GUTTER + 4, y - 18, context.measureText(text).width + 8, 16);
    context.fillStyle = palette.warn;
    context.fillText(text, GUTTER + 8, y - 4);
  }
}
