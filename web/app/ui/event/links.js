// Links of an event by rule, to its causes and its effects, and the broker's own.
import { html } from "../../core/html.js";
import { count } from "../../core/format.js";
import { hrefEvent } from "../../core/route.js";
import { ACTS, Value } from "../marks.js";

export function Links({ event: { links, named_by: naming } }) {
  if (!links.length && !naming.links.length) return null;
  return html`<section class="section">
    <h3>Links</h3>
    <dl class="facts">
      <${ByRule} title="Names as its cause" links=${links.filter(isLink)} end="cause" />
      <${ByRule} title="Came of" links=${links.filter(isAct)} end="cause" />
      <${ByRule} title="Is named by" links=${naming.links.filter(isLink)} end="effect" />
      <${ByRule} title="Led to" links=${naming.links.filter(isAct)} end="effect" />
    </dl>
    ${naming.truncated && html`<p class="small soft">The first ${count(naming.links.length)} of these are shown.</p>`}
  </section>`;
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
