// The dots: a full one is a publish, a ring a delivery. What a ring holds or how it is drawn says
// how it was matched, so that no colour has to.
import { MATCH } from "./model.js";

export const DOT = 4.5; // usual radius
export const LIT = 16;
export const RECEIVED = 8; // a kind is LIT or 0, RECEIVED or 0, and the match's number
const DIMMED = 0.3;
const MARGIN = 2;

const made = new WeakMap(); // palette → Map of stamps by radius and screen

/** Small pictures of the dots in a palette; `of(kind)` gives one, `size` is its side. */
export function stampsFor(palette, radius, ratio) {
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
  context.translate(size / 2, size / 2);
  context.globalAlpha = kind & LIT ? 1 : DIMMED;
  const match = kind & 7;
  const odd = match === MATCH.unmatched || match === MATCH.dead_lettered;
  const received = Boolean(kind & RECEIVED);
  const tone = odd ? palette.odd : received ? palette.received : palette.published;
  circle(context, radius);
  context.fillStyle = received ? palette.ground : tone;
  context.fill();
  if (received) ring(context, tone, match, radius);
  return canvas.transferToImageBitmap();
}

function circle(context, radius) {
  context.beginPath();
  context.arc(0, 0, radius, 0, 2 * Math.PI);
}

/** Broken when unmatched, with a point when handed over again, a cross when dead-lettered. */
function ring(context, tone, match, radius) {
  context.strokeStyle = context.fillStyle = tone;
  context.lineWidth = 2;
  if (match === MATCH.unmatched) context.setLineDash([2, 2]);
  context.stroke();
  context.setLineDash([]);
  if (match === MATCH.redelivered) {
    circle(context, radius * 0.4);
    context.fill();
  } else if (match === MATCH.dead_lettered) {
    const r = radius * 0.55;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(-r, -r);
    context.lineTo(r, r);
    context.moveTo(r, -r);
    context.lineTo(-r, r);
    context.stroke();
  }
}
