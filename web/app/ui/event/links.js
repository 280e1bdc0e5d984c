// Links of an event by rule, to its causes and its effects, and the broker's own.
import { html } from "../../core/html.js";
import { count, visible } from "../../core/format.js";
import { hrefEvent } from "../../core/route.js";
import { ACTS, Value } from "../marks.js";

export function Links({ event: { links, named_by: naming, crossing } }) {
  if (!links.length && !naming.links.length && !crossing) return null;
  return html`<section class="section">
    <h3>Links</h3>
    <dl class="facts">
      <${ByRule} title="Names as its cause" links=${links.filter(isLink)} end="cause" />
      <${ByRule} title="Came of" links=${links.filter(isAct)} end="cause" />
      <${ByRule} title="Is named by" links=${naming.links.filter(isLink)} end="effect" />
      <${ByRule} title="Led to" links=${naming.links.filter(isAct)} end="effect" />
      ${crossing && html`<dt>Other side</dt><dd><${Crossing} crossing=${crossing} to=${hrefEvent} /></dd>`}
    </dl>
    ${naming.truncated && html`<p class="small soft">The first ${count(naming.links.length)} of these are shown.</p>`}
  </section>`;
}

/** The other side of a shovel or a federation link; `to` makes the address of an event. */
export function Crossing({ crossing: { mover, elsewhere, certain }, to }) {
  if (!elsewhere.length) return html`<span class="soft">by ${visible(mover)}, not traced here</span>`;
  return html`${!certain && "perhaps "}${elsewhere.map(({ event, vhost }) => html`<a class="tabular" key=${event} href=${to(event)}>#${event}</a> in <${Value}>${vhost}<//> `)}
    <span class="small soft">by ${visible(mover)}</span>`;
}

const isAct = ({ kind }) => kind in ACTS;
const isLink = (link) => !isAct(link);

/** `end`: which end of the links is the other event. */
function ByRule({ title, links, end }) {
  if (!links.length) return null;
  const rules = new Map();
  for (const link of links) {
    const by = link.rule ?? link.kind;
    if (!rules.has(by)) rules.set(by, { ...link, ids: [] });
    rules.get(by).ids.push(link[end]);
  }
  return html`<dt>${title}</dt><dd>${[...rules].map(
    ([by, { kind, rule, ids }]) => html`<div class="link-rule" key=${by}>
      ${ids.map((id) => html`<a class="tabular" key=${id} href=${hrefEvent(id)}>#${id}</a> `)}
      <span class="small soft">${ACTS[kind] ?? html`${kind} <${Value}>${rule}<//>`}</span>
    </div>`,
  )}</dd>`;
}
