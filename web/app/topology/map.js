// The drawing: a node links to its events, and the wider a curve, the more messages it stands for.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { compact, exchangeName, seconds, visible } from "../core/format.js";
import { href } from "../core/route.js";
import { COLUMNS, flowing, waitsOf } from "./flows.js";
import { arrange } from "./layout.js";

const TITLES = ["Publishers", "Exchanges", "Queues", "Receivers"];
const LEAST_WIDTH = 720;

/** `period` ({since, until}), if the flows are of one, limits the linked events to it. */
export function FlowMap({ flows, vhost, by, period = {} }) {
  const box = useRef(null);
  const [width, setWidth] = useState(0);
  const [lit, setLit] = useState(null);
  useLayoutEffect(() => setWidth(Math.max(LEAST_WIDTH, box.current.clientWidth)), []);
  useEffect(() => {
    const watcher = new ResizeObserver(([entry]) => setWidth(Math.max(LEAST_WIDTH, entry.contentRect.width)));
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  const drawing = useMemo(() => width && arrange(flows, width), [flows, width]);

  return html`<div class="flow-scroll" tabindex="0" role="region" aria-label="Topology drawing; the tables below have the same numbers">
    <div class="flow-box" ref=${box}>
      ${drawing &&
      html`<div class="flow-titles" style=${{ width: `${width}px` }}>
          ${TITLES.map((title, n) => {
            const { x, width: w } = firstPlace(drawing, n);
            return html`<span key=${title} style=${{ left: `${x}px`, width: `${w}px` }}>${title}</span>`;
          })}
        </div>
        <div class="flow ${drawing.narrow ? "narrow" : ""}" style=${{ height: `${drawing.height}px`, width: `${width}px` }} onPointerLeave=${() => setLit(null)}>
          <${Links} drawing=${drawing} width=${width} lit=${lit} />
          ${drawing.columns.map((nodes, n) =>
            nodes.map((node) => html`<${Node} key=${`${n}\n${node.key}`} node=${node} column=${n}
              place=${drawing.place.get(`${n}\n${node.key}`)} flows=${flows} vhost=${vhost} by=${by} period=${period} onLit=${setLit} />`),
          )}
        </div>`}
    </div>
  </div>`;
}

function firstPlace({ columns, place }, n) {
  const node = columns[n][0];
  return node ? place.get(`${n}\n${node.key}`) : { x: 0, width: 0 };
}

function Node({ node, column, place, flows, vhost, by, period, onLit }) {
  const name = node.rest ? `${node.rest} more` : column === 1 ? exchangeName(node.key) : visible(node.key);
  const median = waitsOf(node)?.p50 ?? null;
  const unmatched = node.unmatched ? `${compact(node.unmatched)} unmatched` : null;
  const notes = node.count
    ? [flowing(node.count, flows.seconds), median !== null && column >= 2 ? `p50 ${seconds(median)}` : null]
    : [column === 1 ? "no publish seen" : "no delivery seen"];
  const style = { left: `${place.x}px`, top: `${place.y}px`, width: `${place.width}px`, height: `${place.height}px` };
  const light = { onPointerEnter: () => onLit({ column, key: node.key }), onFocus: () => onLit({ column, key: node.key }) };
  const inner = html`<bdi class="cut strong">${name}</bdi>
    <span class="small soft cut">${unmatched && html`<span class="warn-text">${unmatched} · </span>`}${notes.filter(Boolean).join(" · ")}</span>`;
  if (node.rest) return html`<div class="flow-node ${COLUMNS[column]}" style=${style}>${inner}</div>`;
  return html`<a class="flow-node ${COLUMNS[column]}" style=${style} title=${name} ...${light}
    href=${href("events", { ...filterFor(column, node, vhost, by), ...period })}>${inner}</a>`;
}

function filterFor(column, { key }, vhost, by) {
  if (column === 1) return { vhost, exchange: key };
  if (column === 2) return { vhost, queue: key };
  const who = by === "user" ? { user: key } : { participant_name: key };
  return { vhost, type: column === 0 ? "published" : "received", ...who };
}

function Links({ drawing, width, lit }) {
  const most = Math.max(1, ...drawing.links.flat().map((link) => link.count));
  return html`<svg class="flow-links" width=${width} height=${drawing.height} aria-hidden="true">
    ${drawing.links.map((links, n) =>
      links.map((link) => {
        const from = drawing.place.get(`${n}\n${link.from}`);
        const to = drawing.place.get(`${n + 1}\n${link.to}`);
        if (!from || !to) return null;
        const dim = lit && !touches(link, n, lit);
        const tone = `${link.unmatched === link.count ? "unmatched" : ""} ${dim ? "dim" : ""} ${lit && !dim ? "lit" : ""}`;
        return html`<path key=${`${n}\n${link.from}\n${link.to}`} class=${tone} d=${curve(from, to)}
          stroke-width=${1 + 7 * Math.sqrt(link.count / most)} />`;
      }),
    )}
  </svg>`;
}

const touches = (link, n, { column, key }) =>
  (column === n && link.from === key) || (column === n + 1 && link.to === key);

function curve(from, to) {
  const x1 = from.x + from.width;
  const y1 = from.y + from.height / 2;
  const y2 = to.y + to.height / 2;
  const bend = (to.x - x1) / 2;
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${to.x - bend} ${y2} ${to.x} ${y2}`;
}
