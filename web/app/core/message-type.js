// What kind of message it is, in the words of whoever sends it; `model/message_types.py` is the reference.
const shortName = (text) => text.split(";")[0].split(",")[0].trim().split(/[.+]/).at(-1);

const HEADERS = {
  task: (text) => text,
  "NServiceBus.EnclosedMessageTypes": shortName,
  "cloudEvents:type": (text) => text,
  cloudEvents_type: (text) => text,
};

/** The type that an event's properties name, or null. */
export function saidType({ properties }) {
  const headers = properties?.headers ?? {};
  if (properties?.type) return String(properties.type);
  for (const [name, read] of Object.entries(HEADERS)) {
    if (typeof headers[name] === "string" && headers[name]) return read(headers[name]);
  }
  return null;
}
