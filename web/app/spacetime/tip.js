// The tip at the pointer: an event, or the message or link that an arrow stands for.
import { html } from "../core/html.js";
import { dateTime, passed } from "../core/format.js";
import { ACTS, MatchMark, TypeMark } from "../ui/marks.js";

const TIP_WIDTH = 300;
const TIP_HEIGHT = 96;
const MAP_WIDTH = 84; // the minimap and a little room

export function Tip({ stage: { scene, model, hovered, types } }) {
  types.value;
  const under = hovered.value;
  const last = under?.arrow ? Math.max(under.arrow.from, under.arrow.to) : under?.index;
  if (!under || last >= model.length) return null;
  const { x, y } = under;
  const right = x > scene.view.width - TIP_WIDTH;
  const place = {
    top: `${Math.max(0, Math.min(y + 14, scene.view.height - TIP_HEIGHT))}px`,
    left: right ? undefined : `${x + 14}px`,
    right: right ? `${scene.view.width - x + MAP_WIDTH}px` : undefined,
  };
  return html`<div class="tip" style=${place} role="status">
    ${under.arrow ? html`<${ArrowTip} model=${model} ...${under.arrow} />` : html`<${EventTip} model=${model} index=${under.index} />`}
  </div>`;
}

function EventTip({ model, index }) {
  const event = model.describe(index);
  const type = event.type_name ?? typeOfCause(model, index);
  return html`<div class="drawer-line"><strong>#${event.id}</strong><${TypeMark} type=${event.type} />
      ${event.type === "received" && html`<${MatchMark} match=${event.match} />`}</div>
    ${type && html`<div class="cut strong"><bdi>${type}</bdi></div>`}
    <div class="cut"><bdi>${event.text}</bdi></div>
    <div class="soft small"><bdi>${event.who}</bdi> · ${dateTime(event.at / 1000)}</div>`;
}

const typeOfCause = (model, index) => model.types.get(model.id[model.cause[index]]) ?? null;

function ArrowTip({ model, from, to, named }) {
  const [cause, effect] = [model.describe(from), model.describe(to)];
  const step = named ? model.links.stepOf(from, to) : null;
  const type = (named ? effect.type_name : cause.type_name) ?? typeOfCause(model, to);
  const how = named ? ACTS[step?.kind] ?? html`link${step?.rule && html`, by <bdi>${step.rule}</bdi>`}` : html`<${MatchMark} match=${effect.match} />`;
  return html`<div class="drawer-line"><strong>#${cause.id} → #${effect.id}</strong>
      <strong>${passed((effect.at - cause.at) / 1e6)}</strong>${how}</div>
    ${type && html`<div class="cut strong"><bdi>${type}</bdi></div>`}
    <div class="cut"><bdi>${effect.text}</bdi></div>
    <div class="soft small"><bdi>${cause.who}</bdi> → <bdi>${effect.who}</bdi></div>`;
}
