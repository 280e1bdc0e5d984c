// The drawing's numbers as tables.
import { html } from "../core/html.js";
import { count, exchangeName, seconds, visible } from "../core/format.js";
import { href } from "../core/route.js";
import { Value } from "../ui/marks.js";
import { Panel } from "../ui/panel.js";
import { flowing, quantile } from "./flows.js";

const MOST_ROWS = 100;

export function DeliveriesTable({ flows, vhost }) {
  const rows = busiest(flows.links[2]);
  return html`<${Panel} title="Queues to receivers" flush
    note="how long messages wait is seen at the tap: from the publish's trace message to the delivery's">
    <div class="list-scroll" tabindex="0" role="group" aria-label="Queues to receivers">
      <table class="list">
        <thead><tr><th>Queue</th><th>Receiver</th><th class="number">Deliveries</th><th class="number">Rate</th>
          <th class="number">Unmatched</th><th class="number">p50</th><th class="number">p95</th></tr></thead>
        <tbody>${rows.map(
          (link) => html`<tr key=${`${link.from}\n${link.to}`}>
            <td class="name"><a href=${href("events", { vhost, queue: link.from })}><${Value}>${link.from}<//></a></td>
            <td class="name"><${Value}>${link.to}<//></td>
            <td class="number">${count(link.count)}</td>
            <td class="number">${flowing(link.count, flows.seconds)}</td>
            <td class="number">${link.unmatched
              ? html`<a href=${href("events", { vhost, queue: link.from, match: "unmatched" })}>${count(link.unmatched)}</a>`
              : "0"}</td>
            <td class="number">${seconds(quantile(link.waits, 0.5))}</td>
            <td class="number">${seconds(quantile(link.waits, 0.95))}</td>
          </tr>`,
        )}</tbody>
      </table>
    </div>
  <//>`;
}

export function PublishesTable({ flows, vhost }) {
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
            <td class="name"><a href=${href("events", { vhost, exchange: link.to, type: "published" })}>${exchangeName(link.to)}</a></td>
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
