// Copies that consumers hold now: who, from which queue, since when, and whether longer than usual there.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { count, dateTime, plural, seconds } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { href, hrefHere } from "../core/route.js";
import { Queue, Value } from "../ui/marks.js";
import { shortOf } from "../ui/names.js";
import { Failure, Panel } from "../ui/panel.js";
import { Table } from "../ui/table.js";

const MOST = 10;

/** Renders nothing if nobody holds anything, or without the broker plugin. */
export function InHand({ vhost }) {
  const { data, error, reload } = useResource((signal) => api.inHand(vhost, signal), [vhost]);
  // The late ones come first, in their order.
  const items = [...(data?.items ?? [])].sort((a, b) => b.late - a.late).slice(0, MOST);
  if (!error && !data?.count) return null;
  const short = shortOf(items.map(({ holder }) => holder.name));
  return html`<${Panel} title="In hand now" flush note=${data && `${plural(data.count, "message")} that consumers have not settled yet`}
    foot=${data && (data.truncated || data.items.length > MOST) && "Those that are held for longest are shown."}>
    ${error
      ? html`<${Failure} error=${error} onRetry=${reload} />`
      : html`<${Table} label="In hand now" heads="Held by|From the queue|Virtual host|#Messages|Oldest since|Usually settled within|#Oldest"
            rows=${items} by=${[({ holder }) => holder.name, "queue", "vhost", "count", "since", "usual", "oldest"]}>
          ${(one) => html`<${Held} key=${`${one.vhost} ${one.queue} ${one.holder.number}`} short=${short} ...${one} />`}
        <//>`}
  <//>`;
}

function Held({ short, vhost, queue, holder, count: messages, oldest, since, usual, late }) {
  const theirs = href("events", { vhost, participant: String(holder.number), queue, settlement: "in_hand" });
  return html`<tr>
    <td class="name"><a href=${theirs} title="Show what they hold"><${Value}>${short(holder.name)}<//></a></td>
    <td class="name"><${Queue} vhost=${vhost} name=${queue} /></td>
    <td class="name"><${Value}>${vhost}<//></td>
    <td class="number">${count(messages)}</td>
    <td class="tabular">${dateTime(since)}${late && html` <span class="badge warn"><span class="dot"></span>longer than usual</span>`}</td>
    <td class="tabular">${usual == null ? html`<span class="faint" title="Too few settlements are known">not known</span>` : seconds(usual)}</td>
    <td class="number"><a href=${hrefHere({ event: String(oldest) })}>#${oldest}</a></td>
  </tr>`;
}
