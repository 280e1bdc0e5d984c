// The two pinned events side by side, between them how they are related, and by which way.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { count, dateTime, plural, reasonOf, sentence, visible } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { hrefHere, patch } from "../core/route.js";
import { Icon } from "../ui/icons.js";
import { about, ACTS, Pin, stepText, TypeMark, Value } from "../ui/marks.js";
import { shortOf } from "../ui/names.js";
import { Panel } from "../ui/panel.js";
import { verdictWord } from "../ui/relation.js";

export const useEvent = (id) => useResource(async (signal) => (id ? api.event(id, signal) : null), [id], { every: 0 });

/** `events`: each as `useEvent` loads it. */
export function Pair({ a, b, answer, events: [one, other] }) {
  const short = shortOf([one, other].flatMap(({ data }) => data?.participant_name ?? []));
  return html`<div class="pair">
    <${Slot} letter="A" id=${a} loaded=${one} short=${short} />
    <div class="pair-middle" aria-live="polite">
      ${answer &&
      html`<${RelationSign} relation=${answer.relation} />
        <p class="pair-word">${verdictWord(answer)}</p>`}
      ${(a || b) &&
      html`<button class="button small" onClick=${() => patch({ a: b, b: a, job: null })}>
        <${Icon} name="swap" />Swap</button>`}
    </div>
    <${Slot} letter="B" id=${b} loaded=${other} short=${short} />
    ${answer && html`<p class="pair-sentence soft">${sentence(answer.sentence)}</p>`}
  </div>`;
}

function Slot({ letter, id, loaded, short }) {
  const name = letter.toLowerCase();
  const submit = (event) => {
    event.preventDefault();
    const number = event.currentTarget.elements.id.value.replace(/\D/g, "");
    patch({ [name]: number || null, job: null });
  };
  return html`<section class="pair-slot" aria-label=${`Event ${letter}`}>
    <form class="pair-slot-head" onSubmit=${submit}>
      <${Pin} letter=${letter} />
      <input class="input" name="id" inputmode="numeric" autocomplete="off" key=${id}
        placeholder="Event number" aria-label=${`Number of event ${letter}`} value=${id ? `#${id}` : ""}
        onChange=${(e) => e.currentTarget.form.requestSubmit()} />
      ${id &&
      html`<span class="tools">
        <a class="button small" href=${hrefHere({ event: id })}>Open</a>
        <button type="button" class="button quiet icon small" aria-label=${`Unpin ${letter}`}
          onClick=${() => patch({ [name]: null, job: null })}><${Icon} name="close" /></button>
      </span>`}
    </form>
    ${id ? html`<${Summary} id=${id} loaded=${loaded} short=${short} />` : html`<p class="soft">Nothing is pinned here.</p>`}
  </section>`;
}

function Summary({ id, loaded: { data, error }, short }) {
  if (error) return html`<p class="soft">${error.status === 404 ? `There is no event #${id}.` : reasonOf(error)}</p>`;
  if (!data) return html`<p class="soft">Loading …</p>`;
  return html`<div class="drawer-line"><${TypeMark} type=${data.type} /><bdi class="cut">${about(data)}</bdi></div>
    <p class="soft small">${dateTime(data.recorded_at)} · <span title=${visible(data.participant_name)}><${Value}>${short(data.participant_name)}<//></span> ·
      Lamport ${data.lamport}</p>`;
}

/** The relation as a small space-time sketch. */
function RelationSign({ relation }) {
  const arrow = { before: "M24 8L96 28", after: "M96 8L24 28" }[relation];
  const [left, right] = { before: [8, 28], after: [28, 8] }[relation] ?? [18, 18];
  return html`<svg width="120" height="36" viewBox="0 0 120 36" fill="none" stroke="currentColor"
    stroke-width="1.75" aria-hidden="true">
    <path d="M24 2v32M96 2v32" stroke-opacity=".35" />
    ${arrow && html`<path d=${arrow} />`}
    ${relation === "equal" && html`<path d="M24 18h72" stroke-dasharray="3 3" />`}
    <circle cx="24" cy=${left} r="5" fill="var(--pin-a)" stroke="none" />
    <circle cx="96" cy=${right} r="5" fill="var(--pin-b)" stroke="none" />
  </svg>`;
}

const MOST_STEPS = 200;

/** The shortest way by which the one caused the other: messages, links, and the broker's acts. */
export function Way({ path, events }) {
  const counted = Map.groupBy(path, ({ how }) => (how in ACTS ? "act" : how));
  const parts = [["message"], ["link"], ["act", "act of the broker", "acts of the broker"]]
    .map(([kind, ...words]) => [counted.get(kind)?.length ?? 0, ...(words.length ? words : [kind])])
    .filter(([n]) => n > 0)
    .map((part) => plural(...part));
  const by = new Map(events.map((event) => [event.id, event]));
  const short = shortOf(events.map((event) => event.participant_name));
  const of = (id) => html`<${Event} id=${id} event=${by.get(id)} short=${short} />`;
  return html`<${Panel} title="Through" note=${`a shortest way: ${parts.join(", ")}`}
    foot=${path.length > MOST_STEPS && `The first ${count(MOST_STEPS)} of ${count(path.length)} steps are shown.`}>
    <ol class="way">
      <li>${of(path[0].cause)}</li>
      ${path.slice(0, MOST_STEPS).map(
        ({ effect, how, rule, kind }) => html`<li key=${effect}>
          <i class="key ${how === "message" ? "" : "link"}"></i>
          <span class="small soft">${how === "link" ? html`${kind} <${Value}>${rule}<//>` : stepText({ how })}</span>${" "}
          <i class="key ${how === "message" ? "" : "link"}"></i>
          ${of(effect)}
        </li>`,
      )}
    </ol>
  <//>`;
}

/** An event by its number, with who acted where that is loaded. */
const Event = ({ id, event, short }) => html`<a class="tabular" href=${hrefHere({ event: String(id) })}>#${id}</a>${event &&
  html` <span class="small"><${Value}>${short(event.participant_name)}<//></span>`}`;
