import { useMemo, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { rate } from "../core/format.js";
import { rateSamples } from "../core/traces.js";
import { refreshSeconds } from "../core/preferences.js";
import { Empty, Panel } from "../ui/panel.js";
import { Plot } from "../ui/plot.js";

const SERIES = [
  { label: "published", token: "--published", fill: true },
  { label: "received", token: "--received", dash: [6, 4] },
  { label: "unmatched", token: "--bad", dash: [2, 3] },
];
const SAME_TIME_SECONDS = 1;

export function RatesPlot({ vhost }) {
  const samples = rateSamples.value;
  const data = useMemo(() => columns(samples, vhost), [samples, vhost]);
  const [cursor, setCursor] = useState(null);
  const [times] = data;
  const shown = cursor ?? times.length - 1;

  return html`<${Panel} title="Events per second" note="by type">
    ${times.length < 2
      ? html`<${Empty} title="Measuring …">
          ${refreshSeconds.value
            ? "A rate takes two readings of the counters; the first appears in a moment."
            : "Refresh is off, so no rates are measured. Choose a refresh interval above."}
        <//>`
      : html`<${Plot} label="Events per second over time, by type" series=${SERIES} data=${data}
            format=${rate} onCursor=${setCursor} />
          <div class="plot-legend">
            ${SERIES.map(
              ({ label }, i) => html`<span key=${label}><i class="key ${label}"></i>${label}
                <b>${rate(data[i + 1][shown] ?? 0)}</b></span>`,
            )}
          </div>`}
  <//>`;
}

/** Samples of the chosen vhost, or of all with those of one poll added up, as columns for Plot. */
function columns(samples, vhost) {
  const points = [];
  for (const sample of samples) {
    if (vhost && sample.vhost !== vhost) continue;
    const rates = SERIES.map(({ label }) => sample[label] / sample.seconds);
    const last = points.at(-1);
    if (last && Math.abs(sample.at - last.at) < SAME_TIME_SECONDS) {
      last.rates = last.rates.map((sum, i) => sum + rates[i]);
    } else {
      points.push({ at: sample.at, rates });
    }
  }
  return [points.map((p) => p.at), ...SERIES.map((_, i) => points.map((p) => p.rates[i]))];
}
