// What the diagram shows, as a table: for those who do not see it and those who want the words.
import { html } from "../core/html.js";
import { hrefHere } from "../core/route.js";
import { MatchMark, TypeMark } from "../ui/marks.js";
import { FUTURE, PAST, SELF, CHAIN } from "./causality.js";

export const MOST_LISTED = 200;
const WORDS = { 0: "concurrent", [PAST]: "past", [SELF]: "chosen", [FUTURE]: "future", [CHAIN]: "in the chain" };

export function SightList({ scene, indexes }) {
  const { model, marks, chainLit } = scene;
  const word = (i) => (!marks ? "–" : chainLit && !marks[i] ? "outside" : WORDS[marks[i]]);
  return html`<div class="sight-list" tabindex="0" role="region" aria-label="Events in sight">
    <table class="list">
      <thead><tr><th>Event</th><th class="number">Lamport</th><th class="number">Participant</th><th>Type</th>
        <th>What</th><th class="number">Cause</th><th>Match</th><th>Relation</th></tr></thead>
      <tbody>${indexes.map((i) => {
        const event = model.describe(i);
        return html`<tr key=${event.id}>
          <td><a href=${hrefHere({ event: String(event.id) })}>#${event.id}</a></td>
          <td class="number">${event.lamport}</td>
          <td class="number">${event.participant}</td>
          <td><${TypeMark} type=${event.type} /></td>
          <td class="name cut"><bdi>${event.text}</bdi></td>
          <td class="number">${event.cause ? `#${event.cause}` : "–"}</td>
          <td><${MatchMark} match=${event.match} /></td>
          <td>${word(i)}</td>
        </tr>`;
      })}</tbody>
    </table>
  </div>`;
}
