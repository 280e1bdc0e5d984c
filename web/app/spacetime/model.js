// The loaded events as columns of numbers, in id order. A million objects would be slow to walk
// and large to keep; columns of a million numbers are neither.
//
// Loaded events are always one unbroken span of ids of one virtual host. Id order is a linear
// extension of happens-before, so every path between two loaded events runs through loaded ones:
// answers about two loaded events are exact.
import { exchangeName, toMicros, visible } from "../core/format.js";
import { about, ACTS } from "../ui/marks.js";

export const NONE = -1;

const MATCHES = ["none", "routed", "redelivered", "dead_lettered", "unmatched", "untraced"];
export const MATCH = Object.fromEntries(MATCHES.map((name, number) => [name, number]));

const COLUMNS = {
  id: Float64Array,
  causeId: Float64Array, // 0 where there is none
  cause: Int32Array, // index of the cause, or NONE without a loaded one
  before: Int32Array, // index of the participant's previous event, or NONE
  participant: Int32Array,
  lamport: Float64Array,
  at: Float64Array, // microseconds
  received: Uint8Array,
  match: Uint8Array,
  label: Int32Array, // index into `labels`
  key: Int32Array, // index of the routing key there, or of the exchange without one
  who: Int32Array, // index of the participant's name there
};

/** The request to the API: the fields that the columns are made of, and the links. */
export const FORM = {
  columns:
    "id,vhost,type,match,cause,participant,participant_name,lamport,recorded_at,exchange,queue,routing_keys,quiet",
  links: true,
  payload: "none",
};

export class Model {
  constructor() {
    this.length = 0;
    this.prepended = 0; // in all: how far the index of the first event has moved
    this.capacity = 0;
    this.labels = [];
    this.labelNumbers = new Map();
    this.lastOf = new Map(); // participant → index of its last event
    this.types = new Map(); // id of a publish → the name of its type, of those that are known
    for (const name of Object.keys(COLUMNS)) this[name] = new COLUMNS[name](0);
    this.links = new Links(this);
  }

  clear() {
    this.length = 0;
    this.lastOf.clear();
    this.links.clear();
  }

  /** Adds events after the last one, ascending; skips those it has. Returns how many were new. */
  append(events) {
    const last = this.length ? this.id[this.length - 1] : 0;
    const fresh = events.filter((event) => event.id > last);
    this.reserve(this.length + fresh.length);
    for (const event of fresh) {
      const index = this.length;
      this.write(index, event);
      this.length += 1;
      this.cause[index] = this.causeId[index] ? this.indexOf(this.causeId[index]) : NONE;
      this.before[index] = this.lastOf.get(event.participant) ?? NONE;
      this.lastOf.set(event.participant, index);
      this.links.append(index, event);
    }
    return fresh.length;
  }

  /** Adds events before the first one, ascending; returns how many were new. */
  prepend(events) {
    const first = this.length ? this.id[0] : Infinity;
    const fresh = events.filter((event) => event.id < first);
    const added = fresh.length;
    const old = this.length;
    for (const [name, Kind] of Object.entries(COLUMNS)) {
      const column = new Kind(old + added);
      column.set(this[name].subarray(0, old), added);
      this[name] = column;
    }
    this.capacity = this.length = old + added;
    this.prepended += added;
    fresh.forEach((event, index) => this.write(index, event));
    this.join(added);
    this.links.prepend(fresh);
    return added;
  }

  /** Lets go of all but the newest `most` events. */
  keepNewest(most) {
    const gone = this.length - most;
    if (gone <= 0) return;
    for (const id of this.id.subarray(0, gone)) this.types.delete(id);
    for (const name of Object.keys(COLUMNS)) this[name].copyWithin(0, gone, this.length);
    this.length = most;
    this.prepended -= gone;
    const moved = (index) => (index < gone ? NONE : index - gone);
    for (let i = 0; i < most; i += 1) {
      this.cause[i] = moved(this.cause[i]);
      this.before[i] = moved(this.before[i]);
    }
    for (const [participant, index] of this.lastOf) {
      if (index < gone) this.lastOf.delete(participant);
      else this.lastOf.set(participant, index - gone);
    }
    this.links.letGo(gone);
  }

  /** Renews what messages and participants join, after `added` events were put in front. */
  join(added) {
    this.lastOf.clear();
    for (let i = 0; i < this.length; i += 1) {
      if (i >= added && this.cause[i] !== NONE) this.cause[i] += added;
      else this.cause[i] = this.causeId[i] ? this.indexOf(this.causeId[i]) : NONE;
      this.before[i] = this.lastOf.get(this.participant[i]) ?? NONE;
      this.lastOf.set(this.participant[i], i);
    }
  }

  write(index, event) {
    this.id[index] = event.id;
    this.causeId[index] = (!event.quiet && event.cause) || 0; // quiet traffic joins nothing
    this.participant[index] = event.participant;
    this.lamport[index] = event.lamport;
    this.at[index] = toMicros(event.recorded_at);
    this.received[index] = event.type === "received" ? 1 : 0;
    this.match[index] = MATCH[event.match] ?? 0;
    this.label[index] = this.labelNumber(about(event));
    this.key[index] = this.labelNumber(visible(event.routing_keys?.[0] || exchangeName(event.exchange ?? "")));
    this.who[index] = this.labelNumber(event.participant_name);
    if (event.type_name) this.types.set(event.id, event.type_name);
  }

  // Many events share few labels.
  labelNumber(text) {
    let number = this.labelNumbers.get(text);
    if (number === undefined) {
      number = this.labels.push(text) - 1;
      this.labelNumbers.set(text, number);
    }
    return number;
  }

  reserve(length) {
    if (length <= this.capacity) return;
    this.capacity = Math.max(length, Math.ceil(this.capacity * 1.5), 1024);
    for (const [name, Kind] of Object.entries(COLUMNS)) {
      const column = new Kind(this.capacity);
      column.set(this[name].subarray(0, this.length));
      this[name] = column;
    }
  }

  /** A participant's own name, by its newest loaded event. */
  nameOf(participant) {
    return this.labels[this.who[this.lastOf.get(participant)]];
  }

  /** The index of an event by its id, or NONE when it is not loaded. */
  indexOf(id) {
    const index = this.firstAfter(id - 1);
    return this.id[index] === id && index < this.length ? index : NONE;
  }

  /** The index of the first event with an id above `id`; the length when there is none. */
  firstAfter(id) {
    return lowerBound(0, this.length, (index) => this.id[index] > id);
  }

  describe(index) {
    return {
      id: this.id[index],
      type: this.received[index] ? "received" : "published",
      match: MATCHES[this.match[index]],
      cause: this.causeId[index] || null,
      links: this.links.namedBy(index).map((cause) => ({ cause })),
      type_name: this.types.get(this.id[index]) ?? null,
      participant: this.participant[index],
      who: visible(this.labels[this.who[index]]),
      lamport: this.lamport[index],
      at: this.at[index],
      text: this.labels[this.label[index]],
    };
  }

  /** The type of an event's message, or else its routing key. */
  messageName(index) {
    return this.types.get(this.received[index] ? this.causeId[index] : this.id[index]) ?? this.labels[this.key[index]];
  }

  /** The first loaded delivery of a publish, or the first publish that names a delivery, or NONE. */
  firstEffect(index) {
    if (this.received[index]) return this.links.firstEffect(index);
    for (let i = index + 1; i < this.length; i += 1) if (this.cause[i] === index) return i;
    return NONE;
  }

  /** The publish that was received, or the first event that a publish names, or NONE. */
  firstCause(index) {
    return this.received[index] ? this.cause[index] : this.links.firstCause(index);
  }

  /** The next event of the same participant, or NONE. */
  after(index) {
    for (let i = index + 1; i < this.length; i += 1) if (this.before[i] === index) return i;
    return NONE;
  }
}

/**
 * The first place from `low` up to `high` where `reached(place)` holds, or `high` if there is none.
 * Once it holds it must hold for all that follow.
 */
export function lowerBound(low, high, reached) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (reached(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * Links to causes that publishes name, and the broker's own. Few events have any and some have
 * several, so these stand beside the columns of the events: by effect, as the events are.
 */
class Links {
  constructor(model) {
    this.model = model;
    this.clear();
  }

  clear() {
    this.effect = []; // index of the event that names
    this.cause = []; // index of the named event, or NONE if it is not loaded
    this.causeId = [];
    this.step = []; // {rule, kind}: the rule that names it, null if unknown; or the broker's act
  }

  get length() {
    return this.effect.length;
  }

  /** True if any link is the broker's own. */
  get hasActs() {
    return this.step.some(({ kind }) => kind in ACTS);
  }

  /** Takes the links of an event that was put at the end. */
  append(index, event) {
    if (event.quiet || !event.links?.length) return; // quiet traffic joins nothing
    const steps = new Map(event.links.map(({ cause, rule = null, kind }) => [cause, { rule, kind }]));
    for (const [id, step] of steps) {
      this.effect.push(index);
      this.causeId.push(id);
      this.cause.push(this.model.indexOf(id));
      this.step.push(step);
    }
  }

  /** Takes those of `events` that were put in front of all others. */
  prepend(events) {
    const { effect, cause, causeId, step } = this;
    this.clear();
    events.forEach((event, index) => this.append(index, event));
    const added = events.length;
    for (let k = 0; k < effect.length; k += 1) {
      this.effect.push(effect[k] + added);
      this.causeId.push(causeId[k]);
      this.step.push(step[k]);
      this.cause.push(cause[k] === NONE ? this.model.indexOf(causeId[k]) : cause[k] + added);
    }
  }

  /** After the first `gone` events went. */
  letGo(gone) {
    const from = this.firstOf(gone);
    this.effect = this.effect.slice(from).map((index) => index - gone);
    this.cause = this.cause.slice(from).map((index) => (index < gone ? NONE : index - gone));
    this.causeId = this.causeId.slice(from);
    this.step = this.step.slice(from);
  }

  /** Links from one event to another, beside messages, by their indexes. */
  stepOf(cause, effect) {
    for (let k = this.firstOf(effect); this.effect[k] === effect; k += 1) {
      if (this.cause[k] === cause) return this.step[k];
    }
    return null;
  }

  /** The ids of what an event names. */
  namedBy(index) {
    return this.causeId.slice(this.firstOf(index), this.firstOf(index + 1));
  }

  /** The first event that an event names, or NONE. */
  firstCause(index) {
    const k = this.firstOf(index);
    return this.effect[k] === index ? this.cause[k] : NONE;
  }

  /** The place of the first link of an event, or of those after it. */
  firstOf(index) {
    return lowerBound(0, this.length, (k) => this.effect[k] >= index);
  }

  /** The first event that names an event, or NONE. */
  firstEffect(index) {
    const k = this.cause.indexOf(index);
    return k < 0 ? NONE : this.effect[k];
  }
}
