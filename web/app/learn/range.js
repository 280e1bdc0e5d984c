// A duration as a line on a scale of powers of ten: from the median to 99 of 100,
// and a tick at 999 of 1,000.
import { html } from "../core/html.js";
import { seconds } from "../core/format.js";

const LEAST = 0.001;
const WIDTH = 120;

/** The same scale for all: from a millisecond to the longest. */
export const scaleOf = (times) => {
  const most = Math.max(LEAST * 10, ...times.filter(Boolean).map((one) => one.p999 ?? one.p99));
  const decades = Math.log10(most / LEAST);
  return (value) => (WIDTH - 4) * Math.min(1, Math.max(0, Math.log10(Math.max(value, LEAST) / LEAST) / decades)) + 2;
};

export function Range({ taken, scale }) {
  if (!taken) return html`<span class="faint">–</span>`;
  const { p50, p99, p999 } = taken;
  const said = `median ${seconds(p50)}, 99 of 100 within ${seconds(p99)}, 999 of 1,000 within ${seconds(p999)}`;
  return html`<span class="range" title=${said}>
    <svg width=${WIDTH} height="12" role="img" aria-label=${said}>
      <line class="axis" x1="2" x2=${WIDTH - 2} y1="6" y2="6" />
      <line class="most" x1=${scale(p50)} x2=${scale(p99)} y1="6" y2="6" />
      <line class="tick" x1=${scale(p999)} x2=${scale(p999)} y1="2" y2="10" />
      <circle cx=${scale(p50)} cy="6" r="3.5" />
    </svg> <span class="tabular small">${seconds(p50)} · ${seconds(p99)}</span></span>`;
}
