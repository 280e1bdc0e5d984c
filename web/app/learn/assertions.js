// Results of assertions over a period, with the conversations that violate them.
import { html } from "../core/html.js";
import { count, dateTime, recent, said } from "../core/format.js";
import { Value } from "../ui/marks.js";
import { Table } from "../ui/table.js";
import { Examples, saysOf, Verdict } from "./words.js";

export const Assertions = ({ data }) => data.results.map(
  (one) => html`<${Result} key=${one.assertion.name} one=${one} vhost=${data.vhost} />`,
);

function Result({ one, vhost }) {
  const { name } = one.assertion;
  return html`<section class="proposal">
    <h3><${Verdict} word=${one.verdict} /> <${Value}>${name}<//> <span class="soft small"><${Value}>${saysOf(one.assertion)}<//></span></h3>
    <p class="small">Holds for ${count(one.holds)}, is violated for ${count(one.violated)}, unknown for ${count(one.unknown)}${one.why ? `: ${said(one.why)}` : ""}.</p>
    ${one.items.length > 0 && html`<${Table} label=${`Where ${name} does not hold`} heads="When||What|Conversation" rows=${one.items} by=${["at", null, "sentence", "event"]}>
      ${(item) => html`<tr key=${`${item.event} ${item.verdict}`}>
        <td class="tabular" title=${dateTime(item.at)}>${recent(item.at)}</td>
        <td><${Verdict} word=${item.verdict} /></td>
        <td>${said(item.sentence)}</td>
        <td><${Examples} events=${[item.event]} vhost=${vhost} /></td></tr>`}
    <//>`}
    ${one.truncated && html`<p class="small soft">The newest ${count(one.items.length)} are listed.</p>`}
  </section>`;
}
