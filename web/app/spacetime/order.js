// The order of the lanes: receivers stand near their senders.
import { NONE } from "./model.js";

const MOST = 200; // more are left in the order in which they came
const MOST_AGAIN = 60;
const TURNS = 3;
const MOST_LOOKED_AT = 50_000; // events, the newest: of every other one a message would often lack an end

/**
 * The place of each of these participants, those of a group beside each other. `keyOf(participant)` is its
 * group. In the order in which they were first seen, each is put where it, and what it comes between, are
 * nearest to those that it exchanges messages with; then most messages go to the right. Those of `known`, a row as
 * it is, keep their order, and the others are put among them.
 */
export function placesOf(model, numbers, keyOf, known = []) {
  const ascending = [...numbers].sort((a, b) => a - b);
  const members = Map.groupBy(ascending, keyOf);
  const pairs = exchanged(model);
  const between = new Map();
  for (const [a, others] of pairs) for (const [b, count] of others) tie(between, keyOf(a), keyOf(b), count);
  const before = Map.groupBy(known, keyOf);
  const keys = nearEachOther([...members.keys()], between, [...before.keys()]);
  const row = keys.flatMap((key) => nearEachOther(members.get(key), pairs, before.get(key)));
  const places = new Map(row.map((number, place) => [number, place]));
  return !known.length && rightwards(model, places) < 0 ? new Map(row.reverse().map((number, place) => [number, place])) : places;
}

/** Messages that go to the right, less those that go to the left. */
function rightwards({ length, cause, participant }, places) {
  let more = 0;
  for (let i = Math.max(0, length - MOST_LOOKED_AT); i < length; i += 1) {
    if (cause[i] !== NONE) more += Math.sign(places.get(participant[i]) - places.get(participant[cause[i]]));
  }
  return more;
}

/** Messages between each two participants, either way. */
function exchanged({ length, cause, participant }) {
  const pairs = new Map();
  for (let i = Math.max(0, length - MOST_LOOKED_AT); i < length; i += 1) {
    if (cause[i] !== NONE) tie(pairs, participant[cause[i]], participant[i], 1);
  }
  return pairs;
}

function tie(pairs, a, b, count) {
  if (a === b) return;
  for (const [one, other] of [[a, b], [b, a]]) {
    if (!pairs.has(one)) pairs.set(one, new Map());
    pairs.get(one).set(other, (pairs.get(one).get(other) ?? 0) + count);
  }
}

/** `ties`: by item, how strongly it is tied to each other one; `known`: those that stand in a row already. */
function nearEachOther(items, ties, known = []) {
  const stand = new Set(known);
  const others = items.filter((item) => !stand.has(item));
  if (items.length > MOST) return [...known, ...others];
  let row = known;
  for (const item of others) row = put(row, item, ties);
  if (known.length) return row;
  // Again: the first ones had no neighbours to be put beside.
  for (let turn = 0; turn < TURNS && items.length <= MOST_AGAIN; turn += 1) {
    for (const item of items) row = put(row.filter((one) => one !== item), item, ties);
  }
  return row;
}

/** The position with the shortest ties to it and across it; of several such positions the last. */
function put(row, item, ties) {
  const place = new Map(row.map((one, n) => [one, n]));
  const own = [...(ties.get(item) ?? [])].filter(([other]) => place.has(other));
  if (!own.length) return [...row, item];
  const over = new Float64Array(row.length + 2); // by place: ties that one who came in there would stretch, as differences
  for (const [one, n] of place) {
    for (const [other, weight] of ties.get(one) ?? []) {
      const m = place.get(other);
      if (m === undefined || m <= n) continue;
      over[n + 1] += weight;
      over[m + 1] -= weight;
    }
  }
  let [best, least, stretched] = [row.length, Infinity, 0];
  for (let at = 0; at <= row.length; at += 1) {
    stretched += over[at];
    const length = own.reduce((sum, [other, weight]) => sum + weight * Math.abs(place.get(other) + 0.5 - at), 0);
    if (length + stretched <= least) [best, least] = [at, length + stretched];
  }
  return row.toSpliced(best, 0, item);
}
