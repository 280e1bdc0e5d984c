// From messages to rectangles and words: time to the right, a row for each copy of a message. Pure.
import { ageOf, moment, seconds, visible } from "../core/format.js";
import { serviceIn } from "../ui/names.js";
import { nameOf, spellBefore } from "./model.js";

export const ROW = 30;
const PAD = 6;
export const INDENT = 14;
export const MOST_INDENT = 10; // steps; deeper ones are numbered
export const BASE = ROW / 2 + 4; // of words
export const CRITICAL = { y: ROW - 4, height: 2.5 }; // the line below bars on the critical path
const LEAST = 2; // pixels, so that what took no time can be seen
const LETTER = 6.1; // pixels, of the words on bars
const SPACE = 5;

// Each kind of bar: its fill, edge, dashes, and the colour of words on it, as tokens of the style sheet.
const TONES = {
  queued: { fill: "--received-ground", stroke: "--received" },
  handled: { fill: "--published-ground", stroke: "--published" },
  back: { fill: "--warn-ground", stroke: "--warn" },
  rejected: { fill: "--bad", stroke: "--bad", ink: "--ink-on-fill" },
  waiting: { fill: null, stroke: "--warn", dash: "5 3" },
  settled: { fill: "--good", stroke: "--good", ink: "--ink-on-fill" },
  held: { fill: null, stroke: "--good", dash: "5 3" },
};
export const USUAL = { fill: "--line", stroke: null };
export const USUAL_WORDS = "usual, median to 9 of 10";
const BEYOND = { fill: "--bad", stroke: null };
const CLEARLY = 1.5; // times the usual, and beyond what trace messages resolve
const LEAST_BEYOND = 0.01; // s
const LEAST_KNOWN = 20;
const LIT = { handled: { fill: "--published", stroke: "--published", ink: "--ink-on-fill" } };

/** `{fill, stroke, dash, ink}` of a kind of bar, `lit`: on the critical path. */
export const toneOf = (kind, lit) => ({ ink: "--ink", ...((lit && LIT[kind]) || TONES[kind]) });

const MARKS = {
  published: ["--ink", (x, y, height) => `M${x} ${y}v${height}`],
  delivered: ["--received", (x, y, height) => `M${x} ${y}v${height}`],
  redelivered: ["--warn", (x, y, height) => `M${x} ${y - 3}v${height + 6}M${x - 3.5} ${y - 3}h7`],
  died: ["--bad", (x, y, height) => `M${x - 4} ${y + height / 2 - 4}l8 8M${x + 4} ${y + height / 2 - 4}l-8 8`],
};

/** The path of a mark that is at (`left`, `top`) in the row's place, and its colour. */
export function markOf({ kind, x, y, height }, left = 0, top = 0) {
  const [stroke, path] = MARKS[kind];
  return { stroke, d: path(left + x, top + y, height) };
}

/** `x(seconds)` for the seconds `from` to `to` on this many pixels. */
export function scaleOf({ from, to }, pixels) {
  const perSecond = pixels / Math.max(to - from, 1e-9);
  return (seconds) => (seconds - from) * perSecond;
}

/** Round times between `from` and `to`, about one to `spacing` pixels, each with its label. */
export function ticksOf({ from, to }, pixels, spacing = 110) {
  const rough = Math.max(((to - from) * spacing) / Math.max(pixels, 1), 1e-6); // events have microseconds
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough * (1 - 1e-9));
  // All in the unit of the last, with as many digits as tell one from the next.
  const [unit, perSecond] = to < 0.001 ? ["µs", 1e6] : to < 1 ? ["ms", 1000] : ["s", 1];
  const digits = Math.max(0, -Math.floor(Math.log10(step * perSecond) + 1e-9));
  const label = (at) => (to >= 60 && !digits ? seconds(at) : `${(at * perSecond).toFixed(digits)} ${unit}`);
  const ticks = [];
  for (let n = Math.ceil(from / step - 1e-9); n * step <= to + step * 1e-9; n += 1) ticks.push({ at: n * step, label: n ? label(n * step) : "0" });
  return ticks;
}

/**
 * A row's contents: `bars` of `{kind, x, y, width, height, critical, event}`, `marks` of `{kind, x, y, event}` with
 * kind published, delivered, redelivered or died, and `words` of `{x, anchor, text, on}`, `on` the kind of bar they
 * stand on, or null. Kind `queued` waited in a queue; `rejected` and `back`, what somebody held or
 * what waited for the next, until it was handed on; `handled`, `settled`, `held` (not settled yet) and `waiting`.
 */
export function rowShapes({ message, copies, sub }, x, model, pixels) {
  const height = ROW - 2 * PAD;
  const marks = sub ? [] : [{ kind: "published", x: x(message.offset), y: PAD, height, event: message.event }];
  const bars = copies.flatMap((copy) => barsOf(message, copy, model, marks, x));
  const drawn = bars.map(({ from, to, usual, ...bar }) => ({
    y: PAD, height, ...bar, seconds: to - from, usual: beyond(usual, to - from), x: x(from), width: Math.max(LEAST, x(to) - x(from)),
  }));
  return { bars: drawn, marks, words: wordsOf(drawn, pixels), spans: bars.flatMap((bar) => spansOf(bar, x)) };
}

/** The usual time of a bar that took clearly longer; else null. */
const beyond = (usual, seconds) => (usual && seconds > Math.max(usual.p90 * CLEARLY, usual.p90 + LEAST_BEYOND) ? usual : null);

/** The usual time behind a bar, from the median to nine of ten, and the part of the bar that is beyond. */
function spansOf({ usual, from, to, low }, x) {
  if (!usual || low) return [];
  const span = (begin, end, y, height, tone) => ({ x: x(begin), y, width: Math.max(LEAST, x(end) - x(begin)), height, tone });
  const spans = [span(from + usual.median, from + usual.p90, 1, ROW - 2, USUAL)];
  if (beyond(usual, to - from)) spans.push(span(from + usual.p90, to, 1, 3, BEYOND));
  return spans;
}

/** Usual times, by `queue` or `service` and its name, of an answer of the API: `{median, p90, since}`. */
export function usualOf(items) {
  const usuals = new Map();
  for (const { queue, service, waiting, handling } of items) {
    const { usual, slower } = queue == null ? handling : waiting;
    const key = queue == null ? `service\n${service}` : `queue\n${queue}`;
    if (usual.count >= LEAST_KNOWN) usuals.set(key, { median: usual.median, p90: usual.p90, since: slower?.since ?? null });
  }
  return usuals;
}

/** `usually 0.2 s, since 08:14`, of a bar that took longer. */
const usualText = ({ usual }) => usual && `usually ${seconds(usual.median)}${usual.since ? `, since ${moment(usual.since)}` : ""}`;

/** The bars of one copy, in seconds; notes its deliveries among the marks. */
function barsOf(message, copy, { names, places, end, usual }, marks, x) {
  const height = ROW - 2 * PAD;
  const bars = [];
  const mark = (kind, at, event) => marks.push({ kind, x: x(at), y: PAD, height, event });
  const who = ({ participant }) => visible(nameOf(names, participant));
  let before = message.offset;
  let last = null;
  for (const one of copy.deliveries) {
    const { event, critical, offset } = one;
    const isDead = one.match === "dead_lettered";
    const { kind, holder } = spellBefore({ places }, { message, copy, delivery: one }, last);
    const name = kind === "rejected" ? `rejected by ${who(holder)}` : holder && who(holder);
    const work = usual?.get(`service\n${serviceIn(nameOf(names, one.participant))}`);
    const wait = kind === "queued" ? usual?.get(`queue\n${one.queue ?? copy.queue}`) : null;
    bars.push({ kind, from: before, to: offset, event, critical: critical && message.critical, name, usual: wait });
    before = offset;
    mark(isDead ? "died" : one.redelivered ? "redelivered" : "delivered", offset, event);
    if (one.handled != null) {
      before = offset + one.handled;
      bars.push({ kind: "handled", from: offset, to: before, event, critical, name: who(one), usual: one.settled_after == null ? work : null });
    }
    const owner = one.settlement === "rejected" ? `rejected by ${who(one)}` : who(one);
    const low = one.handled == null ? { name: owner } : { low: true, y: PAD + 12, height: 6 };
    if (one.settled_after != null) {
      before = offset + one.settled_after;
      bars.push({ kind: one.settlement === "rejected" ? "rejected" : "settled", from: offset, to: before, event, critical: false, ...low, usual: work });
    } else if (one.settlement === "in_hand") bars.push({ kind: "held", from: offset, to: end, event, critical: false, ...low });
    last = one;
  }
  if (last && last.handled == null && last.settled_after == null && last.settlement !== "in_hand") bars.at(-1).taker = who(last);
  if (copy.state === "waiting") bars.push({ kind: "waiting", from: message.offset, to: end, event: message.event, critical: false, name: `still waits, ${ageOf(message.at)}` });
  if (copy.state === "dead_lettered" && !copy.deliveries.some(({ match }) => match === "dead_lettered")) mark("died", before, message.event);
  return bars;
}

/** Names on their bars if there is room, the others at the end of the row, with the last bar's time and owner. */
function wordsOf(bars, pixels) {
  const words = [];
  const left = new Set();
  const wide = (text) => text.length * LETTER + SPACE;
  for (const { kind, name, critical, x, width } of bars.filter((bar) => bar.name)) {
    const from = Math.max(0, x) + SPACE;
    if (Math.min(pixels, x + width) - from >= wide(name)) words.push({ x: from, anchor: "start", text: name, on: kind, lit: critical });
    else left.add(name);
  }
  const [first] = bars;
  const last = bars.findLast(({ low }) => !low);
  if (!last || first.x > pixels || last.x + last.width < 0) return words;
  const taker = last.taker && `→ ${last.taker}`;
  const slow = bars.filter((bar) => bar.usual).map((bar) => (bar === last ? "" : `${bar.name ?? "waiting"} ${seconds(bar.seconds)}, `) + usualText(bar));
  const time = last.kind !== "waiting" && seconds(last.seconds);
  const text = [[[...left, time].filter(Boolean).join(" "), ...slow].filter(Boolean).join(", "), taker].filter(Boolean).join(" ");
  const end = Math.max(...bars.map(({ x, width }) => x + width)) + SPACE;
  const before = first.x - SPACE;
  if (!text) return words;
  const inside = words.filter(({ x }) => x > last.x).reduce((sum, word) => sum + wide(word.text), wide(text));
  if (end + wide(text) <= pixels) words.push({ x: end, anchor: "start", text, on: null });
  else if (last.width > inside && last.x + last.width <= pixels) words.push({ x: last.x + last.width - SPACE, anchor: "end", text, on: last.kind, lit: last.critical });
  else words.push({ x: before > wide(text) ? before : Math.min(pixels, Math.max(wide(text), end - 2 * SPACE)), anchor: "end", text, on: null });
  return words;
}
