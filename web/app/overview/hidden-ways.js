// Ways outside the broker by which causes reached the publishers that name them.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { count, dateTime } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { href } from "../core/route.js";
import { Value } from "../ui/marks.js";
import { Failure, Panel } from "../ui/panel.js";
import { Table } from "../ui/table.js";

const NOTE =
  "Causes by an outbox, a call or a shared database. Between these participants “cannot have” rules out messages only.";

/** Renders nothing where no trace has any. */
export function HiddenWays({ traces }) {
  const those = traces.filter((trace) => trace.evidence.hidden > 0);
  // Asked for again when there are more, not at every refresh: the counts come with the traces.
  const inputs = [JSON.stringify(those.map(({ vhost, evidence }) => [vhost, evidence.hidden]))];
  const load = (signal) => Promise.all(those.map(({ vhost }) => api.hiddenWays(vhost, signal)));
  const { data, error, reload } = useResource(load, inputs, { every: 0 });
  if (!those.length || (!data && !error)) return null;
  return html`<${Panel} title="Hidden ways" flush note=${NOTE}
    foot=${data?.some((one) => one.truncated) && `Counted over the newest ${count(data.find((one) => one.truncated).links)} links of a virtual host.`}>
    ${error
      ? html`<${Failure} error=${error} onRetry=${reload} />`
      : html`<${Table} label="Hidden ways" heads="Virtual host|From|To|Rule|#Links|Last|#Example"
            rows=${data.flatMap(({ vhost, ways }) => ways.map((way) => ({ vhost, ...way })))} by=${["vhost", ({ from }) => from.name, ({ to }) => to.name, "rule", "links", "last_at", "last_effect"]}>
          ${(way) => html`<${Way} ...${way} />`}
        <//>`}
  <//>`;
}

function Way({ vhost, from, to, rule, links, last_at: lastAt, last_effect: example }) {
  const events = (who) => href("events", { vhost, participant: String(who.number) });
  return html`<tr>
    <td class="name"><${Value}>${vhost}<//></td>
    <td><a href=${events(from)}><${Value}>${from.name}<//></a></td>
    <td><a href=${events(to)}><${Value}>${to.name}<//></a></td>
    <td><${Value}>${rule}<//></td>
    <td class="number">${count(links)}</td>
    <td class="tabular">${dateTime(lastAt)}</td>
    <td class="number"><a href=${href("space-time", { vhost, event: String(example), at: String(example) })}>#${example}</a></td>
  </tr>`;
}
