// The numbers of the drawing as tables.
import { html } from "../core/html.js";
import { count, exchangeName, passed, visible } from "../core/format.js";
import { href } from "../core/route.js";
import { Value } from "../ui/marks.js";
import { Panel } from "../ui/panel.js";
import { Table } from "../ui/table.js";
import { flowing, percentiles, waitsOf } from "./flows.js";

const MOST_ROWS = 100;
const WAIT_NOTE =
  "in queues: from the trace message of the publish to that of the delivery; in programs: from there to the publishes that name the delivery as their cause, where any does";
const SHARES = ["p50", "p95", "p99"];

const Waits = ({ of }) =>
  SHARES.map((name) => html`<td class="number" key=${name}>${of ? passed(of[name]) : "–"}</td>`);

/** Handling times of a receiver for a queue's messages. */
function InProgram({ flows, queue, receiver }) {
  const program = flows.programs.get(`${queue}\n${receiver}`);
  const of = program?.seconds ?? percentiles(program?.waits);
  return html`<td class="number">${of ? passed(of.p50) : "–"}</td><td class="number">${of ? passed(of.p95) : "–"}</td>`;
}

export function DeliveriesTable({ flows, vhost }) {
  const rows = busiest(flows.links[2]);
  return html`<${Panel} title="Queues to receivers" flush note=${WAIT_NOTE}>
    <${Table} label="Queues to receivers" heads="Queue|Receiver|#Deliveries|#Rate|#Unmatched|#In queue p50|#p95|#p99|#In program p50|#p95">
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
          <${InProgram} flows=${flows} queue=${link.from} receiver=${link.to} />
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
        heads="Publisher|Exchange|Queue|Receiver|#Deliveries|#Rate|#Redelivered|#Dead-lettered|#Unmatched|#In queue p50|#p95|#p99|#In program p50|#p95">
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
          <${InProgram} flows=${flows} queue=${flow.queue} receiver=${flow.receiver} />
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

/** From which queues dead letters came, and where they went. Nothing where none did. */
export function DeathsTable({ flows, vhost, period }) {
  const rows = busiest(flows.deaths);
  if (!rows.length) return null;
  const link = (filters) => href("events", { vhost, ...filters, ...period });
  return html`<${Panel} title="Dead letters" flush note="by the newest death that their messages tell of">
    <${Table} label="Dead letters" heads="Died in|Why|Exchange|Received from|#Deliveries">
      ${rows.map((death) => html`<tr key=${death.key}>
        <td class="name">${death.from === null ? html`<span class="soft">not said</span>` : html`<a href=${link({ queue: death.from })}><${Value}>${death.from}<//></a>`}</td>
        <td>${death.reason === null ? html`<span class="soft">not said</span>` : html`<${Value}>${death.reason}<//>`}</td>
        <td class="name">${exchangeName(death.to)}</td>
        <td class="name"><a href=${link({ queue: death.into, match: "dead_lettered" })}><${Value}>${death.into}<//></a></td>
        <td class="number">${count(death.count)}</td>
      </tr>`)}
    <//>
  <//>`;
}

const busiest = (map) => [...map.values()].sort((a, b) => b.count - a.count).slice(0, MOST_ROWS);
