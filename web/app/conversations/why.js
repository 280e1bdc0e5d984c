// Why a conversation failed or does not end, and what to do. The verdict above has the first reason: it is not here again.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { ageOf, dateTime, exchangeName, moment, plural, returnsText, said, time, visible } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { hrefFailures } from "../core/route.js";
import { firstOf } from "../ui/incidents.js";
import { Queue } from "../ui/marks.js";
import { NextStep } from "../ui/next-step.js";
import { PutBack } from "../ui/put-back.js";
import { failuresOf, heldOf, nameOf, openIn, waitingOf } from "./model.js";

const MOST = 3;
const NEAR = 5; // failures that one event tells of, at most

export function Step({ event, onSelect, children }) {
  return html`<button type="button" class="as-link" onClick=${() => onSelect(event)}>${children ?? `#${event}`}</button>`;
}

export function Why({ model, onSelect }) {
  const { via, state, position, vhost } = model.answer;
  const [failures, waiting, held] = [failuresOf(model), waitingOf(model), heldOf(model)];
  const isTold = via !== "any"; // in the verdict
  const [first, ...others] = isTold && state === "failed" ? failures : [null, ...failures];
  const stuck = isTold && state === "waiting" ? waiting.find(({ queue }) => queue === position.queue) : null;
  const { data: view } = useResource((signal) => (stuck ? api.queue(vhost, stuck.queue, signal) : null), [vhost, stuck?.queue]);
  if (!failures.length && !waiting.length && !held.length) return null;
  const fate = model.places.get(openIn(model))?.message.copies.map((copy) => copy.other_fate).find(Boolean);
  const title = first || stuck ? "What to do" : via === "any" ? "What failed, and what waits" : failures.length ? "What came back" : "What it waits for";
  return html`<section aria-labelledby="conv-why">
    <h2 id="conv-why">${title}</h2>
    <ul>
      ${first && html`<${Next} model=${model} of=${first} onSelect=${onSelect} />`}
      ${stuck && html`<li><${NextStep} vhost=${vhost} queue=${stuck.queue} view=${view} at=${stuck.since} /></li>`}
      ${stuck && fate && html`<li class="soft small">If it is no longer there, it ${said(fate)}; the record does not show that.</li>`}
      ${some(others, "further failure", (one) => html`<li key=${one.message.event}>
        <${Step} event=${one.by?.event ?? one.message.event} onSelect=${onSelect}>${said(one.message.failure_clauses.map(({ text }) => text).join("; "))}<//>
        <br /><${Alike} vhost=${vhost} of=${one} /><${Exception} of=${one} /></li>`)}
      ${some(waiting.filter((one) => one !== stuck), "further message waiting", ({ message, queue, since, returns }) => html`<li key=${`${message.event} ${queue}`}>
        <${Step} event=${message.event} onSelect=${onSelect}>${visible(message.type)} still waits<//> in <${Queue} vhost=${vhost} name=${queue} title="Who takes from it" />, for ${ageOf(since)}${returnsText(returns)}</li>`)}
      ${some(held, "further message in hand", ({ message, delivery }) => html`<li key=${delivery.event}>
        <${Step} event=${delivery.event} onSelect=${onSelect}>${visible(nameOf(model.names, delivery.participant))} has
          ${" "}${visible(message.type)} in hand since ${dateTime(delivery.at)}<//></li>`)}
    </ul>
  </section>`;
}

const some = (items, what, row) => [
  ...items.slice(0, MOST).map(row),
  items.length > MOST && html`<li class="soft" key=${what}>and ${items.length - MOST} ${what.replace("failure", items.length > MOST + 1 ? "failures" : "failure")}</li>`,
];

/** The next steps after the failure that the verdict tells of, and the way of its message since. */
function Next({ model: { answer: { vhost }, names, messages }, of, onSelect }) {
  const { message, failure, letter } = of;
  const item = useFailure(vhost, of);
  const copy = message.copies.find(({ queue }) => queue === failure.queue);
  const [to] = copy?.dead_lettered_to ?? (item?.to ? [item.to] : []);
  const taker = letter && visible(nameOf(names, letter.participant));
  const back = message.put_back ?? item?.put_back;
  return html`
    <${Exception} of=${of} />
    <${Look} vhost=${vhost} of=${of} names=${names} onSelect=${onSelect} />
    ${to && html`<li>It was moved to queue <${Queue} vhost=${vhost} name=${to} />${taker && html`, and <${Step} event=${letter.event} onSelect=${onSelect}>${taker} took it<//>${letter.queue === to && " from there"}`}.
      ${" "}<${PutBack} event=${messages.has(back) ? null : back} command=${back ? null : item?.remedy} words=${`Put ${visible(message.type)} back into ${visible(failure.queue)} …`} /></li>`}
    <li><${Alike} vhost=${vhost} of=${of} /></li>`;
}

/** The place to look for the cause: a program's log, who takes from a queue, an exchange's bindings. */
function Look({ vhost, of: { message, failure: { kind, reason, queue }, by, letter }, names, onSelect }) {
  if (kind === "unroutable") {
    return html`<li>Bind a queue to exchange <bdi class="value">${exchangeName(message.exchange)}</bdi> for routing key <bdi class="value">${visible(message.routing_key)}</bdi>, or declare an alternate exchange.</li>`;
  }
  if (reason === "expired" || reason === "maxlen") {
    return html`<li>${reason === "expired" ? "Nobody took it in time" : "It was not taken fast enough"}: see who takes from <${Queue} vhost=${vhost} name=${queue} />.</li>`;
  }
  if (!by || kind === "gone") return null;
  return html`<li><${Log} names=${names} of=${by} until=${letter?.at} onSelect=${onSelect} />.</li>`;
}

/** The log to look into, of who was handed a delivery, and from when to when. */
export function Log({ names, of: { at, event, participant }, until: end, onSelect }) {
  const [from, until] = [time(at), end && time(end)];
  return html`Look into the log of <${Step} event=${event} onSelect=${onSelect}>${visible(nameOf(names, participant))}<//>, ${!until ? `from ${from} on` : from === until ? `at ${from}` : `${from} to ${until}`}`;
}

const Exception = ({ of: { failure: { exception } } }) => exception && html`<code class="conv-exception">${visible(exception)}</code>`;

/** A death as the list of failures has it, with the command that puts the message back; null while it is not known. */
function useFailure(vhost, { message, failure: { kind, queue }, letter }) {
  const ask = (signal) => (kind === "died" && letter ? api.failures({ vhost, kind, queue, before: letter.event + 1, limit: NEAR }, signal) : null);
  const { data } = useResource(ask, [message.event, queue, letter?.event], { every: 0 });
  return data?.items.find((one) => one.message === message.event && one.queue === queue);
}

/** The number of failures like one, and since when: a link to all of them. */
function Alike({ vhost, of: { message: { type }, failure: { kind, queue, reason, exception } } }) {
  const those = { vhost, kind, queue, reason, type, exception };
  const { data } = useResource((signal) => api.failures({ ...those, limit: 1 }, signal), [JSON.stringify(those)], { every: 0 });
  const others = (data?.counted ?? 0) - 1;
  if (others === 0 && data.counted_all) return html`<span class="soft">No other like it is recorded in ${visible(vhost)}.</span>`;
  const since = firstOf(data?.groups ?? []);
  return html`<a href=${hrefFailures(those)}>${others > 0 ? `${plural(others, "other")}${data.counted_all ? "" : " or more"} like it in ${visible(vhost)}${since ? ` since ${moment(since)}` : ""}` : "all like it"}</a>`;
}
