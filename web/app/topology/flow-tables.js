// The numbers of the drawing as tables.
import { html } from "../core/html.js";
import { count, exchangeName, passed } from "../core/format.js";
import { href } from "../core/route.js";
import { Queue, Value } from "../ui/marks.js";
import { Panel } from "../ui/panel.js";
import { Table } from "../ui/table.js";
import { flowing, NOBODY, percentiles, waitsOf } from "./flows.js";

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

const QueueCell = ({ vhost, queue }) => html`<td class="name"><${Queue} vhost=${vhost} name=${queue} /></td>`;

export function DeliveriesTable({ flows, vhost }) {
  const rows = busiest(flows.links[1]);
  return html`<${Panel} title="Queues to receivers" flush note=${WAIT_NOTE}>
    <${Table} label="Queues to receivers" heads="Queue|Receiver|#Deliveries|#Rate|#Unmatched|#In queue p50|#p95|#p99|#In program p50|#p95">
      ${rows.map(
        (link) => html`<tr key=${`${link.from}\n${link.to}`}>
          <${QueueCell} vhost=${vhost} queue=${link.from} />
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
          <${QueueCell} vhost=${vhost} queue=${flow.queue} />
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
  const rows = busiest(flows.publishes);
  return html`<${Panel} title="Publishers to queues" flush note="as the broker routed each message">
    <${Table} label="Publishers to queues" heads="Publisher|Exchange|Queue|#Messages|#Rate">
      ${rows.map(
        (link) => html`<tr key=${link.key}>
          <td class="name">${link.who === NOBODY ? html`<span class="soft">not observed</span>` : html`<${Value}>${link.who}<//>`}</td>
          <td class="name"><a href=${href("events", { vhost, exchange: link.exchange, type: "published", ...period })}>${exchangeName(link.exchange)}</a></td>
          ${link.queue === null ? html`<td class="bad-text">none: unroutable</td>` : html`<${QueueCell} vhost=${vhost} queue=${link.queue} />`}
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
        ${death.from === null ? html`<td class="soft">not said</td>` : html`<${QueueCell} vhost=${vhost} queue=${death.from} />`}
        <td>${death.reason === null ? html`<span class="soft">not said</span>` : html`<${Value}>${death.reason}<//>`}</td>
        <td class="name">${exchangeName(death.exchange)}</td>
        <${QueueCell} vhost=${vhost} queue=${death.to} />
        <td class="number"><a href=${link({ queue: death.to, match: "dead_lettered" })}>${count(death.count)}</a></td>
      </tr>`)}
    <//>
  <//>`;
}

const busiest = (map) => [...map.values()].sort((a, b) => b.count - a.count).slice(0, MOST_ROWS);
