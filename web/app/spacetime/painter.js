// Draws what is in sight. Everything of one style goes into one path, because changing styles,
// not drawing lines, is what costs a canvas its time.
import { CHAIN, FUTURE, PAST, SELF } from "./causality.js";
import { paintDensity } from "./density.js";
import { MATCH, NONE } from "./model.js";
import { paintFrame } from "./frame.js";
import { countAbove } from "./rows.js";
import { GUTTER } from "./view.js";

// More events than this in sight are drawn as pixels, and only lit arrows among them.
export const FAR_EVENTS = 5000;
const MOST_ARROWS = 6000;
const EASY_ARROWS = 150;
const DIMMED = 0.22;

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
  const heads = view.rowPixels > 5 && !far;
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
const DOT = 4.5;

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

function paintDots(context, scene, palette, first, last) {
  const { rows, marks } = scene;
  const radius = Math.max(2, Math.min(DOT, scene.view.rowPixels * 0.32 + 1));
  const groups = new Map();
  for (let k = first; k < last; k += 1) {
    const i = rows.order[k];
    const lit = marks ? marks[i] : SELF;
    const key = (lit ? 16 : 0) + scene.model.received[i] * 8 + scene.model.match[i];
    const group = groups.get(key);
    if (group) group.push(i);
    else groups.set(key, [i]);
  }
  for (const [key, indexes] of groups) {
    context.globalAlpha = key & 16 ? 1 : DIMMED + 0.08;
    dots(context, scene, palette, indexes, key, radius);
  }
  context.globalAlpha = 1;
  paintStubs(context, scene, palette, first, last);
}

function dots(context, scene, palette, indexes, key, radius) {
  const { model, view, rows, laneOf } = scene;
  const received = Boolean(key & 8);
  const match = key & 7;
  context.beginPath();
  for (const i of indexes) {
    const x = view.x(laneOf[model.participant[i]]);
    const y = view.y(rows.y[i]);
    context.moveTo(x + radius, y);
    context.arc(x, y, radius, 0, 7);
  }
  const odd = match === MATCH.unmatched || match === MATCH.dead_lettered;
  const tone = odd ? palette.odd : received ? palette.received : palette.published;
  context.fillStyle = received ? palette.ground : tone;
  context.fill();
  if (!received) return;
  context.strokeStyle = tone;
  context.lineWidth = 2;
  if (match === MATCH.unmatched) context.setLineDash([2, 2]);
  context.stroke();
  context.setLineDash([]);
  inner(context, scene, tone, indexes, match, radius);
}

/** What a ring holds besides: a point when handed over again, a cross when dead-lettered. */
function inner(context, { model, view, rows, laneOf }, tone, indexes, match, radius) {
  if (match !== MATCH.redelivered && match !== MATCH.dead_lettered) return;
  context.beginPath();
  for (const i of indexes) {
    const x = view.x(laneOf[model.participant[i]]);
    const y = view.y(rows.y[i]);
    const r = match === MATCH.redelivered ? radius * 0.35 : radius * 0.6;
    if (match === MATCH.redelivered) {
      context.moveTo(x + r, y);
      context.arc(x, y, r, 0, 7);
    } else {
      context.moveTo(x - r, y - r);
      context.lineTo(x + r, y + r);
      context.moveTo(x + r, y - r);
      context.lineTo(x - r, y + r);
    }
  }
  context.lineWidth = 1.5;
  context.stroke();
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
