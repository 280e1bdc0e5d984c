// Completions in the filter box: names of fields, and values that occur.
import { api } from "../core/api.js";
import { loadParticipants } from "../core/participants.js";
import { useResource } from "../core/resource.js";
import { vhost } from "../core/route.js";
import { user } from "../core/session.js";
import { traces } from "../core/traces.js";
import { serviceIn } from "../ui/names.js";
import { FIELDS, HEADER, isKnown, parse, tokensOf, valuesOf, write } from "./filter-text.js";

const MOST_SHOWN = 12;
const MOST_EVENTS = 200;
const MOST_PARTICIPANTS = 500;
const COLUMNS =
  "id,exchange,queue,routed_queues,routing_keys,user,participant,participant_name,connection,channel,properties";

const PLACES = {
  queue: (e) => [e.queue, ...(e.routed_queues ?? [])],
  routing_key: (e) => e.routing_keys ?? [],
  message_id: (e) => [e.properties?.message_id],
  correlation_id: (e) => [e.properties?.correlation_id],
  participant: (e) => [serviceIn(e.participant_name), e.participant],
  // The commonest carriers of a conversation, as the service reads them.
  conversation: (e) => [e.properties?.correlation_id, e.properties?.headers?.traceparent?.split?.("-")[1]],
};

/**
 * Values to choose from, once `wanted`: `{events, vhosts}`. Events are the newest ones with
 * their properties, and the participants, which have some of the fields of events.
 */
export function useKnown(wanted) {
  const chosen = vhost.value;
  const names = (traces.value.data ?? []).map((trace) => trace.vhost);
  const load = async (signal) => {
    if (!wanted) return [];
    const lists = await Promise.all([
      api.events({ vhost: chosen, page_size: MOST_EVENTS, columns: COLUMNS, payload: "none" }, signal),
      ...names
        .filter((name) => !chosen || name === chosen)
        .map((name) => loadParticipants(name, MOST_PARTICIPANTS, signal)),
    ]);
    return lists.flat().map((one) => (one.channels ? { ...one.channels[0], ...one, participant_name: one.name } : one));
  };
  const { data = [] } = useResource(load, [wanted, chosen, names.length], { every: 0 });
  return { events: data, vhosts: user.value.vhosts };
}

/** The values that a field is known to have, each once. */
function known(name, { events, vhosts }) {
  if (name === "vhost") return vhosts;
  const header = name.startsWith(HEADER) && name.slice(HEADER.length);
  const place = PLACES[name] ?? (header ? (e) => [e.properties?.headers?.[header]] : (e) => [e[name]]);
  const found = new Set();
  for (const event of events) {
    for (const value of place(event)) {
      if (["string", "number"].includes(typeof value) && value !== "") found.add(String(value));
    }
  }
  return valuesOf(name) ?? [...found];
}

const headersOf = ({ events }) => [
  ...new Set(events.flatMap((event) => Object.keys(event.properties?.headers ?? {}))),
];

/** Values that begin with the typed text come first, then those that contain it. */
function matching(list, typed) {
  const wanted = typed.toLowerCase();
  const at = (one) => one.toLowerCase().indexOf(wanted);
  return list.filter((one) => at(one) >= 0).sort((a, b) => Math.min(1, at(a)) - Math.min(1, at(b)));
}

/** `{from, to, options}`: what may stand from `from` to `to` of the text, `[{text, note}]`. */
export function suggest(text, caret, choice) {
  const nothing = { from: caret, to: caret, value: "" };
  const token = tokensOf(text).find(({ from, to }) => from < caret && caret <= to) ?? nothing;
  const options = optionsFor(token, choice).filter((one) => one.text.trim() !== token.whole);
  return { from: token.from, to: token.to, options };
}

function optionsFor(token, choice) {
  const { written, name, value, quoted } = token;
  if (!written) return quoted === undefined ? namesFor(value, choice) : [];
  if (!isKnown(name)) {
    const { better } = parse(token.whole).problem;
    return better.map((one) => ({ text: one, note: one.startsWith('"') ? "as text" : "did you mean this?" }));
  }
  return matching(known(name, choice), value.replace(/^"/, ""))
    .slice(0, MOST_SHOWN)
    .map((one) => ({ text: `${write(name, one)} ` }));
}

function namesFor(typed, choice) {
  const headers = typed.startsWith(HEADER) ? headersOf(choice).map((one) => HEADER + one) : [];
  return matching([...Object.keys(FIELDS), ...headers], typed).map((name) => ({
    text: name === HEADER ? name : write(name),
    note: FIELDS[name]?.[0] ?? "header",
  }));
}
