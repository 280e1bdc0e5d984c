// The three clocks of an event: Lamport, vector and interval tree clock.
import { html } from "../../core/html.js";
import { count, visible } from "../../core/format.js";
import { CopyButton } from "../copy.js";
import { Expert } from "../fold.js";
import { ItcDrawing } from "./itc-drawing.js";

export function Clocks({ event }) {
  const { clocks } = event;
  if (!clocks) return null;
  return html`<section class="section"><${Expert} what="clocks and codes">
    <div class="clock-row"><span>Lamport</span><strong>${count(clocks.lamport)}</strong></div>
    <div class="clock-row"><span>Vector</span><${Vector} event=${event} vector=${clocks.vector} /></div>
    <div class="clock-row"><span>ITC</span>
      <div>
        <div class="notation" tabindex="0" role="region" aria-label="Stamp in the paper's notation">${clocks.itc.text}</div>
        <${ItcDrawing} id=${clocks.itc.id} event=${clocks.itc.event} />
        <div class="drawer-line itc-code">
          <span class="small soft cut" title=${clocks.itc.code}>bit code <code>${clocks.itc.code}</code></span>
          <${CopyButton} text=${() => clocks.itc.code} label="Copy" title="Copy the paper's bit code as hex" />
        </div>
      </div>
    </div>
  <//></section>`;
}

function Vector({ event, vector }) {
  const most = Math.max(1, ...vector.map((entry) => entry.events));
  return html`<ul class="vector" tabindex="0" aria-label="Events of each participant in this event's past">
    ${vector.map(
      ({ participant, name, events }) => html`<li key=${participant}
        class=${participant === event.participant ? "own" : ""}>
        <bdi class="cut" title=${visible(name)}>${visible(name)}</bdi>
        <span class="bar"><i style=${{ width: `${(100 * events) / most}%` }}></i></span>
        <span class="end">${count(events)}</span>
      </li>`,
    )}
  </ul>`;
}
