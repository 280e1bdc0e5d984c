import { useMemo, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { clockTime, rate } from "../core/format.js";
import { refreshSeconds } from "../core/preferences.js";
import { rateSamples, useSeededRates } from "../core/traces.js";
import { isChosen } from "../ui/gaps.js";
import { Empty, Panel } from "../ui/panel.js";
import { Plot } from "../ui/plot.js";

const SERIES = [
  { label: "published", token: "--published", fill: true },
  { label: "received", token: "--received", dash: [6, 4] },
  { label: "unmatched", token: "--bad", dash: [2, 3] },
];
const SAME_TIME_SECONDS = 1;
const SEAM_SECONDS = 10; // between the service's counts and the first two readings

/** The rates of one virtual host, or of all; `traces` are those that are shown, with their gaps. */
export function RatesPlot({ vhost, traces }) {
  useSeededRates();
  const samples = rateSamples.value;
  const { data, unknown } = useMemo(() => columns(samples, vhost), [samples, vhost]);
  const [cursor, setCursor] = useState(null);
  const [times] = data;
  const holes = [...unknown, ...traces.flatMap(lossesOf)].filter(({ from, to }) => to > times[0] && from < times.at(-1));
  const shown = cursor ?? times.length - 1;

  return html`<${Panel} title="Events per second" note="by type">
    ${times.length < 2
      ? html`<${Empty} title="Measuring …">
          ${refreshSeconds.value
            ? "A rate takes two readings of the counters; the first appears in a moment."
            : "Refresh is off, so no rates are measured. Choose a refresh interval above."}
        <//>`
      : html`<${Plot} label="Events per second over time, by type" series=${SERIES} data=${data} holes=${holes}
            format=${rate} onCursor=${setCursor} />
          <div class="plot-legend">
            <span>at ${clockTime(1000 * times[shown])}</span>
            ${SERIES.map(
              ({ label }, i) => html`<span key=${label}><i class="key ${label}"></i>${label}
                <b>${rate(data[i + 1][shown] ?? 0)}</b></span>`,
            )}
            ${holes.length > 0 && html`<span><i class="key hatched"></i>not known</span>`}
          </div>`}
  <//>`;
}

/** Spans in which trace messages may have been lost, in seconds. */
const lossesOf = ({ gaps }) =>
  gaps.filter((gap) => !isChosen(gap)).map(({ since, until }) => ({
    from: Date.parse(since) / 1000,
    to: until ? Date.parse(until) / 1000 : Infinity,
  }));

/**
 * Samples of the chosen vhost, or of all with those of one poll added up, as columns for Plot; and when
 * nothing was measured between them.
 */
function columns(samples, vhost) {
  const points = [];
  for (const sample of samples) {
    if (vhost && sample.vhost !== vhost) continue;
    const rates = SERIES.map(({ label }) => sample[label] / sample.seconds);
    const last = points.at(-1);
    if (last && Math.abs(sample.at - last.at) < SAME_TIME_SECONDS) {
      last.rates = last.rates.map((sum, i) => sum + rates[i]);
    } else {
      points.push({ at: sample.at, begin: sample.at - sample.seconds, rates });
    }
  }
  const unknown = points.slice(1).map(({ begin }, i) => ({ from: points[i].at, to: begin }));
  return {
    data: [points.map((p) => p.at), ...SERIES.map((_, i) => points.map((p) => p.rates[i]))],
    unknown: unknown.filter(({ from, to }) => to - from > SEAM_SECONDS),
  };
}
