// The view as a file: the same painting on a larger canvas, or on a context that writes SVG, with
// the names of the lanes above it.
import { saveBlob } from "../core/download.js";
import { dateTime, said, shortened, visible } from "../core/format.js";
import { attempt } from "../core/notices.js";
import { paint } from "./painter.js";
import { SvgContext } from "./svg-context.js";
import { GUTTER } from "./view.js";

const HEAD = 120;
const FOOT = 24;
const SCALE = 2; // of a PNG: for print, and for screens of high density
const SLANT = -Math.PI / 4;
const MOST_LETTERS = 26;

/** Saves what a stage shows as a file of the format "SVG" or "PNG". */
export function savePicture(stage, format) {
  return attempt(async () => {
    const blob = await (format === "SVG" ? svg(stage) : png(stage));
    saveBlob(blob, `space-time-${stage.model.id[0]}-${stage.model.id[stage.model.length - 1]}.${format.toLowerCase()}`);
  });
}

function svg(stage) {
  const { width, height } = sizeOf(stage);
  const context = new SvgContext(width, height);
  draw(context, stage);
  return new Blob([context.text()], { type: "image/svg+xml" });
}

function png(stage) {
  const { width, height } = sizeOf(stage);
  const canvas = new OffscreenCanvas(width * SCALE, height * SCALE);
  const context = canvas.getContext("2d");
  context.scale(SCALE, SCALE);
  context.clearRect = () => {}; // the ground is painted, and stays
  draw(context, stage);
  return canvas.convertToBlob({ type: "image/png" });
}

const sizeOf = ({ scene: { view } }) => ({ width: Math.ceil(view.width), height: Math.ceil(view.height) + HEAD + FOOT });

function draw(context, stage) {
  const { scene, vhost } = stage;
  const palette = stage.palette.peek();
  const { width, height } = sizeOf(stage);
  context.fillStyle = palette.ground;
  context.fillRect(0, 0, width, height);
  context.save();
  context.translate(0, HEAD);
  paint(context, scene, palette);
  context.restore();
  paintNames(context, scene, palette);
  Object.assign(context, { font: "11px Inter, sans-serif", textAlign: "left", textBaseline: "middle", fillStyle: palette.soft });
  const { model } = scene;
  const span = `${dateTime(model.at[0] / 1000)} to ${dateTime(model.at[model.length - 1] / 1000)}`;
  context.fillText(`${stage.subset ? said(stage.subset.sentence) : visible(vhost)} · ${span} · rabbitmq-itc`, 10, height - FOOT / 2);
}

/** The name of each lane, slanted, in the ink of text and with a dot in the colour of its service. */
function paintNames(context, { view, lanes }, palette) {
  Object.assign(context, { font: "12px Inter, sans-serif", textAlign: "left", textBaseline: "middle" });
  lanes.forEach((lane, n) => {
    const x = view.x(n);
    if (x < GUTTER || x > view.width) return;
    context.fillStyle = palette.services[lane.service];
    context.fillRect(x - 4, HEAD - 6, 8, 4);
    context.save();
    context.translate(x, HEAD - 12);
    context.rotate(SLANT);
    context.fillStyle = palette.ink;
    context.fillText(shortened(visible(lane.title), MOST_LETTERS), 0, 0);
    context.restore();
  });
}
