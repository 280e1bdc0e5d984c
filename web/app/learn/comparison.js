// Differences between two periods.
import { html } from "../core/html.js";
import { count, dateTime, plural, seconds } from "../core/format.js";
import { Value } from "../ui/marks.js";
import { Table } from "../ui/table.js";
import { Flow } from "./flow.js";
import { Examples, share, State } from "./words.js";

const isNews = (one) => one.state !== "same" && one.state !== "unclear";

const before = (one) => one.before.share;
const after = (one) => one.after.share;

export function Comparison({ data }) {
  const types = data.types.filter(isNews);
  const effects = data.effects.filter((one) => [one.share, one.p50, one.p99].some(isNews));
  const variants = data.variants.filter(isNews);
  return html`
    <p class="small soft">Before is from ${dateTime(data.before_since)} to ${dateTime(data.before_until)}:
      ${plural(data.before.conversations, "conversation")}, and ${count(data.after.conversations)} after. ${unsure(data)}</p>
    ${!types.length && !effects.length && !variants.length && html`<p><strong>Nothing changed</strong>, as far as these periods tell.</p>`}
    ${types.length > 0 && html`<h3>Message types</h3>
      <${Table} label="Message types" heads="|Message type|#Before|#After" rows=${types} by=${[null, "type", before, after]}>
        ${(one) => html`<tr key=${one.type}><td><${State} word=${one.state} /></td>
          <td class="name"><${Value}>${one.type}<//></td><${Shares} one=${one} /></tr>`}
      <//>`}
    ${effects.length > 0 && html`<h3>What leads to what</h3>
      <${Table} label="What leads to what" heads="Message type|Leads to|In|#Before|#After|Median|99 of 100"
          rows=${effects} by=${["type", "effect", null, ({ share: one }) => before(one), ({ share: one }) => after(one), ({ p50 }) => p50.after, ({ p99 }) => p99.after]}>
        ${(one) => html`<tr key=${`${one.type} ${one.effect}`}>
          <td class="name"><${Value}>${one.type}<//></td><td class="name"><${Value}>${one.effect}<//></td>
          <td><${State} word=${one.share.state} /></td><${Shares} one=${one.share} />
          <td><${Time} one=${one.p50} /></td><td><${Time} one=${one.p99} /></td></tr>`}
      <//>`}
    ${variants.length > 0 && html`<h3>Variants</h3>
      <ul class="variants">${variants.map((one) => html`<li key=${one.variant}>
        <div class="variant-head"><${State} word=${one.state} />
          <span class="tabular">${share(one.before.share)} → ${share(one.after.share)}</span>
          <span class="soft small">of <${Value}>${one.type}<//></span>
          <${Examples} events=${[...one.examples.after, ...one.examples.before]} vhost=${data.vhost} /></div>
        <${Flow} flow=${one.flow} />
      </li>`)}</ul>`}`;
}

const unsure = ({ before, after }) =>
  [before, after].every((one) => one.complete && one.sound) ? "" : "One of them is not complete, or not sound.";

const Shares = ({ one }) => html`<td class="number" title=${`${count(one.before.count)} of ${count(one.before.cases)}`}>${share(one.before.share)}</td>
  <td class="number" title=${`${count(one.after.count)} of ${count(one.after.cases)}`}>${share(one.after.share)}</td>`;

const Time = ({ one }) => html`<span class="tabular">${seconds(one.before)} → ${seconds(one.after)}</span>${
  isNews(one) && html` <${State} word=${one.state} />`}`;
