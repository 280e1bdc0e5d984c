// The chain between the two pinned events, at once: as a list and drawn, along what `via` says.
import { useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { count, passed, plural, time, toMicros, visible } from "../core/format.js";
import { saidType } from "../core/message-type.js";
import { useResource } from "../core/resource.js";
import { href, hrefHere, openEvent, patch, route } from "../core/route.js";
import { Icon } from "../ui/icons.js";
import { lazy } from "../ui/lazy.js";
import { about, Pin, stepText, TypeMark, Value } from "../ui/marks.js";
import { shortOf } from "../ui/names.js";
import { Choice, Empty, Failure, Panel, pending } from "../ui/panel.js";
import { Way } from "./pair.js";
import { ExportMenu, ExportResult, useExport } from "./export.js";

const Drawing = lazy(() => import("./drawing.js"), "the drawing");

const PAGE = 200;
const MOST = 1000; // that the API gives at once, with the steps among them
const COLUMNS = "id,type,match,exchange,queue,routing_keys,properties,participant,participant_name,recorded_at";
const WAYS = [
  ["links", "Links", "Messages, links to what they name as their cause, and what the broker did"],
  ["conversation", "Conversation", "By these, and by what a participant did later in a conversation"],
  ["any", "All possible", "All that lies between the two in causal order"],
];

/** By links where these lead from one to the other, unless the address says otherwise. */
export function Chain({ a, b, answer }) {
  const via = route.value.params.via ?? (answer.answer === "caused" ? "links" : "any");
  const [most, setMost] = useState(PAGE);
  const load = (signal) => api.chain(a, b, { via, limit: most, columns: COLUMNS, payload: "none" }, signal);
  const loaded = useResource(load, [a, b, via, most], { every: 0 });
  const before = useRef({});
  if (loaded.data) before.current = { via, data: loaded.data };
  const work = useExport(a, b, via);
  // The loaded part stays while more is on its way.
  const chain = loaded.data ?? (before.current.via === via ? before.current.data : undefined);
  const ends = answer.relation === "after" ? `${b},${a}` : `${a},${b}`;
  return html`${answer.path && html`<${Way} path=${answer.path} events=${chain?.events ?? []} />`}
    <${Panel} title="Chain" note=${chain && amount(chain)} id="chain-panel" flush
      tools=${html`
        <${Choice} label="Chain by" options=${WAYS} value=${via} small onChange=${(value) => patch({ via: value }, { replace: true })} />
        <a class="button small" href=${href("space-time", { chain: ends, via })}><${Icon} name="diagram" />Space-time</a>
        <${ExportMenu} a=${a} b=${b} via=${via} work=${work} />`}
      foot=${chain && html`<${Foot} chain=${chain} most=${most} onMore=${() => setMost(MOST)} />`}>
    <${ExportResult} work=${work} />
    ${chain && loaded.error && html`<${Failure} error=${loaded.error} onRetry=${loaded.reload} />`}
    ${!chain
      ? pending(loaded, "the chain")
      : chain.events.length
        ? html`<${Shown} chain=${chain} path=${answer.path} ends=${{ [a]: "A", [b]: "B" }} />`
        : html`<${NoWay} via=${via} />`}
  <//>`;
}

function Shown({ chain, path, ends }) {
  const open = openEvent.value && Number(openEvent.value);
  const marked = new Set((path ?? []).flatMap(({ cause, effect }) => [cause, effect]));
  return html`<div class="panel-body"><${Drawing} chain=${chain} way=${path ?? []} ends=${ends} open=${open}
      onOpen=${(id) => patch({ event: String(id) })} /></div>
    <${List} chain=${chain} marked=${marked} ends=${ends} open=${open} />`;
}

function NoWay({ via }) {
  const wider = WAYS[WAYS.findIndex(([key]) => key === via) + 1];
  return html`<${Empty} title="No known step leads from one to the other"
    actions=${wider && html`<a class="button" href=${hrefHere({ via: wider[0] })}>${wider[2]}</a>`}>
    One happened before the other. The choice above shows wider ways.<//>`;
}

function amount({ events, count: total, participants }) {
  const all = total == null ? `${count(events.length)} or more events` : plural(total, "event");
  return participants == null ? all : `${all} of ${plural(participants, "participant")}`;
}

function Foot({ chain: { events, count: total, truncated }, most, onMore }) {
  return html`<div class="drawer-line">
    <span>In the order in which they were stamped: neighbours may be concurrent.
      ${truncated && ` The first ${count(events.length)}${total == null ? "" : ` of ${count(total)}`} are shown.`}
      ${truncated && most === MOST && " An export has all of them."}</span>
    ${truncated && most < MOST && html`<button class="button small" onClick=${onMore}>Show up to ${count(MOST)}</button>`}
  </div>`;
}

function List({ chain, marked, ends, open }) {
  const ways = waysTo(chain);
  const began = toMicros(chain.events[0].recorded_at);
  const short = shortOf(chain.events.map((event) => event.participant_name));
  return html`<ol class="chain-list">
    ${chain.events.map((event, i) => html`<${Step} key=${event.id} event=${event} who=${short(event.participant_name)} index=${i} end=${ends[event.id]}
      way=${ways.get(event.id)} after=${(toMicros(event.recorded_at) - began) / 1e6}
      marked=${marked.has(event.id)} open=${event.id === open} />`)}
  </ol>`;
}

/** Origin of each event, by id: the steps that lead to it, or the event before it on its lane. */
function waysTo({ events, steps }) {
  const at = new Map(events.map((event) => [event.id, toMicros(event.recorded_at)]));
  const ways = new Map();
  for (const { cause, effect, ...step } of steps) {
    const later = at.has(cause) && at.has(effect) ? `, ${passed((at.get(effect) - at.get(cause)) / 1e6)} later` : "";
    const word = `${stepText(step)} from #${cause}${later}`;
    ways.set(effect, [...(ways.get(effect) ?? []), word]);
  }
  const last = new Map();
  for (const { id, participant } of events) {
    if (!ways.has(id) && last.has(participant)) ways.set(id, [`same participant, after #${last.get(participant)}`]);
    last.set(participant, id);
  }
  return ways;
}

function Step({ event, who, index, end, way = [], after, marked, open }) {
  const type = saidType(event);
  const kinds = ["chain-step", end && "end-of-chain", marked && "on-the-way", open && "open"];
  return html`<li>
    <a class=${kinds.filter(Boolean).join(" ")} href=${hrefHere({ event: String(event.id) })} aria-current=${open ? "true" : undefined}>
      <span class="faint">${end ? html`<${Pin} letter=${end} />` : index + 1}</span>
      <span class="number">#${event.id}</span>
      <${TypeMark} type=${event.type} />
      <span class="chain-what">
        <span class="cut">${type && html`<b class="strong"><${Value}>${type}<//></b> `}<bdi class=${type ? "soft" : ""}>${about(event)}</bdi></span>
        <span class="cut small soft">${marked && html`<span class="unseen">on the shortest way; </span>`}${way.join("; ") || (index ? "" : "the chain begins here")}<span class="narrow-only"> · <${Value}>${who}<//></span></span>
      </span>
      <span class="cut wide soft" title=${visible(event.participant_name)}><${Value}>${who}<//></span>
      <span class="faint end">${event.recorded_at ? time(event.recorded_at) : ""}${index > 0 && html`<br /><span class="small">${passed(after)} in</span>`}</span>
    </a>
  </li>`;
}
