// The columns of the events table, described once: header, cells and request all follow from this.
import { html } from "../core/html.js";
import { bytes, count, dateTime, exchangeName, isToday, recent, visible } from "../core/format.js";
import { eventColumns } from "../core/preferences.js";
import { user } from "../core/session.js";
import { MatchMark, TypeMark } from "../ui/marks.js";

const list = (values) => (values ?? []).map((value) => visible(value)).join(", ");
const number = { number: true };

// width: in rem; with grow, the least width, and the column gets a share of what is left
// wider: another width, and when the oldest row needs it
// needs: fields of the API besides its own name
export const COLUMNS = [
  { name: "id", label: "Event", width: 5.6, fixed: true },
  { name: "recorded_at", label: "Time", width: 7.6, wider: [10.6, (e) => !isToday(e.recorded_at)], tabular: true, cell: (e) => recent(e.recorded_at), title: (e) => `${dateTime(e.recorded_at)}, stored ${e.recorded_at}` },
  { name: "vhost", label: "Virtual host", width: 7, text: (e) => visible(e.vhost) },
  { name: "type", label: "Type", width: 7, cell: (e) => html`<${TypeMark} type=${e.type} />` },
  { name: "exchange", label: "Exchange", width: 8, grow: true, text: (e) => exchangeName(e.exchange) },
  { name: "routing_keys", label: "Routing keys", width: 9, grow: true, text: (e) => list(e.routing_keys) },
  { name: "queue", label: "Queue", width: 8, grow: true, text: queueText, needs: ["routed_queues"] },
  { name: "user", label: "User", width: 6.5, text: (e) => visible(e.user) },
  { name: "participant", label: "Participant", width: 6, ...number },
  { name: "seq", label: "Seq", width: 5, ...number },
  { name: "lamport", label: "Lamport", width: 5.5, ...number },
  { name: "cause", label: "Cause", width: 5.5, ...number, cell: (e) => (e.cause ? `#${e.cause}` : "–") },
  { name: "match", label: "Match", width: 7.5, cell: (e) => html`<${MatchMark} match=${e.match} />` },
  { name: "payload_bytes", label: "Size", width: 5, ...number, cell: (e) => bytes(e.payload_bytes) },
  { name: "connection", label: "Connection", width: 17, text: (e) => visible(e.connection) },
  { name: "channel", label: "Channel", width: 5, ...number },
  { name: "node", label: "Node", width: 9, text: (e) => visible(e.node) },
  { name: "payload", label: "Payload", width: 16, grow: true, text: payloadText, needs: ["payload_encoding"] },
  { name: "stamp", label: "Stamp", width: 18, grow: true, text: (e) => e.stamp },
];

const DEFAULT = [
  "id", "recorded_at", "type", "exchange", "routing_keys", "queue", "user", "participant",
  "lamport", "cause", "match", "payload_bytes",
];

function queueText(event) {
  if (event.type === "received") return visible(event.queue ?? "");
  const routed = event.routed_queues ?? [];
  return routed.length ? `→ ${list(routed)}` : "→ unroutable";
}

function payloadText(event) {
  if (event.payload == null) return "–";
  return event.payload_encoding === "base64" ? "(binary)" : visible(event.payload.slice(0, 300));
}

/** The chosen columns; by default with the virtual host if several can be in the table. */
export function chosenColumns(vhost) {
  const names = new Set(eventColumns.value ?? DEFAULT);
  const several = (user.value?.vhosts.length ?? 0) > 1;
  if (!vhost && several && !eventColumns.value) names.add("vhost");
  return COLUMNS.filter((column) => column.fixed || names.has(column.name));
}

export function toggleColumn(name, shown) {
  const names = new Set(eventColumns.peek() ?? DEFAULT);
  if (shown) names.add(name);
  else names.delete(name);
  eventColumns.value = [...names];
}

export const resetColumns = () => (eventColumns.value = null);

/** What to ask the API for: only the fields of these columns. */
export function requestFor(columns) {
  const fields = new Set(["id", "vhost", "type"]);
  for (const { name, needs = [] } of columns) [name, ...needs].forEach((f) => fields.add(f));
  return {
    columns: [...fields].join(","),
    payload: fields.has("payload") ? undefined : "none",
  };
}

/** The width of a column in rem, given the oldest of the rows. */
export function widthOf({ width, wider }, oldest) {
  return wider && oldest && wider[1](oldest) ? wider[0] : width;
}

export function Cell({ column, event }) {
  const text = column.text?.(event);
  const content = text ?? column.cell?.(event) ?? count(event[column.name]);
  const title = column.title?.(event) ?? text;
  const kind = column.number ? "number" : column.tabular ? "tabular" : "";
  return html`<td class=${kind} title=${title}>${content}</td>`;
}
