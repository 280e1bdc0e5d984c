// Saves a drawing (`{width, height, shapes}`) as SVG or PNG, in the colours that are shown.
import { html, render } from "../core/html.js";
import { color } from "../ui/color.js";
import { FONT } from "./shapes.js";
import { Shape } from "./shapes-view.js";

const MOST_PIXELS = 16_000; // a side; browsers paint no larger canvas
const SHARP = 2;

const paint = (token) => (token ? color(token) : "none");

/** A picture as a blob: a `png`, or an `svg` that needs no style sheet. */
export default function pictureBlob(drawing, kind) {
  return kind === "png" ? pngBlob(drawing) : new Blob([svgText(drawing)], { type: "image/svg+xml" });
}

function svgText({ width, height, shapes }) {
  const halo = { stroke: color("--panel"), "stroke-width": 4, "stroke-linejoin": "round", "paint-order": "stroke" };
  const holder = document.createElement("div");
  render(html`<svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} font-family=${FONT}>
    <rect width=${width} height=${height} fill=${color("--panel")} />
    ${shapes.map((shape) => html`<${Shape} shape=${shape} paint=${paint} halo=${halo} />`)}</svg>`, holder);
  return new XMLSerializer().serializeToString(holder.firstChild);
}

/** A PNG as a blob; a drawing that is too large for one is made smaller. */
function pngBlob({ width, height, shapes }) {
  const scale = Math.min(SHARP, MOST_PIXELS / Math.max(width, height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(width * scale);
  canvas.height = Math.ceil(height * scale);
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.fillStyle = color("--panel");
  context.fillRect(0, 0, width, height);
  for (const shape of shapes) draw(context, shape);
  return new Promise((resolve, reject) =>
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The browser could not paint so large a picture."))), "image/png"),
  );
}

function draw(context, s) {
  if (s.kind === "text") return drawText(context, s);
  const shape = new Path2D(s.kind === "path" ? s.d : undefined);
  if (s.kind === "rect") shape.roundRect(s.x, s.y, s.w, s.h, s.r);
  if (s.fill) {
    context.fillStyle = color(s.fill);
    context.fill(shape);
  }
  if (!s.stroke) return undefined;
  Object.assign(context, { strokeStyle: color(s.stroke), lineWidth: s.width ?? 1 });
  context.setLineDash(s.dash ? s.dash.split(" ").map(Number) : []);
  return context.stroke(shape);
}

const ALIGN = { start: "left", middle: "center", end: "right" };

function drawText(context, s) {
  Object.assign(context, { font: `${s.bold ? 600 : 400} ${s.size}px ${FONT}`, textAlign: ALIGN[s.anchor] });
  context.setLineDash([]);
  if (s.halo) {
    Object.assign(context, { strokeStyle: color("--panel"), lineWidth: 4, lineJoin: "round" });
    context.strokeText(s.text, s.x, s.y);
  }
  context.fillStyle = color(s.fill);
  context.fillText(s.text, s.x, s.y);
}
