// What an event names as its cause, and what names it, by rule.
import { html } from "../../core/html.js";
import { count } from "../../core/format.js";
import { hrefHere } from "../../core/route.js";
import { Value } from "../marks.js";

export function Links({ event: { links, named_by: naming } }) {
  if (!links.length && !naming.links.length) return null;
  return html`<section class="section">
    <h3>Links</h3>
    <dl class="facts">
      <${ByRule} title="Names as its cause" links=${links} end="cause" />
      <${ByRule} title="Is named by" links=${naming.links} end="effect" />
    </dl>
    ${naming.truncated && html`<p class="small soft">The first ${count(naming.links.length)} that name it are shown.</p>`}
  </section>`;
}

/** `end`: which end of the links is the other event. */
function ByRule({ title, links, end }) {
  if (!links.length) return null;
  const rules = new Map();
  for (const link of links) {
    if (!rules.has(link.rule)) rules.set(link.rule, { kind: link.kind, ids: [] });
    rules.get(link.rule).ids.push(link[end]);
  }
  return html`<dt>${title}</dt><dd>${[...rules].map(
    ([rule, { kind, ids }]) => html`<div class="link-rule" key=${rule}>
      ${ids.map((id) => html`<a class="tabular" key=${id} href=${hrefHere({ event: String(id) })}>#${id}</a> `)}
      <span class="small soft">${kind} <${Value}>${rule}<//></span>
    </div>`,
  )}</dd>`;
}
