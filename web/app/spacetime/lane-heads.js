// The names above the lanes, as real text and buttons. They follow the canvas sideways.
import { html } from "../core/html.js";
import { visible } from "../core/format.js";
import { GUTTER } from "./view.js";

const LEAST_LABEL = 26;
const MOST_HEADS = 400;

export function LaneHeads({ scene, onToggle }) {
  const { view, lanes, groups } = scene;
  const first = Math.max(0, Math.floor(view.laneAt(GUTTER)));
  const last = Math.min(lanes.length, Math.ceil(view.laneAt(view.width)) + 1, first + MOST_HEADS);
  const labelled = view.lanePixels >= LEAST_LABEL;
  return html`<div class="lane-heads" style=${{ width: `${view.width}px` }}>
    <div class="lane-groups">
      ${groups.map((group) => html`<${GroupHead} key=${group.key} group=${group} view=${view} onToggle=${onToggle} />`)}
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

function GroupHead({ group, view, onToggle }) {
  const from = Math.max(GUTTER, view.x(group.from - 0.5));
  const to = Math.min(view.width, view.x(group.to - 0.5));
  if (to - from < 6) return null;
  const name = visible(group.key);
  const title = `${group.collapsed ? "Show" : "Fold"} ${name}: ${group.size} participants`;
  return html`<button class="group-head" style=${{ left: `${from}px`, width: `${to - from}px` }}
    aria-expanded=${String(!group.collapsed)} title=${title} onClick=${() => onToggle(group.key)}>
    <span class="fold">${group.collapsed ? "+" : "–"}</span>
    <bdi class="cut">${name}</bdi>${group.collapsed && html`<span class="faint">${group.size}</span>`}
  </button>`;
}
