// The layout: events in rows, participants in lanes, and the links between events.
import { plural } from "../core/format.js";
import { lowerBound, NONE } from "./model.js";
import { serviceName } from "./services.js";

// Rows are Lamport times or the wall clock. Lamport: one row for each distinct Lamport time among
// the loaded events. Wall clock: proportional to time, but a silence is cut to a few rows, or a
// night without traffic would be a screen of nothing.

const MOST_EVENTS = 2 ** 21; // more than are ever loaded
const CUT_AFTER_ROWS = 25;
const CUT_TO_ROWS = 4;
const LEAST_ROWS = 0.6; // even events of the same instant stand apart

/**
 * `{y, order, height, cuts}`: the row of each event, the indexes sorted by it, the number of
 * rows, and the silences `{y, micros}` that were cut.
 */
export function layOut(model, kind) {
  return kind === "time" ? byTime(model) : byLamport(model);
}

function byLamport({ lamport, length }) {
  const keys = new Float64Array(length); // numbers, which are sorted without a function to compare events
  for (let i = 0; i < length; i += 1) keys[i] = lamport[i] * MOST_EVENTS + i;
  keys.sort();
  const y = new Float64Array(length);
  const order = new Uint32Array(length);
  let row = -1;
  for (let k = 0; k < length; k += 1) {
    const i = (order[k] = keys[k] % MOST_EVENTS);
    if (!k || lamport[i] !== lamport[order[k - 1]]) row += 1;
    y[i] = row;
  }
  return { y, order, height: row + 1, cuts: [] };
}

function byTime(model) {
  const n = model.length;
  const { at } = model;
  const y = new Float64Array(n);
  const order = new Uint32Array(n);
  for (let i = 0; i < n; i += 1) order[i] = i;
  // Events are stored as they come, so ids are in time order unless a clock was set back.
  if (!ascending(at, n)) order.sort((a, b) => at[a] - at[b] || a - b);
  const unit = typicalGap(at, order);
  const cuts = [];
  let row = 0;
  for (let k = 1; k < n; k += 1) {
    const gap = at[order[k]] - at[order[k - 1]];
    const rows = gap / unit;
    const cut = rows > CUT_AFTER_ROWS;
    if (cut) cuts.push({ y: row + CUT_TO_ROWS / 2, micros: gap });
    row += cut ? CUT_TO_ROWS : Math.max(LEAST_ROWS, rows);
    y[order[k]] = row;
  }
  return { y, order, height: n ? row + 1 : 0, cuts };
}

function ascending(values, n) {
  for (let i = 1; i < n; i += 1) if (values[i] < values[i - 1]) return false;
  return true;
}

/** The median gap between neighbours, of a sample: one quiet night does not stretch it. */
function typicalGap(at, order) {
  const step = Math.max(1, Math.floor(order.length / 4000));
  const gaps = [];
  for (let k = 1; k < order.length; k += step) gaps.push(at[order[k]] - at[order[k - 1]]);
  const real = gaps.filter((gap) => gap > 0).sort((a, b) => a - b);
  return real.length ? Math.max(1, real[real.length >> 1]) : 1000;
}

/** The first place in the sorted `order`, from `low` to `high`, whose event is at `row` or below. */
export function placeOf({ y, order }, row, low = 0, high = order.length) {
  return lowerBound(low, high, (place) => y[order[place]] >= row);
}

const MOST_LANES = 40;

export const GROUPINGS = [
  ["service", "Name"],
  ["user", "User"],
  ["place", "Place"],
  ["none", "Nothing"],
];

/**
 * One lane for each participant, side by side within its group; a collapsed group is one lane. While it was not
 * chosen which are (`collapsed` is null), all are where there would be more than MOST_LANES, but for those of the
 * participants in `first`, which stand at the left.
 * `participants` as in the API (until they are known `model` has their names), `services` of them, `places` as
 * from `placesOf`; `shown` are the numbers that get a lane.
 * `{lanes: [{label, title, folded, name, service}], groups: [{key, from, to, collapsed, size, service}],
 * laneOf: Map}`; `name` is that of its service, if it has one, and `service` the number of its colour, or 0.
 */
export function arrange({ model, participants, services, places, grouping, collapsed, first }, shown) {
  const known = new Map(participants.map((p) => [p.participant, p]));
  const groups = new Map();
  for (const number of [...shown].sort((a, b) => first.has(b) - first.has(a) || places.get(a) - places.get(b))) {
    const who = known.get(number);
    const key = groupOf(who, grouping);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push({ who, number, title: who?.name ?? model.nameOf(number), name: services.of.get(number) });
  }
  const isCrowded = model.lastOf.size > MOST_LANES;
  const lanes = [];
  const heads = [];
  const laneOf = new Map();
  for (const [key, members] of groups) {
    const folded = grouping !== "none" && (collapsed ? collapsed.has(key) : isCrowded && members.length > 1 && !members.some(({ number }) => first.has(number)));
    const from = lanes.length;
    const name = members.every((one) => one.name === members[0].name) ? members[0].name : undefined;
    for (const member of members) {
      laneOf.set(member.number, folded ? from : lanes.length);
      if (!folded) lanes.push(lane(member, grouping));
    }
    if (folded) lanes.push({ label: `${members.length}`, title: `${key}: ${plural(members.length, "participant")}`, folded, name });
    if (grouping !== "none") heads.push({ key, from, to: lanes.length, collapsed: folded, size: members.length, name });
  }
  for (const one of [...lanes, ...heads]) one.service = services.colorOf(one.name);
  return { lanes, groups: heads, laneOf };
}

/** The group of a participant, which may not be known. */
export function groupOf(who, grouping) {
  if (grouping === "none") return "";
  return (grouping === "service" ? serviceName(who) : who?.[grouping]) ?? "unknown";
}

const PLACED = /^(.+) \((.+)@([^@]+)\)( #\d+)?$/; // `stock (guest@127.0.0.1) #2`

/** A lane's label, without what the head of its group says. */
function lane({ who, title, name }, grouping) {
  const [, client, user, place, number = ""] = PLACED.exec(title) ?? [];
  if (grouping === "service" && client !== undefined && client === name) {
    return { label: (user === client ? place : `${user}@${place}`) + number, title, name };
  }
  const known = [who?.user, who?.client].filter(Boolean).map((name) => [`${name}@`, `${name} · `]).flat();
  const head = ["user", "service"].includes(grouping) && known.find((one) => title.startsWith(one));
  return { label: head ? title.slice(head.length) : title, title, name };
}

/**
 * A number for each of the participants (its lane, its service) as a flat array, for the painter's
 * inner loop; `none` for the others.
 */
export function table(numbers, participants, none) {
  let most = 0;
  for (const number of participants) most = Math.max(most, number);
  const found = new Int32Array(most + 1).fill(none);
  for (const [number, value] of numbers) if (number <= most) found[number] = value;
  return found;
}

const BLOCK = 256;

/**
 * Edges between events (messages, the steps of a participant, or links) as a searchable set of
 * spans: which of them touch the rows in view, including those with both ends outside.
 *
 * `origins[k]` is the index of the event that edge k comes from, or NONE; it goes to the event
 * `targets[k]`, or without `targets` to k. Edges are sorted by where they begin, and the furthest end
 * of each block is kept, so that a query skips whole blocks that end above the window.
 */
export class Edges {
  constructor(origins, { y, order }, targets = null) {
    const total = targets ? targets.length : y.length;
    let count = 0;
    for (let k = 0; k < total; k += 1) if (origins[k] !== NONE) count += 1;
    this.length = count;
    this.from = new Int32Array(count);
    this.to = new Int32Array(count);
    this.top = new Float64Array(count);
    this.bottom = new Float64Array(count);
    this.fill(origins, targets, total, y, order);
    this.furthest = new Float64Array(Math.ceil(count / BLOCK)).fill(-Infinity);
    for (let e = 0; e < count; e += 1) {
      const block = (e / BLOCK) | 0;
      if (this.bottom[e] > this.furthest[block]) this.furthest[block] = this.bottom[e];
    }
  }

  // A counting sort by the place of the origin in `order`.
  fill(origins, targets, total, y, order) {
    const n = y.length;
    const place = new Uint32Array(n);
    for (let k = 0; k < n; k += 1) place[order[k]] = k;
    const starts = new Uint32Array(n + 1);
    for (let k = 0; k < total; k += 1) if (origins[k] !== NONE) starts[place[origins[k]] + 1] += 1;
    for (let k = 1; k <= n; k += 1) starts[k] += starts[k - 1];
    for (let k = 0; k < total; k += 1) {
      const origin = origins[k];
      if (origin === NONE) continue;
      const i = targets ? targets[k] : k;
      const e = starts[place[origin]]++;
      this.from[e] = origin;
      this.to[e] = i;
      this.top[e] = y[origin];
      this.bottom[e] = Math.max(y[i], y[origin]);
    }
  }

  /** True if there is an edge that `accept(from, to)` takes. */
  some(accept) {
    for (let e = 0; e < this.length; e += 1) if (accept(this.from[e], this.to[e])) return true;
    return false;
  }

  /**
   * Writes the numbers of the edges that touch rows `top` to `bottom`, and that `accept` (if
   * given) takes, into `found`, as many as fit; returns how many.
   */
  within(top, bottom, found, accept) {
    const end = lowerBound(0, this.length, (e) => this.top[e] > bottom);
    let n = 0;
    for (let block = 0; block * BLOCK < end; block += 1) {
      if (this.furthest[block] < top) continue;
      const last = Math.min(end, (block + 1) * BLOCK);
      for (let e = block * BLOCK; e < last; e += 1) {
        if (this.bottom[e] >= top && (!accept || accept(e))) {
          if (n === found.length) return n;
          found[n] = e;
          n += 1;
        }
      }
    }
    return n;
  }
}
