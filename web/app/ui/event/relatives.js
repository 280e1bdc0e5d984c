// The causal past and future of an event, nearest first: evident and possible ones.
import { useState } from "../../../vendor/hooks.js";
import { html } from "../../core/html.js";
import { api } from "../../core/api.js";
import { count, plural, sentence, time, visible } from "../../core/format.js";
import { useResource } from "../../core/resource.js";
import { hrefEvent, isConversation, patch, route } from "../../core/route.js";
import { Footnotes } from "../caveats.js";
import { about, TypeMark } from "../marks.js";
import { Choice, pending } from "../panel.js";

const COUNTED = 100; // more would be a search, which waits its turn
const STEPS = [8, COUNTED, 1000];
const COLUMNS = "id,type,exchange,queue,routing_keys,participant_name,recorded_at";
const WAYS = [
  ["links", "Links", "By messages, links to what they name as their cause, and what the broker did"],
  ["conversation", "Conversation", "By these, and by what a participant did later in a conversation"],
  ["any", "All possible", "All that may have had a part, of which most may be coincidence"],
];
const SIDES = {
  causes: {
    title: "Causes",
    none: "Nothing observed happened before it.",
    did: (n) => `${n} caused this`,
    may: (n) => `${n} may have had a part`,
  },
  effects: {
    title: "Effects",
    none: "Nothing observed happened after it yet.",
    did: (n) => `it caused ${n}`,
    may: (n) => `it may have had a part in ${n}`,
  },
};

/** By links unless the address says otherwise: most of the rest is mere coincidence. */
export function Relatives({ event, side }) {
  const [step, setStep] = useState(0);
  const links = useWalk(event, side, "links", COUNTED);
  const any = useWalk(event, side, "any", COUNTED);
  // In a conversation's address, `via` belongs to the conversation.
  const name = isConversation(route.value) ? "relatives" : "via";
  const via = route.value.params[name] ?? "links";
  const further = via === "conversation" || STEPS[step] > COUNTED;
  const walk = useWalk(event, side, further ? via : null, Math.max(COUNTED, STEPS[step]));
  const loaded = further ? walk : via === "any" ? any : links;
  const { data } = loaded;
  const { title, none } = SIDES[side];
  const begun = useBegun(event, side === "causes" && links.data?.items.length === 0);
  const evident = new Set(links.data?.items.map(({ id }) => id));
  const more = data && (data.truncated || data.items.length > STEPS[step]);
  return html`<section class="section">
    <h3>${title}
      <${Choice} label="${title} by" options=${WAYS} value=${via} small
        onChange=${(value) => patch({ [name]: value }, { replace: true })} /></h3>
    ${any.data?.items.length > 0 && links.data &&
    html`<p class="small soft bounds">${sentence(bounds(side, links.data, any.data, evident, begun))}</p>`}
    ${!data
      ? pending(loaded, title.toLowerCase())
      : html`<${List} items=${data.items.slice(0, STEPS[step])} evident=${via === "links" ? null : evident}
          none=${any.data?.items.length ? null : none} />`}
    ${more &&
    (step + 1 < STEPS.length
      ? html`<button class="button small quiet flush-start" onClick=${() => setStep(step + 1)}>Show more</button>`
      : html`<p class="small soft">Only the nearest ${STEPS[step]} are shown.</p>`)}
    ${data && html`<${Footnotes} answer=${data} />`}
  </section>`;
}

function useWalk({ id }, side, via, limit) {
  const load = (signal) =>
    via && api.relatives(id, side, { via, limit, columns: COLUMNS, payload: "none" }, signal);
  return useResource(load, [id, side, via, limit], { every: 0 });
}

/** The key of the conversation that this publish begins; null of any other event. */
function useBegun({ id, type }, isAsked) {
  const ask = isAsked && type === "published";
  const { data } = useResource(async (signal) => (ask ? api.conversation(id, { via: "conversation", limit: 1 }, signal) : null), [id, ask], { every: 0 });
  return data?.root === id && !data.other_roots.length ? data.keys[0] : null;
}

/** Counts of the evident ones, and of more that are possible. */
function bounds(side, links, any, evident, begun) {
  const { did, may } = SIDES[side];
  const others = any.items.filter(({ id }) => !evident.has(id)).length;
  if (!evident.size) return `none is certain${begun ? `: this starts ${visible(begun)}` : ""}; ${may(amount(others, any))}`;
  const messages = links.items.filter(({ type }) => type === "published").length;
  const all = links.truncated ? `${amount(evident.size, links)} events` : plural(evident.size, "event");
  const caused = did(messages > 0 && messages < evident.size && !links.truncated ? `${all} (${plural(messages, "message")})` : all);
  if (any.truncated) return `${caused}; ${may(links.truncated ? "others" : `${amount(any.items.length, any)} in all`)}`;
  if (others) return `${caused}; ${may(`${count(others)} more`)}`;
  return caused;
}

const amount = (n, { truncated }) => count(n) + (truncated ? " or more" : "");

/** `evident`: the ids of those that are marked as caused. */
export function List({ items, evident, none }) {
  if (!items.length) return none && html`<p class="soft">${none}</p>`;
  return html`<ul class="relatives">
    ${items.map(
      (event) => html`<li key=${event.id}>
        <a class="relative" href=${hrefEvent(event.id)}>
          <span class="number">#${event.id}</span>
          <${TypeMark} type=${event.type} label=${false} />
          <bdi class="cut">${about(event)}</bdi>
          <span class="faint small">${evident?.has(event.id) && html`<span class="badge good">certain</span> `}${time(event.recorded_at)}</span>
        </a>
      </li>`,
    )}
  </ul>`;
}
