// Expectations: what each type of message leads to, the variants of conversations, and unusual ones.
import { html } from "../core/html.js";
import { count, dateTime, plural, recent } from "../core/format.js";
import { CopyButton } from "../ui/copy.js";
import { Value } from "../ui/marks.js";
import { Empty } from "../ui/panel.js";
import { Table } from "../ui/table.js";
import { Flow } from "./flow.js";
import { Range, scaleOf } from "./range.js";
import { Examples, reasonWord, share } from "./words.js";

export function Expectations({ data }) {
  if (!data.types.length) return html`<${Empty} title="No conversation began in this period">Choose a longer one.<//>`;
  return html`
    <p class="small soft">${plural(data.conversations, "conversation")} were judged. ${leftOut(data)}</p>
    <${Outliers} data=${data} />
    <${Types} data=${data} />
    <${Variants} data=${data} />
    <${Proposals} data=${data} />`;
}

function leftOut({ young, unknown, cut }) {
  const said = [
    young && `${count(young)} are too young to tell`,
    unknown && `${count(unknown)} span a gap, or their beginning is not stored`,
    cut && `${count(cut)} are too large`,
  ].filter(Boolean);
  return said.length ? `Left out: ${said.join("; ")}.` : "";
}

function Outliers({ data }) {
  if (!data.groups.length) return html`<h3>Out of the ordinary</h3><p>Nothing: every conversation went a usual way.</p>`;
  return html`<h3>Out of the ordinary</h3>
    <${Table} label="Out of the ordinary" heads="#Conversations|Why|What these have in common|Examples" rows=${data.groups} by=${["count", reasonWord]}>
      ${(one) => html`<tr key=${`${one.kind} ${one.type} ${one.other}`}>
        <td class="number">${count(one.count)}</td>
        <td>${reasonWord(one)}</td>
        <td>${one.in_common.length ? one.in_common.map((each) => html`<${Common} key=${each.kind + each.value} one=${each} />`) : html`<span class="faint">nothing that stands out</span>`}</td>
        <td><${Examples} events=${one.examples} vhost=${data.vhost} /></td>
      </tr>`}
    <//>
    <details><summary>Each of them, the newest first</summary>
      <${Table} label="Each of them" heads="When|Began with|Why|Conversation" rows=${data.outliers} by=${["at", "type", ({ reasons: [reason] }) => reasonWord(reason)]}>
        ${(one) => html`<tr key=${one.event}>
          <td class="tabular" title=${dateTime(one.at)}>${recent(one.at)}</td>
          <td class="name"><${Value}>${one.type}<//></td>
          <td>${one.reasons.map(reasonWord).join("; ")}</td>
          <td><${Examples} events=${[one.event]} vhost=${data.vhost} /></td>
        </tr>`}
      <//></details>`;
}

const Common = ({ one }) => html`<div>${one.kind}${one.type && html` of <${Value}>${one.type}<//>`}: <strong><${Value}>${one.value}<//></strong>
  <span class="soft small"> ${count(one.having)} of ${count(one.of)}; of the others ${count(one.others_having)} of ${count(one.of_others)}</span></div>`;

function Types({ data }) {
  const scale = scaleOf(data.types.flatMap((one) => [one.waited, ...one.leads_to.map((each) => each.within)]));
  return html`<h3>What leads to what</h3>
    <${Table} label="What leads to what" heads="Message type|#Messages|Leads to|#In|Half · 99 % within"
        rows=${data.types.flatMap((one) => (one.leads_to.length ? one.leads_to : [null]).map((effect) => ({ one, effect })))}
        by=${[({ one }) => one.type, ({ one }) => one.messages, ({ effect }) => effect?.type, ({ effect }) => effect?.share, ({ effect }) => effect?.within?.p50]}>
      ${({ one, effect }) => html`<tr key=${`${one.type} ${effect?.type}`}>
        <td class="name"><${Value}>${one.type}<//></td>
        <td class="number">${count(one.messages)}</td>
        <td class="name">${effect ? html`<${Value}>${effect.type}<//>` : html`<span class="faint">nothing</span>`}</td>
        <td class="number">${effect && share(effect.share)}</td>
        <td>${effect && html`<${Range} taken=${effect.within} scale=${scale} />`}</td>
      </tr>`}
    <//>`;
}

function Variants({ data }) {
  return html`<h3>Variants</h3>
    <ul class="variants">${data.variants.map((one) => html`<li key=${one.variant} class=${one.rare ? "rare" : ""}>
      <div class="variant-head"><strong class="tabular">${count(one.count)}</strong>
        <meter min="0" max="1" value=${one.share} aria-label=${`${share(one.share)} of those that began with ${one.type}`}></meter>
        <span class="soft small">${share(one.share)} of <${Value}>${one.type}<//>${one.rare && " · rare"}</span>
        <${Examples} events=${one.examples} vhost=${data.vhost} /></div>
      <${Flow} flow=${one.flow} />
    </li>`)}</ul>`;
}

function Proposals({ data }) {
  if (!data.proposals.length) return null;
  const file = () => `assertions:\n${data.proposals.map((one) => one.yaml).join("")}`;
  return html`<h3>Worth asserting</h3>
    <p class="small soft">What held nearly always here, as a file of assertions: to be judged by the next report, or held live.</p>
    <pre class="code">${file()}</pre>
    <${CopyButton} text=${file} label="Copy" title="Copy the file" />`;
}
