// Assertions from recent messages: claims that nearly always held, or others made of known types.
import { useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { count, dateTime, moment, plural, reasonOf } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { useWork } from "../core/work.js";
import { Value } from "../ui/marks.js";
import { Menu } from "../ui/menu.js";
import { Alert, pending } from "../ui/panel.js";
import { claimOf, nameOf, neverSeen, seenOf } from "./seen.js";

const MOST = 12;
const TIME = /^\d+(ms|s|min|h|d)$/;
const KINDS = [
  ["leads_to", "leads to"],
  ["after", "comes after"],
  ["acknowledged_within", "is acknowledged"],
  ["causes_more_than", "causes at most"],
];

export const useSeen = (vhost) => useResource((signal) => seenOf(vhost, signal), [vhost], { every: 0 });

/** `held`: present assertions of the virtual host `name`; `onHold(assertions)` adds these. */
export const HoldMenu = ({ name, held, onHold }) => html`<${Menu} label="From what is seen" icon="plus" small>
  ${(close) => html`<${Hold} name=${name} held=${held} onHold=${async (chosen) => (await onHold(chosen), close())} />`}
<//>`;

function Hold({ name, held, onHold }) {
  const loaded = useSeen(name);
  const [chosen, setChosen] = useState(new Map()); // by what each claims
  const [own, setOwn] = useState([]);
  const { busy, error, run } = useWork();
  const { data } = loaded;
  if (!data) return pending(loaded, "what is seen");
  const known = new Set(held.map(claimOf));
  const news = data.proposals.filter((one) => !known.has(claimOf(one.assertion)));
  const choose = (assertion, yes) => {
    const next = new Map(chosen);
    if (yes) next.set(claimOf(assertion), assertion);
    else next.delete(claimOf(assertion));
    setChosen(next);
  };
  const add = (assertion) => {
    setOwn([...own.filter((one) => claimOf(one) !== claimOf(assertion)), assertion]);
    choose(assertion, true);
  };
  const hold = () => chosen.size && run(() => onHold([...chosen.values()]));
  const box = (assertion, note) => html`<li key=${claimOf(assertion)}><label class="check">
    <input type="checkbox" checked=${chosen.has(claimOf(assertion))} onChange=${(e) => choose(assertion, e.currentTarget.checked)} />
    <span><${Says} assertion=${assertion} /> <span class="soft small hold-note">${note}</span></span></label></li>`;
  return html`<p class="small soft">Of <${Value}>${name}<//>: what nearly always held among ${data.events ? `its newest ${plural(data.events, "event")}` : "its events"}${data.proposals.some(({ made }) => made) ? ", or in the newest report on them" : ""}. What was, need not be what should be.</p>
    ${news.length + own.length > 0
      ? html`<ul class="hold-list">
          ${news.slice(0, MOST).map(({ assertion, cases, held: times, made }) =>
            box(assertion, `so in ${count(times)} of ${count(cases)}${made ? ` in the report of ${dateTime(made)}` : ""}`))}
          ${own.map((assertion) => box(assertion, "your own"))}</ul>
        ${news.length > MOST && html`<p class="small soft">These are ${MOST} of ${count(news.length)}, the surest.</p>`}`
      : html`<p>${data.proposals.length ? "All of it is held." : "Nothing held often enough to propose it. Messages must name what led to them, or share a key."}</p>`}
    <details open=${news.length === 0}><summary>Another</summary><${Another} seen=${data} onAdd=${add} /></details>
    ${error && html`<${Alert}>${reasonOf(error)}<//>`}
    <button type="button" class="button main" disabled=${chosen.size === 0} aria-disabled=${String(busy)} onClick=${hold}>${busy ? "Setting …" : chosen.size === 1 ? "Hold this" : chosen.size ? `Hold these ${chosen.size}` : "Hold these"}</button>`;
}

/** An assertion as one reads it. */
function Says({ assertion: one }) {
  const name = (type) => html`<strong><${Value}>${type}<//></strong>`;
  if (one.leads_to !== undefined) return html`${name(one.every)} leads to ${name(one.leads_to)}${one.within && ` within ${one.within}`}`;
  if (one.after !== undefined) return html`${name(one.every)} comes after ${name(one.after)}`;
  if (one.acknowledged_within !== undefined) return html`${name(one.every)} is acknowledged within ${one.acknowledged_within}`;
  return html`${name(one.no)} causes at most ${one.causes_more_than}`;
}

function Another({ seen, onAdd }) {
  const [values, setValues] = useState({ kind: "leads_to", every: "", other: "", within: "30s", most: "100" });
  const [looked, setLooked] = useState({ every: "", other: "" }); // the types when they were left last
  const set = (changes) => setValues({ ...values, ...changes });
  const { kind, every, other, within, most } = values;
  const takesOther = kind === "leads_to" || kind === "after";
  const named = [every, takesOther && other].filter(Boolean);
  const unknown = neverSeen(named.filter((name) => Object.values(looked).includes(name)), seen.types);
  const takesTime = kind === "leads_to" || kind === "acknowledged_within";
  const isWhole = every && (!takesOther || other) && (!takesTime || TIME.test(within)) && (kind !== "causes_more_than" || most);
  const type = (label, field) => html`<label class="field"><span>${label}</span>
    <input class="input" list="types-seen" value=${values[field]} spellcheck=${false} autocomplete="off"
      onInput=${(e) => set({ [field]: e.currentTarget.value.trim() })}
      onChange=${(e) => setLooked({ ...looked, [field]: e.currentTarget.value.trim() })} /></label>`;
  const add = () => {
    const name = nameOf(`${every} ${kind} ${takesOther ? other : ""}`);
    onAdd({
      leads_to: { name, every, leads_to: other, within },
      after: { name, every, after: other },
      acknowledged_within: { name, every, acknowledged_within: within },
      causes_more_than: { name, no: every, causes_more_than: Number(most) },
    }[kind]);
  };
  return html`<div class="hold-another">
    <datalist id="types-seen">${seen.types.map((name) => html`<option key=${name} value=${name} />`)}</datalist>
    ${type("Every", "every")}
    <label class="field"><span>What holds</span><select class="select" value=${kind} onChange=${(e) => set({ kind: e.currentTarget.value })}>
      ${KINDS.map(([value, words]) => html`<option key=${value} value=${value} selected=${value === kind}>${words}</option>`)}</select></label>
    ${takesOther && type("Message type", "other")}
    ${takesTime && html`<label class="field"><span>Within</span>
      <input class="input" value=${within} placeholder="30s" aria-invalid=${String(!TIME.test(within))} spellcheck=${false} onInput=${(e) => set({ within: e.currentTarget.value.trim() })} /></label>`}
    ${kind === "causes_more_than" && html`<label class="field"><span>Messages</span>
      <input class="input" inputmode="numeric" value=${most} onInput=${(e) => set({ most: e.currentTarget.value.replace(/\D/g, "") })} /></label>`}
    <button type="button" class="button small" disabled=${!isWhole} onClick=${add}>Add</button>
    <${NeverSeen} names=${unknown} seen=${seen} />
  </div>`;
}

/** A warning about unseen message types. Below the button, since it appears when the focus leaves a field. */
export function NeverSeen({ names, seen: { events, since } }) {
  if (!names.length) return null;
  return html`<${Alert} tone="warn">Not among ${events ? `the newest ${plural(events, "event")}, since ${moment(since)}` : "the events, of which there are none yet"}: messages of ${names.length === 1 ? "the type" : "the types"} ${names.map((name, i) => html`${i > 0 && ", "}<strong><${Value}>${name}<//></strong>`)}.
    Look whether ${names.length === 1 ? "it is" : "they are"} spelt right.<//>`;
}
