// Lanes for who acts, arrows for messages, in the order of time. Pure.
import { ageOf, seconds, visible } from "../core/format.js";
import { NARROW } from "../ui/width.js";
import { holderOf, nameOf, spellBefore } from "./model.js";
import { spellText } from "./words.js";
import { arrowHead, fitted, path, rect, round, text } from "./shapes.js";

export const STEP = 34;
const HEAD = 44;
const SLANTED = 104; // pixels of a lane; where there is less, heads are slanted
const SLANTED_HEAD = 84;
const TIMES = 56; // pixels left of all lanes
const LEAST_LANE = 36;
const FOOT = 16;
const LOOP = 26;

/**
 * `{lanes, steps}`. A lane is a participant, or a queue in which something stayed. A step is
 * `{event, at, from, to, kind, type, note, time, short, still}`, from and to by lane; kind is sent, again, dead, stays or
 * note. Notes have no `to`.
 */
export function sequenceOf({ messages, names, places }) {
  const lanes = new Map();
  const lane = (kind, key, name) => {
    const id = `${kind}\n${key}`;
    if (!lanes.has(id)) lanes.set(id, { id, kind, name, place: lanes.size });
    return id;
  };
  const store = (queue) => lane("queue", queue, `queue ${visible(queue)}`); // a service often has the same name
  const person = (number) => lane("participant", number, visible(nameOf(names, number)));
  const events = [];
  for (const message of messages.values()) {
    const { type } = message;
    const step = (event, at, rest) => events.push({ event, at, type: visible(type), note: "", from: message.participant, ...rest });
    if (!message.copies.length) step(message.event, message.offset, { kind: "note", note: "reached no queue" });
    for (const copy of message.copies) {
      let last = null;
      let previous = null;
      for (const one of copy.deliveries) {
        const dead = one.match === "dead_lettered";
        const holder = holderOf({ places }, one);
        const from = holder?.participant ?? message.participant;
        for (const { cause } of one.acts.filter(({ kind }) => kind === "overflow")) {
          const pusher = places.get(cause)?.message.participant;
          if (pusher != null) step(one.event, one.offset, { kind: "note", from: pusher, note: `pushed out of ${visible(copy.queue)} by #${cause}` });
        }
        const kind = dead ? "dead" : one.redelivered ? "again" : "sent";
        const spell = spellBefore({ places }, { message, copy, delivery: one }, previous);
        const waited = one.queued == null ? "" : spellText(spell, one.queue ?? copy.queue, names);
        const isRejected = dead && spell.kind === "rejected" && waited !== "";
        previous = one;
        // A dead letter comes from who had the message last, else from the queue that it died in.
        const rejecter = holder ?? (message.failure?.reason === "rejected" ? last : null);
        const origin = !dead ? { from } : rejecter ? { from: rejecter.participant } : { by: copy.queue };
        if (dead) step(one.event, one.offset, { ...origin, kind: "note", note: `died in ${visible(copy.queue)}${isRejected ? `: ${waited}` : reason(message)}`, short: `died in ${visible(copy.queue)}${reason(message)}` });
        step(one.event, one.offset, { ...origin, kind, to: one.participant, ...(!isRejected && waited && { note: waited, time: seconds(spell.seconds) }) });
        if (!dead) last = one;
      }
      if (copy.state === "waiting") {
        const at = previous ? previous.offset + (previous.settled_after ?? 0) : message.offset;
        step(previous?.event ?? message.event, at, { from: previous?.participant ?? message.participant, kind: "stays", queue: copy.queue, still: `${ageOf(copy.waits_since)} waiting, still` });
      } else if (copy.state === "gone") {
        step(message.event, message.offset, { kind: "stays", queue: copy.queue, note: "gone" });
      } else if (copy.state === "dead_lettered" && !copy.deliveries.some(({ match }) => match === "dead_lettered")) {
        const to = copy.dead_lettered_to.at(-1);
        const at = last?.offset ?? message.offset;
        const from = last?.participant ?? message.participant;
        step(last?.event ?? message.event, at, { kind: "note", from, note: `died in ${visible(copy.queue)}${reason(message)}` });
        if (to) step(last?.event ?? message.event, at, { kind: "stays", from, queue: to, note: "dead letter" });
      }
    }
  }
  events.sort((a, b) => a.at - b.at || a.event - b.event);
  const steps = events.map((one) => {
    const from = one.by == null ? person(one.from) : store(one.by);
    const to = one.queue != null ? store(one.queue) : one.to != null ? person(one.to) : null;
    return { ...one, from, to };
  });
  return { lanes: [...lanes.values()], steps };
}

const reason = ({ failure }) => (failure?.reason ? `: ${visible(failure.reason)}` : "");

/** `{width, lane, head, isNarrow, x}`: how wide all lanes and each of them are, how high their heads, and where a lane's line is. */
export function placesOf({ lanes }, width) {
  const isSlanted = width < SLANTED * lanes.length;
  const lane = Math.max(LEAST_LANE, Math.min(260, (width - TIMES) / Math.max(1, lanes.length)));
  const at = new Map(lanes.map(({ id }, n) => [id, TIMES + (n + 0.5) * lane]));
  return { lane, width: Math.max(TIMES + lane * lanes.length, 240), head: isSlanted ? SLANTED_HEAD : HEAD, isNarrow: width <= NARROW, x: (id) => at.get(id) };
}

export function headShapes({ lanes }, { lane, head, x }) {
  if (head > HEAD) {
    return lanes.map(({ id, kind, name }) => text(x(id) + 4, head - 6, fitted(name, 100), {
      anchor: "end", bold: true, size: 11, turn: 50, fill: kind === "queue" ? "--warn" : "--ink",
    }));
  }
  return lanes.flatMap(({ id, kind, name }) => [
    rect(x(id) - lane / 2 + 5, 7, lane - 10, HEAD - 16, {
      r: kind === "queue" ? 3 : 14, fill: "--raised", stroke: kind === "queue" ? "--warn" : "--line-control",
    }),
    text(x(id), 26, fitted(name, lane - 26), { bold: true }),
  ]);
}

const TONES = { sent: "--ink", again: "--warn", dead: "--bad", stays: "--warn", note: "--bad" };

const WORDS = { again: " again", dead: ", dead letter" };

/** `order.new again (20 ms in billing)`, `order.new (7 min waiting, still)`: the words of a step. */
export function stepText({ type, kind, note, still }) {
  if (kind === "note") return `${type} ${note}`;
  return `${type}${WORDS[kind] ?? ""}${still || note ? ` (${still ?? note})` : ""}`;
}

/** The shapes of a step whose row begins at `top`, with its piece of every lane's line. */
export function stepShapes(step, { lanes }, { width, isNarrow, x }, top = 0) {
  const lines = lanes.map(({ id }) => path(`M${round(x(id))} ${top}v${STEP}`, "--line-strong", { width: 1 }));
  lines.push(text(TIMES - 6, top + STEP - 5, step.at ? `+${seconds(step.at).replace("< ", "")}` : "0", { anchor: "end", size: 11, fill: "--ink-soft" }));
  const tone = TONES[step.kind];
  const from = x(step.from);
  const y = top + STEP - 9;
  if (step.kind === "note") return [...lines, ...noteShapes(step, from, width, top)];
  const to = x(step.to);
  const dash = step.kind === "sent" ? undefined : "6 4";
  const words = stepText(isNarrow && step.time ? { ...step, note: step.time } : step); // the row's title has all
  const within = (room) => (wide(words) < room ? words : fitted(stepText({ ...step, note: "" }), room, 11));
  if (from === to) {
    const side = from < width / 2 ? 1 : -1;
    const room = (side > 0 ? width - from : from) - LOOP - 8;
    const out = from + side * LOOP;
    return [
      ...lines,
      path(`M${from} ${y - 12}H${out}V${y}H${from + side * 4}`, tone, { dash }),
      arrowHead(from, y, side > 0 ? Math.PI : 0, tone),
      ...labelled(out + side * 5, y - 2, within(room), side > 0 ? "start" : "end", tone),
    ];
  }
  const turn = to > from ? 0 : Math.PI;
  // A step has its row to itself: its words may be wider than its arrow.
  const whole = within(width - TIMES - 8);
  const half = Math.min(width, wide(whole)) / 2;
  const middle = Math.min(width - half, Math.max(TIMES + half, (from + to) / 2));
  return [
    ...lines,
    path(`M${from} ${y}H${to - 5 * Math.cos(turn)}`, tone, { dash }),
    arrowHead(to, y, turn, tone),
    ...labelled(round(middle), y - 6, step.still && whole !== words ? step.still : whole, "middle", step.kind === "sent" ? "--ink" : tone),
  ];
}

const wide = (words) => words.length * 5.7; // pixels, as a rule

/** Words at (`x`, `y`) with a ground of their own, so that no lane's line crosses them. */
function labelled(x, y, words, anchor, fill) {
  const w = wide(words) + 4;
  const left = anchor === "middle" ? x - w / 2 : anchor === "start" ? x - 2 : x - w + 2;
  return [rect(left, y - 11, w, 14, { r: 2, fill: "--panel", ground: true }), text(x, y, words, { anchor, size: 11, fill })];
}

function noteShapes(step, at, width, top) {
  const room = width - TIMES - 18;
  const words = fitted(step.short && wide(stepText(step)) > room ? stepText({ ...step, note: step.short }) : stepText(step), room + 6, 11);
  const w = Math.min(width - TIMES - 4, wide(words) + 14);
  const left = Math.max(TIMES + 2, Math.min(width - w - 2, at - w / 2));
  return [
    rect(left, top + 7, w, STEP - 13, { r: 3, fill: "--bad-ground", stroke: "--bad" }),
    text(left + w / 2, top + 21, words, { size: 11, fill: "--bad" }),
  ];
}

/** All of it as one drawing. */
export function wholeDrawing(sequence, places) {
  return {
    width: places.width,
    height: places.head + sequence.steps.length * STEP + FOOT,
    shapes: [
      ...headShapes(sequence, places),
      ...sequence.steps.flatMap((step, n) => stepShapes(step, sequence, places, places.head + n * STEP)),
    ],
  };
}

// A semicolon ends a statement, and a hash begins the code of a character.
const plain = (words) => words.replace(/[#;]/g, (c) => `#${c.charCodeAt(0)};`).replace(/\n/g, " ");
const ARROWS = { sent: "->>", again: "-->>", dead: "--x", stays: "-)" };

/** The same in Mermaid's words. */
export function mermaidOf({ lanes, steps }) {
  const short = new Map(lanes.map(({ id }, n) => [id, `${id.startsWith("queue") ? "q" : "p"}${n + 1}`]));
  const lines = lanes.map(({ id, name }) => `  participant ${short.get(id)} as ${plain(name)}`);
  for (const step of steps) {
    const words = plain(stepText(step));
    lines.push(step.kind === "note"
      ? `  Note over ${short.get(step.from)}: ${words}`
      : `  ${short.get(step.from)}${ARROWS[step.kind]}${short.get(step.to)}: ${words}`);
  }
  return ["sequenceDiagram", ...lines, ""].join("\n");
}
