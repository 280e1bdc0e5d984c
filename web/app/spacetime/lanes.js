// The names above the lanes of the space-time diagram, as real text and buttons; they follow the canvas sideways.
import { html } from "../core/html.js";
import { plural, visible } from "../core/format.js";
import { toggleGroup } from "./stage.js";
import { GUTTER } from "./view.js";

const MOST_HEADS = 400;
const LEAST_LABEL = 16;
const STRAIGHT = 104; // narrower lanes have slanted names, or only their beginnings could be read

/** A service's colour in the style sheet; 0 is the unknown service's. */
export const serviceTone = (service) => `var(--${service ? `service-${service}` : "ink-faint"})`;

const isSlanted = (view) => view.lanePixels < STRAIGHT;

export function LaneHeads({ stage }) {
  const { lanes } = stage.drawn.value;
  const { view, groups } = stage.scene;
  const first = Math.max(0, Math.floor(view.laneAt(GUTTER)));
  const last = Math.min(lanes.length, Math.ceil(view.laneAt(view.width)) + 1, first + MOST_HEADS);
  const labelled = view.lanePixels >= LEAST_LABEL;
  const slanted = isSlanted(view);
  const isPlain = labelled && groups.every(({ from, to, collapsed }) => to - from === 1 && !collapsed); // a group's head would say the same again
  return html`<div class="lane-heads ${slanted && labelled ? "slanted" : ""} ${isPlain ? "plain" : ""}" style=${{ width: `${view.width}px` }}>
    <div class="lane-groups">
      ${!isPlain && groups.map((group) => html`<${GroupHead} key=${group.key} group=${group} groups=${groups} view=${view} />`)}
    </div>
    ${labelled &&
    lanes.slice(first, last).map((lane, n) => {
      const x = view.x(first + n);
      if (x < GUTTER) return null;
      const width = slanted ? undefined : `${view.lanePixels}px`;
      // A narrow lane's group has no room for its name.
      const isOnly = (slanted || isPlain) && lane.name !== undefined && groups.some(({ from, to }) => from === first + n && to === from + 1);
      return html`<span class="lane-label" key=${first + n} title=${visible(lane.title)}
        style=${{ left: `${x}px`, width, "--tone": serviceTone(lane.service) }}>
        <bdi class="cut">${lane.folded ? "" : visible(isOnly ? lane.name : lane.label)}</bdi></span>`;
    })}
  </div>`;
}

function GroupHead({ group, groups, view }) {
  const from = Math.max(GUTTER, view.x(group.from - 0.5));
  const to = Math.min(view.width, view.x(group.to - 0.5));
  if (to - from < 6) return null;
  const name = visible(group.key);
  const title = `${group.collapsed ? "Show" : "Fold"} ${name}: ${plural(group.size, "participant")}`;
  return html`<button class="group-head" aria-expanded=${String(!group.collapsed)} title=${title}
    style=${{ left: `${from}px`, width: `${to - from}px`, "--tone": serviceTone(group.service) }}
    onClick=${() => toggleGroup(group.key, groups)}>
    <span class="fold">${group.collapsed ? "+" : "–"}</span>
    <bdi class="cut">${name}</bdi>${group.collapsed && html`<span class="faint">${group.size}</span>`}
  </button>`;
}
