// Every sign of the diagram and what it means, drawn as the painter draws it.
import { html } from "../core/html.js";
import { Value } from "../ui/marks.js";
import { serviceTone } from "./lanes.js";

const BOX = "0 0 28 16";

const Sign = ({ children }) =>
  html`<svg class="sign" viewBox=${BOX} fill="none" stroke-width="1.5" aria-hidden="true">${children}</svg>`;

const Ring = ({ tone = "var(--ink-soft)", dash, children }) =>
  html`<${Sign}><g stroke=${tone}><circle cx="14" cy="8" r="4.5" stroke-width="2" stroke-dasharray=${dash} />${children}</g><//>`;

const Line = ({ tone = "var(--ink-faint)", dash, width }) =>
  html`<${Sign}><g stroke=${tone}><path d="M2 13L25 4" stroke-dasharray=${dash} stroke-width=${width} /><path d="M19 3.5l6 .5l-4 4.5" /></g><//>`;

const Bar = ({ tone }) => html`<${Sign}><path d="M14 1v14" stroke=${tone} stroke-width="3" opacity=".6" /><//>`;

const Letter = ({ letter }) => html`<span class="pin ${letter.toLowerCase()}">${letter}</span>`;

const SIGNS = [
  ["Events", [
    [html`<${Sign}><circle cx="14" cy="8" r="4.5" fill="var(--ink-soft)" /><//>`, "publish, in the colour of its participant's name"],
    [html`<${Ring} />`, "delivery"],
    [html`<${Ring}><circle cx="14" cy="8" r="1.6" fill="var(--ink-soft)" /><//>`, "handed over again"],
    [html`<${Ring} tone="var(--bad)"><path d="M12 6l4 4M16 6l-4 4" /><//>`, "dead-lettered"],
    [html`<${Ring} tone="var(--bad)" dash="2 2" />`, "its publish was not observed"],
    [html`<${Sign}><circle cx="14" cy="8" r="6.5" stroke="var(--brand)" stroke-width="2" /><//>`, "the open event"],
    [html`<span><${Letter} letter="A" /> <${Letter} letter="B" /></span>`, "pinned, or the ends of the chain"],
  ]],
  ["Arrows", [
    [html`<${Line} />`, "message: from its publish to a delivery"],
    [html`<${Line} tone="var(--ink)" dash="5 4" />`, "link: the publish names this as its cause"],
    [html`<${Sign}><path d="M8 2L19 13" stroke="var(--ink-faint)" stroke-dasharray="3 3" /><//>`, "its cause is not among the events here"],
    [html`<${Line} tone="var(--warn)" dash="2 4" />`, "message that waits, towards a consumer of its queue"],
    [html`<${Line} tone="var(--link)" width="2" />`, "may have led to the open event"],
    [html`<${Line} tone="var(--good)" width="2" />`, "may have come of it"],
    [html`<${Line} tone="var(--pin-a)" width="2" />`, "chain or conversation"],
    [html`<${Bar} tone="var(--link)" />`, "a lane's own step, where it is lit"],
  ]],
  ["Around them", [
    [html`<${Sign}><rect x="1" y="4" width="26" height="8" fill="var(--warn)" opacity=".15" /><path d="M1 8h26" stroke="var(--warn)" stroke-dasharray="5 3" /><//>`, "gap: events may be missing here"],
    [html`<em class="faint">⋮</em>`, "a silence, shortened to its label"],
    [html`<span class="faint">12</span>`, "at the left: the time, or by cause the step"],
    [html`<${Sign}><rect x="6" y="2" width="16" height="12" stroke="var(--link)" stroke-width="2" /><//>`, "at the right: all that is loaded, and what is in view"],
  ]],
];

const MOST_SERVICES = 24;

export function Legend({ stage }) {
  const { lanes } = stage.drawn.value;
  const services = [...new Map(lanes.filter(({ name }) => name !== undefined).map(({ name, service }) => [name, service]))].slice(0, MOST_SERVICES);
  return html`<section class="signs" aria-label="Legend" tabindex="0">
    ${SIGNS.map(([title, signs]) => html`<div key=${title}><h3>${title}</h3>
      <ul>${signs.map(([sign, words]) => html`<li key=${words}><span class="sign-box">${sign}</span>${words}</li>`)}</ul></div>`)}
    ${services.length > 0 && html`<div><h3>Participants, by name</h3>
      <ul>${services.map(([name, service]) => html`<li key=${name}>
        <span class="sign-box"><i class="swatch" style=${{ "--tone": serviceTone(service) }}></i></span>
        <${Value}>${name}<//></li>`)}</ul></div>`}
    <p class="faint small">Dimmed: not highlighted. There are ten colours; names beside each other differ as far as possible.</p>
  </section>`;
}
