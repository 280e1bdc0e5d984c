// The participants of a trace, last active first, page by page.
import { api } from "./api.js";
import { literal } from "./format.js";

const PAGE = 1000;

/** At most `most` participants of a virtual host; none if it was never traced. */
export async function loadParticipants(vhost, most, signal) {
  const found = [];
  let before;
  while (found.length < most) {
    const limit = Math.min(PAGE, most - found.length);
    const page = await onePage(vhost, before, limit, signal);
    found.push(...page);
    if (page.length < limit) break;
    before = page.at(-1).last_event_id;
  }
  return found;
}

async function onePage(vhost, before, limit, signal) {
  try {
    return await api.participants({ vhost, before, limit }, signal);
  } catch (error) {
    if (error.status === 404) return [];
    throw error;
  }
}

/**
 * The events of a service, as filters of the address. Its participants are named after it, as in
 * `stock (guest@10.0.0.7)`, or after its user where it has no name.
 */
export const filterOfService = (name) => ({ participant_name: `^${literal(name)}( \\(|@|$)`, regex: "on" });
