// The strip below the header: the two pinned events and how they relate; while only one is pinned, it and the open one.
import { html } from "../core/html.js";
import { reasonOf } from "../core/format.js";
import { api } from "../core/api.js";
import { useResource } from "../core/resource.js";
import { attempt } from "../core/notices.js";
import { href, openEvent, patch, pinnedA, pinnedB, view } from "../core/route.js";
import { Icon } from "../ui/icons.js";
import { about, Pin, TypeMark } from "../ui/marks.js";
import { verdictWord } from "../ui/relation.js";

export function Pins() {
  const [a, b] = [pinnedA.value, pinnedB.value];
  if (view.value === "chain" || (!a && !b)) return html`<div hidden></div>`;
  const other = [a, b].includes(openEvent.value) || (a && b) ? null : openEvent.value;
  const ends = [a ?? other, b ?? other];
  return html`<div class="pins" role="region" aria-label="Pinned events">
    <${Slot} letter="A" id=${a} other=${other} />
    ${ends[0] && ends[1] && html`<${Between} a=${ends[0]} b=${ends[1]} />`}
    <${Slot} letter="B" id=${b} other=${other} />
    <div class="pins-tools">
      ${a && b && html`<button class="button small" title="All events between the two, as JSON, one a line"
          onClick=${() => attempt(async () => (await import("../core/chain-file.js")).default(a, b))}><${Icon} name="download" />Save the chain</button>
        <a class="button small" href=${href("chain")}>Compare and chain</a>`}
      <button class="button small quiet" onClick=${() => patch({ a: null, b: null })}>Clear</button>
    </div>
  </div>`;
}

/** `other`: the open event, which stands where nothing is pinned. */
function Slot({ letter, id, other }) {
  const name = letter.toLowerCase();
  if (!id && other) {
    return html`<div class="pins-slot"><span class="soft small">the open</span> #${other} <${Summary} id=${other} key=${other} /></div>`;
  }
  if (!id) {
    return html`<div class="pins-slot soft"><${Pin} letter=${letter} />
      <span class="small">open an event and <span class="on-phone">pin it as ${letter}</span><span class="off-phone">press <kbd>${letter}</kbd></span></span></div>`;
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
  if (error) return html`<span class="small soft">${reasonOf(error)}</span>`;
  if (!data) return null;
  return html`<${TypeMark} type=${data.type} label=${false} />
    <span class="small soft cut">${about(data)}</span>`;
}

function Between({ a, b }) {
  const { data, error } = useResource((s) => api.compare(a, b, s), [a, b], { every: 0 });
  if (error) return html`<span class="small soft">${reasonOf(error)}</span>`;
  return html`<span class="pins-relation">${data ? verdictWord(data) : "…"}</span>`;
}
