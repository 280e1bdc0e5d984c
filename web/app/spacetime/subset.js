// The events of a chain or a conversation, which the service finds: `?chain=A,B` or `?conversation=EVENT`.
// They are drawn alone, or lit among all that happened meanwhile.
import { api } from "../core/api.js";
import { pagesOf } from "../core/pages.js";
import { certainUntil, justAfter } from "../core/viewed.js";
import { FORM } from "./model.js";

const CHAIN_PAGE = 1000;
const CONVERSATION_PAGE = 5000;
const MOST = 10_000;

/** The subset in the address: `{kind, chain | conversation, via}`, or null. */
export function askedIn({ chain, conversation, via }) {
  const ends = /^(\d+),(\d+)$/.exec(chain ?? "");
  if (ends) return { kind: "chain", ends: [ends[1], ends[2]], via };
  return /^\d+$/.test(conversation ?? "") ? { kind: "conversation", event: conversation, via } : null;
}

/**
 * `{kind, vhost, sentence, since, until, events, ids, pins, truncated, answer}`: its events in the form of the list of
 * events and in their order, the answer's own words about them, and the time of which it speaks.
 */
export async function loadSubset(asked, signal) {
  const found = await (asked.kind === "chain" ? loadChain(asked, signal) : loadConversation(asked, signal));
  found.events.sort((x, y) => x.id - y.id);
  return { kind: asked.kind, ...found, ids: found.events.map((event) => event.id) };
}

const sum = (pages, count) => pages.reduce((total, page) => total + count(page), 0);

async function loadChain({ ends: [a, b], via }, signal) {
  const { columns, payload } = FORM;
  const load = (after) => api.chain(a, b, { via, after, limit: CHAIN_PAGE, columns, payload }, signal);
  const pages = await pagesOf(load, (list) => sum(list, (page) => page.events.length) >= MOST);
  const steps = pages.flatMap((page) => page.steps).filter((step) => step.how !== "message");
  const links = Map.groupBy(steps, (step) => step.effect);
  const events = pages.flatMap((page) => page.events);
  return {
    vhost: pages[0].vhost,
    sentence: pages[0].sentence,
    ...periodOf(events),
    pins: [{ id: Number(a), letter: "A" }, { id: Number(b), letter: "B" }],
    events: unique(events).map((event) => ({ ...event, links: links.get(event.id)?.map(asLink) ?? [] })),
    truncated: pages.at(-1).truncated,
    answer: pages[0],
  };
}

/** A step in the form of an event's links, in which the broker's acts are a kind. */
const asLink = ({ cause, how, rule, kind }) => ({ cause, rule, kind: kind ?? how });

async function loadConversation({ event, via }, signal) {
  const load = (after) => api.conversation(event, { via, after, limit: CONVERSATION_PAGE }, signal);
  const size = (page) => sum(page.messages, ({ copies }) => 1 + sum(copies, (copy) => copy.deliveries.length));
  const pages = await pagesOf(load, (list) => sum(list, size) >= MOST);
  const names = new Map(pages.flatMap((page) => page.participants).map(({ number, name }) => [number, name]));
  const found = pages.flatMap((page) => page.messages.flatMap((message) => eventsOf(message, names)));
  return {
    vhost: pages[0].vhost,
    sentence: pages[0].sentence,
    since: pages[0].began_at,
    until: certainUntil(pages[0]),
    pins: [],
    copies: pages.flatMap((page) => page.messages.flatMap(({ event: id, copies }) => copies.map((copy) => ({ id, ...copy })))),
    events: withLamport(unique(found).sort((x, y) => x.id - y.id)),
    truncated: pages.at(-1).truncated,
    answer: pages[0],
  };
}

/** From the first of these events to the last, which is still in it. */
function periodOf(events) {
  const times = events.map((event) => event.recorded_at).sort();
  return times.length ? { since: times[0], until: justAfter(times.at(-1)) } : {};
}

const unique = (events) => [...new Map(events.map((event) => [event.id, event])).values()];

/** The publish and the deliveries of a message. */
function eventsOf(message, names) {
  const { event: id, type, exchange, routing_key: key, how } = message;
  const causes = message.causes?.length ? message.causes : message.cause ? [message.cause] : [];
  const common = { exchange, routing_keys: [key] };
  const publish = {
    ...common,
    ...acting(message, names),
    id,
    type: "published",
    type_name: type,
    match: "none",
    queue: null,
    links: causes.map((cause) => ({ cause: cause.event ?? cause, rule: how?.rule ?? null, kind: how?.kind })),
  };
  const received = message.copies.flatMap((copy) =>
    copy.deliveries.map((delivery) => ({
      ...common,
      ...acting(delivery, names),
      id: delivery.event,
      type: "received",
      match: delivery.match,
      cause: message.unseen ? null : id,
      queue: delivery.queue ?? copy.queue,
      links: delivery.acts,
    })),
  );
  return message.unseen ? received : [publish, ...received];
}

const acting = ({ participant, at }, names) => ({
  participant,
  participant_name: names.get(participant) ?? `Participant ${participant}`,
  recorded_at: at,
});

/** The Lamport times that these events would have if they were all: a conversation does not say them. */
function withLamport(events) {
  const known = new Map();
  const last = new Map();
  for (const event of events) {
    const before = [event.cause, ...(event.links ?? []).map(({ cause }) => cause), last.get(event.participant)];
    event.lamport = 1 + Math.max(0, ...before.map((id) => known.get(id) ?? 0));
    known.set(event.id, event.lamport);
    last.set(event.participant, event.id);
  }
  return events;
}
