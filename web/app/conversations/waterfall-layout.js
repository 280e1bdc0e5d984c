// From messages to rectangles and words: time to the right, a row for each copy of a message. Pure.
import { ageOf, moment, seconds, secondsSince, visible } from "../core/format.js";
import { serviceIn } from "../ui/names.js";
import { nameOf, rowsOf, spellBefore } from "./model.js";
import { spentText } from "./words.js";

export const ROW = 30;
const PAD = 6;
export const INDENT = 14;
export const MOST_INDENT = 10; // steps; deeper ones are numbered
export const BASE = ROW / 2 + 4; // of words
export const CRITICAL = { y: ROW - 4, height: 2.5 }; // the line below bars on the critical path
const LEAST = 2; // pixels, so that what took no time can be seen
const LETTER = 6.1; // pixels, of the words on bars
const SPACE = 5;
const NOW = 50; // pixels before a break, without a tick

// Each kind of bar: its fill, edge, dashes, and the colour of words on it, as tokens of the style sheet.
const TONES = {
  queued: { fill: "--received-ground", stroke: "--received" },
  handled: { fill: "--published-ground", stroke: "--published" },
  back: { fill: "--warn-ground", stroke: "--warn" },
  rejected: { fill: "--bad-fill", stroke: "--bad-fill", ink: "--ink-on-fill" },
  waiting: { fill: "--warn-ground", stroke: "--warn", dash: "5 3" },
  settled: { fill: "--good", stroke: "--good", ink: "--ink-on-fill" },
  held: { fill: "--good-ground", stroke: "--good", dash: "5 3" },
};
export const USUAL = { fill: "--usual-most", stroke: null };
export const LESS = { fill: "--usual", stroke: null };
export const USUAL_WORDS = "usual: half within the first grey, 9 of 10 within both";
export const BEYOND = { fill: "--bad", stroke: null };
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
  // The ends of bars that are not over; a torn one is longer than drawn.
  open: [null, (x, y, height) => `M${x} ${y}l5 ${height / 2}l-5 ${height / 2}`],
  torn: [null, (x, y, height) => `M${x} ${y}${`l4 ${height / 6}l-4 ${height / 6}`.repeat(3)}`],
};

/** The path of a mark that is at (`left`, `top`) in the row's place, and its colour. */
export function markOf({ kind, tone, x, y, height }, left = 0, top = 0) {
  const [stroke, path] = MARKS[kind];
  return { stroke: stroke ?? tone, d: path(left + x, top + y, height) };
}

/** The path round a bar that is open at its right. */
export const openPath = ({ x, y, width, height }) => `M${x + width} ${y}H${x}v${height}H${x + width}`;

/** `x(seconds)` for the seconds `from` to `to` on this many pixels. */
export function scaleOf({ from, to }, pixels) {
  const perSecond = pixels / Math.max(to - from, 1e-9);
  return (seconds) => (seconds - from) * perSecond;
}

/** The ticks of a conversation's axis, which has none behind a break but now. */
export function axisOf({ end, isBroken }, span, pixels) {
  const ticks = ticksOf(span, pixels);
  if (!isBroken) return ticks;
  const room = (NOW * (span.to - span.from)) / pixels;
  return [...ticks.filter(({ at }) => at <= end - room), { at: end, label: "… now" }];
}

/** Round times between `from` and `to`, about one to `spacing` pixels, each with its label. */
function ticksOf({ from, to }, pixels, spacing = 110) {
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
 * kind published, delivered, redelivered, died, open or torn, `words` of `{x, anchor, text, on}`, `on` the kind of bar they
 * stand on, or null, and `label`, all there is to say. Kind `queued` waited in a queue; `rejected` and `back`, what somebody held or
 * what waited for the next, until it was handed on; `handled`, `settled`, `held` (not settled yet) and `waiting`.
 */
export function rowShapes({ message, copies, sub }, x, model, pixels) {
  const height = ROW - 2 * PAD;
  const marks = sub ? [] : [{ kind: "published", x: x(message.offset), y: PAD, height, event: message.event }];
  const bars = copies.flatMap((copy) => barsOf(message, copy, model, marks, x));
  const crosses = new Set(marks.filter(({ kind }) => kind === "died").map((mark) => mark.x));
  const drawn = bars.map(({ from, to, usual, ...bar }) => ({
    y: PAD, height, ...bar, inset: crosses.has(x(from)) ? SPACE : 0, usual: beyond(usual, bar.seconds), x: x(from), width: Math.max(LEAST, x(to) - x(from)),
  }));
  for (const bar of drawn.filter(({ open }) => open)) {
    const end = (kind, at) => ({ ...bar, kind, x: at, tone: toneOf(bar.kind).stroke });
    if (model.isBroken) bar.tear = x(model.end);
    marks.push(...(model.isBroken ? [end("torn", bar.tear)] : []), end("open", bar.x + bar.width));
  }
  return { bars: drawn, marks, ...wordsOf(drawn, pixels), spans: bars.flatMap((bar) => spansOf(bar, x)) };
}

/** The usual time of a bar that took clearly longer; else null. */
const beyond = (usual, seconds) => (usual && seconds > Math.max(usual.p90 * CLEARLY, usual.p90 + LEAST_BEYOND) ? usual : null);

/** The usual time behind a bar: up to the median, on to nine of ten, and the part of the bar that is beyond. */
function spansOf({ usual, from, to, seconds: took, low, open }, x) {
  if (!usual || (low && !open)) return [];
  const span = (begin, end, y, height, tone) => ({ x: x(begin), y, width: Math.max(LEAST, x(end) - x(begin)), height, tone });
  const spans = [span(from, from + usual.median, 1, ROW - 2, LESS), span(from + usual.median, from + usual.p90, 1, ROW - 2, USUAL)];
  if (beyond(usual, took)) spans.push(span(Math.min(from + usual.p90, to), to, 1, 3, BEYOND));
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

/** A bar of what goes on: compared by its age, whatever the axis leaves out. */
const openBar = (kind, from, to, at, rest) => ({ kind, from, to, seconds: secondsSince(at), age: ageOf(at), open: true, critical: false, ...rest });

/** The bars of one copy, in seconds; notes its deliveries among the marks. */
function barsOf(message, copy, { names, places, width, usual }, marks, x) {
  const height = ROW - 2 * PAD;
  const bars = [];
  const add = (bar) => bars.push({ seconds: bar.to - bar.from, ...bar });
  const mark = (kind, at, event) => marks.push({ kind, x: x(at), y: PAD, height, event });
  const who = ({ participant }) => visible(nameOf(names, participant));
  let before = message.offset;
  let last = null;
  for (const one of copy.deliveries) {
    const { event, critical, offset } = one;
    const isDead = one.match === "dead_lettered";
    const { kind, holder } = spellBefore({ places }, { message, copy, delivery: one }, last);
    const work = usual?.get(`service\n${serviceIn(nameOf(names, one.participant))}`);
    const wait = kind === "queued" ? usual?.get(`queue\n${one.queue ?? copy.queue}`) : null;
    add({ kind, from: before, to: offset, event, critical: critical && message.critical, name: holder && who(holder), usual: wait });
    before = offset;
    mark(isDead ? "died" : one.redelivered ? "redelivered" : "delivered", offset, event);
    const isHeld = one.settled_after == null && one.settlement === "in_hand";
    if (one.handled != null) {
      before = offset + one.handled;
      add({ kind: "handled", from: offset, to: before, event, critical: critical && message.critical, name: who(one), usual: one.settled_after == null && !isHeld ? work : null });
    }
    const own = { event, name: who(one), usual: work, ...(one.handled != null && { low: true, y: PAD + 12, height: 6 }) };
    if (one.settled_after != null) {
      before = offset + one.settled_after;
      add({ kind: one.settlement === "rejected" ? "rejected" : "settled", from: offset, to: before, critical: false, ...own });
    } else if (isHeld) add(openBar("held", offset, width, one.at, own));
    last = one;
  }
  const isMute = last && last.handled == null && last.settled_after == null && last.settlement !== "in_hand";
  // The last of several attempts may have led on until then; which one did, nobody knows.
  const led = isMute && last.redelivered && message.children.find((child) => child.participant === last.participant && child.event > last.event);
  if (led) add({ kind: "handled", from: last.offset, to: led.offset, event: last.event, critical: led.critical && message.critical, name: `${who(last)}, again`, usual: null });
  else if (isMute) bars.at(-1).taker = who(last);
  if (copy.state === "waiting") add(openBar("waiting", before, width, copy.waits_since, { event: last?.event ?? message.event, usual: usual?.get(`queue\n${copy.queue}`) }));
  if (copy.state === "dead_lettered" && !copy.deliveries.some(({ match }) => match === "dead_lettered")) mark("died", before, message.event);
  return bars;
}

const wide = (text) => text.length * LETTER + SPACE;
const listed = (parts, by = ", ") => parts.filter(Boolean).join(by);
const isTimed = ({ kind, open }) => open || kind === "rejected";

/** A bar's label, then shorter ones; none where its colour says all. */
function labelsOf(bar) {
  const { kind, name, open, age, low } = bar;
  if (!isTimed(bar)) return name && !low ? [name] : [];
  const time = open ? age : seconds(bar.seconds);
  const text = kind === "waiting" ? `${time} waiting, still` : open ? `${spentText(time, "handled", name)}, still` : spentText(time, "rejected", name);
  return [listed([text, usualText(bar)]), text, ...(open ? [] : [`${time} rejected`]), time];
}

/** `2.5 s handling by stock, usually 0.2 s, since 08:14`, of a bar that took longer. */
export const slowText = (bar) => (isTimed(bar) ? labelsOf(bar)[0] : listed([bar.name ? spentText(seconds(bar.seconds), "handled", bar.name) : `${seconds(bar.seconds)} waiting`, usualText(bar)]));

/** The bars that took clearly longer than usual and are over, each with its message. */
export function slowIn(model, usual) {
  if (!usual?.size) return [];
  return rowsOf(model).flatMap((row) => rowShapes(row, () => 0, { ...model, usual }, 0).bars.filter((bar) => bar.usual && !bar.open).map((bar) => ({ message: row.message, bar })));
}

/** The words beside a row's bars: labels without room, the last bar's time, what is usual, who took it; then shorter ones. */
function tailsOf(bars, rest, last) {
  const time = isTimed(last) ? "" : seconds(last.seconds);
  const slow = bars.filter((bar) => bar.usual && !isTimed(bar))
    .map((bar) => (bar === last ? usualText(bar) : slowText(bar)));
  const first = (bar) => labelsOf(bar)[0];
  const names = new Set(rest.filter((bar) => !isTimed(bar)).map(first));
  const timed = rest.filter(isTimed).map(first);
  const taker = last.taker && `→ ${last.taker}`;
  const short = listed([time, ...slow]);
  return [listed([listed([...timed, listed([...names, time], " "), ...slow]), taker], " "), listed([short, taker], " "), short, time].filter(Boolean);
}

/** `{words, label}`: labels on their bars, else beside all bars, whole; shorter ones only where neither has room. */
function wordsOf(bars, pixels) {
  const last = bars.findLast(({ low }) => !low);
  if (!last) return { words: [], label: "" };
  const places = placesOf(bars, last, pixels);
  const rest = bars.filter((bar) => !places.on(bar, labelsOf(bar).slice(0, 1)));
  const tails = tailsOf(bars, rest, last);
  const label = listed([...places.words.map(({ text }) => text), tails[0]]);
  const isInView = bars[0].x <= pixels && last.x + last.width >= 0;
  if (!isInView || !tails.length || places.beside(tails[0], rest)) return { words: places.words, label };
  const isAlone = rest.length === 1 && isTimed(last);
  for (const bar of rest) labelsOf(bar).slice(1).some((text) => places.on(bar, [text]) || (isAlone && places.beside(text, rest)));
  tails.slice(1).some((text) => places.beside(text, [last]));
  return { words: places.words, label };
}

/** `words`, and what puts the first of some texts that has room on a bar, or one beside all bars; false without room. */
function placesOf(bars, last, pixels) {
  const words = [];
  const right = ({ x, width, tear = Infinity }) => Math.min(pixels, x + width, tear);
  const rooms = new Map(bars.map((bar) => [bar, bar.low ? 0 : right(bar) - Math.max(0, bar.x) - SPACE - bar.inset]));
  const put = (bar, text, x, anchor) => {
    words.push({ x, anchor, text, on: bar.kind, lit: bar.critical });
    rooms.set(bar, rooms.get(bar) - wide(text));
  };
  const on = (bar, texts) => {
    const text = texts.find((one) => wide(one) <= rooms.get(bar));
    if (text) put(bar, text, Math.max(0, bar.x) + SPACE + bar.inset, "start");
    return Boolean(text) || !texts.length;
  };
  const end = Math.max(...bars.map(({ x, width, open }) => x + width + (open ? SPACE : 0))) + SPACE;
  const before = bars[0].x - SPACE;
  const beside = (text, rest) => {
    if (end + wide(text) <= pixels) words.push({ x: end, anchor: "start", text, on: null });
    else if (wide(text) <= rooms.get(last) && rest.every((bar) => bar === last)) put(last, text, right(last) - SPACE, "end");
    else if (before >= wide(text) && !words.some(({ on: bar }) => bar)) words.push({ x: before, anchor: "end", text, on: null });
    else return false; // left of a bar that has words, a time would read as that bar's
    return true;
  };
  return { words, on, beside };
}
