// The line below the diagram: how much is in sight, and what the marks mean.
import { html } from "../core/html.js";
import { count } from "../core/format.js";
import { TypeMark } from "../ui/marks.js";
import { MOST_EVENTS } from "./loader.js";

function Missing({ scene, loader }) {
  const load = async () => {
    for (const id of scene.missing) await loader.reach(id, MOST_EVENTS);
  };
  const names = scene.missing.map((id) => `#${id}`).join(" and ");
  return html` · <button class="button small" disabled=${loader.busy} onClick=${load}>
    ${loader.busy ? "Loading …" : `Load as far as ${names} to light the chain`}</button>`;
}

export function Foot({ scene, loader, drawn }) {
  const { model, marks } = scene;
  if (!model.length) return html`<div class="rows-foot"><span>${loader.busy ? "Loading …" : ""}</span></div>`;
  return html`<div class="rows-foot">
    <span>${count(drawn.events)} of ${count(model.length)} loaded events in sight, #${model.id[0]} to #${model.id[model.length - 1]}
      ${drawn.far ? " · seen from afar: come closer for messages" : ""}
      ${scene.missing.length > 0 && html`<${Missing} scene=${scene} loader=${loader} />`}</span>
    <span class="diagram-legend">
      <span><${TypeMark} type="published" /></span><span><${TypeMark} type="received" /></span>
      ${scene.chainLit && html`<span><i class="key chain"></i>chain from A to B</span><span class="faint">dimmed: outside</span>`}
      ${scene.chainLit ? null : marks
        ? html`<span><i class="key past"></i>past</span><span><i class="key future"></i>future</span><span class="faint">dimmed: concurrent</span>`
        : html`<span class="faint">choose an event to light its past and future</span>`}
    </span>
  </div>`;
}
