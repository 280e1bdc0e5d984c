// Words of the reports, and their looks.
import { html } from "../core/html.js";
import { href, hrefHere } from "../core/route.js";

const VERDICTS = {
  holds: ["good", "Holds"],
  violated: ["bad", "Violated"],
  unknown: ["warn", "Unknown"],
};

/** `stale`: the answer is old, so nothing is called well. */
export function Verdict({ word, stale = false }) {
  const [tone, text] = VERDICTS[word];
  const doubted = stale && tone === "good";
  return html`<span class="badge ${doubted ? "calm" : tone}"><span class="dot"></span>${text}${doubted && "?"}</span>`;
}

/** An assertion in words, without its name. */
export const saysOf = ({ name, ...rest }) =>
  Object.entries(rest).map(([key, value]) => `${key}: ${[value].flat().join(", ")}`).join(" · ");

const STATES = {
  appeared: ["warn", "Appeared"],
  vanished: ["warn", "Vanished"],
  changed: ["warn", "Changed"],
  same: ["", "Same"],
  unclear: ["", "Unclear"],
};

export function State({ word }) {
  const [tone, text] = STATES[word];
  return html`<span class="badge ${tone}"><span class="dot"></span>${text}</span>`;
}

const REASONS = {
  missing: (one) => `no ${one.other}`,
  unexpected: (one) => `an unexpected ${one.other}`,
  many: (one) => `too many ${one.other}`,
  order: (one) => `before its ${one.other}`,
  slow: (one) => `${one.other ?? "an effect"} came late`,
  waited: () => "waited long in its queue",
  failed: (one) => `failed: ${one.other}`,
  variant: () => "a rare way",
};

/** Why a conversation is out of the ordinary, in words. */
export const reasonWord = (one) => `${one.type}: ${REASONS[one.kind](one)}`;

export const share = (part) => (part == null ? "–" : part > 0.9995 && part < 1 ? ">99.9 %" : `${(part * 100).toFixed(part < 0.1 ? 2 : 1)} %`);

/** Links to the conversations of some events. */
export const Examples = ({ events, vhost, most = 3 }) => html`<span class="ids">${events.slice(0, most).map(
  (event) => html`<a key=${event} class="tabular" href=${href("conversations", { vhost, event: String(event) })}
    title="Open its conversation">#${event}</a> `)}</span>`;

export const Event = ({ id }) => html`<a class="tabular" href=${hrefHere({ event: String(id) })} title="Open the event">#${id}</a>`;
