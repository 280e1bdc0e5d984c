// One report: what was found, by queue, and each pair of events with links to them.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { count, plural, recent } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { href, hrefHere } from "../core/route.js";
import { Value } from "../ui/marks.js";
import { Empty, Panel, pending } from "../ui/panel.js";
import { Table } from "../ui/table.js";

const HEADS = {
  races: "Queue|Key|One|By|The other|By|When|",
  inversions: "Queue|Key|Cause|Effect|Effect handed over|Cause handed over|Participants|",
};

export function Report({ id }) {
  const loaded = useResource((signal) => api.report(id, signal), [id], { every: 0 });
  const { data } = loaded;
  const races = data?.kind === "races";
  const title = !data ? "Report" : races ? "Races" : "Inversions";
  return html`<${Panel} title=${title} id="report-panel" flush note=${data && by(data)}
      tools=${html`<a class="button small quiet" href=${hrefHere({ report: null, job: null })}>Close</a>`}
      foot=${data?.truncated && `The first ${count(data.items.length)} are listed.`}>
    ${!data
      ? pending(loaded, "the report")
      : data.items.length === 0
        ? html`<${Empty} title=${races ? "Nothing raced" : "Nothing was handed over before its cause"}>
            In this period, as far as was recorded.<//>`
        : html`<${Table} label=${title} heads=${HEADS[data.kind]}>
            ${data.items.map((item) => html`<tr key=${`${item.queue} ${item.a} ${item.b}`}>
              <td class="name"><${Value}>${item.queue}<//></td>
              <td class="name">${item.key == null ? html`<span class="faint">–</span>` : html`<${Value}>${item.key}<//>`}</td>
              ${races ? html`<${Race} item=${item} />` : html`<${Inversion} item=${item} />`}
              <td class="end"><a class="button small" href=${href("chain", { a: String(item.a), b: String(item.b) })}
                aria-label=${`Compare #${item.a} and #${item.b}`}>Compare</a></td>
            </tr>`)}
          <//>`}
  <//>`;
}

const by = ({ groups, kind }) =>
  (groups ?? []).slice(0, 5).map(({ queue, count: n }) => `${queue}: ${plural(n, kind.slice(0, -1))}`).join(", ");

const Event = ({ id }) => html`<a class="tabular" href=${hrefHere({ event: String(id) })}>#${id}</a>`;

const Race = ({ item }) => html`<td><${Event} id=${item.a} /></td><td class="name"><${Value}>${item.a_by}<//></td>
  <td><${Event} id=${item.b} /></td><td class="name"><${Value}>${item.b_by}<//></td>
  <td class="tabular">${recent(item.at)}</td>`;

const Inversion = ({ item }) => html`<td><${Event} id=${item.a} /></td><td><${Event} id=${item.b} /></td>
  <td><${Event} id=${item.handed_b} /></td><td><${Event} id=${item.handed_a} /></td>
  <td class="name">${item.participants.map((name, i) => html`${i > 0 && ", "}<${Value}>${name}<//>`)}</td>`;
