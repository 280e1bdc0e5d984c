// The diagram of one virtual host: what is loaded, what is in view and what is lit, kept in step
// with the address.
//
// The stage owns the model, the scene and the loader, and nobody else changes the scene. It reads the
// address itself; participants, live events, moves of the view and the pointer come in through its
// methods. The canvas paints whenever `turn` or `palette` changes and reports what it painted; what
// stands around the canvas reads the signals.
import { computed, effect, signal, untracked } from "../../vendor/signals.js";
import { shownTheme } from "../core/preferences.js";
import { openEvent, param, patch, pinnedA, pinnedB, route, tab } from "../core/route.js";
import { traces } from "../core/traces.js";
import { fittingKind } from "./layout.js";
import { Loader } from "./loader.js";
import { Model, NONE } from "./model.js";
import { palette } from "./painter.js";
import { Scene } from "./scene.js";

const TAB = "space-time";
const EDGE_SCREENS = 1; // how near to the end of what is loaded more is fetched
const REMEMBER_MS = 400;
const NEARBY_EVENTS = 20_000;

const light = param("light");
const folded = param("folded");

/** What the rows are: "lamport" or "time". */
export const kind = computed(() => (route.value.params.rows === "time" ? "time" : "lamport"));
export const grouping = computed(() => route.value.params.group ?? "user");
export const listed = computed(() => route.value.params.list === "on");
export const live = computed(() => route.value.params.live === "on");

export const toggleList = () => patch({ list: listed.peek() ? null : "on" }, { replace: true });
export const toggleLive = () => patch({ live: live.peek() ? null : "on" }, { replace: true });

const collapsed = (text) => new Set(text ? JSON.parse(text) : []);

/** Folds a group of lanes into one, or shows its lanes again. */
export function toggleGroup(key) {
  const groups = collapsed(folded.peek());
  if (!groups.delete(key)) groups.add(key);
  patch({ folded: groups.size ? JSON.stringify([...groups]) : null }, { replace: true });
}

export class Stage {
  constructor(vhost) {
    this.vhost = vhost;
    this.model = new Model();
    this.scene = new Scene(this.model);
    this.loader = new Loader(this.model, vhost, () => this.show());

    this.palette = computed(() => shownTheme.value && palette());
    this.participants = signal([]);
    this.loaded = signal(0); // how many events the model has
    this.turn = signal(0); // counts what has to be painted
    this.drawn = signal({ events: 0, arrows: 0, far: false }); // what the last painting shows
    this.hovered = signal(null); // {index, x, y} under the pointer
    this.trace = computed(() => traces.value.data?.find((one) => one.vhost === vhost));
    this.gaps = computed(() =>
      JSON.stringify((this.trace.value?.gaps ?? []).map((gap) => ({ after: gap.after_event_id, reason: gap.reason }))),
    );

    this.placed = false; // whether the view has been put on its first event
    this.timer = 0;
    this.stops = [];
  }

  /** Follows the address and loads the first events, until `close`. */
  open() {
    const { at, event } = route.peek().params;
    this.watch([kind, this.gaps], () => this.layOut());
    this.watch([grouping, folded, this.participants], () => this.arrange());
    let first = true;
    this.watch([pinnedA, pinnedB, openEvent, light], () => {
      this.light();
      if (!first && openEvent.peek()) this.goTo(Number(openEvent.peek()));
      first = false;
    });
    return this.loader.open(Number(at ?? event) || null);
  }

  /**
   * Runs `action` and paints: now, and whenever one of the signals changes. The address of another
   * tab says nothing about this one, which is about to be closed.
   */
  watch(signals, action) {
    const run = () => {
      if (tab.peek() !== TAB) return;
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
    this.scene.layOut();
  }

  /** `participants` as in the API: they name and group the lanes. */
  name(participants) {
    this.participants.value = participants;
  }

  arrange() {
    this.scene.grouping = grouping.peek();
    this.scene.collapsed = collapsed(folded.peek());
    this.scene.participants = this.participants.peek();
    this.scene.arrange();
  }

  /** Lights what is chosen: the past and future of the open event, or the chain from A to B. */
  light() {
    const { scene } = this;
    const [a, b, selected] = [pinnedA, pinnedB, openEvent].map((id) => this.indexOf(id.peek()));
    scene.pins = [
      { index: a, letter: "A" },
      { index: b, letter: "B" },
    ].filter((pin) => pin.index !== NONE);
    const what = light.peek() ?? (openEvent.peek() ? "event" : "chain");
    const ends = what === "chain" && pinnedA.peek() && pinnedB.peek() ? [pinnedA, pinnedB] : [];
    const chainEnds = ends.length && a !== NONE && b !== NONE ? [a, b] : null;
    scene.light({ selected, chainEnds });
    scene.missing = ends
      .map((id) => Number(id.peek()))
      .filter((id) => this.model.length && this.model.indexOf(id) === NONE);
  }

  indexOf(id) {
    return id ? this.model.indexOf(Number(id)) : NONE;
  }

  // -- what is loaded

  /** Shows what a run of the loader brought. */
  show() {
    const first = !this.placed && this.model.length > 0;
    if (first && !route.peek().params.rows) {
      patch({ rows: fittingKind(this.model) }, { replace: true });
    }
    this.renew();
    if (first) this.place();
    this.placed ||= first;
    this.redraw();
  }

  /** Adds new events from the live tail; a view at the end stays at the end. */
  append(events) {
    const { scene } = this;
    const atEnd = scene.view.bottom >= scene.rows.height - 1;
    if (!this.model.append(events)) return;
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
    if (zoom) view.zoomRows(Number(zoom) / view.rowPixels);
    const index = this.indexOf(at ?? event);
    if (index !== NONE) this.scene.reveal(index, { centre: true });
    else view.top = Infinity;
    view.clamp();
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
    this.redraw();
  }

  hover(index, x, y) {
    if (this.scene.hovered === index) return;
    this.scene.hovered = index;
    this.hovered.value = index === NONE ? null : { index, x, y };
    this.redraw();
  }

  choose(index) {
    patch({ event: index === NONE ? null : String(this.model.id[index]) });
  }

  /** After each painting: loads more near an edge, and remembers the view. */
  painted(drawn) {
    this.drawn.value = drawn;
    this.loadAtEdges();
    this.remember();
  }

  loadAtEdges() {
    const { view, rows } = this.scene;
    const screen = (view.bottom - view.top) * EDGE_SCREENS;
    if (view.top < screen) this.loader.older();
    else if (view.bottom > rows.height - screen) this.loader.newer();
  }

  /** Puts the view into the address once it has come to rest. */
  remember() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const middle = this.scene.middle();
      if (!middle || !this.placed) return;
      const zoom = this.scene.view.rowPixels.toPrecision(3);
      patch({ at: String(middle.id), zoom }, { replace: true });
    }, REMEMBER_MS);
  }
}
