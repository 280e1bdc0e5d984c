// Everything a redraw needs, and what has to be made anew when one part of it changes: new events
// or another row scale lay the rows out again, another grouping only the lanes, a selection only
// the marks.
import { chain, pastAndFuture } from "./causality.js";
import { Edges } from "./edges.js";
import { arrange, laneTable } from "./lanes.js";
import { NONE } from "./model.js";
import { layOut } from "./rows.js";
import { View } from "./view.js";

export class Scene {
  constructor(model) {
    this.model = model;
    this.view = new View();
    this.kind = "lamport";
    this.grouping = "user";
    this.collapsed = new Set();
    this.participants = [];
    this.prepended = 0; // the model's, when the rows were laid out
    this.rows = { y: new Float64Array(0), order: new Uint32Array(0), height: 0, cuts: [] };
    this.edges = this.steps = new Edges([], this.rows);
    this.lanes = [];
    this.groups = [];
    this.laneOf = new Int32Array(0);
    this.marks = null;
    this.chainLit = false;
    this.selected = NONE;
    this.hovered = NONE;
    this.pins = [];
    this.missing = []; // ids of the chain's ends that are not loaded
    this.gapEvents = [];
    this.gaps = [];
  }

  /** After events were loaded or the row scale changed; what is in the middle stays there. */
  layOut() {
    const { model, view } = this;
    const anchor = this.middle();
    this.rows = layOut(model, this.kind);
    this.prepended = model.prepended;
    this.edges = new Edges(model.cause, this.rows);
    this.steps = new Edges(model.before, this.rows);
    this.arrange();
    this.gaps = this.gapEvents.map(({ after, reason }) => ({ row: this.gapRow(after), reason }));
    view.extent(this.lanes.length, this.rows.height);
    const index = anchor ? model.indexOf(anchor.id) : NONE;
    if (index !== NONE) {
      view.top = this.rows.y[index] - anchor.fromTop / view.rowPixels;
      view.clamp();
    }
  }

  arrange() {
    const { model, view } = this;
    const arranged = arrange(this.participants, model.lastOf.keys(), this.grouping, this.collapsed);
    this.lanes = arranged.lanes;
    this.groups = arranged.groups;
    this.laneOf = laneTable(arranged);
    view.extent(this.lanes.length, this.rows.height);
  }

  gapRow(afterId) {
    const { model, rows } = this;
    for (let low = 0, high = model.length; ; ) {
      if (low === high) return low === model.length ? rows.height : rows.y[low] - 0.5;
      const middle = (low + high) >> 1;
      if (model.id[middle] <= afterId) low = middle + 1;
      else high = middle;
    }
  }

  /** The event nearest to the middle of what is in sight, and its distance from the top. */
  middle() {
    const { rows, view, model } = this;
    if (!rows.order.length) return null;
    const row = (view.top + view.bottom) / 2;
    const index = rows.order[Math.min(rows.order.length - 1, this.firstAtOrBelow(row))];
    const now = index + model.prepended - this.prepended;
    return { id: model.id[now], fromTop: view.y(rows.y[index]) };
  }

  firstAtOrBelow(row) {
    const { y, order } = this.rows;
    let low = 0;
    let high = order.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (y[order[middle]] < row) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Lights the past and future of an event, or the chain between two, or nothing. */
  light({ selected, chainEnds }) {
    this.selected = selected;
    this.marks = null;
    this.chainLit = Boolean(chainEnds);
    if (chainEnds) this.marks = chain(this.model, ...chainEnds);
    else if (selected !== NONE) this.marks = pastAndFuture(this.model, selected);
  }

  /** The event nearest to a point, within `reach` pixels, or NONE. */
  hit(x, y, reach = 11) {
    const { rows, view, model, laneOf } = this;
    let best = NONE;
    let bestDistance = reach * reach;
    const last = view.rowAt(y + reach);
    for (let k = this.firstAtOrBelow(view.rowAt(y - reach)); k < rows.order.length; k += 1) {
      const i = rows.order[k];
      if (rows.y[i] > last) break;
      const dx = view.x(laneOf[model.participant[i]]) - x;
      const dy = view.y(rows.y[i]) - y;
      const distance = dx * dx + dy * dy;
      if (distance < bestDistance) {
        best = i;
        bestDistance = distance;
      }
    }
    return best;
  }

  reveal(index, options) {
    if (index === NONE) return;
    this.view.reveal(this.rows.y[index], this.laneOf[this.model.participant[index]], options);
  }

  /** Indexes in sight, by row, at most `most`. */
  inSight(most) {
    const first = this.firstAtOrBelow(this.view.top);
    const last = this.firstAtOrBelow(this.view.bottom);
    return [...this.rows.order.subarray(first, Math.min(last, first + most))];
  }
}
