// The words of conversations, so that a thing is called the same everywhere.
import { html } from "../core/html.js";
import { ageOf, clockTime, count, moment, recent, returnsText, said, seconds as took, sentence, times, visible } from "../core/format.js";
import { ACTS, Queue, settlementWord } from "../ui/marks.js";
import { failuresOf, nameOf, spellBefore } from "./model.js";

/** The states of conversations, each with its tone and word. */
export const STATES = {
  finished: ["good", "finished"],
  retried: ["good", "retried, finished"],
  in_work: ["calm", "in work"],
  waiting: ["warn", "waiting"],
  failed: ["bad", "failed"],
  unknown: ["calm", "unknown"],
};
export const stateWord = (state) => STATES[state]?.[1] ?? state;

export function State({ state }) {
  return html`<span class="badge ${STATES[state]?.[0] ?? "calm"}"><span class="dot"></span>${stateWord(state)}</span>`;
}

/** The place of a conversation that may go on, and for how long: `in billing for 6 min`. */
const positionText = ({ queue, holder, since, returns }, short = (name) => name) =>
  queue == null ? `handed to ${short(holder)} ${ageOf(since)} ago` : `in ${queue} for ${ageOf(since)}${returnsText(returns)}`;

/** The same, with the queue leading to its page. */
export const Position = ({ of: { vhost, position }, short }) =>
  position.queue == null ? said(positionText(position, short)) : html`in <${Queue} vhost=${vhost} name=${position.queue} /> for ${ageOf(position.since)}${returnsText(position.returns)}`;

/** Why a conversation has its state, as sentences of a line each. */
export function reasonsOf({ clauses: [, ...more], reason, counts, position }, short) {
  return [
    reason && sentence(reason),
    counts.redeliveries > 0 && `Redelivered ${times(counts.redeliveries)}.`,
    position && sentence(positionText(position, short)),
    ...more.map((one) => sentence(clauseText(one))),
  ].filter(Boolean);
}

/** A clause without what would tell more. */
export const factText = ({ number, text }) => (number == null ? text : `${count(number)} ${text}`);
const clauseText = (one) => [factText(one), one.remedy].filter(Boolean).join(": ");

/** A conversation's sentence, but for what the verdict and the facts below say of the same messages. */
export function briefOf({ clauses, via }) {
  const kept = clauses.filter(({ about, number }) => via === "any" || number == null || ["back", "left"].includes(about));
  return kept.map((one) => `${clauseText(one)}.`).join(" ");
}

/** A conversation's end first, by name: `OrderChecked rejected by billing in queue billing`, `OrderChecked waits in billing`. Others' sentence, with what tells it from others first. */
export function rowText({ failure, state, position, clauses: [first, ...more] }) {
  if (failure) return failure.text;
  if (state === "waiting" && position?.type) return `${position.type} waits in ${position.queue}`;
  return [...more, first].map((one) => `${factText(one)}.`).join(" ");
}

/** By what a conversation is put together. */
export const WAYS = [
  ["links", "Links", "What is certain: messages, links to what they name as their cause, and what the broker did"],
  ["conversation", "Conversation", "By these, and by what messages share: a correlation id, a trace id"],
  ["likely", "Likely", "By these, and by the proposals that are not adopted"],
  ["any", "All possible", "All that may have been influenced by the event, of which most may be coincidence"],
];

const PARTS = {
  queued: (name) => `waiting in ${name}`,
  handled: (name) => `handling by ${name}`,
  back: (name) => `held by ${name} and back in its queue`,
  rejected: (name) => `held and rejected by ${name}`,
  program: (name) => `handling by ${name}, until it published`,
  led: (name) => `waiting for ${name}, and handling until it published`,
};
export const partText = ({ kind, name }) => (kind === "queued" ? "waiting in" : PARTS[kind](visible(name)));

/** A time and what it was spent on, the same everywhere: `20 ms waiting in billing`, `1.2 s handling by stock`. */
export const spentText = (time, kind, shown) => `${time} ${PARTS[kind](shown)}`;

/** The key of a conversation; of all that an event may have influenced, also other orders, the event. */
export const subjectOf = ({ via, keys, type, root }) => (via === "any" ? `${type} #${root}` : keys[0] ?? type);

/** A conversation in a line: its subject, its type, and its end. */
export function titleOf(answer) {
  const parts = answer.via === "any" ? ["all that it may have influenced"] : [answer.keys.length > 0 && answer.type, stateWord(answer.state)];
  return [subjectOf(answer), ...parts].filter(Boolean).map((part) => visible(part)).join(" · ");
}

/** The words behind a state that is over: `OrderChecked rejected by billing at 02:14:09.018`, `in 1.3 s, redelivered once`. */
export function verdictOf(model) {
  const { state, seconds, counts: { redeliveries } } = model.answer;
  const [failure] = state === "failed" ? failuresOf(model) : [];
  if (failure) return `${said(failure.text)}${momentText(failure, model.answer.began_at)}`;
  if (!STATES[state] || state === "unknown") return `its last event came after ${took(seconds)}`;
  const again = redeliveries > 0 && `redelivered ${times(redeliveries)}`;
  return [`in ${took(seconds)}`, again].filter(Boolean).join(", ");
}

/** `order-1234 failed: OrderChecked rejected by billing 09:25:55, after 921 ms`: for a chat or a ticket. */
export function summaryOf(model) {
  const { via, state, began_at: began, seconds, sentence: summary } = model.answer;
  const what = visible(subjectOf(model.answer)) + (via === "any" ? "" : ` ${stateWord(state)}`);
  const [failure] = state === "failed" && via !== "any" ? failuresOf(model) : [];
  const after = failure ? endOf(failure) : seconds;
  const how = `${what}: ${said(failure ? failure.text : summary)}`;
  if (after === null) return how;
  const at = clockTime(timeAt(began, after));
  return `${how} ${at}, after ${took(after)}`;
}

/** A failure's time, in seconds since the conversation began; null if only its dead letter shows it, later. */
function endOf({ message, by, failure }) {
  if (by?.settled_after != null) return by.offset + by.settled_after;
  return failure.kind === "died" ? null : (by ?? message).offset;
}

const timeAt = (began, after) => new Date(Date.parse(began) + after * 1000).toISOString();

/** When it failed: exactly, or between the last delivery and its dead letter's. */
function momentText(failure, began) {
  const end = endOf(failure);
  if (end !== null) return ` at ${recent(timeAt(began, end))}`;
  const { by, letter } = failure;
  if (!letter) return "";
  return by ? ` between ${recent(by.at)} and ${recent(letter.at)}` : `, as its dead letter shows, which came at ${recent(letter.at)}`;
}

/** A copy's time before a delivery: `20 ms waiting in billing`, `1.2 s held and rejected by stock`. */
export const spellText = ({ kind, holder, seconds }, queue, names) =>
  spentText(took(seconds), kind, visible(holder ? nameOf(names, holder.participant) : queue));

/** A message's times, a line for each delivery. */
export function timesOf(message, { names, places }) {
  const lines = message.copies.flatMap((copy) => {
    const queue = visible(copy.queue);
    if (!copy.deliveries.length) {
      if (copy.state === "waiting") return [`waits in ${queue} since ${moment(copy.waits_since)}; nobody took it`];
      return [`${queue}: ${copy.state.replace("_", "-")}${copy.remark ? ` (${said(copy.remark)})` : ""}`];
    }
    const still = copy.state === "waiting" ? [`waits in ${queue} again since ${moment(copy.waits_since)}`] : [];
    return copy.deliveries.map((one, n) => {
      const spell = spellBefore({ places }, { message, copy, delivery: one }, copy.deliveries[n - 1]);
      const who = visible(nameOf(names, one.participant));
      const again = one.match === "dead_lettered" ? "dead letter, " : one.redelivered ? "again, " : "";
      const until = one.handled_until === "span" ? "in the program" : "until it published";
      const handled = one.handled == null ? "" : `, ${took(one.handled)} handling ${until}`;
      const after = one.settled_after == null ? "" : ` after ${took(one.settled_after)}`;
      const settled = one.settlement ? `, ${settlementWord(one.settlement)}${after}` : "";
      const acts = one.acts.map(({ cause, kind }) => {
        const by = kind === "rejected" && places.get(cause)?.delivery;
        return `${ACTS[kind]}${by ? ` by ${visible(nameOf(names, by.participant))}` : ""} (#${cause}), `;
      }).join("");
      return `${again}${acts}${spellText(spell, one.queue ?? copy.queue, names)}, then ${who}${handled}${settled}`;
    }).concat(still);
  });
  return lines.length ? lines : ["reached no queue"];
}

export const slackText = (message) =>
  message.critical
    ? "on the critical path"
    : message.slack == null
      ? ""
      : `could be ${took(message.slack)} later without delaying the end`;
