// A drawing as a list of shapes, to show it as SVG, save it as SVG, and paint it as PNG. Pure.
// path: {kind, d, stroke, fill, width, dash}; rect: {kind, x, y, w, h, r, fill, stroke, ground}, `ground`: of words, in the row's colour;
// text: {kind, x, y, text, anchor, size, bold, fill, halo, turn}, turn in degrees. Colours are tokens of the style sheet.
import { shortened } from "../core/format.js";

export const FONT = "Inter, system-ui, sans-serif";
const ARROW = 7;
const PER_LETTER = 0.56; // of the size, for letters of middling width

/** A full arrow head that points to (x, y) from an angle. */
export function arrowHead(x, y, angle, fill) {
  const side = (turn) => `${round(x - ARROW * Math.cos(angle + turn))} ${round(y - ARROW * Math.sin(angle + turn))}`;
  return { kind: "path", d: `M${round(x)} ${round(y)}L${side(0.45)}L${side(-0.45)}Z`, fill, stroke: null };
}

export const path = (d, stroke, rest) => ({ kind: "path", d, stroke, fill: null, width: 1.5, ...rest });
export const rect = (x, y, w, h, rest) => ({ kind: "rect", x, y, w, h, r: 6, fill: null, stroke: null, ...rest });
export const text = (x, y, words, rest) => ({
  kind: "text", x, y, text: words, anchor: "middle", size: 12, bold: false, fill: "--ink", halo: false, ...rest,
});

export const round = (n) => Math.round(n * 10) / 10;

/** As much of a text as has room in this many pixels. */
export const fitted = (words, pixels, size = 12) => shortened(words, Math.max(3, Math.floor(pixels / (size * PER_LETTER))));
