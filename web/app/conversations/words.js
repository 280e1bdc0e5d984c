// The words of conversations, so that a thing is called the same everywhere.
import { html } from "../core/html.js";
import { ageOf, clockTime, said, seconds as took, sentence, times, visible } from "../core/format.js";
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

/** The times that a copy came back, behind its age: `, where it came back twice`. */
export const returnsText = (returns) => (returns ? `, where it came back ${times(returns)}` : "");

/** The place of a conversation that may go on, and for how long: `in billing for 6 min`. */
const positionText = ({ queue, holder, since, returns }, short = (name) => name) =>
  queue == null ? `handed to ${short(holder)} ${ageOf(since)} ago` : `in ${queue} for ${ageOf(since)}${returnsText(returns)}`;

/** The same, with the queue leading to its page. */
export const Position = ({ of: { vhost, position }, short }) =>
  position.queue == null ? said(positionText(position, short)) : html`in <${Queue} vhost=${vhost} name=${position.queue} /> for ${ageOf(position.since)}${returnsText(position.returns)}`;

const BASES = {
  settled: "Of every delivery it is known how it ended.",
  "by its key": "No message with its key is known to wait, or to be in hand.",
  "by links": "No message is known to wait, or to be in hand, and each receiver has named another cause since.",
};

/** Why a conversation has its state, as sentences of a line each. */
export function reasonsOf({ sentence: text, done_by: basis, state, counts, position }, short) {
  const [, ...more] = clausesOf(text);
  return [
    BASES[basis],
    counts.redeliveries > 0 && `Redelivered ${times(counts.redeliveries)}.`,
    position && sentence(positionText(position, short)),
    ...more.map(sentence),
    state === "unknown" && !more.length && "A message was handed over or rejected, and what came of it is not recorded.",
  ].filter(Boolean);
}

/** The parts of a conversation's sentence, which end with a full stop. */
export const clausesOf = (text) => text.split(/\. (?=\S)/);

/** A conversation's sentence, but for what the verdict and the facts below say of the same messages. */
export function briefOf({ sentence: text, via }) {
  const isKept = (part) => via === "any" || !/^\d/.test(part) || / (?:back in|left by) /.test(part);
  return clausesOf(text).filter(isKept).map((part) => (/[.!?]$/.test(part) ? part : `${part}.`)).join(" ");
}

/** By what a conversation is put together. */
export const WAYS = [
  ["links", "Links", "What is certain: messages, links to what they name as their cause, and what the broker did"],
  ["conversation", "Conversation", "By these, and by what messages share: a correlation id, a trace id"],
  ["likely", "Likely", "By these, and by the proposals that are not adopted"],
  ["any", "All possible", "All that may have been influenced by the event, of which most may be coincidence"],
];

const PARTS = {
  queued: () => "waiting in",
  back: (name) => `held by ${name} and back in its queue`,
  rejected: (name) => `held and rejected by ${name}`,
  program: (name) => `handling by ${name}, until it published`,
  led: (name) => `waiting for ${name}, and handling until it published`,
};
export const partText = ({ kind, name }) => PARTS[kind](visible(name));

/** The key of a conversation; of all that an event may have influenced, also other orders, the event. */
export const subjectOf = ({ via, keys, type, root }) => (via === "any" ? `${type} #${root}` : keys[0] ?? type);

/** A conversation in a line: its subject, its type, and its end. */
export function titleOf(answer) {
  const parts = answer.via === "any" ? ["all that it may have influenced"] : [answer.keys.length > 0 && answer.type, stateWord(answer.state)];
  return [subjectOf(answer), ...parts].filter(Boolean).map((part) => visible(part)).join(" · ");
}

/** The words behind a state that is over: `OrderChecked rejected by billing, after 795 ms`, `in 1.3 s, redelivered once`. */
export function verdictOf(model) {
  const { state, seconds, counts: { redeliveries } } = model.answer;
  const [failure] = state === "failed" ? failuresOf(model) : [];
  if (failure) return `${briefText(failure, model.names)}${momentText(failure)}`;
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
  const how = `${what}: ${failure ? briefText(failure, model.names) : said(summary)}`;
  if (after === null) return how;
  const at = clockTime(new Date(Date.parse(began) + after * 1000).toISOString());
  return `${how} ${at}, after ${took(after)}`;
}

/** A failure's time, in seconds since the conversation began; null if only its dead letter shows it, later. */
function endOf({ message, by, failure }) {
  if (by?.settled_after != null) return by.offset + by.settled_after;
  return failure.kind === "died" ? null : (by ?? message).offset;
}

/** When it failed, since the beginning: exactly, or no later than its dead letter. */
function momentText(failure) {
  const end = endOf(failure);
  if (end !== null) return `, after ${took(end)}`;
  return failure.letter ? `, within ${took(failure.letter.offset).replace("< ", "")}` : "";
}

/** The message that failed, why and by whom, without where it went from there. */
function briefText({ message, failure: { kind, reason }, by }, names) {
  return kind === "died" && reason === "rejected" && by
    ? `${visible(message.type)} rejected by ${visible(nameOf(names, by.participant))}`
    : said(message.failure_sentence.replace(/; (?:it went to queue|put back as) .*$/, ""));
}

/** A copy's time before a delivery: `20 ms waiting in billing`, `1.2 s held and rejected by stock`. */
export const spellText = ({ kind, holder, seconds }, queue, names) =>
  `${took(seconds)} ${holder ? PARTS[kind](visible(nameOf(names, holder.participant))) : `waiting in ${visible(queue)}`}`;

/** A message's times, a line for each delivery. */
export function timesOf(message, { names, places }) {
  const lines = message.copies.flatMap((copy) => {
    const queue = visible(copy.queue);
    if (!copy.deliveries.length) {
      const state = copy.state === "waiting" ? `waiting in ${queue}` : `${queue}: ${copy.state.replace("_", "-")}`;
      return [copy.remark ? `${state} (${said(copy.remark)})` : state];
    }
    const still = copy.state === "waiting" ? [`waiting in ${queue} again (${said(copy.remark)})`] : [];
    return copy.deliveries.map((one, n) => {
      const spell = spellBefore({ places }, { message, copy, delivery: one }, copy.deliveries[n - 1]);
      const who = visible(nameOf(names, one.participant));
      const again = one.match === "dead_lettered" ? "dead letter, " : one.redelivered ? "again, " : "";
      const until = one.handled_until === "span" ? "in the program" : "until it published";
      const handled = one.handled == null ? "" : `, handling ${took(one.handled)} ${until}`;
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
