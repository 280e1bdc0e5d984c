// Fields that tie messages together, as rules to adopt; and rejected fields, with reasons.
import { html } from "../core/html.js";
import { count, plural, said } from "../core/format.js";
import { CopyButton } from "../ui/copy.js";
import { Value } from "../ui/marks.js";
import { Table } from "../ui/table.js";
import { Event, share } from "./words.js";

export function Correlations({ data }) {
  return html`
    <p class="small soft">${plural(data.looked_at, "event")} were compared; ${plural(data.reactions, "publish", "publishes")} may have a cause.</p>
    ${data.proposals.length === 0
      ? html`<p><strong>No field ties messages together</strong> that is more than chance.</p>`
      : data.proposals.map((one) => html`<${Proposal} key=${one.number} one=${one} vhost=${data.vhost} />`)}
    ${data.programs.map((one) => html`<p key=${`${one.receiver.number} ${one.publisher.number}`}><strong>One program:</strong>${" "}
      <${Value}>${one.receiver.name}<//> and <${Value}>${one.publisher.name}<//>. ${one.advice}</p>`)}
    ${data.in_hand.map((one) => html`<p key=${one.participant.number}><${Value}>${one.participant.name}<//> had one message in hand at ${count(one.publishes)} publishes: of ${count(one.linked)} of them it is known what led there, and of ${share(one.agreement)} it was that.</p>`)}
    ${data.refused.length > 0 && html`<details><summary>What is no key, and why</summary>
      <${Table} label="What is no key" heads="Delivery|Publish|Why|#Support|#By chance"
          rows=${data.refused} by=${["parent", "child", "why", "support", "chance"]}>
        ${(one) => html`<tr key=${`${one.parent} ${one.child}`}>
          <td class="name"><${Value}>${one.parent}<//></td><td class="name"><${Value}>${one.child}<//></td><td>${said(one.why)}</td>
          <td class="number">${share(one.support)}</td><td class="number">${share(one.chance)}</td></tr>`}
      <//></details>`}`;
}

function figures({ support, ambiguity, chance, agreement }) {
  return [
    `In ${share(support)} of publishes`,
    `${ambiguity.toFixed(2)} messages each may be meant`,
    chance == null ? "nothing lies further back to compare with" : `${share(chance)} by chance`,
    agreement == null ? "no links to compare with." : `links that messages carry agree in ${share(agreement)}.`,
  ].join("; ");
}

function Proposal({ one, vhost }) {
  const command = () => `rabbitmq-itc correlate ${JSON.stringify(vhost)} --adopt ${one.number}`;
  return html`<section class="proposal"><h3>${one.number}. <${Value}>${one.child}<//> <span class="soft">names</span> <${Value}>${one.parent}<//>${" "}<span class="badge">${one.kind}</span></h3>
    <p class="small">${figures(one)}</p>
    <ul class="examples">${one.examples.slice(0, 5).map((each) => html`<li key=${each.publish} class="small">
      <${Event} id=${each.publish} /> <span class="soft">because of</span> <${Event} id=${each.delivery} />
      ${each.value != null && html` <code><${Value}>${each.value}<//></code>`}</li>`)}</ul>
    <${CopyButton} text=${command} label="Copy the command that adopts it" title=${command()} /></section>`;
}
