// A message's type, in its sender's words: the same as `model/message_types.py`, for
// events that come without it. A test holds the two together.
const HEADERS = ["cloudEvents:type", "cloudEvents_type", "ce-type"];
const LONGEST = 200;

const text = (value) => (typeof value === "string" && value ? value : null);

/** The type that an event's message names, in its properties or in its body if that is loaded; or null. */
export function saidType({ properties, payload }) {
  const { type, headers, content_type: contentType } = properties ?? {};
  const named = headers !== null && typeof headers === "object" ? headers : {};
  const enclosed = text(named["NServiceBus.EnclosedMessageTypes"]);
  const said =
    text(type) || text(named.task) || (enclosed && shortName(enclosed)) ||
    HEADERS.map((name) => text(named[name])).find(Boolean) || inBody(contentType, payload);
  return said ? cut(said) : null;
}

/** The name of an event's message type; without one, its exchange and routing key. */
export function typeOf(event) {
  const { exchange, routing_keys: keys } = event;
  return saidType(event) ?? cut(exchange ? `${exchange}/${keys?.[0] ?? ""}` : (keys?.[0] ?? ""));
}

const ENVELOPES = ["application/cloudevents+json", "application/vnd.masstransit+json"];
const envelopeOf = (contentType) => ENVELOPES.find((one) => text(contentType)?.startsWith(one));

/** True if the body names the type. */
export const saysInBody = (event) => Boolean(envelopeOf(event.properties?.content_type)) && !saidType(event);

function inBody(contentType, payload) {
  const envelope = envelopeOf(contentType);
  const ofClouds = envelope === ENVELOPES[0];
  if (!text(payload) || !envelope) return null;
  try {
    const body = JSON.parse(payload);
    if (ofClouds) return text(body?.type);
    const urn = Array.isArray(body?.messageType) && text(body.messageType[0]);
    return urn ? text(urn.replace(/^urn:message:/, "").split(":").at(-1)) : null;
  } catch {
    return null; // cut, or no JSON
  }
}

/** OrderPlaced for `Shop.Orders.OrderPlaced, Shop, Version=1.0.0.0, …; …`. */
function shortName(enclosed) {
  const full = enclosed.split(";")[0].split(",")[0].trim();
  const plain = full.includes("[") ? full.split("[")[0].replace(/[`0-9]+$/, "") : full;
  return text(plain.replaceAll("+", ".").split(".").at(-1));
}

function cut(name) {
  const letters = [...name];
  return letters.length <= LONGEST ? name : `${letters.slice(0, LONGEST - 1).join("")}…`;
}
