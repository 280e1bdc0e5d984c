// The waterfall as a picture that speaks for itself: its subject, its time zone, and its address. Pure.
import { dateTime, said, visible, zone } from "../core/format.js";
import { titleOf } from "./words.js";
import { nameOf } from "./model.js";
import { fitted, path, rect, text } from "./shapes.js";
import { BASE, CRITICAL, INDENT, markOf, MOST_INDENT, openPath, ROW, rowShapes, scaleOf, ticksOf, toneOf, USUAL, USUAL_WORDS } from "./waterfall-layout.js";

const WIDTH = 1200;
const NAMES = 300;
const EDGE = 20;
const TOP = 96;
const CHIP = 24;
const CHIPS = 190; // where they begin, behind their word
const MOST_ROWS = 400;

/** `services`: `[{name, verdict, word}]`, the verdict on each; null if nobody asked for them. */
export default function waterfallDrawing(model, rows, services, link = location.href) {
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
    ...ticksOf(span, pixels).flatMap(({ at, label }) => [
      path(`M${left + x(at)} ${TOP - 22}V${TOP + shown.length * ROW}`, "--line"),
      plain(left + x(at) + 4, TOP - 10, label, { size: 11, fill: "--ink-soft" }),
    ]),
    ...shown.flatMap((row, n) => rowOf(row, TOP + n * ROW, { model, x, left, pixels, plain })),
  ];
  let y = TOP + shown.length * ROW + EDGE;
  if (model.usual?.size) {
    shapes.push(rect(left, y - 8, 2 * INDENT, INDENT, { r: 0, ...USUAL }), plain(left + 3 * INDENT, y + 3, USUAL_WORDS, { size: 11, fill: "--ink-soft" }));
    y += EDGE;
  }
  if (services?.length) y = strip(shapes, services, y, plain);
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
    ...marks.map((mark) => markOf(mark, left, top)).map(({ d, stroke }) => path(d, stroke, { width: 2 })),
    ...words.map((word) => text(left + word.x, top + BASE, word.text, { anchor: word.anchor, size: 11, halo: !word.on, fill: word.on ? toneOf(word.on, word.lit).ink : "--ink" })),
  ];
}

function barShape(bar) {
  const tone = toneOf(bar.kind, bar.critical);
  return bar.open ? path(openPath(bar), tone.stroke, { ...tone, width: 1 }) : rect(bar.x, bar.y, bar.width, bar.height, { r: 1.5, ...tone });
}

const STRIP = {
  caused: ["--fill", "--fill", "--ink-on-fill"],
  may_have: ["--chosen", "--chosen", "--ink"],
  cannot_have: [null, "--line-strong", "--ink-soft"],
  unknown: ["--sunk", "--line-strong", "--ink"],
};

/** Lines across a chip. */
const hatches = (x, y, wide) =>
  Array.from({ length: Math.max(0, Math.floor((wide - CHIP) / 8)) + 1 }, (_, n) => `M${x + n * 8} ${y + CHIP}l${CHIP} ${-CHIP}`).join("");

/** The services in rows of chips, under the word for each tone; returns where it ends. */
function strip(shapes, services, top, plain) {
  let y = top;
  for (const [verdict, [fill, stroke, ink]] of Object.entries(STRIP)) {
    const touched = services.filter((one) => one.verdict === verdict);
    if (!touched.length) continue;
    shapes.push(plain(EDGE, y + 16, touched[0].word, { size: 12, bold: true, fill: "--ink-soft" }));
    let at = CHIPS;
    for (const { name } of touched) {
      const words = fitted(visible(name), 240);
      const wide = words.length * 7 + 16;
      if (at + wide > WIDTH - EDGE) [at, y] = [CHIPS, y + CHIP + 4];
      const hatched = verdict === "unknown" ? [path(hatches(at, y, wide), "--line-strong", { width: 1 })] : [];
      shapes.push(rect(at, y, wide, CHIP, { r: 4, fill, stroke }), ...hatched, text(at + wide / 2, y + 16, words, { fill: ink }));
      at += wide + 6;
    }
    y += CHIP + 8;
  }
  return y;
}
