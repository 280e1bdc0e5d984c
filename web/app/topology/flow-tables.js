// The numbers of the drawing as tables.
import { html } from "../core/html.js";
import { count, exchangeName, seconds, visible } from "../core/format.js";
import { href } from "../core/route.js";
import { Value } from "../ui/marks.js";
import { Panel } from "../ui/panel.js";
import { Table } from "../ui/table.js";
import { flowing, waitsOf } from "./flows.js";

const MOST_ROWS = 100;
const WAIT_NOTE =
  "waits are measured between trace messages: from that of the publish to that of the delivery";
const SHARES = ["p50", "p95", "p99"];

const Waits = ({ of }) =>
  SHARES.map((name) => html`<td class="number" key=${name}>${of ? seconds(of[name]) : "–"}</td>`);

export function DeliveriesTable({ flows, vhost }) {
  const rows = busiest(flows.links[2]);
  return html`<${Panel} title="Queues to receivers" flush note=${WAIT_NOTE}>
    <${Table} label="Queues to receivers" heads="Queue|Receiver|#Deliveries|#Rate|#Unmatched|#p50|#p95|#p99">
      ${rows.map(
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
      )}
    <//>
  <//>`;
}

/** As counted by a job, each publisher by itself: percentiles of several cannot be combined. */
export function CountedDeliveriesTable({ flows, vhost, period }) {
  const rows = flows.deliveries.slice(0, MOST_ROWS);
  const link = (filters) => href("events", { vhost, ...filters, ...period });
  return html`<${Panel} title="Publishers to receivers" flush note=${WAIT_NOTE}>
    <${Table} label="Publishers to receivers"
        heads="Publisher|Exchange|Queue|Receiver|#Deliveries|#Rate|#Redelivered|#Dead-lettered|#Unmatched|#p50|#p95|#p99">
      ${rows.map(
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
      )}
    <//>
  <//>`;
}

export function PublishesTable({ flows, vhost, period }) {
  const rows = busiest(flows.links[0]);
  const queues = (exchange) =>
    [...flows.links[1].values()].filter((link) => link.from === exchange).map((link) => visible(link.to));
  return html`<${Panel} title="Publishers to exchanges" flush>
    <${Table} label="Publishers to exchanges" heads="Publisher|Exchange|Queues behind it|#Publishes|#Rate">
      ${rows.map(
        (link) => html`<tr key=${`${link.from}\n${link.to}`}>
          <td class="name"><${Value}>${link.from}<//></td>
          <td class="name"><a href=${href("events", { vhost, exchange: link.to, type: "published", ...period })}>${exchangeName(link.to)}</a></td>
          <td class="text"><bdi>${queues(link.to).join(", ") || "none: unroutable"}</bdi></td>
          <td class="number">${count(link.count)}</td>
          <td class="number">${flowing(link.count, flows.seconds)}</td>
        </tr>`,
      )}
    <//>
  <//>`;
}

const busiest = (map) => [...map.values()].sort((a, b) => b.count - a.count).slice(0, MOST_ROWS);
