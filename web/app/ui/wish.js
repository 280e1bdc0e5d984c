// Choices at a trace's first start: who counts as a participant, what is taken and kept.
import { useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";

const POLICIES = [
  ["client", "A program: user and place, and its own name where several share a place."],
  ["host", "A user at a place: all programs there act as one."],
  ["user", "A user, wherever it connects from."],
  ["connection", "A connection: only if each consumes and publishes on the same one."],
  ["channel", "A channel: only if each consumes and publishes on the same one."],
];

/** Fields that change `wish`, which the API takes as it is. */
export function WishFields({ wish }) {
  const [, setChanged] = useState(0);
  const set = (changes) => (Object.assign(wish, changes), setChanged((n) => n + 1));
  const text = (name, label, example, read = patternsOf) => html`<label class="field"><span>${label}</span>
    <input class="input" placeholder=${example} spellcheck=${false} onInput=${(e) => set({ [name]: read(e.currentTarget.value) })} /></label>`;
  return html`<label class="check"><input type="checkbox" checked=${wish.bodies !== false}
      onChange=${(e) => set({ bodies: e.currentTarget.checked ? undefined : false })} />Store messages’ bodies, and read them for links</label>
    ${text("queues", "Only these queues (all by default)", "work work.*.retry")}
    ${text("exchanges", "Only these exchanges (all by default)", 'orders billing.#, or "" for the default one')}
    ${text("quiet", "Quiet traffic, which joins no clocks", "queue:audit.*; Celery’s control traffic by default", wordsOf)}
    <label class="field"><span>What counts as a participant</span>
      <select class="select" value=${wish.participant} onChange=${(e) => set({ participant: e.currentTarget.value })}>
        ${POLICIES.map(([value]) => html`<option key=${value}>${value}</option>`)}
      </select></label>
    <p class="soft small">${POLICIES.find(([value]) => value === wish.participant)[1]}</p>`;
}

function wordsOf(text) {
  const found = text.trim().split(/\s+/).filter(Boolean);
  return found.length ? found : undefined;
}

/** Names and patterns between spaces; `""` is the default exchange. */
const patternsOf = (text) => wordsOf(text)?.map((each) => (each === '""' ? "" : each));
