// Durations of the listed conversations, over the times at which they began: shows since when it is slow.
import { useRef } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { dateTime, moment, seconds, secondsSince, visible } from "../core/format.js";
import { hrefHere } from "../core/route.js";
import { ticksOf } from "../ui/ticks.js";
import { useWidth } from "../ui/width.js";
import { stateWord } from "./words.js";

const HEIGHT = 110;
const LEFT = 56;
const PAD = 10;
const FEWEST = 5; // fewer say nothing that the list does not
const LEAST = 0.001; // s
const ROOM = 0.2; // of a power of ten, at either end
const MOST_TICKS = 5;

export function Scatter({ items }) {
  const box = useRef(null);
  const isDrawn = items.length >= FEWEST;
  const width = useWidth(box, 800, isDrawn);
  if (!isDrawn) return null;
  const times = items.map(({ began_at: at }) => Date.parse(at));
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const took = items.map(({ position, began_at: at, seconds: n }) => (position ? secondsSince(at) : n)); // so far
  const logs = took.map((n) => Math.log10(Math.max(n, LEAST)));
  const [low, high] = [Math.min(...logs) - ROOM, Math.max(Math.max(...logs), Math.min(...logs) + 1) + ROOM];
  const x = (at) => LEFT + ((width - LEFT - PAD) * (at - from)) / Math.max(1, to - from);
  const y = (log) => PAD + ((HEIGHT - 2 * PAD) * (high - log)) / (high - low);
  return html`<figure class="scatter" ref=${box} aria-label="How long conversations took, by when they began; the list below has the same">
    <svg width=${width} height=${HEIGHT} aria-hidden="true">
      ${ticksOf(10 ** low, 10 ** high, MOST_TICKS).map(([tick, text]) => html`<line key=${text} x1=${LEFT} x2=${width} y1=${y(Math.log10(tick))} y2=${y(Math.log10(tick))} />
        <text x=${LEFT - 8} y=${y(Math.log10(tick)) + 4} text-anchor="end">${text}</text>`)}
      ${items.map((one, n) => html`<a key=${one.root} href=${hrefHere({ event: String(one.root) })} tabindex="-1">
        <circle class="state-${one.state}" cx=${x(times[n])} cy=${y(logs[n])} r="3.5">
          <title>${visible(one.keys[0] ?? one.type)}: ${stateWord(one.state)}, ${seconds(took[n])}${one.position ? " so far" : ""}, ${dateTime(one.began_at)}</title></circle></a>`)}
    </svg>
    <figcaption class="bars-foot small soft"><span style=${{ paddingLeft: `${LEFT}px` }}>${moment(from)}</span><span>${moment(to)}</span></figcaption>
  </figure>`;
}
