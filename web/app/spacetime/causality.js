// Past, future and chain over the loaded events. Happens-before is the closure of the steps of each
// participant, the messages between them and the links, and ids follow it, so one walk along the ids
// finds it.
import { NONE } from "./model.js";

export const PAST = 1;
export const SELF = 2;
export const FUTURE = 3;
export const CHAIN = 4;

/** A mark for each event: PAST, SELF or FUTURE of the event `of`; 0 if concurrent with it. */
export function pastAndFuture(model, of) {
  const marks = new Uint8Array(model.length);
  markPast(model, of, marks, PAST);
  marks[of] = FUTURE;
  markFuture(model, of, model.length - 1, marks, FUTURE);
  marks[of] = SELF;
  return marks;
}

/** CHAIN for every event between `from` and `to` in happens-before, ends included. */
export function chain(model, from, to) {
  const [first, last] = from < to ? [from, to] : [to, from];
  const after = new Uint8Array(model.length);
  after[first] = 1;
  markFuture(model, first, last, after, 1);
  const marks = new Uint8Array(model.length);
  if (!after[last]) return marks;
  markPast(model, last, marks, CHAIN);
  marks[last] = CHAIN;
  for (let i = 0; i <= last; i += 1) if (!after[i]) marks[i] = 0;
  return marks;
}

function markPast({ before, cause, links }, of, marks, mark) {
  marks[of] = mark;
  let k = links.length - 1;
  for (let i = of; i >= 0; i -= 1) {
    if (marks[i] !== mark) continue;
    while (k >= 0 && links.effect[k] > i) k -= 1;
    for (; k >= 0 && links.effect[k] === i; k -= 1) {
      if (links.cause[k] !== NONE) marks[links.cause[k]] = mark;
    }
    if (before[i] !== NONE) marks[before[i]] = mark;
    if (cause[i] !== NONE) marks[cause[i]] = mark;
  }
}

function markFuture({ before, cause, links }, of, last, marks, mark) {
  const isReached = (from) => from >= of && marks[from] === mark;
  let k = 0;
  for (let i = of + 1; i <= last; i += 1) {
    if (isReached(before[i]) || isReached(cause[i])) marks[i] = mark;
    while (links.effect[k] < i) k += 1;
    for (; links.effect[k] === i; k += 1) if (isReached(links.cause[k])) marks[i] = mark;
  }
}
