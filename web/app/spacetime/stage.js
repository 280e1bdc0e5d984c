// The diagram of one virtual host: what is loaded, what is in view and what is lit, kept in step
// with the address.
//
// The stage owns the model, the scene and the loader, and nobody else changes the scene. It reads the
// address itself; participants, live events, moves of the view and the pointer come in through its
// methods. The canvas paints whenever `turn` or `palette` changes and reports what it painted; what
// stands around the canvas reads the signals.
import { computed, effect, signal, untracked } from "../../vendor/signals.js";
import { shownTheme } from "../core/preferences.js";
import { api } from "../core/api.js";
import { saidType, typeOf } from "../core/message-type.js";
import { openEvent, param, patch, pinnedA, pinnedB, route, view } from "../core/route.js";
import { traces } from "../core/traces.js";
import { Loader } from "./loader.js";
import { Model, NONE } from "./model.js";
import { palette } from "./painter.js";
import { MOST_NAMED, Scene } from "./scene.js";

const VIEW = "space-time";
const EDGE_SCREENS = 1; // more is fetched this near to the end of the loaded events
const REST_MS = 400;
const ASK_TYPE_MS = 120;
const NEARBY_EVENTS = 20_000;
// While the newest are followed no more than these are kept, or each new event would cost more than the last.
const FOLLOWED = 20_000;
const SPARE = 2_000;

const light = param("light");
const folded = param("folded");

/** The rows' scale: "lamport" or "time". */
const kind = computed(() => (route.value.params.rows === "lamport" ? "lamport" : "time"));
export const grouping = computed(() => route.value.params.group ?? "service");
/** True if lanes without anything in view are shown. */
export const allLanes = computed(() => route.value.params.lanes === "all");
/** True if only the events of a chain or conversation are shown, and so only their lanes. */
export const alone = computed(() => route.value.params.only !== "off");
export const listed = computed(() => route.value.params.list === "on");
/** True if the legend is open. */
export const explained = computed(() => route.value.params.legend === "on");
export const live = computed(() => route.value.params.live === "on");

export const toggleList = () => patch({ list: listed.peek() ? null : "on" }, { replace: true });
export const toggleLegend = () => patch({ legend: explained.peek() ? null : "on" }, { replace: true });
export const toggleLive = () => patch({ live: live.peek() ? null : "on" }, { replace: true });

/** The groups that are one lane; null while nobody has chosen. */
const collapsed = (text) => (text ? new Set(JSON.parse(text)) : null);

/** Folds one of these groups of lanes into one, or shows its lanes again. */
export function toggleGroup(key, groups) {
  const chosen = new Set(groups.filter((group) => group.collapsed).map((group) => group.key));
  if (!chosen.delete(key)) chosen.add(key);
  patch({ folded: JSON.stringify([...chosen]) }, { replace: true });
}

export class Stage {
  /** `subset`: the events of a chain or conversation (subset.js); `alone`: and no others. `ends`: two events to open around. */
  constructor(vhost, subset = null, alone = false, ends = []) {
    this.vhost = vhost;
    this.ends = ends; // emptied once the view has come to rest on them
    this.leading = new Set(); // participants of their chain, whose lanes stand at the left
    this.subset = subset;
    this.alone = alone;
    this.model = new Model();
    this.scene = new Scene(this.model);
    this.loader = new Loader(this.model, vhost, () => this.show(), alone ? subset.events : null);

    this.palette = computed(() => shownTheme.value && palette());
    this.participants = signal([]);
    this.loaded = signal(0); // how many events the model has
    this.turn = signal(0); // counts what has to be painted
    this.drawn = signal({ events: 0, arrows: 0, far: false, kind: kind.peek(), lanes: [] }); // by the last painting
    this.hovered = signal(null); // {index, x, y} or {arrow: {from, to, named}, x, y} under the pointer
    this.types = signal(0); // counts the types of messages that were asked for
    this.trace = computed(() => traces.value.data?.find((one) => one.vhost === vhost));
    this.gaps = computed(() =>
      JSON.stringify(
        (this.trace.value?.gaps ?? []).map(({ after_event_id: after, before_event_id: before, reason }) => ({ after, before, reason })),
      ),
    );

    this.pointer = []; // x and y of it, nothing where it is elsewhere
    this.hoveredId = undefined; // of the event or the arrow's first one
    this.placed = false; // whether the view has been put on its first event
    this.timer = 0;
    this.typeTimer = 0;
    this.stops = [];
  }

  /** Follows the address and loads the first events, until `close`. */
  open() {
    const { at, event } = route.peek().params;
    this.watch([kind, this.gaps], () => this.layOut());
    this.watch([grouping, folded, allLanes, this.participants], () => this.arrange());
    let first = true;
    this.watch([pinnedA, pinnedB, openEvent, light], () => {
      this.light();
      if (!first && openEvent.peek()) this.goTo(Number(openEvent.peek()));
      first = false;
    });
    const ends = [...this.ends];
    const opened = this.loader.open(Number(at ?? event ?? this.subset?.ids[0] ?? ends[0]) || null);
    return ends.length ? opened.then(() => this.loader.reach(ends[1], NEARBY_EVENTS)).then(() => this.isOpen() && this.fitChain(ends)) : opened;
  }

  /** Brings the lit chain between two events into view, with its lanes at the left. */
  fitChain(ends) {
    const { model, scene } = this;
    scene.first = this.leading = new Set(model.participant.slice(0, model.length).filter((_, i) => scene.chainLit && scene.marks[i]));
    scene.arrange();
    this.fit(ends);
  }

  /**
   * Runs `action` and paints: now, and whenever one of the signals changes. The address of another
   * view says nothing about this one, which is about to be closed.
   */
  watch(signals, action) {
    const run = () => {
      if (view.peek() !== VIEW) return;
      action();
      this.redraw();
    };
    const stop = effect(() => {
      for (const one of signals) one.value;
      untracked(run);
    });
    this.stops.push(stop);
  }

  close() {
    clearTimeout(this.timer);
    clearTimeout(this.typeTimer);
    for (const stop of this.stops) stop();
    this.loader.close();
  }

  isOpen() {
    return !this.loader.abort.signal.aborted;
  }

  redraw() {
    this.turn.value = this.turn.peek() + 1;
  }

  // -- what the scene shows

  layOut() {
    this.scene.kind = kind.peek();
    this.scene.gapEvents = JSON.parse(this.gaps.peek());
    this.scene.atNewest = this.loader.atNewest.peek() && !this.alone; // after a chain much may have come
    this.scene.layOut();
  }

  /** `participants` as in the API: they name and group the lanes. */
  name(participants) {
    this.participants.value = participants;
  }

  /** Takes messages that wait, and participants that are looked for first, as from `loadWaits`. */
  wait({ first, waits }) {
    const { length } = this.scene.lanes;
    Object.assign(this.scene, { first: this.leading.size ? this.leading : first, waits });
    this.arrange();
    if (this.alone && this.placed && this.scene.lanes.length !== length) this.fit();
    this.redraw();
  }

  arrange() {
    this.scene.grouping = grouping.peek();
    this.scene.collapsed = collapsed(folded.peek());
    this.scene.participants = this.participants.peek();
    this.scene.folding = !this.alone && !allLanes.peek();
    this.scene.arrange();
    this.scene.foldLanes();
  }

  /** Highlights the choice: the past and future of the open event, or the chain from A to B. */
  light() {
    const { scene } = this;
    const [a, b, selected] = [pinnedA, pinnedB, openEvent].map((id) => this.indexOf(id.peek()));
    const asked = (this.subset?.pins ?? []).map(({ id, letter }) => ({ index: this.indexOf(id), letter }));
    const pins = [{ index: a, letter: "A" }, { index: b, letter: "B" }];
    scene.pins = (asked.length ? asked : pins).filter((pin) => pin.index !== NONE);
    const what = light.peek() ?? (openEvent.peek() ? "event" : "chain");
    const pinned = what === "chain" && !this.subset && pinnedA.peek() && pinnedB.peek();
    const ends = pinned ? [pinnedA, pinnedB] : [];
    const chainEnds = ends.length && a !== NONE && b !== NONE ? [a, b] : null;
    const ids = what === "chain" && this.subset && !this.alone ? this.subset.ids : null;
    scene.light({ selected, chainEnds, ids });
    const outer = ids ? [ids[0], ids.at(-1)] : ends.map((id) => Number(id.peek()));
    scene.missing = outer
      .filter((id) => this.model.length && this.model.indexOf(id) === NONE);
  }

  indexOf(id) {
    return id ? this.model.indexOf(Number(id)) : NONE;
  }

  // -- what is loaded

  /** Shows what a run of the loader brought. */
  show() {
    this.renew();
    this.placeFirst();
    this.redraw();
  }

  /** Puts the first view in its place, as soon as there are events and their canvas has a size. */
  placeFirst() {
    if (this.placed || !this.model.length || !this.scene.view.height) return;
    this.placed = true;
    this.place();
    this.scene.foldLanes();
  }

  /** Adds new events from the live tail; a view at the end stays there, and leaves old events behind. */
  append(events) {
    const { scene } = this;
    const atEnd = scene.view.bottom >= scene.rows.height - 1;
    if (!this.model.append(events)) return;
    if (atEnd && this.model.length > FOLLOWED + SPARE) {
      this.model.keepNewest(FOLLOWED);
      this.loader.atOldest.value = false;
    }
    this.renew();
    if (atEnd) scene.view.top = Infinity;
    scene.view.clamp();
    this.redraw();
  }

  renew() {
    this.loaded.value = this.model.length;
    this.layOut();
    this.light();
  }

  /** Puts the first view on the event in the address, or on the newest. */
  place() {
    const { at, event, zoom } = route.peek().params;
    const { view } = this.scene;
    if (this.subset && (this.alone || !at)) {
      this.fit();
      return this.scene.reveal(this.indexOf(event));
    }
    if (this.ends.length) return this.fitChain(this.ends);
    if (zoom) view.zoomRows(Number(zoom) / view.rowPixels);
    const index = this.indexOf(at ?? event);
    if (index !== NONE) this.scene.reveal(index, { centre: true });
    else view.top = Infinity;
    return view.clamp();
  }

  /**
   * Brings an event into view: loads up to it if it is near, or starts over around it if it is
   * far. Stops as soon as another event is chosen.
   */
  async goTo(id) {
    const { loader, model } = this;
    const missing = () => model.indexOf(id) === NONE;
    const stillChosen = () => Number(openEvent.peek()) === id;
    const centre = missing();
    if (missing()) await loader.reach(id, NEARBY_EVENTS, stillChosen);
    if (missing() && stillChosen()) await loader.open(id);
    if (missing() || !stillChosen()) return; // of another virtual host, or no longer chosen
    this.scene.reveal(model.indexOf(id), { centre });
    this.redraw();
  }

  // -- view, pointer and painting

  /** `change(view)` moves or zooms the view. */
  move(change) {
    change(this.scene.view);
    this.placeFirst();
    this.redraw();
  }

  /** Brings all loaded events into view, or only these: a shown chain's or conversation's. */
  fit(ids = this.alone ? [] : (this.subset?.ids ?? [])) {
    const { scene, model } = this;
    const rows = ids.map((id) => scene.rows.y[model.indexOf(id)]);
    const known = rows.filter((row) => row !== undefined).sort((a, b) => a - b);
    this.move((view) => {
      if (known.length) return view.fitRows(known[0], known.at(-1));
      scene.placeAnew();
      view.fit();
      scene.unfoldLanes(); // everything in view has its lane, and these have to fit
      return view.fit();
    });
  }

  /** The thing under the pointer at (x, y), or nothing without a position. */
  hover(x, y) {
    this.pointer = x === undefined ? [] : [x, y];
    const { scene, model } = this;
    const index = x === undefined ? NONE : scene.hit(x, y);
    const arrow = x === undefined || index !== NONE ? null : scene.hitArrow(x, y);
    const before = scene.hoveredArrow;
    const id = model.id[arrow?.from ?? index]; // what is loaded before it moves its index
    const isSame = scene.hovered === index && this.hoveredId === id;
    if (isSame && before?.from === arrow?.from && before?.to === arrow?.to) return;
    this.hoveredId = id;
    scene.hovered = index;
    scene.hoveredArrow = arrow;
    this.hovered.value = index !== NONE ? { index, x, y } : arrow && { arrow, x, y };
    this.askType(arrow ?? (index === NONE ? null : { from: index }));
    this.redraw();
  }

  /** Asks for the type of the message under the pointer, once it stays there. */
  askType(what) {
    clearTimeout(this.typeTimer);
    if (!what) return;
    const { model } = this;
    const publish = what.named ? what.to : model.received[what.from] ? model.cause[what.from] : what.from;
    const id = publish === NONE ? null : model.id[publish];
    if (!id || model.types.get(id)) return;
    this.typeTimer = setTimeout(() => this.learnTypes([id], { page_size: 1 }), ASK_TYPE_MS);
  }

  /** Asks for the types of these publishes: of one with its body, which may name the type, where `form` does not say otherwise. */
  async learnTypes(ids, form = { columns: "id,exchange,routing_keys,properties", payload: "none", page_size: MOST_NAMED }) {
    if (!ids.length) return;
    const { types } = this.model;
    const asked = { vhost: this.vhost, type: "published", after: Math.min(...ids) - 1, ...form };
    const events = await api.events(asked, this.loader.abort.signal).catch(() => []); // the tip goes without
    for (const event of events) types.set(event.id, form.payload ? saidType(event) : typeOf(event));
    for (const id of ids) if (!types.has(id)) types.set(id, null);
    this.types.value += 1;
    if (this.isOpen()) this.redraw();
  }

  choose(index) {
    patch({ event: index === NONE ? null : String(this.model.id[index]) });
  }

  /** After each painting: loads more near an edge, and remembers the view. */
  painted(drawn) {
    this.drawn.value = drawn;
    this.hover(...this.pointer); // something else may be there now
    this.loadAtEdges();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.rest(), REST_MS);
  }

  loadAtEdges() {
    const { view, rows } = this.scene;
    const screen = (view.bottom - view.top) * EDGE_SCREENS;
    if (view.top < screen) this.loader.older();
    else if (view.bottom > rows.height - screen) this.loader.newer();
  }

  /** Once the view has come to rest: folds lanes, and puts the view into the address. */
  rest() {
    const { scene } = this;
    const middle = scene.middle();
    if (!middle || !this.placed) return;
    const ends = this.ends.splice(0);
    if (ends.length) return this.fitChain(ends); // the heads of the lanes have taken their room
    const { lanes } = scene;
    scene.foldLanes();
    if (scene.lanes.length !== lanes.length) this.redraw();
    this.learnTypes(scene.withNames().map((i) => this.model.id[i]).filter((id) => !this.model.types.has(id)));
    if (this.alone) return; // that is fitted, and small
    patch({ at: String(middle.id), zoom: scene.view.rowPixels.toPrecision(3) }, { replace: true });
  }
}
