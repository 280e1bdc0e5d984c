// Links between events (messages, or the steps of a participant) as a searchable set of spans:
// which of them touch the rows in sight, those included whose both ends lie outside.
import { NONE } from "./model.js";

const BLOCK = 256;

/**
 * `origins[i]` is the index of the event that a link leads from to i, or NONE. Links are sorted
 * by where they begin, with the furthest end of each block beside them, so that a query skips
 * whole blocks that end above the window.
 */
export class Edges {
  constructor(origins, { y, order }) {
    let count = 0;
    for (let i = 0; i < y.length; i += 1) if (origins[i] !== NONE) count += 1;
    this.length = count;
    this.from = new Int32Array(count);
    this.to = new Int32Array(count);
    this.top = new Float64Array(count);
    this.bottom = new Float64Array(count);
    this.fill(origins, y, order);
    this.furthest = new Float64Array(Math.ceil(count / BLOCK)).fill(-Infinity);
    for (let e = 0; e < count; e += 1) {
      const block = (e / BLOCK) | 0;
      if (this.bottom[e] > this.furthest[block]) this.furthest[block] = this.bottom[e];
    }
  }

  // A counting sort by the origin's place in `order`.
  fill(origins, y, order) {
    const n = y.length;
    const place = new Uint32Array(n);
    for (let k = 0; k < n; k += 1) place[order[k]] = k;
    const starts = new Uint32Array(n + 1);
    for (let i = 0; i < n; i += 1) if (origins[i] !== NONE) starts[place[origins[i]] + 1] += 1;
    for (let k = 1; k <= n; k += 1) starts[k] += starts[k - 1];
    for (let i = 0; i < n; i += 1) {
      const origin = origins[i];
      if (origin === NONE) continue;
      const e = starts[place[origin]]++;
      this.from[e] = origin;
      this.to[e] = i;
      this.top[e] = y[origin];
      this.bottom[e] = Math.max(y[i], y[origin]);
    }
  }

  /**
   * Writes the numbers of the links that touch rows `top` to `bottom`, and that `accept` (if
   * given) takes, into `found`, as many as it has room for; gives how many.
   */
  within(top, bottom, found, accept) {
    const end = this.countFrom(bottom);
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

  countFrom(bottom) {
    let low = 0;
    let high = this.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.top[middle] <= bottom) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
