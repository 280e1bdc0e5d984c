// Draws the view. Everything of one style goes into one path: drawing lines is cheap on a
// canvas, changing styles is not.
import { ageOf, shortened } from "../core/format.js";
import { drawLine } from "../ui/fitted.js";
import { channels, color, packed } from "../ui/color.js";
import { CHAIN, FUTURE, PAST, SELF } from "./causality.js";
import { circle, DOT, paintDensity, paintDots } from "./dots.js";
import { paintFrame, paintGaps } from "./frame.js";
import { placeOf } from "./layout.js";
import { NONE } from "./model.js";
import { SERVICE_COLORS } from "./services.js";
import { bulgeOf, GUTTER } from "./view.js";

const DIMMED_PIXELS = 0.25;

/** The colours of the diagram in the theme that is shown. */
export function palette() {
  const services = ["--ink-faint", ...Array.from({ length: SERVICE_COLORS }, (_, n) => `--service-${n + 1}`)];
  const dots = [...services, "--bad"].map((token) => channels(token));
  return {
    services: services.map((token) => color(token)),
    ground: color("--panel"),
    stripe: color("--sunk", 0.6),
    ink: color("--ink"),
    soft: color("--ink-soft"),
    faint: color("--ink-faint"),
    line: color("--line"),
    lane: color("--line-strong"),
    arrow: color("--ink-faint"),
    odd: color("--bad"),
    warn: color("--warn"),
    brand: color("--brand"),
    past: color("--link"),
    future: color("--good"),
    chain: color("--pin-a"),
    pins: { A: color("--pin-a"), B: color("--pin-b") },
    // The services' colours, then that of odd deliveries; and all of them once more, dimmed.
    pixels: Uint32Array.from([1, DIMMED_PIXELS].flatMap((alpha) => dots.map((tone) => packed(tone, alpha)))),
  };
}

// If more events than this are in view they are drawn as pixels, with only the lit arrows.
const FAR_EVENTS = 5000;
const MOST_ARROWS = 6000;
const EASY_ARROWS = 150;
const MOST_DASHED = 800; // more are a grey wall, and dashes take ten times as long to draw
const DIMMED = 0.18;

const found = new Int32Array(MOST_ARROWS);

/** Paints a Scene; returns what was drawn, for the line below the diagram. */
export function paint(context, scene, palette) {
  const { view, rows } = scene;
  context.clearRect(0, 0, view.width, view.height);
  const first = placeOf(rows, view.top - 1);
  const last = placeOf(rows, view.bottom + 1);
  const far = last - first > FAR_EVENTS;

  scene.unfoldLanes();
  paintFrame(context, scene, palette, first, last);
  context.save();
  context.beginPath();
  context.rect(GUTTER, 0, view.width - GUTTER, view.height);
  context.clip();
  const arrows = paintArrows(context, scene, palette, far);
  if (far) paintDensity(context, scene, palette, first, last);
  else paintDots(context, scene, palette, first, last);
  paintWaits(context, scene, palette);
  if (!far) paintNames(context, scene, palette);
  paintGaps(context, scene, palette);
  paintChosen(context, scene, palette);
  context.restore();
  return { events: last - first, arrows, far, kind: scene.kind, lanes: scene.lanes };
}

const NAME_HEIGHT = 14;

/** The names of messages, above their publishes to the right, as far as they leave each other room. */
function paintNames(context, scene, palette) {
  const { model, marks } = scene;
  const drawn = [];
  Object.assign(context, { font: "11px Inter, sans-serif", textAlign: "left", textBaseline: "middle" });
  for (const i of scene.withNames().filter((one) => !marks || marks[one])) {
    const at = position(scene, i);
    const text = at && shortened(model.messageName(i), Math.max(6, Math.floor(scene.view.lanePixels / 6)));
    const box = at && { x: at.x + 7, y: at.y - NAME_HEIGHT - 2, width: context.measureText(text).width + 6 };
    if (!box || drawn.some((one) => Math.abs(one.y - box.y) < NAME_HEIGHT && one.x < box.x + box.width && box.x < one.x + one.width)) continue;
    drawn.push(box);
    tag(context, box, text, palette.ground, palette.soft);
  }
}

function tag(context, { x, y, width }, text, ground, ink) {
  Object.assign(context, { globalAlpha: 0.85, fillStyle: ground });
  context.fillRect(x, y, width, NAME_HEIGHT);
  Object.assign(context, { globalAlpha: 1, fillStyle: ink });
  context.fillText(text, x + 3, y + NAME_HEIGHT / 2 + 0.5);
}

/** Messages that wait, to whoever takes from their queue, and for how long. */
function paintWaits(context, scene, palette) {
  const { model, view, rows, laneOf } = scene;
  for (const { id, since, to } of scene.waits) {
    const [index, lane] = [model.indexOf(id), laneOf[to[0]] ?? NONE];
    if (index === NONE || lane === NONE) continue;
    const [x, y] = [view.x(lane), Math.min(view.height - 12, view.y(rows.height) + 20)];
    const source = laneOf[model.participant[index]]; // may be folded away
    const begin = Math.max(-HEAD, view.y(rows.y[index]));
    if (y < begin) continue;
    drawLine(context, [view.x(source === NONE ? lane : source), begin, x, y], { strokeStyle: palette.warn, lineWidth: 1.5 }, [2, 4]);
    Object.assign(context, { font: "600 11px Inter, sans-serif", textAlign: "left", textBaseline: "middle" });
    const text = `waiting ${ageOf(since)}`;
    const width = context.measureText(text).width + 6;
    tag(context, { x: Math.max(GUTTER, Math.min(x + 8, view.width - width)), y: y - NAME_HEIGHT / 2, width }, text, palette.ground, palette.warn);
  }
}

function paintArrows(context, scene, palette, far) {
  const { edges, links, steps, view, marks } = scene;
  if (far && !marks) return 0;
  const n = paintEdges(context, scene, edges, palette, { far, ink: palette.arrow });
  paintEdges(context, scene, links, palette, { far, ink: palette.ink, dash: [5, 4] });
  if (marks) {
    const count = steps.within(view.top, view.bottom, found, litEdge(steps, marks));
    if (count < MOST_ARROWS) paintSteps(context, scene, palette, count);
  }
  return n;
}

/** Messages, or links, which are dashed: neither messages nor steps along a lane. How many. */
function paintEdges(context, scene, edges, palette, { far, ink, dash = [] }) {
  const { view, marks } = scene;
  let n = edges.within(view.top, view.bottom, found, far ? litEdge(edges, marks) : null);
  // Showing only some would mislead; zoomed out, the pixels show the lit ones.
  if (far && n === MOST_ARROWS) n = 0;
  if (n < MOST_DASHED) context.setLineDash(dash);
  for (const style of arrowStyles(palette, ink, Boolean(marks), n)) {
    strokeArrows(context, scene, edges, style, n, far);
  }
  context.setLineDash([]);
  return n;
}

/** The more arrows, the fainter each, or together they would be a grey wall. */
function arrowStyles(palette, ink, marked, n) {
  const fade = Math.min(1, Math.sqrt(EASY_ARROWS / Math.max(1, n)));
  if (!marked) return [{ mark: 0, color: ink, width: 1, alpha: 0.75 * fade }];
  return [
    { mark: 0, color: ink, width: 1, alpha: DIMMED * fade },
    { mark: PAST, color: palette.past, width: 1.75, alpha: 1 },
    { mark: FUTURE, color: palette.future, width: 1.75, alpha: 1 },
    { mark: CHAIN, color: palette.chain, width: 2, alpha: 1 },
  ];
}

/** The mark of the link between two events: an arrow is lit when both its ends are. */
function markOf(marks, from, to) {
  const a = marks[from];
  const b = marks[to];
  if (a === PAST && (b === PAST || b === SELF)) return PAST;
  if (b === FUTURE && (a === FUTURE || a === SELF)) return FUTURE;
  return a === CHAIN && b === CHAIN ? CHAIN : 0;
}

const litEdge = (edges, marks) => (e) => markOf(marks, edges.from[e], edges.to[e]) !== 0;

function strokeArrows(context, scene, edges, style, n, far) {
  const { view, rows, laneOf, model, marks } = scene;
  const { participant } = model;
  const heads = view.rowPixels > 5 && n < MOST_HEADS && !far;
  const out = bulgeOf(view);
  const offsets = hairlines(style.width, context.getTransform().a);
  context.beginPath();
  for (let k = 0; k < n; k += 1) {
    const e = found[k];
    const from = edges.from[e];
    const to = edges.to[e];
    if (marks && markOf(marks, from, to) !== style.mark) continue;
    const [a, b] = [laneOf[participant[from]], laneOf[participant[to]]];
    if (a === NONE || b === NONE) continue; // between lanes that are folded away
    const x1 = view.x(a);
    const x2 = view.x(b);
    if (Math.max(x1, x2) < GUTTER || Math.min(x1, x2) > view.width) continue;
    const y1 = view.y(edges.top[e]);
    const y2 = view.y(rows.y[to]); // above, where a link was found too late for the clocks
    if (x1 === x2) for (const offset of offsets) bulge(context, x1 + offset, y1, y2, out);
    else arrow(context, x1, y1, x2, y2, offsets, heads);
  }
  Object.assign(context, { globalAlpha: style.alpha, strokeStyle: style.color });
  context.lineWidth = Math.min(style.width, 1 / context.getTransform().a);
  context.stroke();
  context.globalAlpha = 1;
}

/**
 * Without a graphics card a line wider than a screen pixel takes ten times as long as a thin one, so
 * a wide line is drawn as thin ones side by side, at these distances from its middle.
 */
function hairlines(width, ratio) {
  const count = Math.max(1, Math.round(width * ratio));
  if (count === 1) return [0];
  const spread = width - 1 / ratio;
  return Array.from({ length: count }, (_, n) => spread * (n / (count - 1) - 0.5));
}

/** A message back to its own lane bulges out, or it could not be seen. */
function bulge(context, x, y1, y2, out) {
  context.moveTo(x, y1);
  context.bezierCurveTo(x + out, y1 + (y2 - y1) * 0.2, x + out, y2 - (y2 - y1) * 0.2, x, y2);
}

const HEAD = 7;
const LEAST_WITH_HEAD = 18;
const MOST_HEADS = 800; // with more arrows, heads are specks that double the work

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

/** The steps of participants between lit events: causality runs along the lanes, too. */
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

function paintChosen(context, scene, palette) {
  const { selected, hovered, hoveredArrow, pins } = scene;
  if (hoveredArrow) chosenArrow(context, scene, hoveredArrow, palette.ink);
  if (hovered !== NONE && hovered !== selected) halo(context, scene, hovered, palette.ink, 1.25);
  if (selected !== NONE) halo(context, scene, selected, palette.brand, 2.5);
  for (const { index, letter } of pins) {
    const at = position(scene, index);
    if (!at) continue;
    circle(context, at.x - 13, at.y - 9, 8);
    context.fillStyle = palette.pins[letter];
    context.fill();
    Object.assign(context, { fillStyle: palette.ground, font: "700 10px Inter, sans-serif", textAlign: "center", textBaseline: "middle" });
    context.fillText(letter, at.x - 13, at.y - 8.5);
  }
}

function chosenArrow(context, scene, { from, to }, color) {
  const { view, rows, laneOf, model } = scene;
  const [a, b] = [laneOf[model.participant[from]], laneOf[model.participant[to]]];
  if (Math.max(from, to) >= model.length || a === NONE || b === NONE) return;
  const [x1, y1, x2, y2] = [view.x(a), view.y(rows.y[from]), view.x(b), view.y(rows.y[to])];
  context.beginPath();
  if (a === b) bulge(context, x1, y1, y2, bulgeOf(view));
  else arrow(context, x1, y1, x2, y2, [0], false);
  Object.assign(context, { strokeStyle: color, lineWidth: 2 });
  context.stroke();
}

function halo(context, scene, index, color, width) {
  const at = position(scene, index);
  if (!at) return;
  circle(context, at.x, at.y, 9);
  Object.assign(context, { strokeStyle: color, lineWidth: width });
  context.stroke();
}

function position({ model, rows, view, laneOf }, index) {
  if (index === NONE || index >= model.length) return null;
  const y = view.y(rows.y[index]);
  if (y < -20 || y > view.height + 20) return null;
  return { x: view.x(laneOf[model.participant[index]]), y };
}
