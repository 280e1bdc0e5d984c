// Finds conversations by an order number, an id, or a text.
import { api } from "./api.js";
import { participantField } from "./format.js";

const FIELDS = new Set([
  "message_id",
  "correlation_id",
  "conversation",
  "type",
  "participant",
  "participant_name",
  "outcome",
  "state",
  "min_seconds",
  "max_seconds",
  "since",
  "until",
]);
const TOKEN = /(?:^|\s)(header\.[\w.:-]+|[a-z_]+):(?:"([^"]*)"|(\S+))/g;
// Fields that a plain word is looked up in. Each has an index; a text is a search.
const IDS = ["conversation", "correlation_id", "message_id"];
const TEXT = "q";

/** `{fields, rest}`: `message_id:m-1 state:failed lamp` names two fields, and a text remains. */
function readSearch(text) {
  const fields = {};
  const rest = text.replace(TOKEN, (whole, name, quoted, bare) => {
    if (!FIELDS.has(name) && !name.startsWith("header.")) return whole;
    const value = quoted ?? bare;
    fields[name === "participant" ? participantField(value) : name] = value;
    return " ";
  });
  return { fields, rest: rest.replace(/\s+/g, " ").trim() };
}

/** The number of an event, where the text is one such as `#17`. */
export const eventIn = (text) => /^\s*#(\d+)\s*$/.exec(text)?.[1] ?? null;

/**
 * As the API lists them, with `by`: what of a message the text was found to be, null where it only names
 * fields. Older ones of the same list are found by the same.
 */
export async function findConversations(text, filters, signal, by) {
  const { fields, rest } = readSearch(text);
  const list = async (name) => {
    const asked = { ...filters, ...fields, ...(name && { [name]: rest }) };
    return { ...(await api.conversations(asked, signal)), by: name };
  };
  if (!rest || by) return list(rest ? by : null);
  for (const name of IDS) {
    const found = await list(name);
    if (found.items.length) return found;
  }
  return list(TEXT);
}

/** The event to open of a conversation that a text led to: the message's that it names, or else the root. */
export async function eventNamed(text, { items: [{ root }], by }, filters) {
  const { fields, rest } = readSearch(text);
  const id = fields.message_id ?? (by === "message_id" ? rest : null);
  if (!id) return String(root);
  const [named] = await api.events({ ...filters, message_id: id, sort: "id", page_size: 1, columns: "id", payload: "none" });
  return String(named?.id ?? root);
}
