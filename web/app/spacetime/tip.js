import { html } from "../core/html.js";
import { dateTime } from "../core/format.js";
import { MatchMark, TypeMark } from "../ui/marks.js";

const WIDTH = 300;
const HEIGHT = 84;
const MAP_WIDTH = 84; // the minimap and a little room

/** What is under the pointer. */
export function Tip({ scene, hover }) {
  const event = scene.model.describe(hover.index);
  const right = hover.x > scene.view.width - WIDTH;
  const place = {
    top: `${Math.min(hover.y + 14, scene.view.height - HEIGHT)}px`,
    left: right ? undefined : `${hover.x + 14}px`,
    right: right ? `${scene.view.width - hover.x + MAP_WIDTH}px` : undefined,
  };
  return html`<div class="tip" style=${place} role="status">
    <div class="drawer-line"><strong>#${event.id}</strong><${TypeMark} type=${event.type} />
      ${event.type === "received" && html`<${MatchMark} match=${event.match} />`}</div>
    <div class="cut"><bdi>${event.text}</bdi></div>
    <div class="soft small">Lamport ${event.lamport} · participant ${event.participant} · ${dateTime(event.at / 1000)}</div>
  </div>`;
}
