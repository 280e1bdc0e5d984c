// The map on a narrow window: a row for each queue, in the order of the drawing.
import { html } from "../core/html.js";
import { compact } from "../core/format.js";
import { hrefNode, toneClass, wordsOf } from "./node.js";

const MOST_NAMED = 3; // at each side of a queue

/** `map`: what `FlowMap` was given, and `short`. */
export function QueueList({ drawing: { columns, links, deaths }, map }) {
  const linkOf = (column, key) => {
    const node = columns[column].find((one) => one.key === key);
    const { name } = wordsOf(node, column, map);
    return node.rest ? name : html`<a href=${hrefNode(node, column, map)}><bdi>${name}</bdi></a>`;
  };
  const busiest = (of, isOwn) => of.filter(isOwn).sort((a, b) => b.count - a.count);
  const listed = (all) => html`${all.slice(0, MOST_NAMED).map((one, i) => html`${i > 0 && ", "}${one}`)}${all.length > MOST_NAMED && ` and ${all.length - MOST_NAMED} more`}`;
  return html`<ul class="flow-list" aria-label="Queues">
    ${columns[1].map((queue) => {
      const { notes, flow } = wordsOf(queue, 1, map);
      const from = [...busiest(links[0], (link) => link.to === queue.key).map((link) => linkOf(0, link.from)),
        ...deaths.filter((death) => death.to === queue.key).map((death) => html`dead letters of ${linkOf(1, death.from)}`)];
      const to = busiest(links[1], (link) => link.from === queue.key).map((link) => linkOf(2, link.to));
      return html`<li key=${queue.key} class=${`${toneClass(queue, map.colour)} ${map.waiting.has(queue.key) ? "waits-here" : ""}`}>
        <p><b>${linkOf(1, queue.key)}</b><span class="tabular soft">${flow}</span></p>
        ${notes && html`<p>${notes}</p>`}
        ${(from.length > 0 || to.length > 0) && html`<p class="small soft">${from.length ? listed(from) : "nobody seen"} → ${to.length ? listed(to) : "nobody seen"}</p>`}
        ${deaths.filter((death) => death.from === queue.key).map((death) => html`<p class="small bad-text" key=${death.key}>✕ ${compact(death.count)} to ${linkOf(1, death.to)}</p>`)}
      </li>`;
    })}
  </ul>`;
}
