// Kinds of failure: their words and looks.
import { html } from "../core/html.js";
import { href } from "../core/route.js";
import { Value } from "./marks.js";

/** By the API's word: tone, name, meaning. */
export const KINDS = {
  died: ["bad", "Died", "The broker dead-lettered or dropped it"],
  error_queue: ["bad", "Error queue", "A consumer gave up and sent it to an error queue"],
  unroutable: ["warn", "Unroutable", "No queue was bound for it"],
  came_back: ["warn", "Came back", "It was handed over again three times or more"],
  overdue: ["warn", "Not in time", "It did not lead in time to what an assertion says, or was not acknowledged in time"],
  gone: ["warn", "Gone", "It is not in its queue any more, and nobody was handed it"],
};

const REASONS = { rejected: "rejected", expired: "expired", maxlen: "queue full", delivery_limit: "delivery limit", queue_deleted: "queue deleted", not_there: "purged, expired, pushed out, or refused" };

export const reasonWord = (reason) => REASONS[reason] ?? reason;

/** A failure's kind; an overdue one is a link to its assertion. */
export function KindMark({ kind, reason, vhost }) {
  const [tone, word, meaning] = KINDS[kind] ?? ["", kind.replaceAll("_", " ")];
  const said = reason && html`<${Value}>${reasonWord(reason)}<//>`;
  return html`<span class="badge ${tone}" title=${meaning}><span class="dot"></span>${word}</span>${" "}
    ${kind === "overdue"
      ? html`<span class="soft">for assertion</span> <a href=${href("learn", { vhost, view: "assertions", assertion: reason })} title="Open its assertion">${said}</a>`
      : said && html`<span class="soft">${said}</span>`}`;
}
