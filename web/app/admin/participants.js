import { useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { count, moment, said, visible } from "../core/format.js";
import { loadParticipants } from "../core/participants.js";
import { useResource } from "../core/resource.js";
import { href, vhost } from "../core/route.js";
import { traces } from "../core/traces.js";
import { Value } from "../ui/marks.js";
import { Panel, pending } from "../ui/panel.js";
import { Table } from "../ui/table.js";

const FEW = 12;
const MOST = 500;

/** The participants of the virtual hosts that are shown, those first that acted last. */
export function useParticipants() {
  const names = shownVhosts();
  return useResource((signal) => ofAll(names, signal), [names.join("\n")]);
}

/** `isAdvanced`: with their clocks. */
export function Participants({ loaded, isAdvanced = false }) {
  const title = isAdvanced ? "Clocks of the participants" : "Participants";
  const [all, setAll] = useState(false);
  const list = loaded.data ?? [];
  const most = all ? MOST : FEW;
  const more = list.length > most;
  return html`<${Panel} title=${title} flush
    note=${isAdvanced ? "the part of the interval that each owns, and its Lamport time" : "who publishes and receives, last active first"}
    foot=${more && (all
      ? `Only the ${MOST} last active are listed.`
      : html`<button class="button small" onClick=${() => setAll(true)}>Show more</button>`)}>
    ${!loaded.data
      ? pending(loaded, "participants")
      : list.length === 0
        ? html`<p class="nothing">None yet.</p>`
        : isAdvanced
          ? html`<${Table} label=${title} rows=${list} most=${most} by=${["participant", "name", "vhost", "interval", "lamport"]} heads="#No.|Name|Virtual host|Interval|#Lamport">
              ${(p) => html`<${Clock} key=${`${p.vhost} ${p.participant}`} who=${p} />`}<//>`
          : html`<${Table} label=${title} rows=${list} most=${most} lines by=${["name", "user", "vhost", "events", "last_event_id"]} heads="Name|User|Virtual host|#Events|#Last event">
              ${(p) => html`<${Row} key=${`${p.vhost} ${p.participant}`} who=${p} />`}<//>`}
  <//>`;
}

function shownVhosts() {
  const traced = (traces.value.data ?? []).map((trace) => trace.vhost);
  return vhost.value ? traced.filter((name) => name === vhost.value) : traced;
}

async function ofAll(names, signal) {
  const lists = await Promise.all(names.map((name) => loadParticipants(name, MOST, signal)));
  return lists.flat().sort((x, y) => y.last_event_id - x.last_event_id);
}

function Row({ who }) {
  const filter = { vhost: who.vhost, participant_name: who.name };
  return html`<tr>
    <td class="name at-first"><a href=${href("events", filter)}><${Value}>${who.name}<//></a>
      ${who.assumed && html` <span class="badge warn" title="Its client gives no name, or one of too many">assumed</span>`}
      ${who.note && html` <span class="badge warn" title=${said(who.note)}>${who.programs} processes</span>`}</td>
    <td class="at-second"><${Value}>${who.user}<//></td>
    <td class="at-end"><${Value}>${who.vhost}<//></td>
    <td class="number">${count(who.events)}</td>
    <td class="number at-first-end"><a href=${href("events", { vhost: who.vhost, event: String(who.last_event_id), at: String(who.last_event_id) })} title=${`Event #${who.last_event_id}`}>${moment(who.last_event_at)}</a></td>
  </tr>`;
}

const Clock = ({ who }) => html`<tr>
  <td class="number">${who.participant}</td>
  <td class="name"><${Value}>${who.name}<//></td>
  <td><${Value}>${who.vhost}<//></td>
  <td><code>${who.interval === "" ? "whole" : visible(who.interval)}</code></td>
  <td class="number">${count(who.lamport)}</td>
</tr>`;
