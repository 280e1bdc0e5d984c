// Saves a drawing (`{width, height, shapes}`) as SVG or PNG, in the colours that are shown.
import { color } from "../ui/color.js";
import { FONT } from "./shapes.js";

const SVG = "http://www.w3.org/2000/svg";
const MOST_PIXELS = 16_000; // a side; browsers paint no larger canvas
const SHARP = 2;

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) if (value != null) made.setAttribute(key, value);
  return made;
}

const paint = (token) => (token ? color(token) : "none");

/** The text of an SVG file that needs no style sheet. */
export function svgText({ width, height, shapes }) {
  const root = element("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": FONT });
  root.append(element("rect", { width, height, fill: color("--panel") }));
  for (const s of shapes) {
    if (s.kind === "rect") {
      root.append(element("rect", { x: s.x, y: s.y, width: s.w, height: s.h, rx: s.r, fill: paint(s.fill), stroke: paint(s.stroke) }));
    } else if (s.kind === "path") {
      root.append(element("path", { d: s.d, fill: paint(s.fill), stroke: paint(s.stroke), "stroke-width": s.width, "stroke-dasharray": s.dash }));
    } else {
      const halo = s.halo ? { stroke: color("--panel"), "stroke-width": 4, "stroke-linejoin": "round", "paint-order": "stroke" } : {};
      const words = element("text", {
        x: s.x, y: s.y, "text-anchor": s.anchor, "font-size": s.size, "font-weight": s.bold ? 600 : 400, fill: paint(s.fill), ...halo,
      });
      words.textContent = s.text;
      root.append(words);
    }
  }
  return new XMLSerializer().serializeToString(root);
}

/** A PNG as a blob; a drawing that is too large for one is made smaller. */
export function pngBlob({ width, height, shapes }) {
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
  context.strokeStyle = color(s.stroke);
  context.lineWidth = s.width ?? 1;
  context.setLineDash(s.dash ? s.dash.split(" ").map(Number) : []);
  return context.stroke(shape);
}

const ALIGN = { start: "left", middle: "center", end: "right" };

function drawText(context, s) {
  context.font = `${s.bold ? 600 : 400} ${s.size}px ${FONT}`;
  context.textAlign = ALIGN[s.anchor];
  context.setLineDash([]);
  if (s.halo) {
    context.strokeStyle = color("--panel");
    context.lineWidth = 4;
    context.lineJoin = "round";
    context.strokeText(s.text, s.x, s.y);
  }
  context.fillStyle = color(s.fill);
  context.fillText(s.text, s.x, s.y);
}
