// The causal past and future of an event, nearest first, a few at a time.
import { useState } from "../../../vendor/hooks.js";
import { html } from "../../core/html.js";
import { api } from "../../core/api.js";
import { time } from "../../core/format.js";
import { useResource } from "../../core/resource.js";
import { hrefHere } from "../../core/route.js";
import { Footnotes } from "../caveats.js";
import { about, TypeMark } from "../marks.js";
import { pending } from "../panel.js";

const STEPS = [8, 50, 250, 1000];
const TITLES = {
  causes: ["Causes", "what may have led here", "Nothing observed happened before it."],
  effects: ["Effects", "what it may have led to", "Nothing observed happened after it yet."],
};

export function Relatives({ event, side }) {
  const [step, setStep] = useState(0);
  const limit = STEPS[step];
  const loaded = useResource((s) => api.relatives(event.id, side, limit, s), [event.id, side, limit], { every: 0 });
  const [title, note, none] = TITLES[side];
  const { data } = loaded;
  return html`<section class="section">
    <h3>${title} <span class="faint">${data?.items.length ? `${note}, nearest first` : ""}</span></h3>
    ${!data ? pending(loaded, title.toLowerCase()) : html`<${List} items=${data.items} none=${none} />`}
    ${data?.truncated &&
    (step + 1 < STEPS.length
      ? html`<button class="button small quiet flush-start" onClick=${() => setStep(step + 1)}>Show more</button>`
      : html`<p class="small soft">Only the nearest ${limit} are shown.</p>`)}
    ${data && html`<${Footnotes} answer=${data} />`}
  </section>`;
}

function List({ items, none }) {
  if (!items.length) return html`<p class="soft">${none}</p>`;
  return html`<ul class="relatives">
    ${items.map(
      (event) => html`<li key=${event.id}>
        <a class="relative" href=${hrefHere({ event: String(event.id) })}>
          <span class="number">#${event.id}</span>
          <${TypeMark} type=${event.type} label=${false} />
          <bdi class="cut">${about(event)}</bdi>
          <span class="faint small">${time(event.recorded_at)}</span>
        </a>
      </li>`,
    )}
  </ul>`;
}
