// The language of the filter box: `queue:billing type:received refund` asks for two fields and a text.
// What has the form of a field is one, or a mistake; in quotes it is text.
import { participantField } from "../core/format.js";

const BOOLEANS = ["true", "false"];
const MATCHES = ["routed", "redelivered", "dead_lettered", "unmatched", "untraced", "none"];

const SETTLEMENTS = ["in_hand", "acknowledged", "rejected", "returned", "auto", "channel_closed"];

/** Each field with the form of its values, or all of them if they are few. */
export const FIELDS = {
  type: ["published or received", ["published", "received"]],
  match: ["how a delivery found its publish", MATCHES],
  settlement: ["what became of a delivery", SETTLEMENTS],
  exchange: ["name"],
  queue: ["name"],
  routing_key: ["one of the keys"],
  participant: ["name or number"],
  participant_name: ["name"],
  user: ["user name"],
  message_id: ["id in the properties"],
  correlation_id: ["id in the properties"],
  conversation: ["what its messages share, such as a trace id"],
  "header.": ["name of a header, then its value"],
  connection: ["ip:port -> ip:port"],
  channel: ["number"],
  redelivered: ["true or false", BOOLEANS],
  since: ["time, such as 2026-01-02T03:04"],
  until: ["time, such as 2026-01-02T03:04"],
  vhost: ["virtual host, the one chosen above"],
};
export const HEADER = "header.";
const isHeader = (name) => name.startsWith(HEADER) && name !== HEADER;
export const isKnown = (name) => isHeader(name) || (name !== HEADER && Object.hasOwn(FIELDS, name));
/** All values of a field that has only a few. */
export const valuesOf = (name) => FIELDS[name]?.[1];

const TIMES = ["since", "until"];

const isFilter = (name) => name === "q" || (isKnown(name) && name !== "vhost");

/** The parameters of the address that are filters of the box; the virtual host has its own. */
export const filterNames = (params) => Object.keys(params).filter((name) => isFilter(name) && params[name]);

// A name with `:` or `=`, and behind it, or alone, something in quotes or a word.
const TOKEN = /(?=\S)(?:(header\."(?:\\.|[^"\\])*"|[a-z_][\w.-]*)[:=])?(?:"((?:\\.|[^"\\])*)"(?!\S)|(\S*))/gi;

const quote = (text) => `"${text.replace(/["\\]/g, "\\$&")}"`;
const unquote = (text) => text.replace(/\\(["\\])/g, "$1");
const word = (value) => (/^[^\s"]\S*$/.test(value) ? value : quote(value));

/** `{from, to, written, name, value, quoted}` of each part; without a field `written` is undefined. */
export function tokensOf(text) {
  return [...text.matchAll(TOKEN)].map((match) => {
    const [whole, written, quoted, bare] = match;
    const inside = written && /^header\."(.*)"$/is.exec(written)?.[1];
    const name = inside === undefined ? written : HEADER + unquote(inside);
    const value = quoted === undefined ? bare : unquote(quoted);
    return { whole, written, name, value, quoted, from: match.index, to: match.index + whole.length };
  });
}

/** A field and its value, or as much of it as is given, the way it is written. */
export function write(name, value) {
  const inner = name.slice(HEADER.length);
  const field = isHeader(name) && !/^[\w.-]+$/.test(inner) ? HEADER + quote(inner) : name;
  return `${field}:${value === undefined ? "" : word(value)}`;
}

/**
 * `{filters}` as parameters of the address, or `{problem}`: `{says, from, to, better}`, where `better`
 * are texts that could stand from `from` to `to` instead.
 */
export function parse(text) {
  const filters = {};
  const words = [];
  for (const token of tokensOf(text)) {
    const problem = problemOf(token, filters);
    if (problem) return { problem: { ...token, ...problem } };
    if (token.written) filters[fieldOf(token)] = token.value;
    else words.push(token.value);
  }
  if (words.length) filters.q = words.join(" ");
  return { filters };
}

const fieldOf = ({ name, value }) => (name === "participant" ? participantField(value) : name);

function problemOf({ whole, written, name, value, quoted }, filters) {
  if (!written) return null;
  if (!isKnown(name)) {
    const better = nearest(name).map((one) => (one === HEADER ? one : write(one, value)));
    return { says: `There is no field “${name}”.`, better: [...better, quote(whole)] };
  }
  if (fieldOf({ name, value }) in filters) return { says: `${name} is given twice.`, better: [] };
  if (value === "") return { says: `${name} needs a value.`, better: [] };
  if (quoted === undefined && value.startsWith('"')) {
    return { says: "The closing quote is missing.", better: [write(name, value.slice(1))] };
  }
  const known = valuesOf(name);
  if (known && !known.includes(value)) {
    const better = close(value, known).map((one) => write(name, one));
    return { says: `${name} is ${known.join(", ").replace(/, (?=\w+$)/, " or ")}.`, better };
  }
  if (TIMES.includes(name) && Number.isNaN(Date.parse(toUtc(value)))) {
    return { says: `${name} is a time, such as 12:30 or 2026-01-02T12:30.`, better: [] };
  }
  if (FIELDS[name]?.[0] === "number" && !/^\d+$/.test(value)) {
    return { says: `${name} is a number.`, better: [] };
  }
  return null;
}

/** The filters of the address as text. `parse` makes the same of it. */
export function print(params) {
  const names = filterNames(params).filter((name) => name !== "q");
  const place = (name) => Object.keys(FIELDS).indexOf(isHeader(name) ? HEADER : name);
  names.sort((a, b) => place(a) - place(b) || (a < b ? -1 : 1));
  const parts = names.map((name) => write(name, params[name]));
  if (params.q) parts.push(parse(params.q).filters?.q === params.q ? params.q : quote(params.q));
  return parts.join(" ");
}

const simple = (name) => name.toLowerCase().replace(/[^a-z0-9]/g, "");

/** The fields that an unknown name may mean, the likeliest first. */
function nearest(name) {
  const [head, ...rest] = name.split(".");
  if (rest.join("") && distance(simple(head), "header") < 3) return [HEADER + rest.join(".")];
  return close(name, Object.keys(FIELDS));
}

function close(name, known) {
  const meant = simple(name);
  const far = (one) => distance(meant, simple(one)) - (simple(one).startsWith(meant) ? 99 : 0);
  const enough = Math.max(1, Math.min(3, meant.length >> 1));
  return known.filter((one) => far(one) <= enough).sort((a, b) => far(a) - far(b)).slice(0, 2);
}

/** The number of letters to insert, drop or replace that turn one text into the other. */
function distance(one, other) {
  let row = [...Array(other.length + 1).keys()];
  for (let i = 1; i <= one.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= other.length; j += 1) {
      const replaced = row[j - 1] + (one[i - 1] === other[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j] + 1, next[j - 1] + 1));
    }
    row = next;
  }
  return row.at(-1);
}

/** The filters in the URL, as the API expects them. */
export function filtersOf(params) {
  const filters = Object.fromEntries(filterNames(params).map((name) => [name, params[name]]));
  for (const name of TIMES) if (filters[name]) filters[name] = toUtc(filters[name]);
  const regex = params.regex === "on" ? true : undefined;
  return { vhost: params.vhost, ...filters, use_regex: regex };
}

/** A time as people write it, local unless it has a zone; anything else stays as it is. */
function toUtc(text) {
  const today = new Date().toLocaleDateString("sv-SE");
  const date = new Date(/^\d{1,2}:/.test(text) ? `${today}T${text.padStart(5, "0")}` : text);
  return Number.isNaN(date.getTime()) ? text : date.toISOString();
}
