// The drawing: a node links to its events, and the wider a curve, the more messages it stands for.
import { useMemo, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { ageOf, compact, passed, percent, visible } from "../core/format.js";
import { filterOfService } from "../core/participants.js";
import { href, hrefQueue } from "../core/route.js";
import { shortOf } from "../ui/names.js";
import { useWidth } from "../ui/width.js";
import { COLUMNS, flowing, NOBODY, percentiles, toneOf, waitsOf } from "./flows.js";
import { arrange } from "./layout.js";

const TITLES = ["Publishers", "Queues", "Consumers"];
const LEAST_WIDTH = 324; // all three fit into the width of a phone

/**
 * `period` ({since, until}), if the flows are of one, limits the linked events to it. `colour` is what
 * the colours say: "failures" or "waits". `waiting`: of each queue in which messages wait now `{count, since, more}`.
 */
export function FlowMap({ flows, vhost, by, colour, waiting, isQuiet, period = {} }) {
  const box = useRef(null);
  const room = useWidth(box, 0);
  const width = room && Math.max(LEAST_WIDTH, room);
  const [lit, setLit] = useState(null);
  const drawing = useMemo(() => width && arrange(flows, width, waiting, isQuiet), [flows, width, waiting]);
  const short = useMemo(() => shortOf([...flows.nodes.publishers.keys(), ...flows.nodes.receivers.keys()]), [flows]);

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
          <${Links} drawing=${drawing} width=${width} lit=${lit} colour=${colour} />
          <${Labels} drawing=${drawing} seconds=${flows.seconds} lit=${lit} />
          ${drawing.columns.map((nodes, n) =>
            nodes.map((node) => html`<${Node} key=${`${n}\n${node.key}`} node=${node} column=${n}
              place=${drawing.place.get(`${n}\n${node.key}`)} flows=${flows} short=${short} vhost=${vhost} by=${by} colour=${colour} period=${period} waits=${n === 1 && waiting.get(node.key)} onLit=${setLit} />`),
          )}
        </div>`}
    </div>
  </div>`;
}

function firstPlace({ columns, place }, n) {
  const node = columns[n][0];
  return node ? place.get(`${n}\n${node.key}`) : { x: 0, width: 0 };
}

/** A node's times from `least` seconds on: messages' waits in queues, and programs' work on them. */
function timesOf(node, column, least = 0) {
  const median = waitsOf(node)?.median ?? null;
  const worked = (node.worked ?? percentiles(node.works))?.median ?? null;
  return [
    column >= 1 && median !== null && median >= least && `median ${passed(median)} waiting`,
    column === 2 && worked !== null && worked >= least && `median ${passed(worked)} handling`,
  ].filter(Boolean);
}

const SLOW = 1; // s: from here on a median is out of the ordinary

function Node({ node, column, place, flows, short, vhost, by, colour, period, waits, onLit }) {
  const name = node.rest ? `${node.rest} more` : column !== 1 && node.key === NOBODY ? "not observed" : visible(column === 1 ? node.key : short(node.key));
  const failed = node.failed ? `✕ ${compact(node.failed)} failed` : null;
  const share = failed && `${percent(node.failed, Math.max(node.count, node.failed))} of them`;
  const waiting = waits && `◷\u00a0${compact(waits.count)}${waits.more ? "+" : ""} waiting ${ageOf(waits.since).replaceAll(" ", "\u00a0")}`;
  const unmatched = node.unmatched ? `${compact(node.unmatched)} unmatched` : null;
  const none = node.count || node.rest ? null : column ? "no delivery seen" : null;
  const slow = timesOf(node, column, SLOW).join(" · ");
  const said = [node.rest || !node.key ? name : visible(node.key), failed, share, waiting, unmatched, none ?? (node.count ? flowing(node.count, flows.seconds) : null), ...timesOf(node, column)].filter(Boolean).join(" · ");
  const style = { left: `${place.x}px`, top: `${place.y}px`, width: `${place.width}px`, height: `${place.height}px` };
  const light = { onPointerEnter: () => onLit({ column, key: node.key }), onFocus: () => onLit({ column, key: node.key }) };
  const inner = html`<bdi class="cut strong">${name}</bdi>
    ${(failed || waiting || unmatched || slow || none) && html`<span class="small soft">${failed && html`<span class="bad-text">${failed} </span>`}
      ${waiting && html`<span class="warn-text">${waiting} </span>`}${unmatched && html`<span class="warn-text">${unmatched} </span>`}${slow && html`<span class="warn-text">${slow} </span>`}${none}</span>`}`;
  const tone = `${toneClass(node, colour)} ${waits ? "waits-here" : ""}`;
  if (node.rest) return html`<div class="flow-node ${COLUMNS[column]} ${tone}" style=${style} title=${said}>${inner}</div>`;
  return html`<a class="flow-node ${COLUMNS[column]} ${tone}" style=${style} title=${said} ...${light}
    href=${column === 1 ? hrefQueue(vhost, node.key) : href("events", { ...filterFor(column, node, vhost, by), ...period })}>${inner}</a>`;
}

function filterFor(column, { key }, vhost, by) {
  if (key === NOBODY) return { vhost, match: "unmatched" };
  const who =
    by === "user" ? { user: key }
    : by === "participant" ? { participant_name: key }
    : filterOfService(key);
  return { vhost, type: column === 0 ? "published" : "received", ...who };
}

const toneClass = (entry, colour) => {
  const tone = toneOf(entry, colour);
  return tone === null ? "" : `${colour}-${tone}`;
};

function Links({ drawing, width, lit, colour }) {
  const most = Math.max(1, ...drawing.links.flat().map((link) => link.count));
  return html`<svg class="flow-links" width=${width} height=${drawing.height} aria-hidden="true">
    ${drawing.links.map((links, n) =>
      links.map((link) => {
        const from = drawing.place.get(`${n}\n${link.from}`);
        const to = drawing.place.get(`${n + 1}\n${link.to}`);
        if (!from || !to) return null;
        const dim = lit && !touches(link, n, lit);
        const tone = `${toneClass(link, colour)} ${link.unmatched === link.count ? "unmatched" : ""} ${dim ? "dim" : ""} ${lit && !dim ? "lit" : ""}`;
        return html`<path key=${`${n}\n${link.from}\n${link.to}`} class=${tone} d=${curve(from, to)}
          stroke-width=${1 + 7 * Math.sqrt(link.count / most)} />`;
      }),
    )}
    <defs><marker id="dead-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">
      <path class="dead-head" d="M0 0L8 4L0 8z" /></marker></defs>
    ${drawing.deaths.map((death) => {
      const from = drawing.place.get(`1\n${death.from}`);
      const to = drawing.place.get(`1\n${death.to}`);
      if (!from || !to) return null;
      return html`<path key=${death.key} class="dead ${lit && !isOf(death, lit) ? "dim" : ""}" d=${backwards(from, to)}
        stroke-width=${1 + 4 * Math.sqrt(Math.min(1, death.count / most))} marker-end="url(#dead-head)" />`;
    })}
  </svg>`;
}

const MOST_MIDDLE = 12; // lines of which those that cross others are labelled, too
const LETTER = 7; // pixels, about
const LABEL = { height: 20, room: 14 };

/** The flow of each line, at the end that it has for itself, and what failed; no label lies on another, or on what the line joins. */
function Labels({ drawing: { links, deaths, place, narrow }, seconds, lit }) {
  if (narrow) return null;
  const placed = [];
  const label = ({ x: wanted, y, failed, said, dim, least = 0, most = Infinity }) => {
    const half = ((failed ?? "").length + (said ?? "").length) * LETTER / 2 + LABEL.room;
    const x = Math.max(least + half, Math.min(wanted, most - half));
    if (placed.some((one) => Math.abs(one.x - x) < one.half + half && Math.abs(one.y - y) < LABEL.height)) return null;
    placed.push({ x, y, half });
    return html`<span class="flow-label ${dim ? "dim" : ""}" aria-hidden="true" style=${{ left: `${x}px`, top: `${y}px` }}>
      ${said && html`<span class="rate">${said}</span>`}${failed && said && " "}${failed && html`<b class="bad-text">${failed}</b>`}</span>`;
  };
  const dead = deaths.map((death) => {
    const [from, to] = [death.from, death.to].map((key) => place.get(`1\n${key}`));
    return from && to && label({ x: from.x - BEND, y: (from.y + to.y) / 2 + from.height * 0.85, failed: `✕ ${compact(death.count)}`, dim: lit && !isOf(death, lit) });
  });
  const urgent = links.flatMap((of, n) => of.map((link) => ({ link, of, n }))).sort((a, b) => failuresOf(b.link) - failuresOf(a.link));
  return [...dead, ...urgent.map(({ link, of, n }) => {
    const [from, to] = [place.get(`${n}\n${link.from}`), place.get(`${n + 1}\n${link.to}`)];
    const isAlone = (end) => of.filter((one) => one[end] === link[end]).length === 1;
    const failures = failuresOf(link);
    if (!from || !to || (!link.count && !failures) || (!failures && of.length > MOST_MIDDLE && !isAlone("to") && !isAlone("from"))) return null;
    const t = isAlone("to") ? 0.78 : isAlone("from") ? 0.22 : 0.5;
    const x = from.x + from.width + (to.x - from.x - from.width) * (1.5 * t * (1 - t) + t ** 3);
    const y = from.y + from.height / 2 + (to.y + to.height / 2 - from.y - from.height / 2) * t * t * (3 - 2 * t);
    return label({ x, y, failed: failures ? `✕ ${compact(failures)} failed` : null, said: link.count ? flowing(link.count, seconds) : null, dim: lit && !touches(link, n, lit), least: from.x + from.width, most: to.x });
  })];
}

const failuresOf = ({ rejected = 0, failed = 0 }) => rejected + failed;

const isOf = ({ from, to }, { column, key }) => column === 1 && [from, to].includes(key);

const touches = (link, n, { column, key }) =>
  (column === n && link.from === key) || (column === n + 1 && link.to === key);

function curve(from, to) {
  const x1 = from.x + from.width;
  const y1 = from.y + from.height / 2;
  const y2 = to.y + to.height / 2;
  const bend = (to.x - x1) / 2;
  return `M${x1} ${y1}C${x1 + bend} ${y1} ${to.x - bend} ${y2} ${to.x} ${y2}`;
}

/** From the left of a queue to the left of another, below the way that messages take. */
function backwards(from, to) {
  const y1 = from.y + from.height * 0.85;
  const y2 = to.y + to.height * 0.85;
  return `M${from.x} ${y1}C${from.x - BEND} ${y1} ${to.x - BEND} ${y2} ${to.x - 2} ${y2}`;
}
const BEND = 32;

// By tone, from 0.
const KEYS = {
  failures: ["no failure known", "under 1 %", "under 10 %", "10 % and more"],
  waits: ["median wait under 10 ms", "100 ms", "1 s", "10 s", "longer"],
};

/** The meaning of the drawing's colours, signs and lines. */
export function FlowLegend({ colour, flows }) {
  const dead = [...flows.deaths.values()].some((death) => death.from !== null);
  return html`<ul class="flow-legend" aria-label="Legend">
    ${KEYS[colour].map((words, tone) => html`<li key=${tone}><i class="flow-key ${colour}-${tone}"></i>${words}</li>`)}
    <li><b class="bad-text">✕</b>failed: unroutable, rejected or dead in another way, or redelivered</li><li><b class="warn-text">◷</b>waiting now, and for how long the oldest</li>
    ${dead && html`<li><i class="flow-key dead"></i>dead letters, to their next queue</li>`}
  </ul>`;
}
