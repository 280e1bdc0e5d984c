// A publish's fate, queue by queue: no confirm tells a publisher this.
import { html } from "../../core/html.js";
import { api } from "../../core/api.js";
import { said, time, visible } from "../../core/format.js";
import { useResource } from "../../core/resource.js";
import { hrefEvent } from "../../core/route.js";
import { MatchMark, Queue, SettlementMark, StateMark, Value } from "../marks.js";
import { shortOf } from "../names.js";
import { pending } from "../panel.js";

export function Deliveries({ event }) {
  const loaded = useResource((signal) => api.deliveries(event.id, signal), [event.id]);
  const { data } = loaded;
  const short = data && shortOf(data.queues.flatMap(all).map((one) => one.participant_name));
  const isTold = data?.queues.some((fate) => all(fate).some(({ settlement }) => settlement));
  return html`<section class="section">
    <h3>Deliveries ${data && html`<span class="faint">${said(data.sentence)}</span>`}</h3>
    ${!data
      ? pending(loaded, "deliveries")
      : data.queues.length === 0
        ? html`<p class="soft">Routed to no queue: the message was dropped or returned.</p>`
        : data.queues.map((fate) => html`<${Fate} key=${fate.queue} vhost=${event.vhost} fate=${fate} isTold=${isTold} short=${short} />`)}
  </section>`;
}

const all = ({ deliveries, dead_letters: letters }) => [...deliveries, ...letters];

/** `isTold`: the settlement of some of the message's deliveries is known. */
function Fate({ vhost, fate, isTold, short }) {
  return html`<div class="queue-fate">
    <div class="queue-fate-head"><${Queue} vhost=${vhost} name=${fate.queue} /><${StateMark} state=${fate.state} /></div>
    ${fate.remark && html`<p class="small soft">it ${said(fate.remark)}</p>`}
    ${fate.deliveries.map(
      (event) => html`<a class="relative" key=${event.id} href=${hrefEvent(event.id)}>
        <span class="number">#${event.id}</span><span></span>
        <span class="cut" title=${visible(event.participant_name)}>to <${Value}>${short(event.participant_name)}<//>
          ${event.match !== "routed" && html` <${MatchMark} match=${event.match} />`}
          ${isTold && html` <${SettlementMark} settlement=${event.settlement} at=${event.settled_at} />`}</span>
        <span class="faint small">${time(event.recorded_at)}</span>
      </a>`,
    )}
    ${fate.dead_lettered_to.map(
      (queue) => html`<p class="small soft" key=${queue}>then went to <${Queue} vhost=${vhost} name=${queue} /></p>`,
    )}
  </div>`;
}
