// The small signs used everywhere: type and match of an event, states, pins. None of them relies on
// colour alone.
import { html } from "../core/html.js";
import { dateTime, exchangeName, visible } from "../core/format.js";
import { hrefQueue } from "../core/route.js";
import { serviceIn } from "./names.js";

/** Published is a full dot, received a ring: the same shapes as in the space-time diagram. */
export function TypeMark({ type, label = true }) {
  const ring = type === "received";
  return html`<span class="type ${type}">
    <svg class="mark" viewBox="0 0 10 10" aria-hidden="true">
      <circle cx="5" cy="5" r=${ring ? 3.5 : 4.5} fill=${ring ? "none" : "currentColor"}
        stroke=${ring ? "currentColor" : "none"} stroke-width="2" />
    </svg>
    <span class=${label ? "" : "unseen"}>${type}</span>
  </span>`;
}

const MATCHES = {
  none: ["", "–"],
  routed: ["", "routed"],
  redelivered: ["warn", "redelivered"],
  dead_lettered: ["bad", "dead-lettered"],
  unmatched: ["warn", "unmatched"],
  untraced: ["", "untraced"],
};

/** The broker's own links: how a delivery came of the event among its `links`, by `kind`. */
export const ACTS = { returned: "back in its queue", rejected: "rejected", overflow: "pushed out of its queue" };

/** A step from one event to the next, in words; a link by its rule, if it has one. */
export const stepText = ({ how, kind, rule }) =>
  ACTS[how] ?? ACTS[kind] ?? ([kind, rule].filter(Boolean).join(" ") || how);

/** True if a match is out of the ordinary. */
export const isOdd = (match) => Boolean(MATCHES[match]?.[0]);

export function MatchMark({ match }) {
  const [tone, word] = MATCHES[match] ?? ["", match];
  if (tone === "") return html`<span class="soft">${word}</span>`;
  return html`<span class="badge ${tone}">${word}</span>`;
}

const SETTLEMENTS = {
  in_hand: ["warn", "in hand", "Its consumer has not settled it yet"],
  acknowledged: ["good", "acknowledged"],
  rejected: ["bad", "rejected"],
  returned: ["warn", "given back"],
  channel_closed: ["warn", "channel closed", "Its consumer's channel closed with it in hand, and it is in its queue again"],
  auto: ["", "taken without acknowledgement", "Settled as it was handed over, as its consumer had asked for"],
};

export const settlementWord = (settlement) => SETTLEMENTS[settlement]?.[1] ?? settlement;

/** A delivery's settlement by its consumer; `at` is its time. */
export function SettlementMark({ settlement, at }) {
  const [tone, word, meaning] = SETTLEMENTS[settlement] ?? ["", "unknown", "Nothing told what its consumer made of it"];
  const title = meaning ?? (at ? `At ${dateTime(at)}` : undefined);
  return html`<span class=${tone ? `badge ${tone}` : "soft"} title=${title}>${word}</span>`;
}

const STATES = {
  running: "good",
  succeeded: "good",
  starting: "calm",
  stopping: "calm",
  stopped: "calm",
  queued: "calm",
  cancelled: "calm",
  waiting: "warn",
  failed: "bad",
  handed_over: "good",
  dead_lettered: "bad",
  gone: "bad",
};

/** `stale`: the answer is old, so nothing is called well. */
export function StateMark({ state, stale = false, children }) {
  const tone = STATES[state] ?? "calm";
  return html`<span class="badge ${state} ${stale && tone === "good" ? "calm" : tone}">
    <span class="dot"></span>${children ?? state.replaceAll("_", " ")}${stale && "?"}
  </span>`;
}

export function Pin({ letter }) {
  return html`<span class="pin ${letter.toLowerCase()}">${letter}</span>`;
}

const LONG = 20; // longer text may be cut, so its title has all of it

/** A name or text from the broker, shown as text whatever is in it. */
export function Value({ children, cut = false }) {
  const text = visible(children ?? "–");
  const title = text.length > LONG ? text : undefined;
  return html`<bdi class=${cut ? "value cut" : "value"} title=${title}>${text}</bdi>`;
}

/** A queue's name, which leads to its page; `still`: Tab passes it by, because its row has a stop of its own. */
export function Queue({ vhost, name, children = visible(name), title = "The queue's page", still = false }) {
  return html`<a class="queue" href=${hrefQueue(vhost, name)} title=${title} tabindex=${still ? -1 : undefined}><bdi class="value">${children}</bdi></a>`;
}

/** `shop → order.new` of a publish, `order.new → billing` of a delivery: what an event was about, in one line. */
export function about({ participant_name: who, exchange, routing_keys: keys, queue }) {
  const what = (keys ?? []).map((key) => visible(key)).join(", ") || exchangeName(exchange ?? "");
  if (queue != null) return `${what} → ${visible(queue)}`;
  return who == null ? what : `${visible(serviceIn(who))} → ${what}`;
}
