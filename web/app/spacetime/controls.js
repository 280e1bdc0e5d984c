// What stands around the canvas, as real text and buttons: the toolbar, the names of the lanes, the
// tip under the pointer, the list of events in view, and the line below.
import { html } from "../core/html.js";
import { compact, count, dateTime, visible } from "../core/format.js";
import { hrefHere, patch, pinnedA, pinnedB, route, vhost } from "../core/route.js";
import { Icon } from "../ui/icons.js";
import { MatchMark, TypeMark, Value } from "../ui/marks.js";
import { Choice } from "../ui/panel.js";
import { CHAIN, FUTURE, PAST, SELF } from "./causality.js";
import { ZOOM } from "./keys.js";
import { GROUPINGS } from "./layout.js";
import { MOST_EVENTS } from "./loader.js";
import { grouping, kind, listed, live, toggleGroup, toggleList, toggleLive } from "./stage.js";
import { GUTTER } from "./view.js";

const ROW_KINDS = [
  ["lamport", "Lamport"],
  ["time", "Wall clock"],
];

export function Toolbar({ stage }) {
  const { event, light } = route.value.params;
  const both = pinnedA.value && pinnedB.value;
  const group = ({ currentTarget: { value } }) =>
    patch({ group: value === "user" ? null : value, folded: null });
  return html`<div class="events-bar">
    ${!vhost.value && html`<span class="badge" title="The busiest virtual host; choose another above"><${Value}>${stage.vhost}<//></span>`}
    <span class="tool"><span class="soft small">Rows</span>
      <${Choice} label="Rows" options=${ROW_KINDS} value=${kind.value} onChange=${(v) => patch({ rows: v })} /></span>
    <label class="tool"><span class="soft small">Group by</span>
      <select class="select" value=${grouping.value} onChange=${group}>
        ${GROUPINGS.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
      </select></label>
    ${both && event &&
    html`<${Choice} label="Highlight" value=${light ?? "event"} onChange=${(v) => patch({ light: v })}
      options=${[["event", "Past and future"], ["chain", "Chain A–B"]]} />`}
    <div class="right">
      <${Tool} icon="minus" label="Zoom out" letter="−" onClick=${() => stage.move((view) => view.zoomRows(1 / ZOOM))} />
      <${Tool} icon="plus" label="Zoom in" letter="+" onClick=${() => stage.move((view) => view.zoomRows(ZOOM))} />
      <${Tool} icon="fit" label="Fit all loaded events" letter="F" onClick=${() => stage.move((view) => view.fit())} />
      <${Tool} icon="list" label="List the events in view" letter="L" pressed=${String(listed.value)} onClick=${toggleList} />
      <button class="button" aria-pressed=${String(live.value)} title="Follow new events (Space)" onClick=${toggleLive}>
        <span class="live-dot ${live.value ? "on" : ""}"></span>${live.value ? "Live" : "Follow"}</button>
      <${LoadMore} stage=${stage} />
    </div>
  </div>`;
}

const Tool = ({ icon, label, letter, pressed, onClick }) =>
  html`<button class="button icon" aria-label=${label} title="${label} (${letter})" aria-pressed=${pressed}
    onClick=${onClick}><${Icon} name=${icon} /></button>`;

const AMOUNTS = [5000, 20_000, 100_000, 1_000_000];

function LoadMore({ stage: { loader, loaded } }) {
  const load = (event) => {
    const amount = Number(event.currentTarget.value);
    event.currentTarget.value = "";
    loader.loadUpTo(amount);
  };
  return html`<select class="select load-more" aria-label="Load more of the past" value=""
    disabled=${loader.atOldest.value} onChange=${load}>
    <option value="">${loader.busy.value ? "Loading …" : `${compact(loaded.value)} loaded`}</option>
    ${AMOUNTS.filter((n) => n > loaded.value).map(
      (n) => html`<option key=${n} value=${n}>Load ${count(n)}</option>`,
    )}
  </select>`;
}

const LEAST_LABEL = 26;
const MOST_HEADS = 400;

/** The names above the lanes; they follow the canvas sideways. */
export function LaneHeads({ stage }) {
  stage.drawn.value;
  const { view, lanes, groups } = stage.scene;
  const first = Math.max(0, Math.floor(view.laneAt(GUTTER)));
  const last = Math.min(lanes.length, Math.ceil(view.laneAt(view.width)) + 1, first + MOST_HEADS);
  const labelled = view.lanePixels >= LEAST_LABEL;
  return html`<div class="lane-heads" style=${{ width: `${view.width}px` }}>
    <div class="lane-groups">
      ${groups.map((group) => html`<${GroupHead} key=${group.key} group=${group} view=${view} />`)}
    </div>
    ${labelled &&
    lanes.slice(first, last).map((lane, n) => {
      const x = view.x(first + n);
      if (x < GUTTER) return null;
      return html`<span class="lane-label" key=${first + n} title=${visible(lane.title)}
        style=${{ left: `${x}px`, width: `${view.lanePixels}px` }}>
        <bdi class="cut">${lane.folded ? "" : visible(lane.label)}</bdi></span>`;
    })}
  </div>`;
}

function GroupHead({ group, view }) {
  const from = Math.max(GUTTER, view.x(group.from - 0.5));
  const to = Math.min(view.width, view.x(group.to - 0.5));
  if (to - from < 6) return null;
  const name = visible(group.key);
  const title = `${group.collapsed ? "Show" : "Fold"} ${name}: ${group.size} participants`;
  return html`<button class="group-head" style=${{ left: `${from}px`, width: `${to - from}px` }}
    aria-expanded=${String(!group.collapsed)} title=${title} onClick=${() => toggleGroup(group.key)}>
    <span class="fold">${group.collapsed ? "+" : "–"}</span>
    <bdi class="cut">${name}</bdi>${group.collapsed && html`<span class="faint">${group.size}</span>`}
  </button>`;
}

const TIP_WIDTH = 300;
const TIP_HEIGHT = 84;
const MAP_WIDTH = 84; // the minimap and a little room

/** The event under the pointer. */
export function Tip({ stage: { scene, model, hovered } }) {
  if (!hovered.value) return null;
  const { index, x, y } = hovered.value;
  const event = model.describe(index);
  const right = x > scene.view.width - TIP_WIDTH;
  const place = {
    top: `${Math.min(y + 14, scene.view.height - TIP_HEIGHT)}px`,
    left: right ? undefined : `${x + 14}px`,
    right: right ? `${scene.view.width - x + MAP_WIDTH}px` : undefined,
  };
  return html`<div class="tip" style=${place} role="status">
    <div class="drawer-line"><strong>#${event.id}</strong><${TypeMark} type=${event.type} />
      ${event.type === "received" && html`<${MatchMark} match=${event.match} />`}</div>
    <div class="cut"><bdi>${event.text}</bdi></div>
    <div class="soft small">Lamport ${event.lamport} · <bdi>${event.who}</bdi> · ${dateTime(event.at / 1000)}</div>
  </div>`;
}

const MOST_LISTED = 200;
const WORDS = { 0: "concurrent", [PAST]: "past", [SELF]: "chosen", [FUTURE]: "future", [CHAIN]: "in the chain" };

const named = (links) =>
  links.length ? html`<span title="Named as its cause">${links.map(({ cause }) => `#${cause}`).join(", ")}</span>` : "–";

/** The events in view as a table: for those who cannot see the diagram, or want the words. */
export function ViewList({ stage: { scene, model, drawn } }) {
  drawn.value;
  const { marks, chainLit } = scene;
  const word = (i) => (!marks ? "–" : chainLit && !marks[i] ? "outside" : WORDS[marks[i]]);
  return html`<div class="view-list" tabindex="0" role="region" aria-label="Events in view">
    <table class="list">
      <thead><tr><th>Event</th><th class="number">Lamport</th><th>Participant</th><th>Type</th>
        <th>What</th><th class="number">Cause</th><th>Match</th><th>Relation</th></tr></thead>
      <tbody>${scene.inView(MOST_LISTED).map((i) => {
        const event = model.describe(i);
        return html`<tr key=${event.id}>
          <td><a href=${hrefHere({ event: String(event.id) })}>#${event.id}</a></td>
          <td class="number">${event.lamport}</td>
          <td class="cut" title=${event.who}><bdi>${event.who}</bdi></td>
          <td><${TypeMark} type=${event.type} /></td>
          <td class="name cut"><bdi>${event.text}</bdi></td>
          <td class="number">${event.cause ? `#${event.cause}` : named(event.links)}</td>
          <td><${MatchMark} match=${event.match} /></td>
          <td>${word(i)}</td>
        </tr>`;
      })}</tbody>
    </table>
  </div>`;
}

/** How much is in view, and what the marks mean. */
export function Foot({ stage }) {
  const { scene, model, loader } = stage;
  const { events, far } = stage.drawn.value;
  const loaded = stage.loaded.value;
  if (!loaded) return html`<div class="rows-foot"><span>${loader.busy.value ? "Loading …" : ""}</span></div>`;
  const { marks, chainLit } = scene;
  return html`<div class="rows-foot">
    <span>${count(events)} of ${count(loaded)} loaded events in view, #${model.id[0]} to #${model.id[loaded - 1]}
      ${far ? " · zoom in to see messages" : ""}
      ${scene.missing.length > 0 && html`<${Missing} ids=${scene.missing} loader=${loader} />`}</span>
    ${stage.trace.value?.doubts.length > 0 && html`<span>Not sound: concurrent means as far as is known</span>`}
    <span class="diagram-legend">
      <span><${TypeMark} type="published" /></span><span><${TypeMark} type="received" /></span>
      ${scene.links.length > 0 && html`<span><i class="key link"></i>link: names its cause</span>`}
      ${chainLit && html`<span><i class="key chain"></i>chain from A to B</span>${scene.chainLinked && html`<span><i class="key chain link"></i>its links</span>`}<span class="faint">dimmed: outside</span>`}
      ${chainLit ? null : marks
        ? html`<span><i class="key past"></i>past</span><span><i class="key future"></i>future</span><span class="faint">dimmed: concurrent</span>`
        : html`<span class="faint">choose an event to highlight its past and future</span>`}
    </span>
  </div>`;
}

function Missing({ ids, loader }) {
  const busy = loader.busy.value;
  const load = async () => {
    for (const id of ids) await loader.reach(id, MOST_EVENTS);
  };
  const names = ids.map((id) => `#${id}`).join(" and ");
  return html` · <button class="button small" disabled=${busy} onClick=${load}>
    ${busy ? "Loading …" : `Load up to ${names} to highlight the chain`}</button>`;
}
