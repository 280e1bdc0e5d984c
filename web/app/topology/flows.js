// Flows, counted from events: publishers → queues, as the broker routed them, → receivers.
import { literal, plural, rate, toMicros } from "../core/format.js";
import { serviceIn } from "../ui/names.js";

export const COLUMNS = ["publishers", "queues", "receivers"];
export const NOBODY = ""; // publishes that were not observed
export const FIELDS =
  "id,type,match,cause,participant_name,user,recorded_at,exchange,queue,routed_queues";

/**
 * The drawn and listed flows. `nodes` by column and `links` between columns are Maps of {key, from, to,
 * count, unmatched, failed, waits}, `publishes` a Map of {who, exchange, queue, count}, without a queue where none was
 * reached, `deaths` a Map of the ways of dead letters from a queue to the next, with their reason and exchange, and
 * `programs` a Map of {receiver, queue, waits}. `waits` are seconds: from the trace message of a publish to that of its delivery, or from
 * that of a delivery to those of the publishes that name it, where both are among the events.
 */
export function emptyFlows() {
  return {
    nodes: Object.fromEntries(COLUMNS.map((name) => [name, new Map()])),
    links: [new Map(), new Map()],
    publishes: new Map(),
    deaths: new Map(),
    programs: new Map(),
    seconds: 0,
    events: 0,
  };
}

/** Names of those who act, by kind: a service is a participant's name without its place. */
const ACTORS = { service: (e) => serviceIn(e.participant_name), user: (e) => e.user, participant: (e) => e.participant_name };

/** `by`: services, users or participants. `died`: by the id of a dead letter's delivery, the queue where it died last and the reason. */
export function flowsOf(events, by, died = new Map()) {
  const flows = { ...emptyFlows(), events: events.length };
  const who = ACTORS[by];
  const publishedAt = new Map();
  const deliveries = new Map();
  let first = Infinity;
  let last = -Infinity;
  for (const event of events) {
    const at = toMicros(event.recorded_at);
    first = Math.min(first, at);
    last = Math.max(last, at);
    if (event.type === "published") publishedAt.set(event.id, at);
    else deliveries.set(event.id, { at, queue: event.queue, receiver: who(event) });
  }
  for (const event of events) {
    if (event.type === "published") {
      published(flows, event, who(event));
      for (const cause of new Set((event.links ?? []).map((link) => link.cause))) {
        const delivery = deliveries.get(cause);
        if (delivery) worked(flows, delivery, (publishedAt.get(event.id) - delivery.at) / 1e6);
      }
    } else {
      received(flows, event, who(event), waitOf(event, publishedAt));
      for (const { cause, kind } of event.links ?? []) if (kind === "rejected") addRejection(flows, deliveries.get(cause));
      if (event.match === "dead_lettered") addDeath(flows, { ...died.get(event.id), exchange: event.exchange, to: event.queue, messages: 1 });
    }
  }
  flows.seconds = events.length > 1 ? (last - first) / 1e6 : 0;
  return flows;
}

// Only for first deliveries: redelivered and dead-lettered copies waited for something else.
function waitOf(event, publishedAt) {
  const at = event.match === "routed" ? publishedAt.get(event.cause) : undefined;
  return at === undefined ? null : Math.max(0, (toMicros(event.recorded_at) - at) / 1e6);
}

function published(flows, event, who) {
  const isLost = event.routed_queues?.length === 0;
  add(flows.nodes.publishers, [who], { failed: isLost });
  if (isLost) addPublishes(flows, { who, exchange: event.exchange, queue: null, messages: 1 });
  for (const queue of event.routed_queues ?? []) addPublishes(flows, { who, exchange: event.exchange, queue, messages: 1 });
}

/** Notes messages as they were routed; `queue` is null where they reached none. */
export function addPublishes({ nodes, links, publishes }, { who, exchange, queue, messages, unmatched }) {
  const key = JSON.stringify([who, exchange, queue]);
  const known = publishes.get(key) ?? { key, who, exchange, queue, count: 0 };
  publishes.set(key, known);
  known.count += messages;
  if (queue === null) return;
  touch(nodes.publishers, who);
  touch(nodes.queues, queue);
  add(links[0], [who, queue], { messages, unmatched });
}

function received(flows, event, who, wait) {
  const { nodes, links } = flows;
  const unmatched = event.match === "unmatched";
  const about = { unmatched, failed: event.match === "redelivered" };
  for (const [map, ends] of [[nodes.queues, [event.queue]], [nodes.receivers, [who]], [links[1], [event.queue, who]]]) {
    const { waits } = add(map, ends, about);
    if (wait !== null) waits.push(wait);
  }
  if (unmatched) addPublishes(flows, { who: NOBODY, exchange: event.exchange, queue: event.queue, messages: 1, unmatched });
}

function worked({ programs, nodes }, { queue, receiver }, seconds) {
  const key = `${queue}\n${receiver}`;
  if (!programs.has(key)) programs.set(key, { queue, receiver, waits: [] });
  programs.get(key).waits.push(Math.max(0, seconds));
  (touch(nodes.receivers, receiver).works ??= []).push(Math.max(0, seconds));
}

/** Notes dead letters; without a known queue they are in the tables alone. */
export function addDeath({ nodes, deaths }, { queue = null, reason = null, exchange, to, messages }) {
  const key = `${queue ?? ""}\n${exchange}\n${to}\n${reason ?? ""}`;
  const known = deaths.get(key);
  if (known) known.count += messages;
  else deaths.set(key, { key, from: queue, to, exchange, reason, count: messages, unmatched: 0, failed: 0 });
  touch(nodes.queues, to);
  if (queue !== null) touch(nodes.queues, queue).failed += messages;
}

/** Notes a rejection where it happened, between a queue and a receiver. */
export function addRejection({ links }, delivery, messages = 1) {
  if (!delivery) return;
  const link = add(links[1], [delivery.queue, delivery.receiver], { messages: 0 });
  link.rejected = (link.rejected ?? 0) + messages;
}

function touch(map, key) {
  if (!map.has(key)) map.set(key, { key, from: key, to: key, count: 0, unmatched: 0, failed: 0, waits: [] });
  return map.get(key);
}

/** Counts messages of a node, which is one end, or of the link between two; returns the entry. */
export function add(map, ends, { messages = 1, unmatched = 0, failed = 0 } = {}) {
  const entry = touch(map, ends.join("\n"));
  Object.assign(entry, { from: ends[0], to: ends.at(-1) });
  entry.count += messages;
  entry.unmatched += Number(unmatched);
  entry.failed += Number(failed);
  return entry;
}

const LEAST_SECONDS = 5;
const LEAST_RATE = 0.1;

/** A rate; or the number, if the time is too short or events too rare for a rate to mean much. */
export function flowing(count, seconds) {
  if (seconds >= LEAST_SECONDS && count >= seconds * LEAST_RATE) return rate(count / seconds);
  return plural(count, "message");
}

const SHARES = [0, 0.01, 0.1]; // of what flows: none failed, few, some, many
const WAITS = [0.01, 0.1, 1, 10]; // s

/** Severity from 0: by the share that failed (to 3), or the median wait (to 4); null if unknown. */
export function toneOf(entry, colour) {
  if (colour === "waits") {
    const median = waitsOf(entry)?.median;
    return median == null ? null : WAITS.filter((bound) => median >= bound).length;
  }
  const failed = entry.failed + (entry.rejected ?? 0);
  return failed && SHARES.filter((bound) => failed > bound * Math.max(entry.count, failed)).length;
}

/** `{median, p90}` of a node or link in seconds, or null if unknown. */
export function waitsOf({ seconds, waits }) {
  if (seconds !== undefined) return seconds;
  return percentiles(waits);
}

export function percentiles(waits) {
  if (!waits?.length) return null;
  const sorted = [...waits].sort((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  return { median: at(0.5), p90: at(0.9) };
}

/** `(queue) => true` of a library's own traffic, by the trace's patterns; else false. */
export function quietIn(trace) {
  const globs = (trace?.quiet ?? []).filter((one) => one.startsWith("queue:")).map((one) => literal(one.slice(6)).replaceAll("\\*", ".*").replaceAll("\\?", "."));
  const pattern = new RegExp(`^(?:${globs.join("|") || "(?!)"})$`, "s");
  return (queue) => pattern.test(queue);
}
