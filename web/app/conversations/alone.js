// Messages that carry no key and name no cause: each is a conversation by itself. Alike ones are one row.
import { useRef } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { count, exchangeName, plural, visible } from "../core/format.js";
import { patch } from "../core/route.js";
import { FEWEST } from "../ui/alike.js";
import { Value } from "../ui/marks.js";
import { inShort } from "../ui/names.js";
import { Alert } from "../ui/panel.js";
import { isUnderWay, ProposalLine, useProposal } from "../ui/proposal.js";
import { factText } from "./words.js";

/** True of one message that nothing ties to another. */
export const isAlone = ({ keys, counts: { messages }, truncated }) => keys.length === 0 && messages === 1 && !truncated;

/** The exchange that a message was sent to, and a routing key that its type does not say. */
export const addressOf = ({ type, first: { exchange, routing_key: key } }) =>
  `${exchangeName(exchange)}${[key, `${exchange}/${key}`].includes(type) ? "" : ` · ${visible(key)}`}`;

/** The way of a message: who published it, the queues where it went, and what became of it there, or why nobody knows. */
export function wayOf({ first: { publisher, queues }, clauses: [, ...more], state, reason }, short) {
  const way = `${publisher == null ? "publish not seen" : short(publisher)} → ${queues.join(", ") || "no queue"}`;
  const fates = more.filter(({ number }) => number != null || state === "unknown").map((one) => inShort(one.number === 1 ? one.text : factText(one), one.names, short));
  return [way, ...fates, !more.length && state === "unknown" && reason].filter(Boolean).join("; ");
}

/** The kind of messages that stand alone, equal for alike ones: type, publisher, queues and end; of others their own event. */
export const kindOf = ({ root, vhost, type, state, first, clauses, reason, ...one }) => (!isAlone({ clauses, ...one }) ? root
  : JSON.stringify([vhost, type, state, first, reason, clauses.map(({ about, number, queues, names }) => [about, number, queues, [...names].sort()])]));

/** Says once why most rows are one message, and what would tie them together. */
export function KeyNotice({ items, via, onChange }) {
  const alone = items.filter(isAlone);
  const vhosts = new Set(alone.map(({ vhost }) => vhost));
  const isMost = alone.length >= FEWEST && 2 * alone.length > items.length;
  const vhost = isMost && vhosts.size === 1 ? alone[0].vhost : null;
  const latest = useRef(null); // the list may be read anew before it is heard that a job has ended
  latest.current = vhost ?? latest.current;
  const { proposal, reload } = useProposal(vhost, null);
  const isPending = isUnderWay(latest.current);
  if (!isMost && !isPending) return null;
  const changed = (adopted) => {
    reload();
    if (adopted?.rules.some(({ kind }) => kind === "conversation")) patch({ via: "conversation" }, { replace: true });
    onChange();
  };
  const isBare = vhost !== null && items.every((one) => one.vhost !== vhost || isAlone(one));
  const those = isBare ? html`These messages of <${Value}>${vhost}<//>` : alone.length === items.length ? "These messages" : `${count(alone.length)} of ${plural(items.length, "row")}`;
  const lead = html`<strong>${those} carry no key, so each stands alone.</strong>`;
  const remedy = html`To see orders, have each message name what led to it: its <code>message_id</code>, in a header <code>causation_id</code>.${via !== "conversation" &&
    html` Or give all messages of an order its number as their <code>correlation_id</code>, and follow <em>Conversation</em>.`}`;
  if (proposal || isPending) return html`<${ProposalLine} vhost=${latest.current} proposal=${proposal} lead=${lead} onChange=${changed} />`;
  return html`<${Alert} tone="calm">${lead} <span class="off-phone">${remedy}</span><details class="on-phone small"><summary>What to send</summary>${remedy}</details><//>`;
}
