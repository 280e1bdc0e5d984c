// The numbers of the drawing as tables.
import { html } from "../core/html.js";
import { count, exchangeName, seconds, visible } from "../core/format.js";
import { href } from "../core/route.js";
import { Value } from "../ui/marks.js";
import { Panel } from "../ui/panel.js";
import { flowing, waitsOf } from "./flows.js";

const MOST_ROWS = 100;
const WAIT_NOTE =
  "waits are measured between trace messages: from that of the publish to that of the delivery";
const SHARES = ["p50", "p95", "p99"];
const WAIT_HEADS = SHARES.map((name) => html`<th class="number" key=${name}>${name}</th>`);

const Waits = ({ of }) =>
  SHARES.map((name) => html`<td class="number" key=${name}>${of ? seconds(of[name]) : "–"}</td>`);

export function DeliveriesTable({ flows, vhost }) {
  const rows = busiest(flows.links[2]);
  return html`<${Panel} title="Queues to receivers" flush note=${WAIT_NOTE}>
    <div class="list-scroll" tabindex="0" role="group" aria-label="Queues to receivers">
      <table class="list">
        <thead><tr><th>Queue</th><th>Receiver</th><th class="number">Deliveries</th><th class="number">Rate</th>
          <th class="number">Unmatched</th>${WAIT_HEADS}</tr></thead>
        <tbody>${rows.map(
          (link) => html`<tr key=${`${link.from}\n${link.to}`}>
            <td class="name"><a href=${href("events", { vhost, queue: link.from })}><${Value}>${link.from}<//></a></td>
            <td class="name"><${Value}>${link.to}<//></td>
            <td class="number">${count(link.count)}</td>
            <td class="number">${flowing(link.count, flows.seconds)}</td>
            <td class="number">${link.unmatched
              ? html`<a href=${href("events", { vhost, queue: link.from, match: "unmatched" })}>${count(link.unmatched)}</a>`
              : "0"}</td>
            <${Waits} of=${waitsOf(link)} />
          </tr>`,
        )}</tbody>
      </table>
    </div>
  <//>`;
}

/** As counted by a job, each publisher by itself: percentiles of several cannot be combined. */
export function CountedDeliveriesTable({ flows, vhost, period }) {
  const rows = flows.deliveries.slice(0, MOST_ROWS);
  const link = (filters) => href("events", { vhost, ...filters, ...period });
  return html`<${Panel} title="Publishers to receivers" flush note=${WAIT_NOTE}>
    <div class="list-scroll" tabindex="0" role="group" aria-label="Publishers to receivers">
      <table class="list">
        <thead><tr><th>Publisher</th><th>Exchange</th><th>Queue</th><th>Receiver</th><th class="number">Deliveries</th>
          <th class="number">Rate</th><th class="number">Redelivered</th><th class="number">Dead-lettered</th>
          <th class="number">Unmatched</th>${WAIT_HEADS}</tr></thead>
        <tbody>${rows.map(
          (flow) => html`<tr key=${`${flow.publisher}\n${flow.exchange}\n${flow.queue}\n${flow.receiver}`}>
            <td class="name">${flow.publisher == null ? html`<span class="soft">not observed</span>` : html`<${Value}>${flow.publisher}<//>`}</td>
            <td class="name"><a href=${link({ exchange: flow.exchange })}>${exchangeName(flow.exchange)}</a></td>
            <td class="name"><a href=${link({ queue: flow.queue })}><${Value}>${flow.queue}<//></a></td>
            <td class="name"><${Value}>${flow.receiver}<//></td>
            <td class="number">${count(flow.messages)}</td>
            <td class="number">${flowing(flow.messages, flows.seconds)}</td>
            <td class="number">${count(flow.redelivered)}</td>
            <td class="number">${count(flow.dead_lettered)}</td>
            <td class="number">${flow.unmatched
              ? html`<a href=${link({ queue: flow.queue, match: "unmatched" })}>${count(flow.unmatched)}</a>`
              : "0"}</td>
            <${Waits} of=${flow.seconds} />
          </tr>`,
        )}</tbody>
      </table>
    </div>
  <//>`;
}

export function PublishesTable({ flows, vhost, period }) {
  const rows = busiest(flows.links[0]);
  const queues = (exchange) =>
    [...flows.links[1].values()].filter((link) => link.from === exchange).map((link) => visible(link.to));
  return html`<${Panel} title="Publishers to exchanges" flush>
    <div class="list-scroll" tabindex="0" role="group" aria-label="Publishers to exchanges">
      <table class="list">
        <thead><tr><th>Publisher</th><th>Exchange</th><th>Queues behind it</th><th class="number">Publishes</th><th class="number">Rate</th></tr></thead>
        <tbody>${rows.map(
          (link) => html`<tr key=${`${link.from}\n${link.to}`}>
            <td class="name"><${Value}>${link.from}<//></td>
            <td class="name"><a href=${href("events", { vhost, exchange: link.to, type: "published", ...period })}>${exchangeName(link.to)}</a></td>
            <td class="text"><bdi>${queues(link.to).join(", ") || "none: unroutable"}</bdi></td>
            <td class="number">${count(link.count)}</td>
            <td class="number">${flowing(link.count, flows.seconds)}</td>
          </tr>`,
        )}</tbody>
      </table>
    </div>
  <//>`;
}

const busiest = (map) => [...map.values()].sort((a, b) => b.count - a.count).slice(0, MOST_ROWS);
