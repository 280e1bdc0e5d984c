// Very many events in sight: each is a few pixels in a buffer, which is a thousand times quicker
// than as many circles.
import { MATCH } from "./model.js";

const FEW_PIXELS_FROM = 200_000;

let buffer = null; // {canvas, context, image, pixels}

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

/** Writes one block of pixels an event; `colors` are 32-bit, as the buffer holds them. */
function plot(pixels, scene, colors, first, last, { across, down }) {
  const { model, rows, view, laneOf, marks } = scene;
  const { order, y } = rows;
  const { participant, received, match } = model;
  const width = Math.round(view.width);
  const height = Math.round(view.height);
  const { top, rowPixels } = view;
  // Where each participant's pixels begin: looked up a million times, worked out once.
  const left = Int32Array.from(laneOf, (lane) => (view.x(lane) | 0) - (across >> 1));
  for (let k = first; k < last; k += 1) {
    const i = order[k];
    const py = ((y[i] - top) * rowPixels) | 0;
    const px = left[participant[i]];
    if (py < 0 || py + down > height || px < 0 || px + across > width) continue;
    const odd = match[i] === MATCH.unmatched || match[i] === MATCH.dead_lettered;
    const tone = odd ? 2 : received[i];
    const color = colors[marks && !marks[i] ? tone + 3 : tone];
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

/** A colour of `channels` as the buffer's 32 bits (little endian, as every browser's machine). */
export const packed = ([red, green, blue], alpha = 1) =>
  ((Math.round(alpha * 255) << 24) | (blue << 16) | (green << 8) | red) >>> 0;
