// A time plot: uPlot in the page's colours, sized by its box, gone with it.
import { useEffect, useRef } from "../../vendor/hooks.js";
import uPlot from "../../vendor/uplot.js";
import { html } from "../core/html.js";
import { clock, shownTheme } from "../core/preferences.js";
import { color } from "./color.js";

const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];

/**
 * `series` is [{label, token, dash, fill}], `data` uPlot's columns: times in seconds, then one
 * array a series. `format` writes a value.
 */
export function Plot({ label, series, data, format, onCursor }) {
  const box = useRef(null);
  const plot = useRef(null);
  const theme = shownTheme.value;
  const utc = clock.value === "utc";

  useEffect(() => {
    const size = () => ({ width: box.current.clientWidth, height: box.current.clientHeight });
    plot.current = new uPlot(
      options({ ...size(), series, format, utc, onCursor }),
      data,
      box.current,
    );
    const watcher = new ResizeObserver(() => plot.current.setSize(size()));
    watcher.observe(box.current);
    return () => {
      watcher.disconnect();
      plot.current.destroy();
    };
  }, [theme, utc]);

  useEffect(() => plot.current?.setData(data), [data]);

  return html`<div class="plot-canvas" ref=${box} role="img" aria-label=${label}></div>`;
}

function options({ width, height, series, format, utc, onCursor }) {
  const axis = {
    stroke: color("--ink-soft"),
    font: "11px Inter, sans-serif",
    grid: { stroke: color("--line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height,
    legend: { show: false },
    tzDate: utc ? (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC") : undefined,
    cursor: { points: { size: 7 }, y: false, drag: { x: false, y: false } },
    scales: { y: { range: (_, __, most) => [0, Math.max(most * 1.1, 1)] } },
    axes: [
      { ...axis, grid: { show: false }, space: 80, incrs: TIME_STEPS, size: 28, values: timeLabels(utc) },
      { ...axis, size: 56, values: (_, ticks) => ticks.map(format) },
    ],
    series: [
      {},
      ...series.map(({ label, token, dash, fill }) => ({
        label,
        stroke: color(token),
        width: 1.75,
        dash,
        fill: fill ? color(token, 0.09) : undefined,
        points: { show: false },
      })),
    ],
    hooks: { setCursor: [(self) => onCursor?.(self.cursor.idx ?? null)] },
  };
}

function timeLabels(utc) {
  const style = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  if (utc) style.timeZone = "UTC";
  const minutes = new Intl.DateTimeFormat("en-GB", style);
  const seconds = new Intl.DateTimeFormat("en-GB", { ...style, second: "2-digit" });
  return (_, ticks) => {
    const fine = ticks.length > 1 && ticks[1] - ticks[0] < 60;
    return ticks.map((at) => (fine ? seconds : minutes).format(new Date(at * 1000)));
  };
}
