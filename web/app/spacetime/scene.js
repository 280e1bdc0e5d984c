// Everything a redraw needs, and what to renew when part of it changes: new events or another row
// scale lay out the rows again, another grouping only the lanes, a selection only the marks.
// Plain values and no signals, because the painter reads them a million times; only the Stage changes
// them.
import { chain, pastAndFuture } from "./causality.js";
import { arrange, Edges, laneTable, layOut, placeOf } from "./layout.js";
import { NONE } from "./model.js";
import { View } from "./view.js";

export class Scene {
  constructor(model) {
    this.model = model;
    this.view = new View();
    this.kind = "lamport";
    this.grouping = "user";
    this.collapsed = new Set();
    this.participants = [];
    this.prepended = 0; // that of the model when the rows were laid out
    this.rows = { y: new Float64Array(0), order: new Uint32Array(0), height: 0, cuts: [] };
    this.edges = this.steps = this.links = new Edges([], this.rows);
    this.lanes = [];
    this.groups = [];
    this.laneOf = new Int32Array(0);
    this.marks = null;
    this.chainLit = false;
    this.chainLinked = false; // whether the lit chain has links
    this.selected = NONE;
    this.hovered = NONE;
    this.pins = []; // {index, letter} of those that are loaded
    this.missing = []; // ids of the chain's ends that are not loaded
    this.gapEvents = []; // {after, reason}, by event id
    this.gaps = []; // {row, reason}
  }

  /** After new events or a change of the row scale; what is in the middle stays there. */
  layOut() {
    const { model, view } = this;
    const anchor = this.middle();
    this.rows = layOut(model, this.kind);
    this.prepended = model.prepended;
    this.edges = new Edges(model.cause, this.rows);
    this.steps = new Edges(model.before, this.rows);
    this.links = new Edges(model.links.cause, this.rows, model.links.effect);
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
    const index = this.model.firstAfter(afterId);
    return index === this.model.length ? this.rows.height : this.rows.y[index] - 0.5;
  }

  /** The event nearest to the middle of the view, and its distance from the top in pixels. */
  middle() {
    const { rows, view, model } = this;
    if (!rows.order.length) return null;
    const row = (view.top + view.bottom) / 2;
    const index = rows.order[Math.min(rows.order.length - 1, placeOf(rows, row))];
    const now = index + model.prepended - this.prepended;
    return { id: model.id[now], fromTop: view.y(rows.y[index]) };
  }

  /** Lights the past and future of an event, or the chain between two, or nothing. */
  light({ selected, chainEnds }) {
    this.selected = selected;
    this.marks = null;
    this.chainLit = Boolean(chainEnds);
    if (chainEnds) this.marks = chain(this.model, ...chainEnds);
    else if (selected !== NONE) this.marks = pastAndFuture(this.model, selected);
    this.chainLinked = this.chainLit && this.links.some((from, to) => this.marks[from] && this.marks[to]);
  }

  /** The event nearest to a point, within `reach` pixels, or NONE. */
  hit(x, y, reach = 11) {
    const { rows, view, model, laneOf } = this;
    let best = NONE;
    let bestDistance = reach * reach;
    const last = view.rowAt(y + reach);
    for (let k = placeOf(rows, view.rowAt(y - reach)); k < rows.order.length; k += 1) {
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

  /** Indexes of the events in view, by row, at most `most`. */
  inView(most) {
    const { rows, view } = this;
    const first = placeOf(rows, view.top);
    const last = placeOf(rows, view.bottom);
    return [...rows.order.subarray(first, Math.min(last, first + most))];
  }
}
