// A plot over time on a canvas: a few lines, two axes, values under the pointer.
import { useEffect, useLayoutEffect, useRef } from "../../vendor/hooks.js";
import { clockTime, dateTime } from "../core/format.js";
import { html } from "../core/html.js";
import { clock, shownTheme } from "../core/preferences.js";
import { color } from "./color.js";
import { drawLine, fitted } from "./fitted.js";

const LEFT = 52;
const RIGHT = 12;
const TOP = 10;
const BOTTOM = 24;
const TICK_PIXELS = 96;
const HATCH = 8; // pixels between two lines
const DAY = 86_400;
const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, DAY / 6, DAY / 3, DAY, 3 * DAY];

/**
 * `series` is [{label, token, dash, fill}]; `data` columns: times in seconds, then the values of
 * each series. Of `holes`, [{from, to}] in seconds, nothing is known: they are hatched, and no line crosses
 * them. `format` turns a value into text; `onCursor` gets the index under the pointer, or null.
 */
export function Plot({ label, series, data, holes = [], format, onCursor }) {
  const canvas = useRef(null);
  const cursor = useRef(null);
  const latest = useRef({});
  latest.current = { series, data, holes, format, onCursor };
  const theme = shownTheme.value;

  useEffect(() => {
    const element = canvas.current;
    const draw = () => paint(element, latest.current, cursor.current);
    const point = (index) => {
      if (index === cursor.current) return;
      cursor.current = index;
      latest.current.onCursor?.(index);
      draw();
    };
    const move = (event) => point(nearest(element, latest.current.data[0], event.offsetX));
    const leave = () => point(null);
    const watcher = new ResizeObserver(draw);
    watcher.observe(element);
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerleave", leave);
    return () => {
      watcher.disconnect();
      element.removeEventListener("pointermove", move);
      element.removeEventListener("pointerleave", leave);
    };
  }, []);

  useLayoutEffect(
    () => paint(canvas.current, latest.current, cursor.current),
    [data, JSON.stringify(holes), theme, clock.value],
  );
  return html`<canvas class="plot-canvas" ref=${canvas} role="img" aria-label=${label}></canvas>`;
}

function spanOf(times) {
  const from = times[0];
  return { from, length: Math.max(1, times.at(-1) - from) };
}

function nearest(element, times, x) {
  const { from, length } = spanOf(times);
  const at = from + ((x - LEFT) / (element.clientWidth - LEFT - RIGHT)) * length;
  let best = 0;
  for (let i = 1; i < times.length; i += 1) {
    if (Math.abs(times[i] - at) < Math.abs(times[best] - at)) best = i;
  }
  return best;
}

function paint(element, { series, data, holes, format }, cursor) {
  const { context, width, height } = fitted(element);
  context.clearRect(0, 0, width, height);
  const [times, ...columns] = data;
  const most = niceCeiling(Math.max(1, ...columns.map((values) => Math.max(...values))));
  const { from, length } = spanOf(times);
  const x = (at) => LEFT + ((at - from) / length) * (width - LEFT - RIGHT);
  const y = (value) => TOP + (1 - value / most) * (height - TOP - BOTTOM);

  paintAxes(context, { width, height, x, y, from, length, most, format });
  const runs = runsOf(times, holes);
  series.forEach((style, n) => runs.forEach((run) => paintLine(context, style, run.map((k) => [x(times[k]), y(columns[n][k])]), y(0))));
  for (const hole of holes) {
    paintHole(context, x(Math.max(from, hole.from)), x(Math.min(from + length, hole.to)), TOP, y(0));
  }
  if (cursor !== null && cursor < times.length) paintCursor(context, series, columns, cursor, x(times[cursor]), y);
}

function paintAxes(context, { width, height, x, y, from, length, most, format }) {
  Object.assign(context, { font: "11px Inter, sans-serif", fillStyle: color("--ink-soft"), strokeStyle: color("--line"), textBaseline: "middle", textAlign: "right" });
  for (let n = 0; n <= 4; n += 1) {
    const value = (most * n) / 4;
    const at = Math.round(y(value)) + 0.5;
    drawLine(context, [LEFT, at, width - RIGHT, at]);
    context.fillText(format(value), LEFT - 8, at);
  }
  paintTimes(context, x, { from, length, y: height - BOTTOM / 2, ends: [20, 20] });
}

/** Round times of an axis below it, in seconds, some pixels apart and from its `ends`. */
export function paintTimes(context, x, { from, length, y, ends, apart = TICK_PIXELS }) {
  const [left, right] = [x(from), x(from + length)];
  const step = TIME_STEPS.find((s) => length / s <= Math.max(1, (right - left) / apart)) ?? TIME_STEPS.at(-1);
  context.textAlign = "center";
  for (let at = Math.ceil(from / step) * step; at <= from + length; at += step) {
    if (x(at) <= left + ends[0] || x(at) >= right - ends[1]) continue;
    context.fillText(step < DAY ? clockTime(at * 1000).slice(0, step < 60 ? 8 : 5) : dateTime(at * 1000).slice(5, 10), x(at), y);
  }
}

/** The indices of times that no hole lies between, run by run. */
function runsOf(times, holes) {
  const runs = [[]];
  times.forEach((at, k) => {
    if (k && holes.some(({ from, to }) => from < at && to > times[k - 1])) runs.push([]);
    runs.at(-1).push(k);
  });
  return runs;
}

function paintLine(context, { token, dash = [], fill }, points, bottom) {
  context.beginPath();
  for (const point of points) context.lineTo(...point);
  Object.assign(context, { strokeStyle: color(token), lineWidth: 1.75, lineJoin: "round" });
  context.setLineDash(dash);
  context.stroke();
  context.setLineDash([]);
  if (!fill) return;
  context.lineTo(points.at(-1)[0], bottom);
  context.lineTo(points[0][0], bottom);
  context.fillStyle = color(token, 0.09);
  context.fill();
}

/** Hatches what is not known. */
export function paintHole(context, left, right, top, bottom) {
  const width = Math.max(2, right - left);
  context.save();
  context.beginPath();
  context.rect(left, top, width, bottom - top);
  context.clip();
  context.beginPath();
  for (let at = left - (bottom - top); at < left + width; at += HATCH) {
    context.moveTo(at, bottom);
    context.lineTo(at + (bottom - top), top);
  }
  Object.assign(context, { strokeStyle: color("--line-control"), lineWidth: 1 });
  context.stroke();
  context.restore();
}

function paintCursor(context, series, columns, index, at, y) {
  drawLine(context, [Math.round(at) + 0.5, TOP, Math.round(at) + 0.5, y(0)], { strokeStyle: color("--line-control"), lineWidth: 1 });
  series.forEach(({ token }, n) => {
    context.beginPath();
    context.arc(at, y(columns[n][index]), 3.5, 0, 7);
    context.fillStyle = color(token);
    context.fill();
  });
}

/** The next higher value that divides into four round parts. */
function niceCeiling(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 4, 6, 8, 10].find((n) => n * power >= value);
  return step * power;
}
