// A conversation as its drawings need it: who led to whom, and what each event belongs to. Pure.

import { seconds, secondsSince } from "../core/format.js";
import { inShort, shortOf } from "../ui/names.js";

const SHORT = 0.001; // s; what took less than that has no parts to see
const MOST_TIMES = 5; // as long as all that happened
const BEFORE_BREAK = 0.86; // of a broken axis

/** A time in seconds since the conversation began. */
export const afterText = (n) => (n < SHORT ? "at the beginning" : `after ${seconds(n)}`);

/**
 * `names`: participants by number; `messages`: by the event of their publish, each with `children`,
 * `parent` and `depth`; `places`: `{message, copy, delivery}` by event, of publishes and deliveries
 * alike; `tops`: messages without a cause here; `lastSign`: seconds from the beginning to it; `isOpen`: something waits or is
 * in hand; `lastEvent`: the newest, null where not all are here; and what `inTime` adds.
 */
export function modelOf(answer) {
  const all = answer.participants.map(({ name }) => name);
  const short = shortOf(all);
  const inOurs = (clauses) => clauses.map((one) => ({ ...one, text: inShort(one.text, one.names, short) }));
  const names = new Map(answer.participants.map(({ number, name }) => [number, short(name)]));
  const hasEnded = ["finished", "retried", "failed"].includes(answer.state); // what still waits delays the end, whatever led to it
  const messages = new Map();
  const places = new Map();
  for (const one of answer.messages) {
    const failure_clauses = inOurs(one.failure_clauses);
    const slack = hasEnded && one.outcome !== "waiting" ? one.slack : null;
    const message = { ...one, failure_clauses, slack, critical: hasEnded && one.critical, children: [], parent: null, depth: 0 };
    messages.set(one.event, message);
    places.set(one.event, { message, copy: null, delivery: null });
    for (const copy of one.copies) {
      for (const delivery of copy.deliveries) places.set(delivery.event, { message, copy, delivery });
    }
  }
  const tops = [];
  for (const message of messages.values()) {
    const parent = places.get(message.cause)?.message;
    if (parent && parent !== message) {
      message.parent = parent;
      parent.children.push(message);
    } else tops.push(message);
  }
  let lastSign = answer.seconds ?? 0;
  for (const { delivery } of places.values()) {
    if (delivery) lastSign = Math.max(lastSign, delivery.offset + Math.max(delivery.handled ?? 0, delivery.settled_after ?? 0));
  }
  const isOpen = answer.counts.waiting > 0 || heldOf({ places }).length > 0;
  const lastEvent = answer.truncated ? null : Math.max(...places.keys());
  const sentence = inShort(answer.sentence, all, short);
  return inTime({ answer: { ...answer, sentence, clauses: inOurs(answer.clauses) }, short, names, messages, places, tops, lastSign, isOpen, lastEvent });
}

/** A model at this moment, with its `end` in seconds; `width`: those that are drawn, beyond it where the axis `isBroken` before now. */
export function inTime(model) {
  const { answer, isOpen, lastSign } = model;
  // A copy waits until now; where that dwarfs all that happened, the time between is left out.
  const age = isOpen ? secondsSince(answer.began_at) : 0;
  const isBroken = isOpen && lastSign >= SHORT && age >= MOST_TIMES * lastSign;
  const end = isBroken ? lastSign : Math.max(lastSign, age);
  return { ...model, end, isBroken, width: isBroken ? end / BEFORE_BREAK : Math.max(end, SHORT) };
}

/**
 * All rows, `[{key, message, copies, sub, parent, depth, isInner, led}]`: messages below their causes. A message that went into
 * several queues has a further row for each copy, `sub`, above what that copy led to. `led` counts the messages below a row.
 */
export function rowsOf({ tops, places }) {
  const rows = [];
  const rowOf = (message, parent, copy = null) => ({
    key: `${message.event} ${copy?.queue ?? ""}`, message, copies: copy ? [copy] : message.copies.length > 1 ? [] : message.copies,
    sub: copy !== null, parent, depth: parent ? parent.depth + 1 : 0, isInner: false, led: 0,
  });
  const todo = tops.map((message) => rowOf(message, null)).reverse();
  while (todo.length) {
    const row = todo.pop();
    const { message, copies, sub } = row;
    rows.push(row);
    const isSplit = message.copies.length > 1;
    const copyOf = (child) => (isSplit ? copyBefore(places.get(child.cause), child) : null);
    const below = message.children.filter((child) => copyOf(child) === (sub ? copies[0] : null)).map((child) => rowOf(child, row));
    const split = isSplit && !sub ? message.copies.map((copy) => rowOf(message, row, copy)) : [];
    row.isInner = below.length + split.length > 0;
    todo.push(...[...split, ...below].reverse());
  }
  for (const { parent, led, sub } of rows.toReversed()) if (parent) parent.led += led + (sub ? 0 : 1);
  return rows;
}

/** The rows that are below none of those with a `folded` key. */
export function unfoldedOf(rows, folded) {
  const hidden = new Set();
  return rows.filter((row) => {
    if (hidden.has(row.parent) || folded.has(row.parent?.key)) hidden.add(row);
    return !hidden.has(row);
  });
}

/** The keys of the uppermost rows that are neither on the way to some rows nor below them. */
export function besideOf(rows, some) {
  const [way, below] = [new Set(), new Set(some)];
  for (let row of some) for (; row && !way.has(row); row = row.parent) way.add(row);
  for (const row of rows) if (below.has(row.parent)) below.add(row);
  return new Set(rows.filter((row) => row.isInner && (!row.parent || way.has(row.parent)) && !way.has(row) && !below.has(row)).map(({ key }) => key));
}

/** The copy that led to a message: of one that names a message and not a delivery, the one that its publisher was handed. */
function copyBefore({ message, copy }, { participant, event }) {
  const handed = message.copies.filter(({ deliveries }) => deliveries.some((one) => one.participant === participant && one.event < event));
  return copy ?? (handed.length === 1 ? handed[0] : null);
}

/** The name of a participant; of a publish that was not observed, nobody knows whose it is. */
export const nameOf = (names, number) =>
  number == null ? "not observed" : (names.get(number) ?? `participant ${number}`);

/** The parts of the time from one event to another: where, and how long. */
function partsBetween({ places, names }, from, to) {
  const a = places.get(from);
  const b = places.get(to);
  if (!a || !b) return [];
  const at = (place) => (place.delivery ?? place.message).offset;
  const seconds = at(b) - at(a);
  if (!b.delivery) {
    // If only the message is known and not the delivery, as after a redelivery, this includes the queue's time.
    const isKnown = a.delivery || a.message.participant === b.message.participant;
    return [{ kind: isKnown ? "program" : "led", name: nameOf(names, b.message.participant), seconds, event: to }];
  }
  const held = Math.min(seconds, a.delivery?.settled_after ?? 0);
  const spell = spellBefore({ places }, b, a.delivery);
  const waited = spell.holder
    ? { kind: spell.kind, name: nameOf(names, spell.holder.participant) }
    : { kind: "queued", name: b.delivery.queue ?? b.copy.queue };
  const rejected = a.delivery?.settlement === "rejected" ? "rejected" : "back";
  return [
    ...(held ? [{ kind: rejected, name: nameOf(names, a.delivery.participant), seconds: held, event: from }] : []),
    { ...waited, seconds: seconds - held, event: to },
  ];
}

/** The event where an order that is not over stands: a publish that waits, or a delivery in hand; null of others. */
export function openIn({ answer: { position, state, via }, messages, places }) {
  if (!position || via === "any" || !["waiting", "in_work"].includes(state)) return null;
  const waits = position.queue != null && waitingOf({ messages }).find(({ queue }) => queue === position.queue);
  const isThere = ({ delivery }) => delivery?.at === position.since;
  return waits?.message?.event ?? [...places.values()].find(isThere)?.delivery.event ?? null;
}

/** The type of the message where an order that is not over stands. */
export const typeIn = (model) => model.places.get(openIn(model))?.message.type;

/** The events that led to one, and itself. */
function pathTo({ places }, event) {
  const path = [];
  for (let at = event, place; (place = places.get(at)) && !path.includes(at); at = place.delivery ? place.message.event : place.message.cause) path.unshift(at);
  return path;
}

/** Parts of the time until the end, or until what an order waits for, the largest first: `{kind, name, seconds, event}`. */
export function partsOf(model) {
  const open = openIn(model);
  const path = open ? pathTo(model, open) : model.answer.critical_path;
  const sums = new Map();
  for (let i = 1; i < path.length; i += 1) {
    for (const part of partsBetween(model, path[i - 1], path[i])) {
      const key = `${part.kind}\n${part.name}`;
      const sum = sums.get(key);
      if (!sum) sums.set(key, { ...part, longest: part.seconds });
      else {
        sum.seconds += part.seconds;
        if (part.seconds > sum.longest) Object.assign(sum, { event: part.event, longest: part.seconds });
      }
    }
  }
  return [...sums.values()].sort((a, b) => b.seconds - a.seconds);
}

/**
 * Failures, `{message, failure, text, by, letter}`: `by` is the delivery that was rejected, or else the one before the death;
 * `letter` the first dead letter, or null.
 */
export function failuresOf({ messages, places }) {
  const failures = [];
  for (const message of messages.values()) {
    if (!message.failure) continue;
    const [{ text, event }] = message.failure_clauses;
    const copies = message.copies.filter(({ queue }) => queue === message.failure.queue);
    const letter = copies.flatMap(({ deliveries }) => deliveries).find(({ match }) => match === "dead_lettered") ?? null;
    failures.push({ message, failure: message.failure, text, by: places.get(event)?.delivery ?? null, letter });
  }
  return failures;
}

/** The delivery of a copy that was given back or rejected, before one; null if unknown. */
export function holderOf({ places }, { acts }) {
  const act = acts.find(({ kind }) => kind !== "overflow");
  return (act && places.get(act.cause)?.delivery) ?? null;
}

/**
 * The time of a copy before a delivery (a place) after the `last`: `{kind, holder, seconds}`. It was `queued`, or somebody held it,
 * for any part of that time, and `rejected` it or gave it `back`; a settlement says when, and then it waited.
 */
export function spellBefore({ places }, { message, copy, delivery }, last) {
  const isDead = delivery.match === "dead_lettered";
  const holder = last?.settled_after == null && (isDead || delivery.redelivered) ? (holderOf({ places }, delivery) ?? last) : null;
  const seconds = delivery.queued == null ? null : Math.max(0, delivery.queued - (last?.settled_after ?? 0));
  if (!holder) return { kind: "queued", holder: null, seconds };
  const reason = copy.queue === message.failure?.queue && message.failure.reason;
  const isRejected = isDead && [reason, ...delivery.acts.map(({ kind }) => kind)].includes("rejected");
  return { kind: isRejected ? "rejected" : "back", holder, seconds };
}

/** The copies that were handed over again: `{message, delivery, spell}`, the spell before it. */
export function retriedOf({ messages, places }) {
  return [...messages.values()].flatMap((message) =>
    message.copies.flatMap((copy) =>
      copy.deliveries.flatMap((delivery, n) =>
        delivery.redelivered && n ? [{ message, delivery, spell: spellBefore({ places }, { message, copy, delivery }, copy.deliveries[n - 1]) }] : [],
      ),
    ),
  );
}

/** The copies that still wait: `{message, queue, since, returns}`. */
export function waitingOf({ messages }) {
  return [...messages.values()].flatMap((message) =>
    message.copies.filter(({ state }) => state === "waiting").map(({ queue, waits_since: since, returns }) => ({ message, queue, since, returns })),
  );
}

/** The event of the first message that failed, else of one that waits: somebody who opens a conversation asks for it. */
export function stuckIn({ messages }) {
  const all = [...messages.values()].filter(({ copies }) => copies.length > 0);
  return ["failed", "waiting"].map((wanted) => all.find(({ outcome }) => outcome === wanted)).find(Boolean)?.event;
}

/** Copies that consumers hold: `{message, delivery}`. */
export const heldOf = ({ places }) => [...places.values()].filter(({ delivery }) => delivery?.settlement === "in_hand");
