// A stamp as the paper draws it: the id on the unit interval, the event heights above it. If the id
// is too narrow to see, a second drawing shows its surroundings.
import { html } from "../../core/html.js";
import { ownedIntervals, steps } from "./itc-tree.js";

const WIDTH = 420;
const LEFT = 34;
const RIGHT = 8;
const TOP = 14;
const HEIGHT = 110;
const ID_GAP = 5;
const ID_HEIGHT = 12;
const FOOT = 18;
const INNER = WIDTH - LEFT - RIGHT;
const NARROW_PIXELS = 12;
const SURROUNDINGS = 16; // times the width of the id

export function ItcDrawing({ id, event }) {
  const owned = ownedIntervals(id);
  const heights = steps(event);
  const from = owned.length ? owned[0].from : 0;
  const to = owned.length ? owned.at(-1).to : 1;
  const narrow = owned.length > 0 && (to - from) * INNER < NARROW_PIXELS;
  const close = narrow ? around(from, to) : null;
  const most = Math.max(1, ...heights.map((step) => step.height));

  return html`<figure class="itc">
    <${Graph} owned=${owned} heights=${heights} from=${0} to=${1} most=${most} lens=${close} />
    ${close && html`<p class="small soft itc-lens">The part around its own interval, enlarged ${Math.round(1 / (close.to - close.from))} times</p>
      <${Graph} owned=${owned} heights=${heights} ...${close} most=${most} />`}
    <figcaption class="itc-legend">
      <span><i class="heights"></i>event heights</span>
      <span><i class="own"></i>id: ${describe(owned)}</span>
    </figcaption>
  </figure>`;
}

function around(from, to) {
  const width = Math.min(1, (to - from) * SURROUNDINGS);
  const left = Math.max(0, Math.min(1 - width, Math.floor(from / width) * width));
  return { from: left, to: left + width };
}

function describe(owned) {
  if (!owned.length) return "anonymous";
  const share = owned.reduce((sum, { from, to }) => sum + to - from, 0);
  if (share === 1) return "the whole interval";
  return `1/${Math.round(1 / share)} of the interval`;
}

function Graph({ owned, heights, from, to, most, lens }) {
  const x = (at) => LEFT + (INNER * (Math.min(to, Math.max(from, at)) - from)) / (to - from);
  const y = (height) => TOP + HEIGHT * (1 - height / most);
  const base = TOP + HEIGHT;
  const idTop = base + ID_GAP;
  const inside = heights.filter((step) => step.to > from && step.from < to);
  const outline = inside.map((s) => `H${x(s.from)}V${y(s.height)}H${x(s.to)}`).join("");
  const label = `Event heights from 0 to ${most} over the interval; the id owns ${describe(owned)}`;

  return html`<svg viewBox="0 0 ${WIDTH} ${idTop + ID_HEIGHT + FOOT}" role="img" aria-label=${label}>
    ${ticks(most).map(
      (t) => html`<line class="guide" x1=${LEFT} x2=${WIDTH - RIGHT} y1=${y(t)} y2=${y(t)} />
        <text x=${LEFT - 5} y=${y(t) + 4} text-anchor="end">${t}</text>`,
    )}
    <path class="heights" d="M${x(from)} ${base}${outline}V${base}Z" />
    <rect class="others" x=${LEFT} y=${idTop} width=${INNER} height=${ID_HEIGHT} />
    ${owned
      .filter((o) => o.to > from && o.from < to)
      .map((o) => html`<rect class="own" x=${x(o.from)} y=${idTop} height=${ID_HEIGHT}
        width=${Math.max(1.5, x(o.to) - x(o.from))} />`)}
    ${lens && html`<rect class="guide" x=${x(lens.from) - 1} y=${TOP - 4}
      width=${x(lens.to) - x(lens.from) + 2} height=${idTop + ID_HEIGHT - TOP + 8} />`}
    <text x=${LEFT} y=${idTop + ID_HEIGHT + 13}>${fraction(from)}</text>
    <text x=${WIDTH - RIGHT} y=${idTop + ID_HEIGHT + 13} text-anchor="end">${fraction(to)}</text>
  </svg>`;
}

function ticks(most) {
  if (most <= 4) return Array.from({ length: most + 1 }, (_, i) => i);
  return [0, Math.round(most / 2), most];
}

/** The ends of dyadic intervals as fractions. */
function fraction(value) {
  let top = value;
  let bottom = 1;
  while (top % 1 && bottom < 2 ** 20) {
    top *= 2;
    bottom *= 2;
  }
  return bottom === 1 ? String(top) : top % 1 ? value.toPrecision(4) : `${top}/${bottom}`;
}
