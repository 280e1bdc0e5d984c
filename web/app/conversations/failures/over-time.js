// Failures over time: a bar for each span, which is a link to it. The arrow keys go from bar to bar.
import { useState } from "../../../vendor/hooks.js";
import { html } from "../../core/html.js";
import { dateTime, moment, plural, seconds, toMicros } from "../../core/format.js";
import { hrefHere } from "../../core/route.js";

const MOST_BARS = 120;

export function OverTime({ over }) {
  const bars = barsOf(over);
  const most = Math.max(1, ...bars.map((bar) => bar.count));
  const [at, setAt] = useState(null);
  const last = bars.length - 1;
  const stop = Math.min(last, at ?? bars.findLastIndex((bar) => bar.count > 0));
  const turn = (event) => {
    const to = { ArrowLeft: stop - 1, ArrowRight: stop + 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = Math.min(last, Math.max(0, to));
    setAt(next);
    event.currentTarget.children[next].focus();
  };
  if (!bars.length) return html`<p class="soft">Nothing to draw.</p>`;
  return html`<figure class="bars-plot" style=${{ maxWidth: `max(30rem, ${4 * bars.length}rem)` }}>
    <div class="fail-bars" role="group" aria-label="Failures over time; the arrow keys go from bar to bar" onKeyDown=${turn}>
      ${bars.map((bar, i) => html`<a key=${bar.since} tabindex=${i === stop ? 0 : -1} onFocus=${() => setAt(i)}
        href=${hrefHere({ since: bar.since, until: bar.until })} title=${said(bar)} aria-label=${said(bar)}>
        ${bar.count > 0 && html`<i style=${{ height: `${(100 * bar.count) / most}%` }}></i>`}</a>`)}
    </div>
    <figcaption class="bars-foot small soft"><span>${moment(bars[0].since)}</span>
      <span>at most ${plural(most, "failure")} in ${seconds(bars[0].seconds)}</span><span>${Date.parse(bars[last].until) > Date.now() ? "now" : moment(bars[last].until)}</span></figcaption>
  </figure>`;
}

const said = (bar) => `${plural(bar.count, "failure")} from ${dateTime(bar.since)}, ${seconds(bar.seconds)}`;

/** Bars of equal spans, also those without a failure; wider ones if there would be too many. */
function barsOf({ seconds: span, counts }) {
  if (!counts.length) return [];
  const from = toMicros(counts[0].at) / 1e6;
  const steps = Math.round((toMicros(counts.at(-1).at) / 1e6 - from) / span) + 1;
  const wide = Math.ceil(steps / MOST_BARS);
  const sums = Array.from({ length: Math.ceil(steps / wide) }, () => 0);
  for (const { at, count: n } of counts) sums[Math.floor((toMicros(at) / 1e6 - from) / span / wide)] += n;
  const iso = (i) => new Date((from + i * wide * span) * 1000).toISOString();
  return sums.map((n, i) => ({ count: n, since: iso(i), until: iso(i + 1), seconds: wide * span }));
}
