// Durations of the listed conversations, over the times at which they began: shows since when it is slow.
import { useRef } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { dateTime, moment, seconds, visible } from "../core/format.js";
import { hrefHere } from "../core/route.js";
import { useWidth } from "../ui/width.js";
import { stateWord } from "./words.js";

const HEIGHT = 110;
const LEFT = 56;
const PAD = 10;
const FEWEST = 5; // fewer say nothing that the list does not
const LEAST = 0.001; // s

export function Scatter({ items }) {
  const box = useRef(null);
  const isDrawn = items.length >= FEWEST;
  const width = useWidth(box, 800, isDrawn);
  if (!isDrawn) return null;
  const times = items.map(({ began_at: at }) => Date.parse(at));
  const [from, to] = [Math.min(...times), Math.max(...times)];
  const logs = items.map((one) => Math.log10(Math.max(one.seconds, LEAST)));
  const [low, high] = [Math.floor(Math.min(...logs)), Math.max(Math.floor(Math.min(...logs)) + 1, Math.ceil(Math.max(...logs)))];
  const x = (at) => LEFT + ((width - LEFT - PAD) * (at - from)) / Math.max(1, to - from);
  const y = (log) => PAD + ((HEIGHT - 2 * PAD) * (high - log)) / (high - low);
  const decades = Array.from({ length: high - low + 1 }, (_, n) => low + n);
  return html`<figure class="scatter" ref=${box} aria-label="How long conversations took, by when they began; the list below has the same">
    <svg width=${width} height=${HEIGHT} aria-hidden="true">
      ${decades.map((log) => html`<line key=${log} x1=${LEFT} x2=${width} y1=${y(log)} y2=${y(log)} />
        <text x=${LEFT - 8} y=${y(log) + 4} text-anchor="end">${seconds(10 ** log)}</text>`)}
      ${items.map((one, n) => html`<a key=${one.root} href=${hrefHere({ event: String(one.root) })} tabindex="-1">
        <circle class="state-${one.state}" cx=${x(times[n])} cy=${y(logs[n])} r="3.5">
          <title>${visible(one.keys[0] ?? one.type)}: ${stateWord(one.state)}, ${seconds(one.seconds)}, ${dateTime(one.began_at)}</title></circle></a>`)}
    </svg>
    <figcaption class="bars-foot small soft"><span style=${{ paddingLeft: `${LEFT}px` }}>${moment(from)}</span><span>${moment(to)}</span></figcaption>
  </figure>`;
}
