import { useEffect, useMemo, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { compact, count, dateTime, plural } from "../core/format.js";
import { shownTheme } from "../core/preferences.js";
import { loadParticipants } from "../core/participants.js";
import { useResource } from "../core/resource.js";
import { href, openEvent, patch, pinnedA, pinnedB, route, vhost } from "../core/route.js";
import { traces } from "../core/traces.js";
import { EventDrawer } from "../event/drawer.js";
import { useTail } from "../events/tail.js";
import { useKeys } from "../shell/keyboard.js";
import { Icon } from "../ui/icons.js";
import { MatchMark, TypeMark, Value } from "../ui/marks.js";
import { Alert, Choice, Empty } from "../ui/panel.js";
import { DiagramCanvas } from "./canvas.js";
import { LaneHeads } from "./lane-heads.js";
import { GROUPINGS } from "./lanes.js";
import { Loader, MOST_EVENTS } from "./loader.js";
import { FIELDS, Model, NONE } from "./model.js";
import { palette } from "./palette.js";
import { fittingKind } from "./rows.js";
import { Scene } from "./scene.js";
import { MOST_LISTED, SightList } from "./sight-list.js";

const EDGE_SCREENS = 1; // how near to the end of what is loaded more is fetched
const REMEMBER_MS = 400;
const NEARBY_EVENTS = 20_000;
const MOST_NAMED = 5000; // participants beyond these are shown by their number alone
const ROW_KINDS = [
  ["lamport", "Lamport"],
  ["time", "Wall clock"],
];

export function SpaceTimeTab() {
  const known = traces.value.data;
  const chosen = vhost.value ?? busiest(known);
  if (!known) return html`<p class="loading" role="status">Loading traces …</p>`;
  if (chosen == null) {
    return html`<div class="page-inner grow"><${Empty} title="Nothing is traced yet"
      actions=${html`<a class="button" href=${href("overview")}>To the traces</a>`}>
      The diagram shows who did what in which order, as soon as a trace runs.<//></div>`;
  }
  return html`<h1 class="unseen">Space-time</h1>
    <${Diagram} vhost=${chosen} key=${chosen} />
    ${openEvent.value && html`<${EventDrawer} id=${openEvent.value} key=${openEvent.value} />`}`;
}

function busiest(list) {
  if (!list?.length) return null;
  return [...list].sort((a, b) => b.events - a.events)[0].vhost;
}

function Diagram({ vhost: name }) {
  const stage = useStage(name);
  const { scene, loader } = stage;
  const { params } = route.value;
  const [hover, setHover] = useState(null);
  const [drawn, setDrawn] = useState({ events: 0, arrows: 0, far: false, turn: 0 });
  const listed = params.list === "on";
  const participants = useResource((s) => loadParticipants(name, MOST_NAMED, s), [name]).data;

  useSettings(stage, params, participants, name);
  useSelection(stage, params);
  useDiagramKeys(stage);
  const live = params.live === "on";
  useTail({
    wanted: live && loader.atNewest,
    filters: { vhost: name, payload: "none", columns: FIELDS },
    from: () => scene.model.id[scene.model.length - 1] ?? 0,
    onEvents: (events) => stage.follow(events),
  });

  const select = (index) => {
    patch({ event: index === NONE ? null : String(scene.model.id[index]) });
  };
  const moved = (what) => {
    setDrawn((before) => ({ ...what, turn: before.turn + 1 }));
    stage.loadAtEdges();
    stage.remember();
  };

  const empty = !scene.model.length && !loader.busy;
  return html`<div class="diagram">
    <${Toolbar} stage=${stage} params=${params} vhost=${name} live=${live} />
    ${loader.error && html`<div class="panel-body"><${Alert}
      action=${html`<button class="button small" onClick=${() => stage.open()}>Try again</button>`}>
      ${loader.error.reason ?? String(loader.error)}<//></div>`}
    ${empty && !loader.error
      ? html`<${Empty} title="No events yet">Events of this virtual host appear here as they are traced.<//>`
      : html`<${LaneHeads} scene=${scene} onToggle=${toggleGroup} turn=${drawn.turn} />
          <div class="diagram-body">
            <${DiagramCanvas} stage=${stage} onSelect=${select} onHover=${setHover} onMoved=${moved}
              label=${label(scene, drawn)} describedBy="diagram-keys" />
            ${hover && html`<${Tip} scene=${scene} hover=${hover} />`}
          </div>
          ${listed && html`<${SightList} scene=${scene} indexes=${scene.inSight(MOST_LISTED)} />`}`}
    <${Foot} scene=${scene} loader=${loader} drawn=${drawn} />
    <p class="unseen" id="diagram-keys">Arrow keys move between events, plus and minus zoom, F fits
      everything, L lists what is in sight as a table. Question mark shows all keys.</p>
  </div>`;
}

const label = (scene, drawn) =>
  `Space-time diagram: ${plural(drawn.events, "event")} of ${plural(scene.lanes.length, "lane")} in sight`;

/** The scene, its loader and what joins them, for as long as this virtual host is shown. */
function useStage(name) {
  const [, setTurn] = useState(0);
  const stage = useMemo(() => makeStage(name, () => setTurn((n) => n + 1)), [name]);
  useEffect(() => {
    stage.open();
    return () => stage.close();
  }, [stage]);
  return stage;
}

function makeStage(name, changed) {
  const model = new Model();
  const scene = new Scene(model);
  let timer = 0;
  let opened = false;
  const stage = {
    scene,
    palette: palette(),
    redraw: () => {},
    relight: () => {},
    loader: new Loader(model, name, ({ began }) => {
      if (!began) stage.loaded();
      changed();
    }),
    open() {
      const { at, event } = route.peek().params;
      return stage.loader.open(Number(at ?? event) || null);
    },
    close() {
      clearTimeout(timer);
      stage.loader.close();
    },
    loaded() {
      const first = !opened && model.length > 0;
      if (first && !route.peek().params.rows) patch({ rows: fittingKind(model) }, { replace: true });
      scene.kind = rowKind(route.peek().params);
      scene.layOut();
      stage.relight();
      if (first) stage.place();
      opened ||= first;
      stage.redraw();
    },
    /** Where the first sight falls: on the event of the link, or on the newest. */
    place() {
      const { at, event, zoom } = route.peek().params;
      if (zoom) scene.view.zoomRows(Number(zoom) / scene.view.rowPixels);
      const index = model.indexOf(Number(at ?? event));
      if (index !== NONE) scene.reveal(index, { centre: true });
      else scene.view.top = Infinity;
      scene.view.clamp();
    },
    /** New events of the live tail; the sight follows when it was at the end. */
    follow(events) {
      const { view } = scene;
      const atEnd = view.bottom >= scene.rows.height - 1;
      if (!model.append(events)) return;
      scene.layOut();
      stage.relight();
      if (atEnd) view.top = Infinity;
      view.clamp();
      stage.redraw();
    },
    loadAtEdges() {
      const { view, rows } = scene;
      const screen = (view.bottom - view.top) * EDGE_SCREENS;
      if (view.top < screen) stage.loader.older();
      else if (view.bottom > rows.height - screen) stage.loader.newer();
    },
    /** Puts what is in sight into the address, once it has come to rest. */
    remember() {
      clearTimeout(timer);
      timer = setTimeout(() => {
        const middle = scene.middle();
        if (!middle || !opened) return;
        patch({ at: String(middle.id), zoom: scene.view.rowPixels.toPrecision(3) }, { replace: true });
      }, REMEMBER_MS);
    },
  };
  return stage;
}

/** Row scale, grouping, folds, theme and gaps: applied when they change. */
function useSettings(stage, params, participants, name) {
  const { scene } = stage;
  const theme = shownTheme.value;
  const gaps = (traces.value.data ?? []).find((trace) => trace.vhost === name)?.gaps ?? [];
  const kind = rowKind(params);
  useEffect(() => {
    scene.kind = kind;
    scene.gapEvents = gaps.map((gap) => ({ after: gap.after_event_id, reason: gap.reason }));
    scene.layOut();
    stage.redraw();
  }, [kind, JSON.stringify(gaps)]);
  useEffect(() => {
    scene.grouping = params.group ?? "user";
    scene.collapsed = new Set(foldedGroups(params));
    scene.participants = participants ?? [];
    scene.arrange();
    stage.redraw();
  }, [params.group, params.folded, participants]);
  useEffect(() => {
    stage.palette = palette();
    stage.redraw();
  }, [theme]);
}

const rowKind = (params) => (params.rows === "time" ? "time" : "lamport");
const foldedGroups = (params) => (params.folded ? JSON.parse(params.folded) : []);

function toggleGroup(key) {
  const folded = new Set(foldedGroups(route.peek().params));
  if (!folded.delete(key)) folded.add(key);
  patch({ folded: folded.size ? JSON.stringify([...folded]) : null }, { replace: true });
}

/** What is chosen and pinned, lit in the scene; a chosen event outside it is gone to. */
function useSelection(stage, params) {
  const { scene } = stage;
  const first = useRef(true);
  const a = pinnedA.value;
  const b = pinnedB.value;
  stage.relight = () => {
    const { model } = scene;
    const find = (id) => (id ? model.indexOf(Number(id)) : NONE);
    const [ia, ib, selected] = [find(a), find(b), find(params.event)];
    scene.pins = [
      { index: ia, letter: "A", color: stage.palette.pinA },
      { index: ib, letter: "B", color: stage.palette.pinB },
    ].filter((pin) => pin.index !== NONE);
    const wanted = params.light ?? (params.event ? "event" : "chain");
    const chainEnds = wanted === "chain" && ia !== NONE && ib !== NONE ? [ia, ib] : null;
    scene.light({ selected, chainEnds });
    // The chain is wanted, but an end of it lies outside what is loaded.
    const ends = wanted === "chain" && a && b ? [Number(a), Number(b)] : [];
    scene.missing = ends.filter((id) => model.length && model.indexOf(id) === NONE);
  };
  useEffect(() => {
    stage.relight();
    if (!first.current && params.event) goTo(stage, Number(params.event));
    first.current = false;
    stage.redraw();
  }, [a, b, params.event, params.light]);
}

/** Brings an event into sight: a little way is loaded through, further off the span begins anew. */
async function goTo(stage, id) {
  const { scene, loader } = stage;
  const loaded = scene.model.indexOf(id) !== NONE;
  if (!loaded) await loader.reach(id, NEARBY_EVENTS);
  if (scene.model.indexOf(id) === NONE) await loader.open(id);
  const index = scene.model.indexOf(id);
  if (index === NONE) return; // of another virtual host
  scene.reveal(index, { centre: !loaded });
  stage.redraw();
}

function useDiagramKeys(stage) {
  const { scene } = stage;
  const { view } = scene;
  const choose = (index) => index !== NONE && patch({ event: String(scene.model.id[index]) });
  const from = () => (scene.selected !== NONE ? scene.selected : (scene.inSight(1)[0] ?? NONE));
  const step = (next) => () => {
    if (scene.selected === NONE) return choose(from());
    return choose(next(scene.selected));
  };
  const move = (action) => () => {
    action();
    stage.redraw();
  };
  useKeys({
    ArrowDown: step((i) => scene.model.after(i)),
    ArrowUp: step((i) => scene.model.before[i]),
    ArrowRight: step((i) => scene.model.firstEffect(i)),
    ArrowLeft: step((i) => scene.model.cause[i]),
    "+": move(() => view.zoomRows(1.4)),
    "=": move(() => view.zoomRows(1.4)),
    "-": move(() => view.zoomRows(1 / 1.4)),
    "[": move(() => view.zoomLanes(1 / 1.3)),
    "]": move(() => view.zoomLanes(1.3)),
    PageDown: move(() => view.pan(0, -view.height * 0.85)),
    PageUp: move(() => view.pan(0, view.height * 0.85)),
    Home: move(() => view.pan(0, Infinity)),
    End: move(() => view.pan(0, -Infinity)),
    f: move(() => view.fit()),
    l: () => patch({ list: route.peek().params.list === "on" ? null : "on" }, { replace: true }),
    " ": () => patch({ live: route.peek().params.live === "on" ? null : "on" }, { replace: true }),
  });
}

function Toolbar({ stage, params, vhost: name, live }) {
  const { scene, loader } = stage;
  const { view } = scene;
  const act = (action) => () => {
    action();
    stage.redraw();
  };
  const both = pinnedA.value && pinnedB.value;
  return html`<div class="events-bar">
    ${!vhost.value && html`<span class="badge" title="The busiest virtual host; choose another above"><${Value}>${name}<//></span>`}
    <span class="tool"><span class="soft small">Rows</span>
      <${Choice} label="Rows" options=${ROW_KINDS} value=${scene.kind} onChange=${(v) => patch({ rows: v })} /></span>
    <label class="tool"><span class="soft small">Group by</span>
      <select class="select" value=${params.group ?? "user"} onChange=${(e) => patch({ group: e.currentTarget.value === "user" ? null : e.currentTarget.value, folded: null })}>
        ${GROUPINGS.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
      </select></label>
    ${both && params.event &&
    html`<${Choice} label="What is lit" value=${params.light ?? "event"} onChange=${(v) => patch({ light: v })}
      options=${[["event", "Past and future"], ["chain", "Chain A–B"]]} />`}
    <div class="right">
      <button class="button icon" aria-label="Further away" title="Further away (−)" onClick=${act(() => view.zoomRows(1 / 1.4))}><${Icon} name="minus" /></button>
      <button class="button icon" aria-label="Closer" title="Closer (+)" onClick=${act(() => view.zoomRows(1.4))}><${Icon} name="plus" /></button>
      <button class="button icon" aria-label="Fit all that is loaded" title="Fit all that is loaded (F)" onClick=${act(() => view.fit())}><${Icon} name="fit" /></button>
      <button class="button icon" aria-label="List what is in sight" title="List what is in sight (L)" aria-pressed=${String(params.list === "on")}
        onClick=${() => patch({ list: params.list === "on" ? null : "on" }, { replace: true })}><${Icon} name="list" /></button>
      <button class="button" aria-pressed=${String(live)} title="Follow new events (Space)" onClick=${() => patch({ live: live ? null : "on" }, { replace: true })}>
        <span class="live-dot ${live ? "on" : ""}"></span>${live ? "Live" : "Follow"}</button>
      <${LoadMore} loader=${loader} scene=${scene} />
    </div>
  </div>`;
}

const AMOUNTS = [5000, 20_000, 100_000, 1_000_000];

function LoadMore({ loader, scene }) {
  const load = (event) => {
    const amount = Number(event.currentTarget.value);
    event.currentTarget.value = "";
    loader.loadUpTo(amount);
  };
  return html`<select class="select load-more" aria-label="Load more of the past" value=""
    disabled=${loader.atOldest} onChange=${load}>
    <option value="">${loader.busy ? "Loading …" : `${compact(scene.model.length)} loaded`}</option>
    ${AMOUNTS.filter((n) => n > scene.model.length).map(
      (n) => html`<option key=${n} value=${n}>Load ${count(n)}</option>`,
    )}
  </select>`;
}

function Tip({ scene, hover }) {
  const event = scene.model.describe(hover.index);
  const right = hover.x > scene.view.width - 300;
  const place = {
    top: `${Math.min(hover.y + 14, scene.view.height - 84)}px`,
    left: right ? undefined : `${hover.x + 14}px`,
    right: right ? `${scene.view.width - hover.x + 84}px` : undefined,
  };
  return html`<div class="tip" style=${place} role="status">
    <div class="drawer-line"><strong>#${event.id}</strong><${TypeMark} type=${event.type} />
      ${event.type === "received" && html`<${MatchMark} match=${event.match} />`}</div>
    <div class="cut"><bdi>${event.text}</bdi></div>
    <div class="soft small">Lamport ${event.lamport} · participant ${event.participant} · ${dateTime(event.at / 1000)}</div>
  </div>`;
}

function Missing({ scene, loader }) {
  const load = async () => {
    for (const id of scene.missing) await loader.reach(id, MOST_EVENTS);
  };
  const names = scene.missing.map((id) => `#${id}`).join(" and ");
  return html` · <button class="button small" disabled=${loader.busy} onClick=${load}>
    ${loader.busy ? "Loading …" : `Load as far as ${names} to light the chain`}</button>`;
}

function Foot({ scene, loader, drawn }) {
  const { model, marks } = scene;
  if (!model.length) return html`<div class="rows-foot"><span>${loader.busy ? "Loading …" : ""}</span></div>`;
  return html`<div class="rows-foot">
    <span>${count(drawn.events)} of ${count(model.length)} loaded events in sight, #${model.id[0]} to #${model.id[model.length - 1]}
      ${drawn.far ? " · seen from afar: come closer for messages" : ""}
      ${scene.missing.length > 0 && html`<${Missing} scene=${scene} loader=${loader} />`}</span>
    <span class="diagram-legend">
      <span><${TypeMark} type="published" /></span><span><${TypeMark} type="received" /></span>
      ${scene.chainLit && html`<span><i class="key chain"></i>chain from A to B</span><span class="faint">dimmed: outside</span>`}
      ${scene.chainLit ? null : marks
        ? html`<span><i class="key past"></i>past</span><span><i class="key future"></i>future</span><span class="faint">dimmed: concurrent</span>`
        : html`<span class="faint">choose an event to light its past and future</span>`}
    </span>
  </div>`;
}
