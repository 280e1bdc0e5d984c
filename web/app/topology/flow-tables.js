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
  "waiting: from a message's publish to its delivery; handling: from there to the publish that names the delivery as its cause, where one does";
const SHARES = ["median", "p90"];

const TIMES = "#Waiting, median|#9 of 10|#Handling, median|#9 of 10";
const Times = ({ of }) => SHARES.map((name) => html`<td class="number" key=${name}>${of ? passed(of[name]) : "–"}</td>`);

/** The handling times of a receiver for a queue's messages. */
function handlingOf(flows, { queue, receiver }) {
  const program = flows.programs.get(`${queue}\n${receiver}`);
  return program?.seconds ?? percentiles(program?.waits);
}

/** Sort keys of the two columns of handling. */
const handled = (flows) => SHARES.map((share) => (row) => handlingOf(flows, row)?.[share]);

const QueueCell = ({ vhost, queue }) => html`<td class="name"><${Queue} vhost=${vhost} name=${queue} /></td>`;

const Publisher = ({ name }) => html`<td class="name">${name == null || name === NOBODY ? html`<span class="soft">not observed</span>` : html`<${Value}>${name}<//>`}</td>`;

/** Deliveries; as `counted` by a job, those of each publisher by itself: percentiles of several cannot be combined. */
export function DeliveriesTable({ flows, vhost, period = {}, counted }) {
  const title = counted ? "Publishers to consumers" : "Queues to consumers";
  const rows = counted ? flows.deliveries.slice(0, MOST_ROWS)
    : busiest(flows.links[1]).map((link) => ({ ...link, queue: link.from, receiver: link.to, messages: link.count, seconds: waitsOf(link) }));
  const link = (filters) => href("events", { vhost, ...filters, ...period });
  const by = ["queue", "receiver", "messages", "messages", ...(counted ? ["redelivered", "dead_lettered"] : []), "unmatched", ...SHARES.map((share) => ({ seconds }) => seconds?.[share]), ...handled(flows)];
  return html`<${Panel} title=${title} flush note=${WAIT_NOTE}>
    <${Table} label=${title} heads=${`${counted ? "Publisher|Exchange|" : ""}Queue|Consumer|#Deliveries|#Rate|${counted ? "#Redelivered|#Dead-lettered|" : ""}#Unmatched|${TIMES}`} rows=${rows}
        by=${counted ? ["publisher", "exchange", ...by] : by}>
      ${(flow) => html`<tr key=${`${flow.publisher}\n${flow.exchange}\n${flow.queue}\n${flow.receiver}`}>
          ${counted && html`<${Publisher} name=${flow.publisher} />
          <td class="name"><a href=${link({ exchange: flow.exchange })}>${exchangeName(flow.exchange)}</a></td>`}
          <${QueueCell} vhost=${vhost} queue=${flow.queue} />
          <td class="name"><${Value}>${flow.receiver}<//></td>
          <td class="number">${count(flow.messages)}</td>
          <td class="number">${flowing(flow.messages, flows.seconds)}</td>
          ${counted && html`<td class="number">${count(flow.redelivered)}</td><td class="number">${count(flow.dead_lettered)}</td>`}
          <td class="number">${flow.unmatched ? html`<a href=${link({ queue: flow.queue, match: "unmatched" })}>${count(flow.unmatched)}</a>` : "0"}</td>
          <${Times} of=${flow.seconds} />
          <${Times} of=${handlingOf(flows, flow)} />
        </tr>`}
    <//>
  <//>`;
}

export function PublishesTable({ flows, vhost, period }) {
  const rows = busiest(flows.publishes);
  return html`<${Panel} title="Publishers to queues" flush note="as the broker routed each message">
    <${Table} label="Publishers to queues" heads="Publisher|Exchange|Queue|#Messages|#Rate"
        rows=${rows} by=${["who", "exchange", "queue", "count", "count"]}>
      ${(link) => html`<tr key=${link.key}>
          <${Publisher} name=${link.who} />
          <td class="name"><a href=${href("events", { vhost, exchange: link.exchange, type: "published", ...period })}>${exchangeName(link.exchange)}</a></td>
          ${link.queue === null ? html`<td class="bad-text">none: unroutable</td>` : html`<${QueueCell} vhost=${vhost} queue=${link.queue} />`}
          <td class="number">${count(link.count)}</td>
          <td class="number">${flowing(link.count, flows.seconds)}</td>
        </tr>`}
    <//>
  <//>`;
}

/** From which queues dead letters came, and where they went. Nothing where none did. */
export function DeathsTable({ flows, vhost, period }) {
  const rows = busiest(flows.deaths);
  if (!rows.length) return null;
  const link = (filters) => href("events", { vhost, ...filters, ...period });
  return html`<${Panel} title="Dead letters" flush note="by the queue in which each message died last">
    <${Table} label="Dead letters" heads="Died in|Why|Exchange|Received from|#Deliveries"
        rows=${rows} by=${["from", "reason", "exchange", "to", "count"]}>
      ${(death) => html`<tr key=${death.key}>
        ${death.from === null ? html`<td class="soft">not said</td>` : html`<${QueueCell} vhost=${vhost} queue=${death.from} />`}
        <td>${death.reason === null ? html`<span class="soft">not said</span>` : html`<${Value}>${death.reason}<//>`}</td>
        <td class="name">${exchangeName(death.exchange)}</td>
        <${QueueCell} vhost=${vhost} queue=${death.to} />
        <td class="number"><a href=${link({ queue: death.to, match: "dead_lettered" })}>${count(death.count)}</a></td>
      </tr>`}
    <//>
  <//>`;
}

const busiest = (map) => [...map.values()].sort((a, b) => b.count - a.count).slice(0, MOST_ROWS);
