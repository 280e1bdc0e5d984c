// One report: what was found, by queue, and each pair of messages with links to their events.
import { html } from "../../core/html.js";
import { api } from "../../core/api.js";
import { count, dateTime, plural, recent } from "../../core/format.js";
import { useResource } from "../../core/resource.js";
import { href, hrefHere } from "../../core/route.js";
import { Caveats, isSure } from "../../ui/caveats.js";
import { Value } from "../../ui/marks.js";
import { Alert, Empty, Panel, pending } from "../../ui/panel.js";
import { Table } from "../../ui/table.js";

// Of each report: its name, what a row is, and the heads of its columns.
const KINDS = {
  races: ["Races", "race", "Queue|Key|One|Published by|The other|Published by|When|"],
  inversions: ["Inversions", "inversion", "Queue|Key|Published first|Published after|Handed over first|Handed over after|Participants|"],
};

export function Report({ id }) {
  const loaded = useResource((signal) => api.report(id, signal), [id], { every: 0 });
  const { data } = loaded;
  const [title, noun, heads] = KINDS[data?.report] ?? ["Report", "pair", ""];
  return html`<${Panel} title=${title} id="report-panel" flush note=${data && summary(data, noun)}
      tools=${html`<a class="button small quiet" href=${hrefHere({ report: null, job: null })}>Close</a>`}
      foot=${data?.truncated && `The newest ${count(data.items.length)} are listed.`}>
    ${!data
      ? pending(loaded, "the report")
      : html`<${Certainty} data=${data} />
          ${data.items.length === 0
            ? html`<${Nothing} data=${data} />`
            : html`<${Groups} groups=${data.groups} noun=${noun} />
              <${Table} label=${title} heads=${heads}>
                ${data.items.map((item) => html`<${Row} key=${`${item.queue} ${item.a} ${item.b}`} item=${item} report=${data.report} />`)}
              <//>`}`}
  <//>`;
}

function summary({ count: all, counted_all: whole, vhost, since, until }, noun) {
  const found = `${whole ? "" : "at least "}${plural(all, noun)}`;
  return html`${found} in <${Value}>${vhost}<//> from ${dateTime(since)} to ${dateTime(until)}`;
}

function Certainty({ data }) {
  if (isSure(data) && data.counted_all) return null;
  return html`<div class="panel-body"><${Caveats} answer=${data} />
    ${!data.counted_all && html`<${Alert} tone="calm">In a queue with very many messages only the newest were compared.<//>`}</div>`;
}

function Nothing({ data }) {
  const races = data.report === "races";
  return html`<${Empty} title=${races ? "Nothing raced" : "Nothing was handed over before what caused it"}>
    ${races
      ? "Of any two messages in one queue the publisher of the later one had heard of the earlier."
      : "Whatever one message caused was handed over after that message, in every queue."}
    ${!isSure(data) && " That is as far as was recorded."}<//>`;
}

const Groups = ({ groups, noun }) => html`<ul class="report-groups">
  ${groups.slice(0, 12).map((one) => html`<li key=${one.queue}><${Value}>${one.queue}<//>
    <span class="soft"> ${one.counted_all ? "" : "at least "}${plural(one.count, noun)}</span></li>`)}
  ${groups.length > 12 && html`<li class="soft">and ${plural(groups.length - 12, "more queue")}</li>`}
</ul>`;

function Row({ item, report }) {
  return html`<tr>
    <td class="name"><${Value}>${item.queue}<//></td>
    <td class="name">${item.key == null ? html`<span class="faint">–</span>` : html`<${Value}>${item.key}<//>`}</td>
    ${report === "races" ? html`<${Race} item=${item} />` : html`<${Inversion} item=${item} />`}
    <td class="end"><a class="button small" href=${href("chain", { a: String(item.a), b: String(item.b) })}
      aria-label=${`Compare #${item.a} and #${item.b}`}>Compare</a></td>
  </tr>`;
}

const Event = ({ id }) =>
  id ? html`<a class="tabular" href=${hrefHere({ event: String(id) })}>#${id}</a>` : html`<span class="faint">–</span>`;
const By = ({ who }) => (who ? html`<${Value}>${who.name}<//>` : html`<span class="faint">–</span>`);

const Race = ({ item }) => html`<td><${Event} id=${item.a} /></td><td class="name"><${By} who=${item.a_by} /></td>
  <td><${Event} id=${item.b} /></td><td class="name"><${By} who=${item.b_by} /></td>
  <td class="tabular">${recent(item.at)}</td>`;

const Inversion = ({ item }) => html`<td><${Event} id=${item.a} /></td><td><${Event} id=${item.b} /></td>
  <td><${Event} id=${item.handed_b} /></td><td><${Event} id=${item.handed_a} /></td>
  <td class="name"><${Value}>${item.participants.join(", ")}<//></td>`;
