// The words of conversations, so that a thing is called the same everywhere.
import { html } from "../core/html.js";
import { clockTime, said, visible } from "../core/format.js";
import { ACTS, settlementWord } from "../ui/marks.js";
import { failuresOf, nameOf, took } from "./model.js";

const OUTCOMES = { done: ["good", "done"], open: ["calm", "open"], unknown: ["calm", "unknown"], waiting: ["warn", "waiting"], failed: ["bad", "failed"] };

export function Outcome({ outcome }) {
  const [tone, word] = OUTCOMES[outcome] ?? ["calm", outcome];
  return html`<span class="badge ${tone}"><span class="dot"></span>${word}</span>`;
}

/** By what a conversation is put together. */
export const WAYS = [
  ["links", "Links", "By messages, links to what they name as their cause, and what the broker did"],
  ["conversation", "Conversation", "By these, and by what messages share: a correlation id, a trace id"],
  ["likely", "Likely", "By these, and by the proposals that are not adopted"],
  ["any", "Any", "All that may have been influenced by the event"],
];

const PARTS = {
  queue: (name) => `in the queue ${name}`,
  again: (name) => `until ${name} handed it over again`,
  dead: (name) => `until its dead letter came out of ${name}`,
  held: (name) => `in the hands of ${name}, until it was given back or rejected`,
  program: (name) => `in ${name}, until it published`,
  led: (name) => `until ${name}, to which it was handed, published`,
};
export const partText = ({ kind, name }) => PARTS[kind](visible(name));

/** A conversation in a line: its subject, its type, and its end. */
export const titleOf = ({ keys, type, outcome }) =>
  [keys[0], type, OUTCOMES[outcome]?.[1] ?? outcome].filter(Boolean).map((part) => visible(part)).join(" · ");

/** `order-1234 failed: rejected by billing 09:25:55, after 921 ms`: for a chat or a ticket. */
export function summaryOf(model) {
  const { keys, type, outcome, began_at: began, seconds, sentence } = model.answer;
  const what = `${visible(keys[0] ?? type)} ${OUTCOMES[outcome]?.[1] ?? outcome}`;
  const [failed] = failuresOf(model);
  const after = failed ? endOf(failed) : seconds;
  const how = `${what}: ${failed ? briefText(failed, model.names) : said(sentence)}`;
  if (after === null) return how;
  const at = clockTime(new Date(Date.parse(began) + after * 1000).toISOString());
  return `${how} ${at}, after ${took(after)}`;
}

/** A failure's time, in seconds since the conversation began; null if only its dead letter shows it, later. */
function endOf({ message, by, failure }) {
  if (by?.settled_after != null) return by.offset + by.settled_after;
  return failure.kind === "died" ? null : (by ?? message).offset;
}

function briefText(failed, names) {
  const { failure: { kind, reason }, by } = failed;
  return kind === "died" && reason === "rejected" && by ? `rejected by ${visible(nameOf(names, by.participant))}` : failureText(failed, names);
}

/** A failed message's story. `by`: the participant that had it last, or null. */
export function failureText({ message, failure, by, to }, names) {
  const type = visible(message.type);
  const queue = failure.queue == null ? "a queue" : visible(failure.queue);
  const who = by ? visible(nameOf(names, by.participant)) : null;
  const last = who ? `, last handed to ${who}` : "";
  const went = to.length ? `; it went to ${to.map((name) => visible(name)).join(", ")}` : "";
  switch (failure.kind) {
    case "died":
      if (failure.reason === "rejected") return `${type} died in ${queue}: ${who ? `rejected by ${who}` : "rejected"}${went}`;
      return `${type} died in ${queue}: ${REASONS[failure.reason] ?? visible(failure.reason ?? "why is not known")}${last}${went}`;
    case "error_queue":
      return `${type} was sent to the error queue ${queue}${last}`;
    case "unroutable":
      return `${type} reached no queue`;
    case "came_back":
      return `${type} came back to ${queue} again and again${last}`;
    case "gone": {
      const remark = message.copies.find((copy) => copy.queue === failure.queue)?.remark;
      return `${type} in ${queue} ${said(remark ?? "is gone")}`;
    }
    case "overdue":
      return `${type} did not lead in time to what it should`;
    default:
      return `${type} failed in ${queue}${last}${went}`;
  }
}

const REASONS = {
  expired: "its time to live ended",
  maxlen: "the queue was full",
  delivery_limit: "it was handed over too often",
};

/** A message's times, a line for each copy. */
export function timesOf(message, names) {
  const lines = message.copies.flatMap((copy) => {
    const queue = visible(copy.queue);
    if (!copy.deliveries.length) {
      const state = copy.state === "waiting" ? `waits in ${queue}` : `${queue}: ${copy.state.replace("_", "-")}`;
      return [copy.remark ? `${state} (${said(copy.remark)})` : state];
    }
    return copy.deliveries.map((one) => {
      const who = visible(nameOf(names, one.participant));
      const again = one.match === "dead_lettered" ? "dead letter, " : one.redelivered ? "again, " : "";
      const until = one.handled_until === "span" ? "in the program" : "until it published";
      const handled = one.handled == null ? "" : `, ${took(one.handled)} ${until}`;
      const after = one.settled_after == null ? "" : ` after ${took(one.settled_after)}`;
      const settled = one.settlement ? `, ${settlementWord(one.settlement)}${after}` : "";
      const acts = one.acts.map(({ cause, kind }) => `, ${ACTS[kind]} (#${cause})`).join("");
      return `${again}${took(one.queued)} in ${visible(one.queue ?? copy.queue)}, then ${who}${handled}${settled}${acts}`;
    });
  });
  return lines.length ? lines : ["reached no queue"];
}

export const slackText = (message) =>
  message.critical
    ? "on the critical path"
    : message.slack == null
      ? ""
      : `could be ${took(message.slack)} later without delaying the end`;
