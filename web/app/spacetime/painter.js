// Draws what is in sight. Everything of one style goes into one path, because changing styles,
// not drawing lines, is what costs a canvas its time.
import { CHAIN, FUTURE, PAST, SELF } from "./causality.js";
import { paintDensity } from "./density.js";
import { paintFrame, paintGaps } from "./frame.js";
import { NONE } from "./model.js";
import { countAbove } from "./rows.js";
import { DOT, LIT, RECEIVED, stampsFor } from "./stamps.js";
import { GUTTER } from "./view.js";

// More events than this in sight are drawn as pixels, and only lit arrows among them.
export const FAR_EVENTS = 5000;
const MOST_ARROWS = 6000;
const EASY_ARROWS = 150;
const DIMMED = 0.18;

const found = new Int32Array(MOST_ARROWS);

/**
 * `scene` is {model, rows, edges, steps, lanes, laneOf, view, marks, selected, hovered, pins,
 * gaps, kind}; `palette` the colours. Returns what was drawn, for the line below the diagram.
 */
export function paint(context, scene, palette) {
  const { view, rows } = scene;
  context.clearRect(0, 0, view.width, view.height);
  const first = countAbove(rows, view.top - 1);
  const last = countAbove(rows, view.bottom + 1);
  const far = last - first > FAR_EVENTS;

  paintFrame(context, scene, palette, first, last);
  context.save();
  context.beginPath();
  context.rect(GUTTER, 0, view.width - GUTTER, view.height);
  context.clip();
  const arrows = paintArrows(context, scene, palette, far);
  if (far) paintDensity(context, scene, palette, first, last);
  else paintDots(context, scene, palette, first, last);
  paintGaps(context, scene, palette);
  paintChosen(context, scene, palette);
  context.restore();
  return { events: last - first, arrows, far };
}

function paintArrows(context, scene, palette, far) {
  const { edges, steps, view, marks } = scene;
  let n = edges.within(view.top, view.bottom, found, far ? litEdge(edges, marks) : null);
  // Part of them would tell something untrue; from afar the pixels show what is lit.
  if (far && n === MOST_ARROWS) n = 0;
  for (const style of arrowStyles(palette, Boolean(marks), n)) {
    strokeArrows(context, scene, style, n, far);
  }
  if (marks) {
    const count = steps.within(view.top, view.bottom, found, litEdge(steps, marks));
    if (count < MOST_ARROWS) strokeSteps(context, scene, palette, count);
  }
  return n;
}

/** Many arrows are each drawn fainter, or together they would be a grey wall. */
function arrowStyles(palette, marked, n) {
  const fade = Math.min(1, Math.sqrt(EASY_ARROWS / Math.max(1, n)));
  if (!marked) return [{ mark: 0, color: palette.arrow, width: 1, alpha: 0.75 * fade }];
  return [
    { mark: 0, color: palette.arrow, width: 1, alpha: DIMMED * fade },
    { mark: PAST, color: palette.past, width: 1.75, alpha: 1 },
    { mark: FUTURE, color: palette.future, width: 1.75, alpha: 1 },
    { mark: CHAIN, color: palette.chain, width: 2, alpha: 1 },
  ];
}

/** Which way two neighbouring events are lit together: an arrow is what both its ends are. */
function markOf(marks, from, to) {
  if (!marks) return 0;
  const a = marks[from];
  const b = marks[to];
  if (a === PAST && (b === PAST || b === SELF)) return PAST;
  if (b === FUTURE && (a === FUTURE || a === SELF)) return FUTURE;
  return a === CHAIN && b === CHAIN ? CHAIN : 0;
}

const litEdge = (edges, marks) =>
  marks ? (e) => markOf(marks, edges.from[e], edges.to[e]) !== 0 : () => false;

function strokeArrows(context, scene, style, n, far) {
  const { edges, view, laneOf, model, marks } = scene;
  const { participant } = model;
  const heads = view.rowPixels > 5 && n < MOST_HEADS && !far;
  context.beginPath();
  for (let k = 0; k < n; k += 1) {
    const e = found[k];
    const from = edges.from[e];
    const to = edges.to[e];
    if (marks && markOf(marks, from, to) !== style.mark) continue;
    const x1 = view.x(laneOf[participant[from]]);
    const x2 = view.x(laneOf[participant[to]]);
    const y1 = view.y(edges.top[e]);
    const y2 = view.y(edges.bottom[e]);
    context.moveTo(x1, y1);
    if (x1 === x2) bulge(context, x1, y1, y2, Math.min(26, view.lanePixels * 0.4));
    else context.lineTo(x2, y2);
    if (heads && x1 !== x2) head(context, x1, y1, x2, y2);
  }
  context.globalAlpha = style.alpha;
  context.strokeStyle = style.color;
  context.lineWidth = style.width;
  context.stroke();
  context.globalAlpha = 1;
}

/** A message back to its own lane leaves it, or it could not be seen. */
function bulge(context, x, y1, y2, out) {
  context.bezierCurveTo(x + out, y1 + (y2 - y1) * 0.2, x + out, y2 - (y2 - y1) * 0.2, x, y2);
}

const HEAD = 7;
const MOST_HEADS = 800; // among more, heads are specks that double the work

function head(context, x1, y1, x2, y2) {
  const length = Math.hypot(x2 - x1, y2 - y1);
  if (length < 18) return;
  const ux = (x2 - x1) / length;
  const uy = (y2 - y1) / length;
  const tx = x2 - ux * (DOT + 1);
  const ty = y2 - uy * (DOT + 1);
  context.moveTo(tx - HEAD * ux + HEAD * 0.45 * uy, ty - HEAD * uy - HEAD * 0.45 * ux);
  context.lineTo(tx, ty);
  context.lineTo(tx - HEAD * ux - HEAD * 0.45 * uy, ty - HEAD * uy + HEAD * 0.45 * ux);
}

/** A participant's own steps between lit events: causality runs along the lanes, too. */
function strokeSteps(context, scene, palette, n) {
  const { steps, view, laneOf, model, marks } = scene;
  const colors = { [PAST]: palette.past, [FUTURE]: palette.future, [CHAIN]: palette.chain };
  context.lineWidth = 2.5;
  context.globalAlpha = 0.55;
  for (const [mark, color] of Object.entries(colors)) {
    context.beginPath();
    for (let k = 0; k < n; k += 1) {
      const e = found[k];
      if (markOf(marks, steps.from[e], steps.to[e]) !== Number(mark)) continue;
      const x = view.x(laneOf[model.participant[steps.to[e]]]);
      context.moveTo(x, view.y(steps.top[e]));
      context.lineTo(x, view.y(steps.bottom[e]));
    }
    context.strokeStyle = color;
    context.stroke();
  }
  context.globalAlpha = 1;
}

/** Each kind of dot is drawn once and then stamped: three times as quick as so many circles. */
function paintDots(context, scene, palette, first, last) {
  const { model, view, rows, laneOf, marks } = scene;
  const { participant, received, match } = model;
  const radius = Math.round(Math.max(2, Math.min(DOT, view.rowPixels * 0.32 + 1)) * 2) / 2;
  const stamps = stampsFor(palette, radius, context.getTransform().a);
  const half = stamps.size / 2;
  for (let k = first; k < last; k += 1) {
    const i = rows.order[k];
    const lit = !marks || marks[i] ? LIT : 0;
    const x = Math.round(view.x(laneOf[participant[i]])) - half;
    const y = Math.round(view.y(rows.y[i])) - half;
    context.drawImage(stamps.of(lit + received[i] * RECEIVED + match[i]), x, y, stamps.size, stamps.size);
  }
  paintStubs(context, scene, palette, first, last);
}

/** A cause that is not loaded: its arrow comes in from above, broken off. */
function paintStubs(context, scene, palette, first, last) {
  const { model, rows, view, laneOf } = scene;
  context.beginPath();
  for (let k = first; k < last; k += 1) {
    const i = rows.order[k];
    if (!model.causeId[i] || model.cause[i] !== NONE) continue;
    const x = view.x(laneOf[model.participant[i]]);
    const y = view.y(rows.y[i]);
    context.moveTo(x - 14, y - 22);
    context.lineTo(x - 3, y - 5);
  }
  context.setLineDash([3, 3]);
  context.strokeStyle = palette.arrow;
  context.lineWidth = 1.25;
  context.stroke();
  context.setLineDash([]);
}

function paintChosen(context, scene, palette) {
  const { selected, hovered, pins } = scene;
  if (hovered !== NONE && hovered !== selected) halo(context, scene, hovered, palette.ink, 1.25);
  if (selected !== NONE) halo(context, scene, selected, palette.brand, 2.5);
  for (const { index, letter, color } of pins) {
    const at = place(scene, index);
    if (!at) continue;
    context.beginPath();
    context.arc(at.x + 13, at.y - 9, 8, 0, 7);
    context.fillStyle = color;
    context.fill();
    context.fillStyle = palette.ground;
    context.font = "700 10px Inter, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(letter, at.x + 13, at.y - 8.5);
  }
}

function halo(context, scene, index, color, width) {
  const at = place(scene, index);
  if (!at) return;
  context.beginPath();
  context.arc(at.x, at.y, 9, 0, 7);
  context.strokeStyle = color;
  context.lineWidth = width;
  context.stroke();
}

function place({ model, rows, view, laneOf }, index) {
  if (index === NONE || index >= model.length) return null;
  const y = view.y(rows.y[index]);
  if (y < -20 || y > view.height + 20) return null;
  return { x: view.x(laneOf[model.participant[index]]), y };
}
