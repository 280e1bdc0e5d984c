// Everything a redraw needs, and what to renew when part of it changes: new events or another row
// scale lay out the rows again, another grouping only the lanes, a selection only the marks.
// Plain values and no signals, because the painter reads them a million times; only the Stage changes
// them.
import { CHAIN, chain, pastAndFuture } from "./causality.js";
import { arrange, Edges, groupOf, layOut, placeOf, table } from "./layout.js";
import { NONE } from "./model.js";
import { placesOf } from "./order.js";
import { Services } from "./services.js";
import { bulgeOf, View } from "./view.js";

const MOST_ENDS = 6000;
const LEAST_NAMED = 48; // pixels of a lane in which messages have names
export const MOST_NAMED = 200;
const ends = new Int32Array(MOST_ENDS);

/** The distance of a point from a line between two others. */
function fromLine(x, y, x1, y1, x2, y2) {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const along = Math.max(0, Math.min(1, ((x - x1) * dx + (y - y1) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - x1 - along * dx, y - y1 - along * dy);
}

/** The distance of a message to its own lane from that lane, at a height between its ends. */
function bulgeAt(view, y, y1, y2) {
  const along = (y - y1) / (y2 - y1 || 1);
  return 3 * bulgeOf(view) * along * (1 - along);
}

export class Scene {
  constructor(model) {
    this.model = model;
    this.view = new View();
    this.kind = "time";
    this.grouping = "service";
    this.collapsed = null;
    this.participants = [];
    this.services = new Services();
    this.places = new Map(); // of the participants, from the left
    this.placed = null; // {grouping, keys, rows}: the inputs of these; `keys` are the groups, by participant
    this.named = null; // the participants whose services are known
    this.apart = ""; // services in their order, which have colours that are told apart
    this.prepended = 0; // that of the model when the rows were laid out
    this.rows = { y: new Float64Array(0), order: new Uint32Array(0), height: 0, cuts: [] };
    this.edges = this.steps = this.links = new Edges([], this.rows);
    this.lanes = [];
    this.groups = [];
    this.laneOf = new Int32Array(0); // by participant; NONE where it has no lane
    this.serviceOf = new Int32Array(0); // by participant; 0 where it is not known
    this.first = new Set(); // participants whose lanes are always there, at the left
    this.waits = []; // {id, since, to}: messages that wait, and who takes from their queue
    this.folding = false; // whether participants without anything in view have no lane
    this.shown = null; // the participants that have a lane while others are folded away
    this.marks = null;
    this.chainLit = false;
    this.chainLinked = false; // whether the lit chain has links
    this.atNewest = true; // no event is newer than the loaded ones
    this.selected = NONE;
    this.hovered = NONE;
    this.hoveredArrow = null; // {from, to}
    this.pins = []; // {index, letter} of those that are loaded
    this.missing = []; // ids of the chain's ends that are not loaded
    this.gapEvents = []; // {after, before, reason}, by event id
    this.gaps = []; // {from, to, reason}, in rows
  }

  /** After new events or a change of the row scale; the middle of the view stays there. */
  layOut() {
    const { model, view } = this;
    const anchor = this.middle();
    this.rows = layOut(model, this.kind);
    this.prepended = model.prepended;
    this.edges = new Edges(model.cause, this.rows);
    this.steps = new Edges(model.before, this.rows);
    this.links = new Edges(model.links.cause, this.rows, model.links.effect);
    this.arrange();
    this.gaps = this.gapEvents.flatMap((gap) => this.gapRows(gap));
    view.extent(this.lanes.length, this.rows.height);
    const index = anchor ? model.indexOf(anchor.id) : NONE;
    if (index !== NONE) {
      view.top = this.rows.y[index] - anchor.fromTop / view.rowPixels;
      view.clamp();
    }
  }

  arrange() {
    const { model, view } = this;
    const loaded = [...new Set([...model.lastOf.keys(), ...(model.length ? this.first : [])])];
    const shown = this.folding && this.shown ? loaded.filter((number) => this.shown.has(number) || this.first.has(number)) : loaded;
    this.place(loaded);
    const arranged = arrange(this, shown);
    this.lanes = arranged.lanes;
    this.groups = arranged.groups;
    this.laneOf = table(arranged.laneOf, loaded, NONE);
    const colors = loaded.map((number) => [number, this.services.colorOf(this.services.of.get(number))]);
    this.serviceOf = table(colors, loaded, 0);
    view.extent(this.lanes.length, this.rows.height);
  }

  /** Puts those who are new, or whose group is another now, into the row of lanes; the others keep their order. */
  place(loaded) {
    const { participants, grouping, model, services } = this;
    if (this.named !== participants) services.know(participants);
    this.named = participants;
    const known = new Map(participants.map((who) => [who.participant, who]));
    const keys = new Map(loaded.map((number) => [number, groupOf(known.get(number), grouping)]));
    const { keys: before, rows } = this.placed?.grouping === grouping ? this.placed : { keys: new Map(), rows: this.rows };
    const kept = loaded.filter((number) => before.get(number) === keys.get(number));
    if (kept.length < loaded.length) {
      const isOther = 2 * kept.length < before.size; // elsewhere, or the names have come
      const row = isOther ? [] : kept.sort((a, b) => this.places.get(a) - this.places.get(b));
      this.places = placesOf(model, loaded, (number) => keys.get(number), row);
      this.placed = { grouping, keys, rows: row.length ? rows : this.rows };
    }
    this.tellApart();
  }

  /** Once for an order of all services, also those whose lanes are folded away, or colours would change with the view. */
  tellApart() {
    const names = [...this.places.keys()].map((number) => this.services.of.get(number));
    const row = names.filter((name, place) => name !== names[place - 1]);
    if (this.apart === JSON.stringify(row)) return;
    this.apart = JSON.stringify(row);
    this.services.tellApart(row);
  }

  /** Finds the order of all lanes anew, if events came since it was found. */
  placeAnew() {
    if (this.placed?.rows === this.rows) return;
    this.placed = null;
    this.arrange();
  }

  /** The number of participants without a lane because nothing of theirs is in view. */
  get foldedAway() {
    return this.folding && this.shown ? [...this.model.lastOf.keys()].filter((number) => !this.shown.has(number) && !this.first.has(number)).length : 0;
  }

  /** Folds away the lanes without anything in view; drawn events keep their lanes until then. */
  foldLanes() {
    const present = this.folding ? this.present() : null;
    if (present?.size === 0 || (!present && !this.shown)) return;
    this.shown = present;
    this.arrange();
  }

  /** Gives a lane to each participant that came into view without one. */
  unfoldLanes() {
    if (!this.folding || !this.shown || this.shown.size === this.model.lastOf.size) return;
    const missing = [...this.present()].filter((number) => !this.shown.has(number));
    if (!missing.length) return;
    this.shown = new Set([...this.shown, ...missing]);
    this.arrange();
  }

  /** The participants with an event in view, or at the other end of a message that has one end there. */
  present() {
    const { rows, view, model } = this;
    const { participant } = model;
    const seen = new Uint8Array(this.laneOf.length);
    const [first, last] = [placeOf(rows, view.top), placeOf(rows, view.bottom)];
    for (let k = first; k < last; k += 1) seen[participant[rows.order[k]]] = 1;
    const isInView = (i) => rows.y[i] >= view.top && rows.y[i] <= view.bottom;
    for (const edges of last - first > MOST_ENDS ? [] : [this.edges, this.links]) {
      const count = edges.within(view.top, view.bottom, ends);
      for (let k = 0; k < count; k += 1) {
        const [from, to] = [edges.from[ends[k]], edges.to[ends[k]]];
        if (isInView(from) || isInView(to)) seen[participant[from]] = seen[participant[to]] = 1;
      }
    }
    return new Set([...seen.keys()].filter((number) => seen[number]));
  }

  /** A gap's rows among the loaded events: none if it is before the first or after the last. */
  gapRows({ after, before, reason }) {
    const { model, rows } = this;
    const [first, last] = [model.id[0], model.id[model.length - 1]];
    if (!model.length || after < first || (after >= last && !this.atNewest)) return [];
    const from = rows.y[model.firstAfter(after) - 1];
    const next = model.firstAfter(before ? before - 1 : last);
    const to = next < model.length ? rows.y[next] : rows.height;
    return [{ from: Math.min(from, to), to: Math.max(from, to), reason }];
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

  /** Lights the past and future of an event, the chain between two, the events `ids`, or nothing. */
  light({ selected, chainEnds, ids = null }) {
    this.selected = selected;
    this.marks = null;
    this.chainLit = Boolean(chainEnds || ids);
    if (ids) this.marks = this.marksOf(ids);
    else if (chainEnds) this.marks = chain(this.model, ...chainEnds);
    else if (selected !== NONE) this.marks = pastAndFuture(this.model, selected);
    this.chainLinked = this.chainLit && this.links.some((from, to) => this.marks[from] && this.marks[to]);
  }

  marksOf(ids) {
    const marks = new Uint8Array(this.model.length);
    for (const id of ids) {
      const index = this.model.indexOf(id);
      if (index !== NONE) marks[index] = CHAIN;
    }
    return marks;
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
      const lane = laneOf[model.participant[i]];
      if (lane === NONE) continue;
      const dx = view.x(lane) - x;
      const dy = view.y(rows.y[i]) - y;
      const distance = dx * dx + dy * dy;
      if (distance < bestDistance) {
        best = i;
        bestDistance = distance;
      }
    }
    return best;
  }

  /** The arrow nearest to a point, within `reach` pixels: `{from, to, named}`, or null. */
  hitArrow(x, y, reach = 6) {
    const { view, rows, laneOf, model } = this;
    let best = null;
    let least = reach;
    for (const edges of [this.edges, this.links]) {
      const count = edges.within(view.rowAt(y - reach), view.rowAt(y + reach), ends);
      if (count === ends.length) return null; // too many to say which one is meant
      for (let k = 0; k < count; k += 1) {
        const [from, to] = [edges.from[ends[k]], edges.to[ends[k]]];
        const [a, b] = [laneOf[model.participant[from]], laneOf[model.participant[to]]];
        if (a === NONE || b === NONE) continue;
        const [x1, y1, x2, y2] = [view.x(a), view.y(rows.y[from]), view.x(b), view.y(rows.y[to])];
        const away = a === b ? Math.abs(x - x1 - bulgeAt(view, y, y1, y2)) : fromLine(x, y, x1, y1, x2, y2);
        if (away >= least) continue;
        least = away;
        best = { from, to, named: edges === this.links };
      }
    }
    return best;
  }

  reveal(index, options) {
    if (index === NONE) return;
    this.shown?.add(this.model.participant[index]);
    if (this.laneOf[this.model.participant[index]] === NONE) this.arrange();
    this.view.reveal(this.rows.y[index], this.laneOf[this.model.participant[index]], options);
  }

  /** Indexes of the publishes in view that have names: none where there is no room. */
  withNames() {
    const { rows, view, model } = this;
    const isFull = view.lanePixels < LEAST_NAMED || placeOf(rows, view.bottom) - placeOf(rows, view.top) > MOST_NAMED;
    return isFull ? [] : this.inView(MOST_NAMED).filter((i) => !model.received[i]);
  }

  /** Indexes of the events in view, by row, at most `most`. */
  inView(most) {
    const { rows, view } = this;
    const first = placeOf(rows, view.top);
    const last = placeOf(rows, view.bottom);
    return [...rows.order.subarray(first, Math.min(last, first + most))];
  }
}
