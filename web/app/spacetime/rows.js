// Where each event stands downwards, in rows: by Lamport time or by the wall clock.
//
// Lamport: one row a distinct Lamport time among the loaded events; times that nobody has are
// left out. Wall clock: proportional to time, but a silence is cut to a few rows, or a night
// without traffic would be a screen of nothing.

const CUT_AFTER_ROWS = 25;
const CUT_TO_ROWS = 4;
const LEAST_ROWS = 0.6; // events of one instant stand apart all the same

/**
 * `{y, order, height, cuts}`: the row of each event, the indexes sorted by it, the number of
 * rows, and the silences `{y, micros}` that were cut.
 */
export function layOut(model, kind) {
  return kind === "time" ? byTime(model) : byLamport(model);
}

const TIGHT_ROWS = 30;

/**
 * "lamport" where messages cross few Lamport times, as in a small or even system; "time" where a
 * busy participant's Lamport time has run away from the others' and every arrow would be steep.
 */
export function fittingKind(model) {
  let sum = 0;
  let messages = 0;
  for (let i = 0; i < model.length; i += 1) {
    const cause = model.cause[i];
    if (cause < 0) continue;
    sum += model.lamport[i] - model.lamport[cause];
    messages += 1;
  }
  return messages && sum / messages > TIGHT_ROWS ? "time" : "lamport";
}

function byLamport(model) {
  const n = model.length;
  const { lamport } = model;
  const y = new Float64Array(n);
  const order = new Uint32Array(n);
  if (!n) return { y, order, height: 0, cuts: [] };

  let least = Infinity;
  let most = -Infinity;
  for (let i = 0; i < n; i += 1) {
    if (lamport[i] < least) least = lamport[i];
    if (lamport[i] > most) most = lamport[i];
  }
  // Counting sort where the span allows it; Lamport times seldom outnumber the events by much.
  const span = most - least + 1;
  if (span > 64 * n + 1e6) return sparse(model, y, order);
  const counts = new Uint32Array(span + 1);
  for (let i = 0; i < n; i += 1) counts[lamport[i] - least] += 1;
  const rank = new Uint32Array(span);
  let rows = 0;
  let start = 0;
  for (let v = 0; v < span; v += 1) {
    const here = counts[v];
    rank[v] = rows;
    counts[v] = start;
    start += here;
    if (here) rows += 1;
  }
  for (let i = 0; i < n; i += 1) {
    const v = lamport[i] - least;
    y[i] = rank[v];
    order[counts[v]] = i;
    counts[v] += 1;
  }
  return { y, order, height: rows, cuts: [] };
}

function sparse({ lamport, length }, y, order) {
  for (let i = 0; i < length; i += 1) order[i] = i;
  order.sort((a, b) => lamport[a] - lamport[b]);
  let row = -1;
  let last = NaN;
  for (const i of order) {
    if (lamport[i] !== last) row += 1;
    last = lamport[i];
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
  // Events are stored as they come, so ids are in time order but for clocks that were set back.
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

/** The middle of the gaps between neighbours (of a sample): one night does not stretch it. */
function typicalGap(at, order) {
  const step = Math.max(1, Math.floor(order.length / 4000));
  const gaps = [];
  for (let k = 1; k < order.length; k += step) gaps.push(at[order[k]] - at[order[k - 1]]);
  const real = gaps.filter((gap) => gap > 0).sort((a, b) => a - b);
  return real.length ? Math.max(1, real[real.length >> 1]) : 1000;
}

/** How many of the sorted `order` lie above row `row`. */
export function countAbove({ y, order }, row) {
  let low = 0;
  let high = order.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (y[order[middle]] < row) low = middle + 1;
    else high = middle;
  }
  return low;
}
