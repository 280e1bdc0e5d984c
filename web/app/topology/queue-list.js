// The map on a narrow window: a row for each queue, in the order of the drawing.
import { html } from "../core/html.js";
import { compact, visible } from "../core/format.js";
import { hrefQueue } from "../core/route.js";
import { hrefNode, toneClass, wordsOf } from "./node.js";

const MOST_NAMED = 3; // at each side of a queue

/** `map`: what `FlowMap` was given, and `short`. */
export function QueueList({ drawing: { columns, links, deaths }, map }) {
  const queueLink = (key) => html`<a href=${hrefQueue(map.vhost, key)}><bdi>${visible(key)}</bdi></a>`;
  /** Participants at the other `end` of the links of a queue, the busiest first. */
  const sideOf = (column, own, end, { key }) => {
    const there = links[Math.min(column, 1)].filter((link) => link[own] === key).sort((a, b) => b.count - a.count)
      .map((link) => columns[column].find((node) => node.key === link[end]));
    return there.map((node) => {
      const { name } = wordsOf(node, column, map);
      return node.rest ? name : html`<a href=${hrefNode(node, column, map)}><bdi>${name}</bdi></a>`;
    });
  };
  const listed = (all) => html`${all.slice(0, MOST_NAMED).map((one, i) => html`${i > 0 && ", "}${one}`)}${all.length > MOST_NAMED && ` and ${all.length - MOST_NAMED} more`}`;
  return html`<ul class="flow-list" aria-label="Queues">
    ${columns[1].map((queue) => {
      const { name, notes, flow } = wordsOf(queue, 1, map);
      const from = [...sideOf(0, "to", "from", queue), ...deaths.filter(({ to }) => to === queue.key).map((death) => html`dead letters of ${queueLink(death.from)}`)];
      const to = sideOf(2, "from", "to", queue);
      const dead = deaths.filter((death) => death.from === queue.key);
      return html`<li key=${queue.key} class=${`${toneClass(queue, map.colour)} ${map.waiting.has(queue.key) ? "waits-here" : ""}`}>
        <p><b>${queue.rest ? name : queueLink(queue.key)}</b><span class="tabular soft">${flow}</span></p>
        ${notes && html`<p>${notes}</p>`}
        ${(from.length > 0 || to.length > 0) && html`<p class="small soft">${from.length ? listed(from) : "nobody seen"} → ${to.length ? listed(to) : "nobody seen"}</p>`}
        ${dead.map((death) => html`<p class="small bad-text" key=${death.key}>✕ ${compact(death.count)} to ${queueLink(death.to)}</p>`)}
      </li>`;
    })}
  </ul>`;
}
