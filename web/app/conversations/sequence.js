// Lanes for participants, arrows for messages: a picture to paste into a ticket.
import { useMemo, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { plural } from "../core/format.js";
import { useKeys } from "../core/keys.js";
import { patch } from "../core/route.js";
import { afterText } from "./model.js";
import { Rows } from "./rows.js";
import { headShapes, mermaidOf, placesOf, sequenceOf, STEP, stepShapes, stepText, wholeDrawing } from "./sequence-layout.js";
import { Shape } from "./shapes-view.js";

const LONG = 420; // pixels of steps that a phone shows whole
const SAVED_LANE = 240; // wide enough for most words, whatever the window
const DASHED = [["again", "handed over again"], ["dead", "dead letter"], ["stays", "stays in a queue"]];

export default function Sequence({ model, selected, share, onSelect }) {
  const [width, setWidth] = useState(1000);
  const sequence = useMemo(() => sequenceOf(model), [model]);
  const places = useMemo(() => placesOf(sequence, width - 2), [sequence, width]);
  const { steps } = sequence;
  const active = useMemo(() => stepOf(steps, model, selected), [steps, model, selected]);
  const names = new Map(sequence.lanes.map(({ id, name }) => [id, name]));
  const choose = (index, more = { replace: true }) => onSelect(steps[index].event, more);
  // Two steps may belong to one event; walking then goes on to the next that does not.
  const step = (index) => {
    const by = Math.sign(index - active) || 1;
    let to = index;
    while (steps[to + by] && steps[to].event === steps[active]?.event) to += by;
    choose(to);
  };
  useKeys({
    ArrowDown: () => active + 1 < steps.length && step(active + 1),
    ArrowUp: () => active > 0 && step(active - 1),
  });
  const label = (one) => `${names.get(one.from)}${one.to ? ` to ${names.get(one.to)}` : ""}: ${stepText(one)}, ${afterText(one.at)}`;

  share.current = {
    drawing: () => wholeDrawing(sequence, placesOf(sequence, SAVED_LANE * sequence.lanes.length)),
    name: `conversation-${model.answer.root}-sequence`,
    mermaid: () => mermaidOf(sequence),
  };
  const dashed = DASHED.filter(([kind]) => steps.some((one) => one.kind === kind)).map(([, words]) => words);
  return html`<div class="sequence ${steps.length * STEP > LONG ? "long" : ""}" style=${{ "--height": `${places.head + (steps.length - 2) * STEP}px` }}>
    ${dashed.length > 0 && html`<p class="conv-tools small soft">Dashed: ${dashed.join(", ")}.</p>`}
    <${Rows} name="sequence" role="listbox" label=${`Steps, ${plural(steps.length, "message")}`} count=${steps.length} height=${STEP}
      active=${active} onStep=${step} onKey=${(key) => key === "Enter" && (patch({ panel: "on" }), true)} onWidth=${setWidth}
      headHeight=${places.head} minWidth=${places.width} middle=${(index) => (places.x(steps[index].from) + places.x(steps[index].to ?? steps[index].from)) / 2}
      head=${html`<svg class="conv-drawing conv-axis" width=${places.width} height=${places.head} aria-hidden="true">
        ${headShapes(sequence, places).map((shape, n) => html`<${Shape} key=${n} shape=${shape} />`)}</svg>`}
      row=${(index, place) => html`<div class="conv-row ${place.chosen ? "chosen" : ""}" key=${index} id=${place.id} role="option"
          aria-label=${label(steps[index])} aria-selected=${String(place.chosen)} title=${label(steps[index])}
          style=${{ top: place.top, height: `${STEP}px` }} onClick=${() => choose(index, { panel: "on" })}>
        <svg class="conv-drawing" width=${places.width} height=${STEP} aria-hidden="true">
          ${stepShapes(steps[index], sequence, places).map((shape, n) => html`<${Shape} key=${n} shape=${shape} />`)}</svg>
      </div>`} />
  </div>`;
}

/** The step of an event, or of its message the one that says how it failed, or else the first. */
function stepOf(steps, { places }, selected) {
  const exact = steps.findIndex(({ event }) => event === selected);
  if (exact >= 0) return exact;
  const message = places.get(selected)?.message;
  const isOf = ({ event }) => places.get(event)?.message === message;
  const end = steps.findIndex((one) => one.kind === "note" && isOf(one));
  return end >= 0 ? end : steps.findIndex(isOf);
}
