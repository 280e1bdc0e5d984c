import { html } from "../core/html.js";
import { readJsonLines } from "../core/download.js";
import { count, time } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { hrefHere } from "../core/route.js";
import { about, Pin, TypeMark, Value } from "../ui/marks.js";
import { Panel, pending } from "../ui/panel.js";

const MOST = 1000;

/** The chain from its export, in stamping order, which never puts an effect before its cause. */
export function ChainList({ result }) {
  const loaded = useResource((s) => readJsonLines(result.location, MOST, s), [result.location], { every: 0 });
  const { data } = loaded;
  const ends = { [result.from]: "A", [result.to]: "B" };
  return html`<${Panel} title="Events of the chain" flush
    note="in the order they were stamped; neighbours may be concurrent"
    foot=${data?.more && `The first ${count(MOST)} are listed. The export holds all ${count(result.events)}.`}>
    ${!data
      ? pending(loaded, "the chain")
      : html`<ol class="chain-list">
          ${data.rows
            .filter((event) => Number.isInteger(event.id))
            .map((event, i) => html`<${Step} key=${event.id} event=${event} index=${i} end=${ends[event.id]} />`)}
        </ol>`}
  <//>`;
}

function Step({ event, index, end }) {
  return html`<li>
    <a class="chain-step ${end ? "end-of-chain" : ""}" href=${hrefHere({ event: String(event.id) })}>
      <span class="faint">${end ? html`<${Pin} letter=${end} />` : index + 1}</span>
      <span class="number">#${event.id}</span>
      <${TypeMark} type=${event.type} />
      <bdi class="cut">${about(event)}</bdi>
      <span class="cut wide soft"><${Value}>${event.participant_name}<//></span>
      <span class="faint end wide">${event.recorded_at ? time(event.recorded_at) : ""}</span>
    </a>
  </li>`;
}
