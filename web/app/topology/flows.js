// Who sends what where, counted from events: publishers → exchanges → queues → receivers.
import { plural, rate, toMicros } from "../core/format.js";

export const COLUMNS = ["publishers", "exchanges", "queues", "receivers"];
export const FIELDS =
  "id,type,match,cause,participant_name,user,recorded_at,exchange,queue,routed_queues";

/**
 * `{nodes: {publishers: Map, …}, links: [Map, Map, Map], seconds, events}`. A node is {key, count,
 * unmatched, waits}, a link {from, to, count, unmatched, waits}. `waits` are the seconds from the
 * trace message of a publish to that of its delivery, where both are among the events.
 */
export function flowsOf(events, by) {
  const flows = {
    nodes: Object.fromEntries(COLUMNS.map((name) => [name, new Map()])),
    links: [new Map(), new Map(), new Map()],
    seconds: 0,
    events: events.length,
  };
  const who = (e) => (by === "user" ? e.user : e.participant_name);
  const publishedAt = new Map();
  let first = Infinity;
  let last = -Infinity;
  for (const event of events) {
    const at = toMicros(event.recorded_at);
    first = Math.min(first, at);
    last = Math.max(last, at);
    if (event.type === "published") publishedAt.set(event.id, at);
  }
  for (const event of events) {
    if (event.type === "published") published(flows, event, who(event));
    else received(flows, event, who(event), waitOf(event, publishedAt));
  }
  flows.seconds = events.length > 1 ? (last - first) / 1e6 : 0;
  return flows;
}

// Only for first deliveries: redelivered and dead-lettered copies waited for something else.
function waitOf(event, publishedAt) {
  const at = event.match === "routed" ? publishedAt.get(event.cause) : undefined;
  return at === undefined ? null : Math.max(0, (toMicros(event.recorded_at) - at) / 1e6);
}

function published({ nodes, links }, event, who) {
  add(nodes.publishers, who, who, who);
  add(nodes.exchanges, event.exchange, event.exchange, event.exchange);
  add(links[0], `${who}\n${event.exchange}`, who, event.exchange);
  for (const queue of event.routed_queues ?? []) {
    add(links[1], `${event.exchange}\n${queue}`, event.exchange, queue);
    touch(nodes.queues, queue);
  }
}

function received({ nodes, links }, event, who, wait) {
  const unmatched = event.match === "unmatched";
  add(nodes.queues, event.queue, event.queue, event.queue, wait, unmatched);
  add(nodes.receivers, who, who, who, wait, unmatched);
  add(links[2], `${event.queue}\n${who}`, event.queue, who, wait, unmatched);
  if (event.match !== "dead_lettered" && !unmatched) return;
  // No publish is known for these, but the delivery says through which exchange it came.
  touch(nodes.exchanges, event.exchange);
  add(links[1], `${event.exchange}\n${event.queue}`, event.exchange, event.queue, null, unmatched);
}

function touch(map, key) {
  if (!map.has(key)) map.set(key, { key, from: key, to: key, count: 0, unmatched: 0, waits: [] });
  return map.get(key);
}

function add(map, key, from, to, wait = null, unmatched = false) {
  const entry = touch(map, key);
  entry.from = from;
  entry.to = to;
  entry.count += 1;
  if (unmatched) entry.unmatched += 1;
  if (wait !== null) entry.waits.push(wait);
}

const LEAST_SECONDS = 5;
const LEAST_RATE = 0.1;

/** A rate; or the number, if the time is too short or events too rare for a rate to mean much. */
export function flowing(count, seconds) {
  if (seconds >= LEAST_SECONDS && count >= seconds * LEAST_RATE) return rate(count / seconds);
  return plural(count, "message");
}

/** `{p50, p95, p99}` of a node or link in seconds, or null if unknown. */
export function waitsOf({ seconds, waits }) {
  if (seconds !== undefined) return seconds;
  if (!waits.length) return null;
  const sorted = [...waits].sort((a, b) => a - b);
  const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  return { p50: at(0.5), p95: at(0.95), p99: at(0.99) };
}
