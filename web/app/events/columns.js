// The columns of the events table: the service's fields, and how the page draws some of them.
import { html } from "../core/html.js";
import { api, askFields } from "../core/api.js";
import { bytes, count, dateTime, exchangeName, isToday, recent, visible } from "../core/format.js";
import { columnWidths, eventColumns } from "../core/preferences.js";
import { typeOf } from "../core/message-type.js";
import { useResource } from "../core/resource.js";
import { href } from "../core/route.js";
import { user } from "../core/session.js";
import { marked } from "../ui/marked.js";
import { isOdd, MatchMark, Queue, TypeMark } from "../ui/marks.js";

const list = (values) => (values ?? []).map((value) => visible(value)).join(", ");

// In the table's order; any other field comes behind, drawn by its kind.
// width: in rem; with grow, the least width, and the column gets a share of the rest
// wider: another width, and when the oldest row needs it
// room: what else the rows need, in rem, given the newest row and whether there are gaps
// needs: fields of the API besides its own name; usual: whether it is shown by default, where the page knows better
const LAYOUT = {
  id: { width: 5.6, fixed: true, number: false, room: idRoom },
  recorded_at: { width: 7.6, wider: [10.6, (e) => !isToday(e.recorded_at)], tabular: true, cell: (e) => recent(e.recorded_at), title: (e) => `${dateTime(e.recorded_at)}, stored ${e.recorded_at}` },
  vhost: { width: 7 },
  type: { width: 8, needs: ["match"], cell: (e) => html`<${TypeMark} type=${e.type} label=${!isOdd(e.match)} />${isOdd(e.match) && html` <${MatchMark} match=${e.match} />`}` },
  message_type: { width: 9, grow: true, text: (e) => ofProperties(e, () => typeOf(e)), needs: ["properties", "exchange", "routing_keys"] },
  key: { width: 6.5, grow: true, text: (e) => ofProperties(e, ({ correlation_id: id }) => id ?? "–"), needs: ["properties"] },
  participant_name: { width: 8, grow: true, label: "Who", text: (e, { short }) => visible(short(e.participant_name)), title: (e) => visible(e.participant_name) },
  match: { width: 7.5, usual: false, cell: (e) => html`<${MatchMark} match=${e.match} />` },
  exchange: { width: 8, grow: true, usual: false, text: (e) => exchangeName(e.exchange) },
  routing_keys: { width: 9, grow: true, usual: false },
  queue: { width: 7, grow: true, text: queueText, needs: ["routed_queues"] },
  user: { width: 6.5, usual: false },
  participant: { width: 6 },
  seq: { width: 5 },
  lamport: { width: 5.5, usual: false },
  cause: { width: 5.5, usual: false, cell: (e) => (e.cause ? `#${e.cause}` : "–") },
  payload_bytes: { width: 5, cell: (e) => bytes(e.payload_bytes) },
  connection: { width: 17 },
  channel: { width: 5 },
  node: { width: 9 },
  payload: { width: 16, grow: true, text: payloadText, needs: ["payload_encoding"] },
  stamp: { width: 18, grow: true },
};

// Columns that the page derives from other fields.
const MADE = [
  { name: "message_type", label: "Message type", meaning: "What kind of message it is, as it says itself; else its exchange and routing key.", kind: "text", usual: true },
  { name: "key", label: "Key", meaning: "What the messages of one order share: their correlation id.", kind: "text", usual: true },
];
const isMade = (name) => MADE.some((one) => one.name === name);

// Told by other columns, or in the event's drawer.
const ELSEWHERE = ["routed_queues", "redelivered", "properties", "payload_encoding", "payload_truncated"];

const PLACES = Object.keys(LAYOUT);
const place = ({ name }) => (name in LAYOUT ? PLACES.indexOf(name) : PLACES.length);

const KEY = `itc.fields ${import.meta.url}`; // those of one version
let known = JSON.parse(sessionStorage.getItem(KEY));
/** The fields of an event, where they are known: from before, if the page is only loaded again. */
export const knownFields = () => known;

if (!known) askFields(); // nor do they wait for the table

async function load(signal) {
  known = await api.fields(signal);
  sessionStorage.setItem(KEY, JSON.stringify(known));
  return known;
}

/** The fields of an event, `{data, error, reload}`: asked once for as long as the page is open. */
export const useFields = () => useResource(async (signal) => known ?? load(signal), [], { every: 0 });

/** The columns that these fields can be shown in. */
export function columnsOf(fields) {
  return [...fields, ...MADE]
    .filter(({ name }) => !ELSEWHERE.includes(name))
    .map((field) => ({ width: 9, number: field.kind === "number", ...field, ...LAYOUT[field.name] }))
    .sort((a, b) => place(a) - place(b));
}

/** A text that `read` takes from the properties, which are null if the user may not read them. */
const ofProperties = ({ properties }, read) => (properties === null ? "(withheld)" : visible(read(properties ?? {})));

function queueText(event) {
  if (event.type === "received") return visible(event.queue ?? "");
  const routed = event.routed_queues ?? [];
  return routed.length ? `→ ${list(routed)}` : "→ unroutable";
}

/** The same, each name leading to its queue's page; called, as a cell is. */
function queueLinks(event, words) {
  const { type, vhost, queue, routed_queues: routed } = event;
  const names = (type === "received" ? [queue] : routed ?? []).filter(Boolean);
  if (!names.length) return queueText(event);
  const link = (name) => Queue({ vhost, name, children: marked(visible(name), words), title: null, still: true });
  return [type !== "received" && "→ ", ...names.flatMap((name, i) => [i > 0 && ", ", link(name)])];
}

const conversationLink = ({ id, vhost }, text, words) =>
  html`<a class="value" href=${href("conversations", { vhost, event: String(id) })} tabindex="-1">${marked(text, words)}</a>`;

function payloadText(event) {
  if (event.payload_encoding === "withheld") return "(withheld)";
  if (event.payload == null) return "–";
  return event.payload_encoding === "base64" ? "(binary)" : visible(event.payload.slice(0, 300));
}

const usual = (columns) => columns.filter((column) => column.usual).map(({ name }) => name);

/** The chosen ones of these columns, in the chosen order; by default with the virtual host if several can be in the table. */
export function chosenOf(columns, vhost) {
  const names = new Set(eventColumns.value ?? usual(columns));
  const several = (user.value?.vhosts.length ?? 0) > 1;
  if (!vhost && several && !eventColumns.value) names.add("vhost");
  const shown = columns.filter((column) => column.fixed || names.has(column.name));
  if (!eventColumns.value) return shown;
  const order = (column) => (column.fixed ? -1 : eventColumns.value.indexOf(column.name));
  return shown.sort((a, b) => order(a) - order(b));
}

/** Moves a column of those shown by a number of places. */
export function moveColumn(shown, name, by) {
  const names = shown.filter((column) => !column.fixed).map((column) => column.name);
  const from = names.indexOf(name);
  const to = Math.min(names.length - 1, Math.max(0, from + by));
  names.splice(to, 0, ...names.splice(from, 1));
  eventColumns.value = names;
}

const NARROWEST = 3; // rem
const WIDEST = 60;

/** Draws a column to a width in rem; null gives it its own again. */
export function resizeColumn(name, width) {
  const { [name]: _, ...rest } = columnWidths.peek();
  columnWidths.value = width === null ? rest : { ...rest, [name]: Math.min(WIDEST, Math.max(NARROWEST, width)) };
}

export function toggleColumn(columns, name, shown) {
  const names = new Set(eventColumns.peek() ?? usual(columns)); // a new one stands last
  if (shown) names.add(name);
  else names.delete(name);
  eventColumns.value = [...names];
}

export function resetColumns() {
  eventColumns.value = null;
  columnWidths.value = {};
}

/** The fields to ask the API for: only those of these columns. */
export function requestFor(columns) {
  const fields = new Set(["id", "vhost", "type", "quiet", "recorded_at"]);
  for (const { name, needs = [] } of columns) [...(isMade(name) ? [] : [name]), ...needs].forEach((f) => fields.add(f));
  return {
    columns: ["id", ...[...fields].filter((name) => name !== "id").sort()].join(","), // so that another order of columns asks for the same
    payload: fields.has("payload") ? undefined : "none",
  };
}

/** The width of a column in rem, given the rows and what is marked in them. */
export function widthOf({ name, width, wider, room }, rows, marked) {
  if (columnWidths.value[name]) return columnWidths.value[name];
  const oldest = rows.at(-1);
  if (room && oldest) return Math.max(width, room(rows[0], marked));
  return wider && oldest && wider[1](oldest) ? wider[0] : width;
}

/** A number with its sign, and the marks beside it: a mark that is cut off says nothing. */
function idRoom({ id }, { gaps }) {
  return 4.7 + 0.55 * (String(id).length + 1) + (gaps ? 2.2 : 0);
}

function textOf({ name, kind, text, cell }, event, among) {
  if (text) return text(event, among);
  if (cell || kind === "number") return undefined;
  const value = event[name];
  return Array.isArray(value) ? list(value) : visible(String(value ?? "–"));
}

/** A row's sort key in a column. */
export function sortValue(column, event) {
  const value = event[column.name];
  if (typeof value === "number") return value;
  return (textOf(column, event, { short: (name) => name }) ?? String(value ?? "")).toLowerCase();
}

/** Fields that a search's text is looked for in; a filter named like a field looks in that field. */
const SEARCHED = new Set(["exchange", "queue", "routing_keys", "payload"]);
const FILTER_OF = { routing_keys: "routing_key" };

function wordsFor({ name }, found) {
  const own = found[FILTER_OF[name] ?? name];
  return [own, SEARCHED.has(name) && found.q].filter((word) => typeof word === "string");
}

/** `found`: the filters in force; `short`: of a participant's name the short one. */
export function Cell({ column, event, found, short }) {
  const text = textOf(column, event, { short });
  const words = wordsFor(column, found);
  const content = (column.name === "queue" ? queueLinks(event, words) : column.name === "key" && event.properties?.correlation_id != null ? conversationLink(event, text, words) : text === undefined ? undefined : marked(text, words)) ?? column.cell?.(event) ?? count(event[column.name]);
  const title = column.title?.(event) ?? text;
  const kind = column.number ? "number" : column.tabular ? "tabular" : "";
  return html`<td class=${`of-${column.name} ${kind}`} title=${title}>${content}</td>`;
}
