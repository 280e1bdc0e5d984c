// A virtual host's recent messages: their types, and what nearly always followed.
import { api } from "../core/api.js";
import { literal, toMicros } from "../core/format.js";
import { saysInBody, typeOf } from "../core/message-type.js";
import { newestEvents } from "../core/newest.js";
import { ACTS } from "../ui/marks.js";

const MOST_EVENTS = 2000;
const MOST_BODIES = 500; // these may be of 64 kB each
const KEPT_MS = 60_000;
const COLUMNS = "id,type,cause,recorded_at,exchange,routing_keys,properties,routed_queues,settlement,settled_at,quiet";
const LEAST_CASES = 20;
const LEAST_SHARE = 0.95;
const SURE = 2; // times the longest that was seen

let kept = null; // {vhost, until, seen}

/**
 * `{types, proposals, events, since}`: the names of the types that were seen, proposals as the report on
 * expectations has them, the surest first, and of how many events this is, since when; as of the last minute. The
 * newest of these reports adds its own, with when it was `made`.
 */
export async function seenOf(vhost, signal) {
  if (kept?.vhost !== vhost || Date.now() > kept.until) kept = { vhost, seen: await lookAt(vhost, signal), until: Date.now() + KEPT_MS };
  return kept.seen;
}

async function lookAt(vhost, signal) {
  const [events, report] = await Promise.all([eventsOf(vhost, signal), newestReport(vhost, signal)]);
  const seen = seenIn(events);
  const reported = report?.types.flatMap((one) => [one.type, ...one.leads_to.map(({ type }) => type)]) ?? [];
  const told = (report?.proposals ?? []).map((one) => ({ ...one, made: report.made_at }));
  const proposals = new Map([...told, ...seen.proposals].map((one) => [claimOf(one.assertion), one]));
  return {
    types: [...new Set([...seen.types, ...reported])].sort(),
    proposals: [...proposals.values()].sort((a, b) => b.share - a.share || b.cases - a.cases),
    events: events.length,
    since: events.at(-1)?.recorded_at,
  };
}

async function eventsOf(vhost, signal) {
  const ask = (most, payload, columns) => newestEvents(vhost, most, { columns, links: true, payload }, signal);
  const events = await ask(MOST_EVENTS, "none", COLUMNS);
  return events.some(saysInBody) ? ask(MOST_BODIES, "full", `${COLUMNS},payload`) : events;
}

async function newestReport(vhost, signal) {
  const made = (await api.reports(signal)).find((one) => one.report === "expectations" && one.vhost === vhost);
  return made && api.report(made.id, signal);
}

/** An assertion's claim, without its name and its time. */
export const claimOf = ({ name: _, within: __, acknowledged_within: acknowledged, ...rest }) =>
  JSON.stringify([Object.entries(rest).sort(), acknowledged !== undefined]);

/** The same of some events, newest first. */
function seenIn(events) {
  const publishes = new Map(events.filter((one) => one.type === "published" && !one.quiet).map((one) => [one.id, { ...one, at: toMicros(one.recorded_at), kind: typeOf(one), copies: [] }]));
  const publishOf = new Map(); // by the id of a delivery
  for (const one of events) {
    if (one.type === "published" || !publishes.has(one.cause)) continue;
    publishOf.set(one.id, one.cause);
    publishes.get(one.cause).copies.push(one);
  }
  const led = new Map(); // by two types: the times from the one to the first of the other
  for (const effect of publishes.values()) {
    const named = (effect.links ?? []).filter(({ kind }) => !(kind in ACTS)).map(({ cause }) => publishes.get(publishOf.get(cause) ?? cause));
    for (const cause of new Set(named)) if (cause && cause.kind !== effect.kind) note(led, cause, effect.kind, effect.at - cause.at);
  }
  const taken = new Map();
  for (const one of publishes.values()) {
    const last = acknowledgedAt(one);
    if (last !== null) note(taken, one, "", last - one.at);
  }
  const newest = toMicros(events[0]?.recorded_at ?? "1970-01-01T00:00:00Z");
  const propose = (times, said) => [...times.values()].flatMap(({ cause, effect, firsts }) => proposal([...publishes.values()].filter(({ kind }) => kind === cause), firsts, newest, said(cause, effect)));
  return {
    types: new Set([...publishes.values()].map(({ kind }) => kind)),
    proposals: [
      ...propose(led, (every, effect) => (within) => ({ name: nameOf(`${every} leads to ${effect}`), every, leads_to: effect, within })),
      ...propose(taken, (every) => (within) => ({ name: nameOf(`${every} acknowledged`), every, acknowledged_within: within })),
    ],
  };
}

function note(times, cause, effect, micros) {
  const key = JSON.stringify([cause.kind, effect]);
  if (!times.has(key)) times.set(key, { cause: cause.kind, effect, firsts: new Map() });
  const { firsts } = times.get(key);
  firsts.set(cause.id, Math.min(firsts.get(cause.id) ?? Infinity, micros));
}

/** The time at which its last copy was acknowledged, in µs; null while one is not, or if it is unknown. */
function acknowledgedAt({ copies, routed_queues: queues }) {
  if (!copies.length || copies.length !== queues?.length) return null;
  return copies.every((one) => one.settlement === "acknowledged" && one.settled_at) ? Math.max(...copies.map((one) => toMicros(one.settled_at))) : null;
}

/** The claim, if it held for nearly all messages that are old enough to tell; otherwise `[]`. */
function proposal(causes, firsts, newest, said) {
  const longest = Math.max(...firsts.values());
  const old = causes.filter((one) => one.at <= newest - SURE * longest);
  const held = old.filter(({ id }) => firsts.has(id)).length;
  if (old.length < LEAST_CASES || held < LEAST_SHARE * old.length) return [];
  return [{ assertion: said(roundedUp(SURE * longest)), share: held / old.length, cases: old.length, held }];
}

/** The next round time for people: 1, 2 or 5 times a power of ten of milliseconds. */
function roundedUp(micros) {
  const units = Math.max(1, micros / 1e3);
  const power = 10 ** Math.floor(Math.log10(units));
  const found = [1, 2, 5, 10].find((step) => step * power >= units) * power;
  return found < 1000 ? `${found}ms` : `${found / 1000}s`;
}

/** A name for what an assertion says. */
export const nameOf = (text) => text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "assertion";

const NAMING = /(?:^|[{,\s])["']?(?:every|leads_to|after|no)["']?\s*:\s*("[^"]*"|'[^']*'|[^,}\]#\n]+)|never_concurrent["']?\s*:\s*\[([^\]\n]*)\]/g;

/** The message types that a file of assertions names, as far as they can be told. */
export const typesNamed = (text) =>
  [...text.matchAll(NAMING)].flatMap(([, one, several]) => (one ? [one] : several.split(",")))
    .map((name) => name.trim().replace(/^(["'])(.*)\1$/, "$2")).filter(Boolean);

/** The `names` that fit no type that was seen; `*` stands for any text. */
export const neverSeen = (names, types) =>
  [...new Set(names)].filter((name) => {
    const fits = new RegExp(`^${name.split("*").map(literal).join(".*")}$`, "s");
    return !types.some((type) => fits.test(type));
  });
