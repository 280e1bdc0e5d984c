// The dots: a full one is a publish, a ring a delivery, in the colour of the service. How a delivery was
// matched shows in what its ring holds or how it is drawn, never by colour alone. Dots are stamped where events are few, and
// are blocks of pixels where they are many.
import { MATCH, NONE } from "./model.js";
import { GUTTER } from "./view.js";

export const DOT = 4.5; // default radius
const LIT = 16;
const RECEIVED = 8;
const SERVICE = 32; // a kind of dot is LIT or 0, RECEIVED or 0, the match and SERVICE times the service
const DIMMED = 0.3;
const MARGIN = 2;

/** Each kind of dot is drawn once and then stamped: three times as quick as drawing circles. */
export function paintDots(context, scene, palette, first, last) {
  const { model, view, rows, laneOf, serviceOf, marks } = scene;
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
    const kind = lit + received[i] * RECEIVED + match[i] + SERVICE * serviceOf[participant[i]];
    if (context.isVector) paintDot(context, kind, palette, radius, x + half, y + half);
    else context.drawImage(stamps.of(kind), x, y, stamps.size, stamps.size);
  }
  paintStubs(context, scene, palette, first, last);
}

/** A cause that is not loaded: its arrow comes in from above, cut short. */
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
  Object.assign(context, { strokeStyle: palette.arrow, lineWidth: 1.25 });
  context.stroke();
  context.setLineDash([]);
}

const made = new WeakMap(); // palette → Map of stamps by radius and screen

/** Small pictures of the dots in a palette; `of(kind)` gives one, `size` is its side. */
function stampsFor(palette, radius, ratio) {
  if (!made.has(palette)) made.set(palette, new Map());
  const key = `${radius} ${ratio}`;
  const known = made.get(palette);
  if (!known.has(key)) known.set(key, newStamps(palette, radius, ratio));
  return known.get(key);
}

function newStamps(palette, radius, ratio) {
  const size = 2 * Math.ceil(radius + MARGIN);
  const pictures = new Map();
  return {
    size,
    of(kind) {
      if (!pictures.has(kind)) pictures.set(kind, draw(kind, palette, radius, size, ratio));
      return pictures.get(kind);
    },
  };
}

function draw(kind, palette, radius, size, ratio) {
  const canvas = new OffscreenCanvas(Math.ceil(size * ratio), Math.ceil(size * ratio));
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  paintDot(context, kind, palette, radius, size / 2, size / 2);
  return canvas.transferToImageBitmap();
}

function paintDot(context, kind, palette, radius, x, y) {
  context.globalAlpha = kind & LIT ? 1 : DIMMED;
  const match = kind & 7;
  const odd = match === MATCH.unmatched || match === MATCH.dead_lettered;
  const received = Boolean(kind & RECEIVED);
  const tone = odd ? palette.odd : palette.services[Math.floor(kind / SERVICE)];
  circle(context, x, y, radius);
  context.fillStyle = received ? palette.ground : tone;
  context.fill();
  if (received) ring(context, tone, match, radius, x, y);
  context.globalAlpha = 1;
}

export function circle(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
}

/** Dashed when unmatched, with a dot inside when redelivered, a cross when dead-lettered. */
function ring(context, tone, match, radius, x, y) {
  context.strokeStyle = context.fillStyle = tone;
  context.lineWidth = 2;
  if (match === MATCH.unmatched) context.setLineDash([2, 2]);
  context.stroke();
  context.setLineDash([]);
  if (match === MATCH.redelivered) {
    circle(context, x, y, radius * 0.4);
    context.fill();
  } else if (match === MATCH.dead_lettered) {
    const r = radius * 0.55;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x - r, y - r);
    context.lineTo(x + r, y + r);
    context.moveTo(x + r, y - r);
    context.lineTo(x - r, y + r);
    context.stroke();
  }
}

const FEW_PIXELS_FROM = 200_000;

let buffer = null; // {canvas, context, image, pixels}

/**
 * Very many events in view: each is a few pixels in a buffer, a thousand times quicker than as
 * many circles.
 */
export function paintDensity(context, scene, palette, first, last) {
  const { view } = scene;
  const { canvas, image, pixels } = sized(view.width, view.height);
  pixels.fill(0);
  plot(pixels, scene, palette.pixels, first, last, {
    across: Math.max(1, Math.min(7, Math.round(view.lanePixels * 0.35))),
    down: last - first > FEW_PIXELS_FROM ? 1 : 2,
  });
  buffer.context.putImageData(image, 0, 0);
  context.drawImage(canvas, 0, 0);
}

/** Writes a block of pixels for each event; `colors` are 32-bit, as in the buffer. */
function plot(pixels, scene, colors, first, last, { across, down }) {
  const { model, rows, view, laneOf, serviceOf, marks } = scene;
  const { order, y } = rows;
  const { participant, match } = model;
  const kinds = colors.length / 2;
  const width = Math.round(view.width);
  const height = Math.round(view.height);
  const { top, rowPixels } = view;
  // The start of each participant's pixels: worked out once, looked up a million times.
  const left = Int32Array.from(laneOf, (lane) => (view.x(lane) | 0) - (across >> 1));
  for (let k = first; k < last; k += 1) {
    const i = order[k];
    const py = ((y[i] - top) * rowPixels) | 0;
    const px = left[participant[i]];
    if (py < 0 || py + down > height || px < 0 || px + across > width) continue;
    const odd = match[i] === MATCH.unmatched || match[i] === MATCH.dead_lettered;
    const tone = odd ? kinds - 1 : serviceOf[participant[i]];
    const color = colors[marks && !marks[i] ? tone + kinds : tone];
    for (let dy = 0; dy < down; dy += 1) {
      const start = (py + dy) * width + px;
      for (let at = start; at < start + across; at += 1) pixels[at] = color;
    }
  }
}

function sized(width, height) {
  const w = Math.max(1, Math.round(width));
  const h = Math.max(1, Math.round(height));
  if (buffer?.canvas.width !== w || buffer.canvas.height !== h) {
    const canvas = new OffscreenCanvas(w, h);
    const context = canvas.getContext("2d");
    const image = context.createImageData(w, h);
    buffer = { canvas, context, image, pixels: new Uint32Array(image.data.buffer) };
  }
  return buffer;
}
