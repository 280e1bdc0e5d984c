// Controls around the canvas, as real text and buttons: the toolbar, the list of events in view, and
// the line below.
import { useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { compact, count, plural } from "../core/format.js";
import { hrefHere, patch, pinnedA, pinnedB, route, vhost } from "../core/route.js";
import { Icon } from "../ui/icons.js";
import { MatchMark, TypeMark, Value } from "../ui/marks.js";
import { Choice } from "../ui/panel.js";
import { CHAIN, FUTURE, PAST, SELF } from "./causality.js";
import { ZOOM } from "./keys.js";
import { GROUPINGS } from "./layout.js";
import { MOST_EVENTS } from "./loader.js";
import { savePicture } from "./picture.js";
import { allLanes, alone, explained, grouping, listed, live, toggleLegend, toggleList, toggleLive } from "./stage.js";

const ROW_KINDS = [
  ["time", "By time", "Long silences are cut (⋮), close events are kept apart"],
  ["lamport", "By cause", "Each event below all that may have led to it, whatever the clocks say (Lamport time)"],
];
const LANES = [
  ["view", "In view", "Lanes without events in view are hidden"],
  ["all", "All"],
];

/** The view's name, and the number of events in it. */
export function Title({ stage: { vhost: name, scene, model, drawn, loaded } }) {
  const { events, far } = drawn.value;
  const all = loaded.value;
  return html`<div class="page-title diagram-title"><h1>Space-time</h1>
    ${!vhost.value && html`<span class="badge" title="The busiest virtual host; choose another above"><${Value}>${name}<//></span>`}
    ${all > 0 && html`<span class="soft small">${count(events)} of ${count(all)} loaded events in view<span class="off-phone">, #${model.id[0]} to #${model.id[all - 1]}
      ${far ? " · zoom in to see messages" : ""}
      ${scene.foldedAway > 0 && ` · ${plural(scene.foldedAway, "lane")} without events in view ${scene.foldedAway === 1 ? "is" : "are"} hidden`}</span></span>`}
  </div>`;
}

export function Toolbar({ stage }) {
  const { event, light } = route.value.params;
  const { subset } = stage;
  const hasChain = subset ? !stage.alone : pinnedA.value && pinnedB.value;
  const chain = subset?.kind === "conversation" ? "Conversation" : subset ? "Chain" : "Chain A–B";
  const group = ({ currentTarget: { value } }) =>
    patch({ group: value === "service" ? null : value, folded: null });
  const [isMore, setMore] = useState(false); // of the controls, on a phone
  return html`<div class="events-bar ${isMore ? "" : "few"}">
    <span class="tool"><span class="soft small">Rows</span>
      <${Choice} label="Rows" options=${ROW_KINDS} value=${stage.drawn.value.kind} onChange=${(v) => patch({ rows: v === "time" ? null : v })} /></span>
    ${!stage.alone && html`<span class="tool"><span class="soft small">Lanes</span>
      <${Choice} label="Lanes" options=${LANES} value=${allLanes.value ? "all" : "view"} onChange=${(v) => patch({ lanes: v === "all" ? v : null })} /></span>`}
    <label class="tool"><span class="soft small">Group by</span>
      <select class="select" value=${grouping.value} onChange=${group}>
        ${GROUPINGS.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
      </select></label>
    ${subset && html`<button class="button" aria-pressed=${String(alone.value)} title="Without all that happened meanwhile"
      onClick=${() => patch({ only: alone.value ? "off" : null, at: null, zoom: null })}>Only these lanes</button>`}
    ${hasChain && event &&
    html`<${Choice} label="Highlight" value=${light ?? "event"} onChange=${(v) => patch({ light: v })}
      options=${[["event", "Causes and effects"], ["chain", chain]]} />`}
    <div class="right">
      <${Tool} icon="minus" label="Zoom out" letter="−" onClick=${() => stage.move((view) => view.zoomRows(1 / ZOOM))} />
      <${Tool} icon="plus" label="Zoom in" letter="+" onClick=${() => stage.move((view) => view.zoomRows(ZOOM))} />
      <${Tool} icon="fit" label="Fit all loaded events" letter="F" onClick=${() => stage.fit()} />
      <${Tool} icon="list" label="List the events in view" letter="L" pressed=${String(listed.value)} onClick=${toggleList} />
      <button class="button on-phone" aria-expanded=${String(isMore)} onClick=${() => setMore(!isMore)}>More</button>
      <button class="button legend-button" aria-pressed=${String(explained.value)} title="What every sign means (G)" onClick=${toggleLegend}>Legend</button>
      <${Pictures} stage=${stage} />
      ${!stage.alone && html`<button class="button" aria-pressed=${String(live.value)} title="Show new events as they come (Space)" onClick=${toggleLive}>
        <span class="live-dot ${live.value ? "on" : ""}"></span>${live.value ? "Live" : "Paused"}</button>
      <${LoadMore} stage=${stage} />`}
    </div>
  </div>`;
}

const Tool = ({ icon, label, letter, pressed, onClick }) =>
  html`<button class="button icon" aria-label=${label} title="${label} (${letter})" aria-pressed=${pressed}
    onClick=${onClick}><${Icon} name=${icon} /></button>`;

const FORMATS = ["SVG", "PNG"];

function Pictures({ stage }) {
  const save = (event) => {
    const format = event.currentTarget.value;
    event.currentTarget.value = "";
    savePicture(stage, format);
  };
  const { far, events } = stage.drawn.value;
  return html`<select class="select picture" aria-label="Save what is in view as a picture" value="" disabled=${!events} onChange=${save}>
    <option value="">Save …</option>
    ${FORMATS.map((name) => html`<option key=${name} value=${name} disabled=${far && name === "SVG"}>${name}${far && name === "SVG" ? " (zoom in first)" : ""}</option>`)}
  </select>`;
}

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

const MOST_LISTED = 200;
const WORDS = { 0: "neither", [PAST]: "may have led to it", [SELF]: "chosen", [FUTURE]: "may have come of it", [CHAIN]: "in the chain" };

const named = (links) =>
  links.length ? html`<span title="Named as its cause, or by what the broker did">${links.map(({ cause }) => `#${cause}`).join(", ")}</span>` : "–";

/** The events in view as a table: for those who cannot see the diagram, or want the words. */
export function ViewList({ stage: { scene, model, drawn } }) {
  drawn.value;
  const { marks, chainLit } = scene;
  const word = (i) => (!marks ? "–" : chainLit && !marks[i] ? "outside" : WORDS[marks[i]]);
  return html`<div class="view-list" tabindex="0" role="region" aria-label="Events in view">
    <table class="list">
      <thead><tr><th>Event</th><th>Participant</th><th>Type</th>
        <th>What</th><th class="number">Cause</th><th>Match</th><th>Relation</th></tr></thead>
      <tbody>${scene.inView(MOST_LISTED).map((i) => {
        const event = model.describe(i);
        return html`<tr key=${event.id}>
          <td><a href=${hrefHere({ event: String(event.id) })}>#${event.id}</a></td>
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

/** The meaning of the marks. */
export function Foot({ stage }) {
  const { scene, model, loader } = stage;
  stage.drawn.value;
  if (!stage.loaded.value) return html`<div class="rows-foot"><span>${loader.busy.value ? "Loading …" : ""}</span></div>`;
  const { marks, chainLit } = scene;
  return html`<div class="rows-foot">
    ${scene.missing.length > 0 && html`<${Missing} ids=${scene.missing} loader=${loader} />`}
    ${stage.trace.value?.doubts.length > 0 && html`<span>Not sound: what is dimmed may have had a part</span>`}
    <span class="diagram-legend">
      <span><${TypeMark} type="published" /></span><span><${TypeMark} type="received" /></span>
      ${scene.links.length > 0 && html`<span><i class="key link"></i>link: names its cause${model.links.hasActs && html`<span class="off-phone">, or what the broker did</span>`}</span>`}
      ${chainLit && html`<span><i class="key chain"></i>${stage.subset ? `the ${stage.subset.kind}` : "chain from A to B"}</span>${scene.chainLinked && html`<span><i class="key chain link"></i>its links</span>`}<span class="faint">dimmed: outside</span>`}
      ${chainLit ? null : marks
        ? html`<span><i class="key past"></i>${WORDS[PAST]}</span><span><i class="key future"></i>${WORDS[FUTURE]}</span><span class="faint">dimmed: neither</span>`
        : html`<span class="faint">choose an event to light what may have led to it and come of it</span>`}
    </span>
  </div>`;
}

function Missing({ ids, loader }) {
  const busy = loader.busy.value;
  const load = async () => {
    for (const id of ids) await loader.reach(id, MOST_EVENTS);
  };
  const names = ids.map((id) => `#${id}`).join(" and ");
  return html`<button class="button small" disabled=${busy} onClick=${load}>
    ${busy ? "Loading …" : `Load up to ${names} to highlight the chain`}</button>`;
}
