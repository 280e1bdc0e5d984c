// The waterfall as a picture that speaks for itself: its subject, its time zone, and its address. Pure.
import { dateTime, said, visible, zone } from "../core/format.js";
import { titleOf } from "./words.js";
import { nameOf } from "./model.js";
import { fitted, path, rect, text } from "./shapes.js";
import { axisOf, BASE, CRITICAL, INDENT, LESS, markOf, MOST_INDENT, openPath, ROW, rowShapes, scaleOf, toneOf, USUAL, USUAL_WORDS } from "./waterfall-layout.js";

const WIDTH = 1200;
const NAMES = 300;
const EDGE = 20;
const TOP = 96;
const MOST_ROWS = 400;

export default function waterfallDrawing(model, rows, link = location.href) {
  const { answer, width } = model;
  const shown = rows.slice(0, MOST_ROWS);
  const pixels = WIDTH - NAMES - 2 * EDGE;
  const span = { from: 0, to: width };
  const x = scaleOf(span, pixels);
  const left = NAMES + EDGE;
  const plain = (at, y, words, more) => text(at, y, words, { anchor: "start", ...more });
  const shapes = [
    plain(EDGE, 34, fitted(titleOf(answer), WIDTH - 2 * EDGE, 20), { size: 20, bold: true }),
    plain(EDGE, 56, fitted(said(answer.sentence), WIDTH - 2 * EDGE, 13), { size: 13 }),
    ...axisOf(model, span, pixels).flatMap(({ at, label }) => [
      path(`M${left + x(at)} ${TOP - 22}V${TOP + shown.length * ROW}`, "--line"),
      plain(left + x(at) + 4, TOP - 10, label, { size: 11, fill: "--ink-soft" }),
    ]),
    ...shown.flatMap((row, n) => rowOf(row, TOP + n * ROW, { model, x, left, pixels, plain })),
  ];
  let y = TOP + shown.length * ROW + EDGE;
  if (model.usual?.size) {
    shapes.push(rect(left, y - 8, INDENT, INDENT, { r: 0, ...LESS }), rect(left + INDENT, y - 8, INDENT, INDENT, { r: 0, ...USUAL }), plain(left + 3 * INDENT, y + 3, USUAL_WORDS, { size: 11, fill: "--ink-soft" }));
    y += EDGE;
  }
  shapes.push(plain(EDGE, y + 14, fitted(`${dateTime(answer.began_at)} (${zone()}) in ${visible(answer.vhost)} · ${link}`, WIDTH - 2 * EDGE, 11), { size: 11, fill: "--ink-soft" }));
  return { width: WIDTH, height: y + 14 + EDGE, shapes };
}

function rowOf(row, top, { model, x, left, pixels, plain }) {
  const { message, depth, copies, sub } = row;
  const { bars, marks, words, spans } = rowShapes(row, x, model, pixels);
  const from = visible(nameOf(model.names, message.participant));
  const name = sub ? `→ ${visible(copies[0].queue)}` : visible(message.type);
  const by = sub ? "" : copies.length ? `${from} → ${visible(copies[0].queue)}` : from;
  const begin = EDGE + Math.min(depth, MOST_INDENT) * INDENT;
  return [
    plain(begin, top + BASE, fitted(name, (NAMES - begin) * 0.55), { bold: !sub && message.critical, fill: sub ? "--ink-soft" : "--ink" }),
    text(left - 10, top + BASE, fitted(by, NAMES * 0.4, 11), { anchor: "end", size: 11, fill: "--ink-soft" }),
    ...spans.map((span) => rect(left + span.x, top + span.y, span.width, span.height, { r: 0, ...span.tone })),
    ...bars.map((bar) => barShape({ ...bar, x: left + bar.x, y: top + bar.y })),
    ...bars.filter(({ critical }) => critical).map((bar) => rect(left + bar.x, top + CRITICAL.y, bar.width, CRITICAL.height, { r: 0, fill: "--brand" })),
    ...marks.flatMap((mark) => {
      const { d, stroke } = markOf(mark, left, top);
      return [...(mark.kind === "died" ? [path(d, "--panel", { width: 5 })] : []), path(d, stroke, { width: 2 })];
    }),
    ...words.map((word) => text(left + word.x, top + BASE, word.text, { anchor: word.anchor, size: 11, halo: !word.on, fill: word.on ? toneOf(word.on, word.lit).ink : "--ink" })),
  ];
}

function barShape(bar) {
  const tone = toneOf(bar.kind, bar.critical);
  return bar.open ? path(openPath(bar), tone.stroke, { ...tone, width: 1 }) : rect(bar.x, bar.y, bar.width, bar.height, { r: 1.5, ...tone });
}
