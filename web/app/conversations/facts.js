// A conversation at a glance: what happened, why, and where the time went.
import { html } from "../core/html.js";
import { ageOf, dateTime, moment, plural, said, seconds as took, shares, times, visible } from "../core/format.js";
import { href, hrefHere } from "../core/route.js";
import { Crossing } from "../ui/event/links.js";
import { Queue, Value } from "../ui/marks.js";
import { NARROW } from "../ui/width.js";
import { failuresOf, nameOf, openIn, partsOf, retriedOf } from "./model.js";
import { slowText } from "./waterfall-layout.js";
import { Step, Why } from "./why.js";
import { briefOf, partText, reasonsOf, returnsText, State, STATES, subjectOf, verdictOf } from "./words.js";

const MOST = 3;
const MANY = 10; // messages that one led to, of which people want to know
// The list again as it was; a list cannot be put together by *All possible*, so not by the way of one conversation.
const BACK = Object.fromEntries(
  ["event", "panel", "beyond", "touched", "touched_until", "all_touched", "all_touched_until", "view", "via", "relatives"].map((name) => [name, null]),
);

export function Facts({ model, slow, tools, onSelect }) {
  const { answer } = model;
  const { counts } = answer;
  const [key, ...others] = answer.via === "any" ? [] : answer.keys;
  return html`<header class="conv-head">
    <div class="conv-title">
      <a class="small" href=${hrefHere(BACK)}>← All conversations</a>
      <h1><${Value}>${subjectOf(answer)}<//></h1>
      <span class="badge" title="Its virtual host"><span class="cut">in <${Value}>${answer.vhost}<//></span></span>
      ${key != null && html`<span class="badge" title="The type of its first message"><${Value} cut>${answer.type}<//></span>`}
      ${others.map((one) => html`<span class="badge" key=${one} title="What its messages share"><${Value} cut>${one}<//></span>`)}
      <div class="right">${tools}</div>
    </div>
    <${Standing} model=${model} slow=${slow} />
    <${OtherFate} model=${model} />
    <p class="conv-sentence">${said(briefOf(answer))}</p>
    ${answer.remaining && html`<p class="conv-remaining">${said(answer.remaining.sentence)}.</p>`}
    <p class="soft small conv-began">Began ${dateTime(answer.began_at)}${answer.position && `, ${ageOf(answer.began_at)} ago`}:
      ${answer.position ? " so far " : " "}${plural(counts.messages, "message")}, ${plural(counts.deliveries, "delivery", "deliveries")},
      ${" "}${plural(counts.participants, "participant")}${counts.redeliveries > 0 && answer.state !== "retried" && `; redelivered ${times(counts.redeliveries)}`}<${Further} answer=${answer} onSelect=${onSelect} /></p>
    <div class="conv-facts">
      <${Why} model=${model} onSelect=${onSelect} />
      <${Retried} model=${model} onSelect=${onSelect} />
      <${Slow} slow=${slow} onSelect=${onSelect} />
      <${Time} model=${model} onSelect=${onSelect} />
    </div>
  </header>`;
}

/** The state, which unfolds its reasons; of all that may have been influenced it would be no order's. */
function Standing({ model, slow }) {
  const { answer, short } = model;
  if (answer.via === "any") return html`<p class="soft">All that it may have influenced, also of other orders: no state.</p>`;
  const reasons = reasonsOf(answer, short);
  return html`<div class="conv-verdict ${STATES[answer.state]?.[0] ?? "calm"}"><details class="conv-state" key=${answer.root}>
    <summary title="Why this state?"><${State} state=${answer.state} /></summary>
    <div class="sheet"><ul>${reasons.map((text) => html`<li key=${text}>${text}</li>`)}</ul></div>
  </details><span>${answer.position ? html`<${Waited} model=${model} />` : verdictOf(model)}${slow.length > 0 && answer.state !== "failed" && html`, <strong class="warn-text">slower than usual</strong>`}</span></div>`;
}

/** The message that an order waits for, where and since when. */
export function Waited({ model }) {
  const { answer: { vhost, position: { queue, holder, since, returns } }, short, places } = model;
  const open = openIn(model);
  const what = html`<bdi>${open ? visible(places.get(open).message.type) : "A message"}</bdi>`;
  if (queue == null) return html`${what} was handed to ${said(short(holder))} ${ageOf(since)} ago, at ${moment(since)}`;
  return html`${what} waits in queue <${Queue} vhost=${vhost} name=${queue} />${returnsText(returns)}; nobody took it${returns ? " again" : ""} for ${ageOf(since)}, since ${moment(since)}`;
}

/** Other fates of the message that an order waits for. */
function OtherFate({ model }) {
  const fate = model.places.get(openIn(model))?.message.copies.map((copy) => copy.other_fate).find(Boolean);
  return fate && html`<p class="soft small">If it is no longer there, it ${said(fate)}; the record does not show that.</p>`;
}

const conversation = (event) => href("conversations", { event: String(event) });

/** Other possible beginnings, the message that led to the most, and types that led to themselves. */
function Further({ answer, onSelect }) {
  const { crossings, other_roots: others } = answer;
  const { amplification, loops } = answer.via === "any" ? {} : answer; // of what was led to
  return html`${amplification?.most >= MANY && html`; <${Step} event=${amplification.event} onSelect=${onSelect} />${" "}led to the most (${plural(amplification.most, "message")})`}${loops?.length > 0 &&
    html`; <strong>loop</strong>: ${visible(loops[0].type)} led to <${Step} event=${loops[0].events.at(-1)} onSelect=${onSelect} /> of its own type`}${others.length > 0 &&
    html`; other beginnings: ${others.map((event, i) => html`${i ? ", " : ""}<a key=${event} href=${conversation(event)}>#${event}</a>`)}`}${crossings?.map(
      (one) => html`; <${Step} event=${one.event} onSelect=${onSelect} />: <${Crossing} key=${one.event} crossing=${one} to=${conversation} />`)}.`;
}

/** The first of some `items`, each as `children` makes a line of it; nothing where there are none. */
function Listed({ id, title, items, children }) {
  if (!items.length) return null;
  return html`<section aria-labelledby=${id}>
    <h2 id=${id}>${title}</h2>
    <ul>${items.slice(0, MOST).map(children)}
      ${items.length > MOST && html`<li class="soft">and ${items.length - MOST} more</li>`}</ul>
  </section>`;
}

/** Messages that came back, of a conversation that finished, and from whom. */
function Retried({ model, onSelect }) {
  const retried = model.answer.state === "retried" && !failuresOf(model).length ? retriedOf(model) : [];
  const text = ({ message: { type }, spell: { kind, holder, seconds } }) =>
    kind === "back" ? `${visible(type)} was back from ${visible(nameOf(model.names, holder.participant))} after ${took(seconds)}` : `${visible(type)} was handed over again`;
  return html`<${Listed} id="conv-retried" title="What was tried again" items=${retried}>
    ${(one) => html`<li key=${one.delivery.event}><${Step} event=${one.delivery.event} onSelect=${onSelect}>${text(one)}<//></li>`}<//>`;
}

/** Messages that took clearly longer than usual and are over. */
const Slow = ({ slow, onSelect }) => html`<${Listed} id="conv-slow" title="Longer than usual" items=${slow}>
  ${({ message, bar }) => html`<li key=${`${bar.event} ${bar.kind}`}>
    <${Step} event=${bar.event} onSelect=${onSelect}><bdi>${visible(message.type)}</bdi>: ${slowText(bar)}<//></li>`}<//>`;

/** The place of what is not over: its time is beyond the parts, which end where it began to wait. */
function Still({ model, event, onSelect }) {
  const { vhost, position: { queue, holder } } = model.answer;
  if (queue == null) return html`<span>since it was handed to ${said(model.short(holder))}</span>`;
  return html`<span><${Step} event=${event} onSelect=${onSelect}>waiting in<//> <${Queue} vhost=${vhost} name=${queue} />, still</span>`;
}

function Time({ model, onSelect }) {
  const parts = partsOf(model);
  const { position } = model.answer;
  const open = openIn(model);
  if (!parts.length && open == null) return null;
  const rest = parts.slice(MOST).reduce((sum, { seconds }) => sum + seconds, 0);
  const inPercent = open ? [] : shares([...parts.slice(0, MOST).map(({ seconds }) => seconds), ...(parts.length > MOST ? [rest] : [])]);
  return html`<section class="conv-time" aria-labelledby="conv-time"><details open=${innerWidth > NARROW}>
    <summary><h2 id="conv-time">Where the time ${open ? "goes" : "went"}</h2></summary>
    <ol>
      ${open && html`<li class="conv-part"><strong class="tabular end">${ageOf(position.since)}</strong><span></span><${Still} model=${model} event=${open} onSelect=${onSelect} /></li>`}
      ${parts.slice(0, MOST).map(
        (part, n) => html`<li key=${`${part.kind} ${part.name}`} class="conv-part">
          <span class="tabular end">${took(part.seconds)}</span>
          <span class="tabular end soft">${inPercent[n]}</span>
          <span><${Step} event=${part.event} onSelect=${onSelect}>${partText(part)}<//>${part.kind === "queued" && html` <${Queue} vhost=${model.answer.vhost} name=${part.name} />`}</span>
        </li>`,
      )}
      ${parts.length > MOST && html`<li class="conv-part soft"><span class="tabular end">${took(rest)}</span><span class="tabular end">${inPercent[MOST]}</span><span>the rest</span></li>`}
    </ol>
  </details></section>`;
}
