// One event, at the side of whatever shows events: what it was, what caused it, what it caused.
import { html } from "../../core/html.js";
import { api, path } from "../../core/api.js";
import { bytes, dateTime, exchangeName, time, visible } from "../../core/format.js";
import { useKeys } from "../../core/keys.js";
import { typeOf } from "../../core/message-type.js";
import { useResource } from "../../core/resource.js";
import { closed, closeEvent, href, hrefEvent, isConversation, patch, pinnedA, pinnedB, route, view } from "../../core/route.js";
import { user, usesPassword } from "../../core/session.js";
import { CopyButton } from "../copy.js";
import { Icon } from "../icons.js";
import { MatchMark, Pin, Queue, TypeMark, Value } from "../marks.js";
import { shortOf } from "../names.js";
import { pending } from "../panel.js";
import { Word } from "../term.js";
import { Clocks } from "./clocks.js";
import { Deliveries } from "./deliveries.js";
import { Lead } from "./lead.js";
import { Links } from "./links.js";
import { Payload } from "./payload.js";
import { Properties } from "./properties.js";
import { Relatives } from "./relatives.js";
import { TouchedSection } from "./touched.js";

/** `lead`: what its conversation's state is, where that is known. */
export default function EventDrawer({ id, lead = html`<${Lead} event=${id} />` }) {
  const loaded = useResource((signal) => api.event(id, signal), [id], { every: 0 });
  const event = loaded.data;
  useKeys({
    c: () => event?.cause && patch({ event: String(event.cause) }),
  });

  return html`<aside class="drawer" aria-label=${`Event ${id}`} data-focus=${`event ${id}`}>
    <div class="drawer-head">
      <div class="drawer-line">
        <h2>#${id}</h2>
        ${event && html`<${TypeMark} type=${event.type} />`}
        ${event?.type === "received" && event.match !== "routed" && html`<${MatchMark} match=${event.match} />`}
        ${event?.candidates && html`<span class="badge">one of ${event.candidates} equal messages</span>`}
        ${event?.quiet && html`<span class="badge" title="Quiet traffic joins no clocks">quiet</span>`}
        <button class="button quiet icon close" aria-label="Close the event (Esc)" onClick=${closeEvent}><${Icon} name="close" /></button>
      </div>
      ${lead}
      ${event && html`<${Headline} event=${event} />`}
      <${Actions} id=${id} />
    </div>
    <div class="drawer-body" tabindex="0" role="region" aria-label="Details of the event">
      ${event ? html`<${Details} event=${event} />` : pending(loaded, `event ${id}`)}
    </div>
  </aside>`;
}

// On a narrow screen the drawer covers everything: pinning an event closes it, so that another can be chosen.
const NARROW = matchMedia("(max-width: 620px)");

function Actions({ id }) {
  const pin = (letter, current) => {
    const name = letter.toLowerCase();
    const pinned = current === id;
    return html`<button class="button small" aria-pressed=${String(pinned)} data-focus=${`pin ${letter}`}
      onClick=${() => patch({ [name]: pinned ? null : id, ...(!pinned && NARROW.matches && closed()) })}>
      <${Pin} letter=${letter} />${pinned ? "Unpin" : `Pin as ${letter}`}
    </button>`;
  };
  return html`<div class="drawer-line">
    ${!isConversation(route.value) &&
    html`<a class="button small" href=${href("conversations", { event: id })}
      title="Everything that belongs to it: what began it, and what became of it">
      <${Icon} name="conversation" />Conversation</a>`}
    ${pin("A", pinnedA.value)}${pin("B", pinnedB.value)}
    ${view.value !== "space-time" &&
    html`<a class="button small" href=${href("space-time", { event: id })}>
      <${Icon} name="diagram" />Space-time</a>`}
    <${CopyButton} text=${() => curlFor(id)} label="curl" title="Copy as a curl command" />
    <${CopyButton} text=${() => location.href} label="Link" icon="link" title="Copy a link to this view" />
  </div>`;
}

/** The request for one event; curl asks for the password, which is never copied. */
function curlFor(id) {
  const url = new URL(path("events", id), location.href.split("#")[0]);
  const credentials = usesPassword.value ? ` -u ${shellWord(user.value.name)}` : "";
  return `curl -s${credentials} ${shellWord(url.href)}`;
}

const shellWord = (text) =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

function Details({ event }) {
  return html`
    ${event.type === "published" && html`<${Deliveries} event=${event} />`}
    <${Payload} event=${event} />
    ${event.type === "received" && html`<p class="drawer-cause"><${Cause} event=${event} /></p>`}
    <${Links} event=${event} />
    <${Relatives} event=${event} side="causes" />
    <${Relatives} event=${event} side="effects" />
    <${TouchedSection} id=${String(event.id)} vhost=${event.vhost} />
    <${Properties} event=${event} />
    <section class="section"><details><summary>Transport: exchange, queue, connection</summary><${Transport} event=${event} /></details></section>
    <${Clocks} event=${event} />`;
}

/** The event's type, sender, receiver and time. */
function Headline({ event }) {
  const { cause, queue, participant_name: who, routed_queues: queues } = event;
  const { data: sent } = useResource(async (signal) => (cause ? api.event(cause, signal) : null), [cause], { every: 0 });
  const short = shortOf([who, sent?.participant_name ?? who]);
  const from = event.type === "published" ? who : sent?.participant_name;
  const name = (one) => html`<span title=${visible(one)}><${Value}>${short(one)}<//></span>`;
  const listed = (all) => html`<span>${all.length ? all.map((one, i) => html`${i > 0 && ", "}<${Queue} key=${one} vhost=${event.vhost} name=${one} />`) : "no queue"}</span>`;
  return html`<p class="drawer-title cut"><${Value}>${typeOf(event)}<//></p>
    <p class="drawer-who soft">${from != null && html`${name(from)} → `}${event.type === "published" ? listed(queues ?? []) : html`${from == null && html`${listed([queue])} → `}${name(who)}`}
      <span title=${event.recorded_at}>${dateTime(event.recorded_at)}<span class="faint">.${time(event.recorded_at).split(".")[1]}</span></span></p>`;
}

function Transport({ event }) {
  const filter = (changes) => href("events", { vhost: event.vhost, ...changes });
  const keys = event.routing_keys ?? [];
  return html`<dl class="facts">
    <dt>Virtual host</dt><dd><${Value}>${event.vhost}<//></dd>
    <dt>Exchange</dt>
    <dd><a href=${filter({ exchange: event.exchange })}>${exchangeName(event.exchange)}</a></dd>
    <dt>${keys.length === 1 ? "Routing key" : "Routing keys"}</dt>
    <dd>${keys.map((key) => html`<div><${Value}>${key === "" ? "(empty)" : key}<//></div>`)}</dd>
    ${event.queue != null && html`<dt>Queue</dt>
      <dd><${Queue} vhost=${event.vhost} name=${event.queue} /></dd>`}
    <dt><${Word}>Participant<//></dt>
    <dd><a href=${filter({ participant: String(event.participant) })}><${Value}>${event.participant_name}<//></a>
      <span class="faint"> · its event ${event.seq}</span></dd>
    <dt>User</dt><dd><a href=${filter({ user: event.user })}><${Value}>${event.user}<//></a></dd>
    <dt>Connection</dt><dd><${Value}>${event.connection}<//><span class="faint"> · channel ${event.channel}</span></dd>
    <dt>Node</dt><dd><${Value}>${event.node}<//></dd>
    <dt>Payload</dt><dd>${bytes(event.payload_bytes)}</dd>
  </dl>`;
}

function Cause({ event }) {
  if (event.candidates) return html`<span class="soft">one of ${event.candidates} equal messages: which one is not known</span>`;
  if (!event.cause) return html`<span class="soft">its publish was not observed</span>`;
  return html`<span class="soft">Published by</span> <a href=${hrefEvent(event.cause)}
    title="Go to the publish (C)">#${event.cause}</a>
    ${event.redelivered && html` <span class="badge warn">redelivered</span>`}`;
}
