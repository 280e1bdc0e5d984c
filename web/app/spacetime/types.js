// What kind of message it is, in the words of whoever sends it: as the service names types, from an event
// with its properties.
const HEADERS = [
  ["task", (text) => text],
  ["NServiceBus.EnclosedMessageTypes", (text) => shortName(text.split(";")[0].split(",")[0])],
  ["cloudEvents:type", (text) => text],
  ["cloudEvents_type", (text) => text],
];

const shortName = (text) => text.trim().split(/[.:+]/).at(-1);

/** The name of an event's message type; where none is said, its exchange and routing key. */
export function typeOf({ properties, exchange, routing_keys: keys, payload }) {
  const headers = properties?.headers ?? {};
  if (properties?.type) return String(properties.type);
  for (const [name, read] of HEADERS) if (typeof headers[name] === "string") return read(headers[name]);
  return typeInBody(payload) ?? [exchange, keys?.[0]].filter(Boolean).join("/");
}

/** MassTransit's and CloudEvents' envelopes name it in the body. */
function typeInBody(payload) {
  if (typeof payload !== "string" || !payload.startsWith("{")) return null;
  try {
    const body = JSON.parse(payload);
    if (Array.isArray(body.messageType)) return shortName(String(body.messageType[0]));
    return body.specversion && body.type ? String(body.type) : null;
  } catch {
    return null; // cut, or no JSON
  }
}
