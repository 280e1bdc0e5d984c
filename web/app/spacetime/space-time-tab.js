import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { plural } from "../core/format.js";
import { shownTheme } from "../core/preferences.js";
import { useRetry } from "../core/outage.js";
import { loadParticipants } from "../core/participants.js";
import { useResource } from "../core/resource.js";
import { href, openEvent, patch, pinnedA, pinnedB, route, vhost } from "../core/route.js";
import { busiestVhost, traces } from "../core/traces.js";
import { EventDrawer } from "../event/drawer.js";
import { useTail } from "../events/tail.js";
import { Empty, Failure } from "../ui/panel.js";
import { DiagramCanvas } from "./canvas.js";
import { Foot } from "./foot.js";
import { useDiagramKeys } from "./keys.js";
import { LaneHeads } from "./lane-heads.js";
import { FIELDS, NONE } from "./model.js";
import { palette } from "./palette.js";
import { MOST_LISTED, SightList } from "./sight-list.js";
import { goTo, makeStage, rowKind } from "./stage.js";
import { Tip } from "./tip.js";
import { Toolbar } from "./toolbar.js";

const MOST_NAMED = 5000; // participants beyond these are shown by their number alone

export function SpaceTimeTab() {
  const known = traces.value.data;
  const chosen = vhost.value ?? busiestVhost();
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
  useRetry(loader.error, () => loader.retry());
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
    <${Toolbar} stage=${stage} params=${params} vhost=${name} live=${live}
      busy=${loader.busy} loaded=${scene.model.length} atOldest=${loader.atOldest} />
    ${loader.error && html`<div class="panel-body">
      <${Failure} error=${loader.error} onRetry=${() => loader.retry()} /></div>`}
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
  // Before the browser paints: what stands beside the diagram and what is lit in it are of one event.
  useLayoutEffect(() => {
    stage.relight();
    if (!first.current && params.event) goTo(stage, Number(params.event));
    first.current = false;
    stage.redraw();
  }, [a, b, params.event, params.light]);
}

