// A conversation at a glance: what happened, why, and where the time went.
import { html } from "../core/html.js";
import { ageOf, dateTime, plural, said, seconds as took, shares, times, visible } from "../core/format.js";
import { href, hrefHere } from "../core/route.js";
import { Waited } from "../ui/event/lead.js";
import { Crossing } from "../ui/event/links.js";
import { Queue, Value } from "../ui/marks.js";
import { serviceIn } from "../ui/names.js";
import { NARROW } from "../ui/width.js";
import { failuresOf, nameOf, openIn, partsOf, retriedOf, typeIn } from "./model.js";
import { slowText } from "./waterfall-layout.js";
import { Log, Step, Why } from "./why.js";
import { briefOf, partText, reasonsOf, State, STATES, subjectOf, verdictOf } from "./words.js";

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
    <p class="conv-sentence">${said(briefOf(answer))}</p>
    ${answer.remaining && html`<p class="conv-remaining">${said(answer.remaining.sentence)}.</p>`}
    <p class="soft small conv-began">Began ${dateTime(answer.began_at)}${answer.position && `, ${ageOf(answer.began_at)} ago`}:
      ${answer.position ? " so far " : " "}${plural(counts.messages, "message")}, ${plural(counts.deliveries, "delivery", "deliveries")},
      ${" "}${plural(counts.participants, "participant")}${counts.redeliveries > 0 && answer.state !== "retried" && `; redelivered ${times(counts.redeliveries)}`}<${Further} answer=${answer} onSelect=${onSelect} /></p>
    <div class="conv-facts">
      <${Why} model=${model} onSelect=${onSelect} />
      <${Retried} model=${model} onSelect=${onSelect} />
      <${Slow} model=${model} slow=${slow} onSelect=${onSelect} />
      <${Violated} answer=${answer} onSelect=${onSelect} />
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
  </details><span>${answer.position ? html`<${Waited} answer=${answer} type=${typeIn(model)} />` : verdictOf(model)}${slow.length > 0 && answer.state !== "failed" && html`, <strong class="warn-text">slower than usual</strong>`}</span></div>`;
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
  return html`<section class=${id} aria-labelledby=${id}>
    <h2 id=${id}>${title}</h2>
    <ul>${items.slice(0, MOST).map(children)}
      ${items.length > MOST && html`<li class="soft">and ${items.length - MOST} more</li>`}</ul>
  </section>`;
}

/** Messages that came back, of a conversation that finished, from whom, and where to look if that happens often. */
function Retried({ model, onSelect }) {
  const retried = model.answer.state === "retried" && !failuresOf(model).length ? retriedOf(model) : [];
  return html`<${Listed} id="conv-retried" title="What was tried again" items=${retried}>
    ${({ message: { type }, delivery, spell: { kind, holder, seconds } }) => html`<li key=${delivery.event}>
      <${Step} event=${delivery.event} onSelect=${onSelect}>${visible(type)} was ${kind === "back" ? `back from ${visible(nameOf(model.names, holder.participant))} after ${took(seconds)}` : "handed over again"}<//>, and finished then.${holder && !holder.settlement && " Whether it was given back, or the connection was lost, is not recorded."}
      ${holder && html`<br />If that happens often: <${Log} names=${model.names} of=${holder} until=${delivery.at} onSelect=${onSelect} />.`}</li>`}<//>`;
}

/** Messages that took clearly longer than usual and are over, and where to look. */
const Slow = ({ model: { answer: { vhost }, names, places }, slow, onSelect }) => html`<${Listed} id="conv-slow" title="Longer than usual" items=${slow}>
  ${({ message, bar: { event, kind, seconds, usual }, bar }) => {
    const { copy, delivery } = places.get(event);
    const queue = delivery.queue ?? copy.queue;
    const place = kind === "queued" ? { queue } : { service: serviceIn(nameOf(names, delivery.participant)) };
    return html`<li key=${`${event} ${kind}`}><${Step} event=${event} onSelect=${onSelect}><bdi>${visible(message.type)}</bdi>: ${slowText(bar)}<//>
      <br />${kind === "queued" ? html`See who takes from <${Queue} vhost=${vhost} name=${queue} />` : html`<${Log} names=${names} of=${delivery} until=${later(delivery.at, seconds)} onSelect=${onSelect} />`}${usual.since && html`, or <a href=${href("durations", { vhost, ...place })}>what has been slow since then</a>`}.</li>`;
  }}<//>`;

const later = (at, seconds) => new Date(Date.parse(at) + seconds * 1000).toISOString();

/** Assertions that did not hold for its events. */
const Violated = ({ answer: { vhost, violations }, onSelect }) => html`<${Listed} id="conv-violated" title="What did not hold" items=${violations}>
  ${({ assertion, event, sentence }) => html`<li key=${`${assertion} ${event}`}>
    Assertion <a href=${href("learn", { vhost, view: "assertions", assertion })}><${Value}>${assertion}<//></a>: <${Step} event=${event} onSelect=${onSelect}>${said(sentence)}<//></li>`}<//>`;

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
