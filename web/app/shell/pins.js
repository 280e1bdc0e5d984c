// The strip below the header: the two pinned events and how they relate.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { useResource } from "../core/resource.js";
import { href, patch, pinnedA, pinnedB, view } from "../core/route.js";
import { Icon } from "../ui/icons.js";
import { about, Pin, TypeMark } from "../ui/marks.js";
import { relationWord } from "../ui/relation.js";

export function Pins() {
  const a = pinnedA.value;
  const b = pinnedB.value;
  if (view.value === "chain" || (!a && !b)) return html`<div hidden></div>`;
  return html`<div class="pins" role="region" aria-label="Pinned events">
    <${Slot} letter="A" id=${a} />
    ${a && b && html`<${Between} a=${a} b=${b} />`}
    <${Slot} letter="B" id=${b} />
    <div class="pins-tools">
      ${a && b && html`<a class="button small" href=${href("chain")}>Compare and chain</a>`}
      <button class="button small quiet" onClick=${() => patch({ a: null, b: null })}>Clear</button>
    </div>
  </div>`;
}

function Slot({ letter, id }) {
  const name = letter.toLowerCase();
  if (!id) {
    return html`<div class="pins-slot soft"><${Pin} letter=${letter} />
      <span class="small">open an event and press <kbd>${letter}</kbd></span></div>`;
  }
  return html`<div class="pins-slot"><${Pin} letter=${letter} />
    <a href=${href("events", { event: id })}>#${id}</a>
    <${Summary} id=${id} key=${id} />
    <button class="button quiet icon small" aria-label=${`Unpin ${letter}`}
      onClick=${() => patch({ [name]: null })}><${Icon} name="close" /></button>
  </div>`;
}

function Summary({ id }) {
  const { data, error } = useResource((signal) => api.event(id, signal), [id], { every: 0 });
  if (error) return html`<span class="small soft">${error.reason}</span>`;
  if (!data) return null;
  return html`<${TypeMark} type=${data.type} label=${false} />
    <span class="small soft cut">${about(data)}</span>`;
}

function Between({ a, b }) {
  const { data, error } = useResource((s) => api.compare(a, b, s), [a, b], { every: 0 });
  if (error) return html`<span class="small soft">${error.reason}</span>`;
  return html`<span class="pins-relation">${data ? relationWord(data) : "…"}</span>`;
}
