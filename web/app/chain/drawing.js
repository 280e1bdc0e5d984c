// The chain drawn small: a lane for each participant, its events from left to right, as far to the right
// as the longest way to them is long. The list beside it says the same, so this is a picture to others.
import { useMemo } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { plural, time, visible } from "../core/format.js";
import { about, ACTS, stepText, Value } from "../ui/marks.js";
import { shortOf } from "../ui/names.js";

const LANE = 30; // pixels from lane to lane, as in the style sheet
const TOP = 8; // room for the letter over the first lane, as in the style sheet
const EDGE = 20;
const RADIUS = 5;

export default function Drawing({ chain, way, ends, open, onOpen }) {
  const marked = new Set(way.map(({ cause, effect }) => `${cause} ${effect}`));
  const { lanes, places, width, height } = useMemo(() => layOut(chain), [chain]);
  const { events, steps } = chain;
  const press = ({ target }) => {
    const id = target.closest("[data-event]")?.dataset.event;
    if (id) onOpen(Number(id));
  };
  return html`<figure class="chain-drawing">
    <div class="chain-lanes" tabindex="0" role="group" aria-label="The chain, drawn">
      <ul>${lanes.map(({ participant, name, short }) => html`<li key=${participant} class="cut" title=${visible(name)}><${Value}>${short}<//></li>`)}</ul>
      <svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" onClick=${press}
        aria-label=${`${plural(events.length, "event")} of ${plural(lanes.length, "participant")}; the list has the same`}>
        ${lanes.map(({ participant, first, last }, lane) => html`<path key=${participant} class="lane"
          d=${`M${first} ${mid(lane)}H${last}`} />`)}
        ${steps.map((step) => html`<${Arrow} key=${`${step.cause} ${step.effect}`} step=${step} places=${places} marked=${marked.has(`${step.cause} ${step.effect}`)} />`)}
        ${events.map((event) => html`<${Dot} key=${event.id} event=${event} place=${places.get(event.id)}
          end=${ends[event.id]} open=${event.id === open} />`)}
      </svg>
    </div>
    <figcaption class="diagram-legend small soft">
      <span><i class="key"></i>message</span>
      <span><i class="key link"></i>${steps.some(({ how }) => how in ACTS) ? "link, or what the broker did" : "link"}</span>
      ${marked.size > 0 && html`<span><i class="key chain"></i>shortest way</span>`}
      <span>full dot: published, ring: received; rightwards: later, not to scale</span>
    </figcaption>
  </figure>`;
}

const mid = (lane) => TOP + lane * LANE + LANE / 2;
/** Pixels from column to column: a short chain has room. */
const stepFor = (columns) => (columns <= 8 ? 88 : columns <= 16 ? 56 : 34);

/** Lanes in the order of their first events, and the place of each event. */
function layOut({ events, steps }) {
  const causes = new Map();
  for (const { cause, effect } of steps) causes.set(effect, [...(causes.get(effect) ?? []), cause]);
  const lanes = new Map();
  const places = new Map();
  for (const { id, participant, participant_name: name } of events) {
    const lane = lanes.get(participant) ?? { participant, name, number: lanes.size, first: 0, last: -1 };
    const before = (causes.get(id) ?? []).map((cause) => places.get(cause)?.column ?? -1);
    const column = 1 + Math.max(lane.last, ...before);
    if (!lanes.has(participant)) lanes.set(participant, Object.assign(lane, { first: column }));
    lane.last = column;
    places.set(id, { column, lane: lane.number });
  }
  const short = shortOf([...lanes.values()].map(({ name }) => name));
  const columns = 1 + Math.max(...[...lanes.values()].map(({ last }) => last));
  const x = (column) => EDGE + column * stepFor(columns);
  return {
    lanes: [...lanes.values()].map((lane) => ({ ...lane, short: short(lane.name), first: x(lane.first), last: x(lane.last) })),
    places: new Map([...places].map(([id, { column, lane }]) => [id, { x: x(column), y: mid(lane), lane }])),
    width: x(columns - 1) + EDGE,
    height: 2 * TOP + lanes.size * LANE,
  };
}

function Arrow({ step, places, marked }) {
  const { cause, effect, how } = step;
  const [from, to] = [places.get(cause), places.get(effect)];
  if (!from || !to) return null;
  const kinds = ["arrow", how === "message" ? "" : "link", marked ? "on-the-way" : ""];
  const [{ x: x1, y: y1 }, { x: x2, y: y2 }] = [from, to];
  // Along a lane it would hide what lies between, so it goes round.
  const flat = from.lane === to.lane && how === "message";
  const line = flat ? `M${x1} ${y1}Q${(x1 + x2) / 2} ${y1 - LANE * 0.8} ${x2} ${y2}` : `M${x1} ${y1}L${x2} ${y2}`;
  return html`<path class=${kinds.join(" ")} d=${line}><title>${stepText(step)}</title></path>`;
}

function Dot({ event, place, end, open }) {
  const { x, y } = place;
  const ring = event.type === "received";
  return html`<g data-event=${event.id} class=${`dot ${event.type} ${open ? "open" : ""}`}>
    <title>#${event.id} ${event.type}, ${about(event)}, ${time(event.recorded_at)}</title>
    <circle cx=${x} cy=${y} r="14" class="reach" />
    <circle cx=${x} cy=${y} r=${ring ? RADIUS - 1 : RADIUS} class="sign" />
    ${end && html`<text x=${x} y=${y - RADIUS - 3} class=${`end-${end.toLowerCase()}`}>${end}</text>`}
  </g>`;
}
