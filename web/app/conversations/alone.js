// Messages that carry no key and name no cause: each is a conversation by itself. Alike ones are one row.
import { html } from "../core/html.js";
import { count, exchangeName, plural, visible } from "../core/format.js";
import { patch } from "../core/route.js";
import { Alert } from "../ui/panel.js";
import { ProposalLine, useProposal } from "../ui/proposal.js";
import { clausesOf } from "./words.js";

const FEWEST = 3; // are folded

/** True of one message that nothing ties to another. */
export const isAlone = ({ keys, counts: { messages }, truncated }) => keys.length === 0 && messages === 1 && !truncated;

/** The exchange that a message was sent to, and a routing key that its type does not say. */
export const addressOf = ({ type, first: { exchange, routing_key: key } }) =>
  `${exchangeName(exchange)}${[key, `${exchange}/${key}`].includes(type) ? "" : ` · ${visible(key)}`}`;

/** The way of a message: who published it, the queues where it went, and what became of it there. */
export function wayOf({ first: { publisher, queues }, sentence }, short) {
  const fates = clausesOf(sentence).filter((part) => /^\d/.test(part)).map((part) => part.replace(/^1 /, ""));
  const way = `${publisher == null ? "publish not seen" : short(publisher)} → ${queues.join(", ") || "no queue"}`;
  return [way, ...fates].join("; ");
}

/** Conversations with alike ones as one, `{...the newest, alike}`: of one kind, from one service, to the same queues, with one end. */
export function foldedOf(items, short) {
  const kindOf = (one) => (isAlone(one) ? JSON.stringify([one.vhost, one.type, one.state, addressOf(one), wayOf(one, short)]) : one.root);
  return [...Map.groupBy(items, kindOf).values()].flatMap((alike) => (alike.length < FEWEST ? alike : [{ ...alike[0], alike }]));
}

/** Says once why most rows are one message, and what would tie them together. */
export function KeyNotice({ items, via, onChange }) {
  const alone = items.filter(isAlone);
  const vhosts = new Set(alone.map(({ vhost }) => vhost));
  const isMost = alone.length >= FEWEST && 2 * alone.length > items.length;
  const { proposal, reload } = useProposal(isMost && vhosts.size === 1 ? alone[0].vhost : null, null);
  if (!isMost) return null;
  const changed = (adopted) => {
    reload();
    if (adopted?.rules.some(({ kind }) => kind === "conversation")) patch({ via: "conversation" }, { replace: true });
    onChange();
  };
  const lead = html`<strong>${alone.length === items.length ? "These messages" : `${count(alone.length)} of ${plural(items.length, "row")}`} carry no key, so each stands alone.</strong>`;
  if (proposal) return html`<${ProposalLine} vhost=${alone[0].vhost} proposal=${proposal} lead=${lead} onChange=${changed} />`;
  return html`<${Alert} tone="calm">${lead} To see orders, have each message name what led to it: its <code>message_id</code>, in a header
    ${" "}<code>causation_id</code>.${via !== "conversation" && html` Or give all messages of an order its number as their <code>correlation_id</code>, and follow <em>Conversation</em>.`}<//>`;
}
