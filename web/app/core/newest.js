// The newest events of a virtual host, page by page.
import { api } from "./api.js";

const PAGE = 500;

/** At most `most` of them, newest first; `filters` as of the API, with the `columns` that are asked for. */
export async function newestEvents(vhost, most, filters, signal) {
  const events = [];
  let before;
  while (events.length < most) {
    const page = await api.events({ vhost, payload: "none", ...filters, before, page_size: Math.min(PAGE, most - events.length) }, signal);
    events.push(...page);
    if (page.length < PAGE) break;
    before = page.at(-1).id;
  }
  return events;
}
