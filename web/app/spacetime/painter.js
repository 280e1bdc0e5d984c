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
  if (far && !marks) return 0;
  let n = edges.within(view.top, view.bottom, found, far ? litEdge(edges, marks) : null);
  // Part of them would tell something untrue; from afar the pixels show what is lit.
  if (far && n === MOST_ARROWS) n = 0;
  for (const style of arrowStyles(palette, Boolean(marks), n)) {
    strokeArrows(context, scene, style, n, far);
  }
  if (marks) {
    const count = steps.within(view.top, view.bottom, found, litEdge(steps, marks));
    if (count < MOST_ARROWS) paintSteps(context, scene, palette, count);
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
  const a = marks[from];
  const b = marks[to];
  if (a === PAST && (b === PAST || b === SELF)) return PAST;
  if (b === FUTURE && (a === FUTURE || a === SELF)) return FUTURE;
  return a === CHAIN && b === CHAIN ? CHAIN : 0;
}

const litEdge = (edges, marks) => (e) => markOf(marks, edges.from[e], edges.to[e]) !== 0;

function strokeArrows(context, scene, style, n, far) {
  const { edges, view, laneOf, model, marks } = scene;
  const { participant } = model;
  const heads = view.rowPixels > 5 && n < MOST_HEADS && !far;
  const out = Math.min(26, view.lanePixels * 0.4);
  const offsets = hairlines(style.width, context.getTransform().a);
  context.beginPath();
  for (let k = 0; k < n; k += 1) {
    const e = found[k];
    const from = edges.from[e];
    const to = edges.to[e];
    if (marks && markOf(marks, from, to) !== style.mark) continue;
    const x1 = view.x(laneOf[participant[from]]);
    const x2 = view.x(laneOf[participant[to]]);
    if (Math.max(x1, x2) < GUTTER || Math.min(x1, x2) > view.width) continue;
    const y1 = view.y(edges.top[e]);
    const y2 = view.y(edges.bottom[e]);
    if (x1 === x2) for (const offset of offsets) bulge(context, x1 + offset, y1, y2, out);
    else arrow(context, x1, y1, x2, y2, offsets, heads);
  }
  context.globalAlpha = style.alpha;
  context.strokeStyle = style.color;
  context.lineWidth = Math.min(style.width, 1 / context.getTransform().a);
  context.stroke();
  context.globalAlpha = 1;
}

/**
 * Without a graphics card a line wider than a pixel of the screen takes ten times as long as one
 * that is not: a wide line is some of those side by side, at these distances from its middle.
 */
function hairlines(width, ratio) {
  const count = Math.max(1, Math.round(width * ratio));
  if (count === 1) return [0];
  const spread = width - 1 / ratio;
  return Array.from({ length: count }, (_, n) => spread * (n / (count - 1) - 0.5));
}

/** A message back to its own lane leaves it, or it could not be seen. */
function bulge(context, x, y1, y2, out) {
  context.moveTo(x, y1);
  context.bezierCurveTo(x + out, y1 + (y2 - y1) * 0.2, x + out, y2 - (y2 - y1) * 0.2, x, y2);
}

const HEAD = 7;
const LEAST_WITH_HEAD = 18;
const MOST_HEADS = 800; // among more, heads are specks that double the work

function arrow(context, x1, y1, x2, y2, offsets, headed) {
  const length = Math.hypot(x2 - x1, y2 - y1);
  const ux = (x2 - x1) / length;
  const uy = (y2 - y1) / length;
  for (const offset of offsets) {
    const dx = -uy * offset;
    const dy = ux * offset;
    context.moveTo(x1 + dx, y1 + dy);
    context.lineTo(x2 + dx, y2 + dy);
    if (headed && length >= LEAST_WITH_HEAD) {
      head(context, x2 + dx - ux * (DOT + 1), y2 + dy - uy * (DOT + 1), ux * HEAD, uy * HEAD);
    }
  }
}

/** A head with its point at (x, y); `bx` and `by` lead from its back to its point. */
function head(context, x, y, bx, by) {
  context.moveTo(x - bx + 0.45 * by, y - by - 0.45 * bx);
  context.lineTo(x, y);
  context.lineTo(x - bx - 0.45 * by, y - by + 0.45 * bx);
}

const STEP_WIDTH = 2.5;

/** A participant's own steps between lit events: causality runs along the lanes, too. */
function paintSteps(context, scene, palette, n) {
  const { steps, view, laneOf, model, marks } = scene;
  const colors = { [PAST]: palette.past, [FUTURE]: palette.future, [CHAIN]: palette.chain };
  context.globalAlpha = 0.55;
  for (const [mark, color] of Object.entries(colors)) {
    context.fillStyle = color;
    for (let k = 0; k < n; k += 1) {
      const e = found[k];
      if (markOf(marks, steps.from[e], steps.to[e]) !== Number(mark)) continue;
      const x = view.x(laneOf[model.participant[steps.to[e]]]);
      const y = view.y(steps.top[e]);
      context.fillRect(x - STEP_WIDTH / 2, y, STEP_WIDTH, view.y(steps.bottom[e]) - y);
    }
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
    const x = Math.round(view.x(laneOf[participant[i]])) - half;
    if (x > view.width || x + stamps.size < GUTTER) continue;
    const lit = !marks || marks[i] ? LIT : 0;
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
