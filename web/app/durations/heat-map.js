// A heat map of durations: time to the right, duration upwards on a logarithmic scale, darker where
// there were more.
import { useEffect, useLayoutEffect, useRef } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { moment, plural, seconds } from "../core/format.js";
import { clock, shownTheme } from "../core/preferences.js";
import { color } from "../ui/color.js";
import { drawLine, fitted } from "../ui/fitted.js";
import { paintHole, paintTimes } from "../ui/plot.js";
import { ticksOf } from "../ui/ticks.js";

const LEFT = 56;
const RIGHT = 12;
const TOP = 18;
const BOTTOM = 22;
const FAINTEST = 0.14;
const LABEL_PIXELS = 20;
const TIMES = { ends: [75, 44], apart: 70 }; // pixels: room for the begin and for "now", and between two

/**
 * `map` and `series` as the API gives them; `token` is the colour. Of `holes`, [{from, to}] in ms, nothing
 * is known. `at` is the number of the span that is looked at, marked if `isMarked`; `onMove(n)` looks at another, `onOpen` opens it.
 */
export function HeatMap({ label, map, series, token, holes, at, isMarked, onMove, onOpen }) {
  const canvas = useRef(null);
  const latest = useRef({});
  latest.current = { map, series, token, holes, at: isMarked ? at : null };
  const theme = shownTheme.value;
  const { number, from, to, step } = axisOf(map);

  useEffect(() => {
    const watcher = new ResizeObserver(() => paint(canvas.current, latest.current));
    watcher.observe(canvas.current);
    return () => watcher.disconnect();
  }, []);
  useLayoutEffect(() => paint(canvas.current, latest.current), [map, series, at, isMarked, theme, clock.value, JSON.stringify(holes)]);

  const placeOf = ({ clientX }) => {
    const { left, width } = canvas.current.getBoundingClientRect();
    return Math.min(number - 1, Math.max(0, Math.floor(((to - from) * (clientX - left - LEFT)) / (width - LEFT - RIGHT) / step)));
  };
  const press = (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: number - 1 }[event.key];
    if (event.key !== "Enter" && to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (to === undefined) onOpen(at);
    else onMove(Math.min(number - 1, Math.max(0, to)));
  };
  return html`<canvas class="heat-map" ref=${canvas} tabindex="0" role="slider" aria-label=${`${label}; the arrow keys go from span to span, Enter opens one`}
    aria-valuemin="0" aria-valuemax=${number - 1} aria-valuenow=${at} aria-valuetext=${saidOf(map, series, at, holes)}
    onPointerMove=${(event) => onMove(placeOf(event))} onClick=${(event) => onOpen(placeOf(event))} onKeyDown=${press}></canvas>
    <p class="heat-said small soft tabular">${isMarked && `${saidOf(map, series, at, holes)} `}<span class="heat-key">1<i style=${{ "--tone": `var(${token})`, "--least": `${100 * depth(1, mostOf(series))}%` }}></i>${plural(mostOf(series), "delivery", "deliveries")}</span>
      <span class="faint">Choose a time to list its deliveries.</span></p>`;
}

/** Spans of `step` ms from `from`; the last has not ended, and the axis ends now. */
export function axisOf({ since, until, seconds: width }) {
  const [from, end] = [Date.parse(since), Date.parse(until)];
  return { from, to: Math.max(from + 1, Math.min(end, Date.now())), step: width * 1000, number: Math.max(1, Math.round((end - from) / (width * 1000))) };
}

const mostOf = ({ spans }) => Math.max(1, ...spans.flatMap(({ counts }) => counts));

/** The depth of the colour of `n` deliveries, where `most` have the deepest. */
const depth = (n, most) => FAINTEST + (1 - FAINTEST) * Math.sqrt(n / most);

const isUnknown = (from, to, holes) => holes.some((hole) => hole.from < to && hole.to > from);

function saidOf(map, series, n, holes) {
  const { from, step } = axisOf(map);
  const begin = from + n * step;
  const span = series.spans.find(({ at }) => Date.parse(at) === begin);
  const unknown = isUnknown(begin, begin + step, holes) ? ", and not all of it is known" : "";
  if (!span) return `${moment(begin)}: ${unknown ? "not known" : "none"}.`;
  return `${moment(begin)}: ${plural(span.count, "message")}, median ${seconds(span.median)}, 9 of 10 within ${seconds(span.p90)}${unknown}.`;
}

function paint(element, { map, series, token, holes, at }) {
  if (!element?.clientWidth) return; // gone, or not laid out yet
  const { context, width, height } = fitted(element);
  context.clearRect(0, 0, width, height);
  const { from, to, step } = axisOf(map);
  const { limits, spans, change } = series;
  const x = (ms) => LEFT + ((width - LEFT - RIGHT) * (Math.min(ms, to) - from)) / (to - from);
  const row = (height - TOP - BOTTOM) / Math.max(1, limits.length);
  const y = (n) => height - BOTTOM - n * row;
  const bottom = height - BOTTOM;

  const most = mostOf(series);
  for (const { at: begin, counts } of spans) {
    const [left, right] = [x(Date.parse(begin)), x(Date.parse(begin) + step)];
    counts.forEach((n, k) => {
      if (!n) return;
      context.fillStyle = color(token, depth(n, most));
      context.fillRect(left, y(k + 1), Math.max(1, right - left), Math.max(1, row - 0.5));
    });
  }
  for (const hole of holes) {
    const [left, right] = [x(Math.max(from, hole.from)), x(hole.to)];
    if (right >= left) paintHole(context, left, right, TOP, bottom);
  }

  Object.assign(context, { font: "11px Inter, sans-serif", fillStyle: color("--ink-soft"), textBaseline: "middle", textAlign: "right" });
  const growth = limits.length > 1 ? limits[1] / limits[0] : 10; // each row's limit is that of the one below times this
  const ticks = ticksOf(limits[0] / growth, limits.at(-1), (bottom - TOP) / LABEL_PIXELS);
  for (const [tick, text] of ticks.length ? ticks : [[limits.at(-1), seconds(limits.at(-1))]]) {
    context.fillText(text, LEFT - 8, y(1 + Math.log(tick / limits[0]) / Math.log(growth)));
  }
  context.textAlign = "left";
  context.fillText(moment(from), LEFT, height - BOTTOM / 2);
  context.textAlign = "right";
  context.fillText("now", width - RIGHT, height - BOTTOM / 2);
  paintTimes(context, (at) => x(at * 1000), { from: from / 1000, length: (to - from) / 1000, y: height - BOTTOM / 2, ...TIMES });

  if (change) mark(context, x(Date.parse(change.since)), width, bottom, `slower since ${moment(change.since)}`);
  if (at === null) return;
  Object.assign(context, { strokeStyle: color("--ink-soft"), lineWidth: 1 });
  context.strokeRect(Math.round(x(from + at * step)) + 0.5, TOP + 0.5, Math.max(2, Math.round(x(from + (at + 1) * step) - x(from + at * step))), bottom - TOP - 1);
}

function mark(context, left, width, bottom, said) {
  context.strokeStyle = context.fillStyle = color("--bad");
  drawLine(context, [left, TOP - 4, left, bottom], { lineWidth: 2 }, [5, 3]);
  const isRight = left > width / 2;
  context.textAlign = isRight ? "right" : "left";
  context.fillText(said, left + (isRight ? -4 : 4), TOP / 2);
}
