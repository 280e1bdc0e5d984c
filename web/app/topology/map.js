// The drawing: a node links to its events, and the wider a curve, the more messages it stands for.
import { useMemo, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { compact } from "../core/format.js";
import { shortOf } from "../ui/names.js";
import { useWidth } from "../ui/width.js";
import { COLUMNS, flowing, toneOf } from "./flows.js";
import { arrange, LEAST_WIDTH } from "./layout.js";
import { hrefNode, toneClass, wordsOf } from "./node.js";
import { QueueList } from "./queue-list.js";

const TITLES = ["Publishers", "Queues", "Consumers"];

/**
 * `period` ({since, until}), if the flows are of one, limits the linked events to it. `colour` is what
 * the colours say: "failures" or "waits". `waiting`: of each queue in which messages wait now `{count, since, more}`.
 */
export function FlowMap(given) {
  const { flows, colour, waiting, isQuiet } = given;
  const box = useRef(null);
  const width = useWidth(box, 0);
  const [lit, setLit] = useState(null);
  const drawing = useMemo(() => width && arrange(flows, width, waiting, isQuiet), [flows, width, waiting]);
  const short = useMemo(() => shortOf([...flows.nodes.publishers.keys(), ...flows.nodes.receivers.keys()]), [flows]);
  const labels = useMemo(() => drawing && labelsOf(drawing, flows.seconds), [drawing]);
  const map = { ...given, short };

  return html`<div ref=${box}>
    ${drawing && (width < LEAST_WIDTH ? html`<${QueueList} drawing=${drawing} map=${map} />` : html`<${FlowLegend} colour=${colour} flows=${flows} waiting=${waiting} />
      <div class="flow-titles">
        ${drawing.columns.map((nodes, n) => html`<span key=${n} style=${{ left: `${drawing.x[n]}px`, width: `${drawing.node.width}px` }}>${TITLES[n]}</span>`)}
      </div>
      <div class="flow" role="region" aria-label="Topology drawing; the tables below have the same numbers" style=${{ height: `${drawing.height}px` }} onPointerLeave=${() => setLit(null)}>
        <${Links} drawing=${drawing} width=${width} lit=${lit} colour=${colour} />
        ${labels.map(({ x, y, failed, rate, isTouched }) => html`<span class="flow-label ${lit && !isTouched(lit) ? "dim" : ""}" aria-hidden="true" style=${{ left: `${x}px`, top: `${y}px` }}>
          ${rate && html`<span class="rate">${rate}</span>`}${failed && rate && " "}${failed && html`<b class="bad-text">${failed}</b>`}</span>`)}
        ${drawing.columns.map((nodes, n) =>
          nodes.map((node) => html`<${Node} key=${`${n}\n${node.key}`} node=${node} column=${n}
            place=${drawing.place.get(`${n}\n${node.key}`)} map=${map} onLit=${setLit} />`),
        )}
      </div>`)}
  </div>`;
}

function Node({ node, column, place, map, onLit }) {
  const { name, notes, title } = wordsOf(node, column, map);
  const style = { left: `${place.x}px`, top: `${place.y}px`, width: `${place.width}px`, height: `${place.height}px` };
  const light = { onPointerEnter: () => onLit({ column, key: node.key }), onFocus: () => onLit({ column, key: node.key }) };
  const inner = html`<bdi class="cut strong">${name}</bdi>${notes}`;
  const about = { class: `flow-node ${COLUMNS[column]} ${toneClass(node, map.colour)} ${column === 1 && map.waiting.has(node.key) ? "waits-here" : ""}`, style, title };
  return node.rest ? html`<div ...${about}>${inner}</div>` : html`<a ...${about} ...${light} href=${hrefNode(node, column, map)}>${inner}</a>`;
}

function Links({ drawing, width, lit, colour }) {
  const most = Math.max(1, ...drawing.links.flat().map((link) => link.count));
  return html`<svg class="flow-links" width=${width} height=${drawing.height} aria-hidden="true">
    ${drawing.links.map((links, n) =>
      links.map((link) => {
        const from = drawing.place.get(`${n}\n${link.from}`);
        const to = drawing.place.get(`${n + 1}\n${link.to}`);
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
      return html`<path key=${death.key} class="dead ${lit && !isOf(death, lit) ? "dim" : ""}" d=${backwards(from, to)}
        stroke-width=${1 + 4 * Math.sqrt(Math.min(1, death.count / most))} marker-end="url(#dead-head)" />`;
    })}
  </svg>`;
}

const MOST_MIDDLE = 12; // lines of which those that cross others are labelled, too
const LETTER = 7; // pixels, about
const LABEL = { height: 20, room: 14 };
const STEPS = 40; // points of a line at which another is looked for
const PLACES = [0.14, 0.22, 0.3, 0.4, 0.5, 0.6, 0.7, 0.78, 0.86];

/** The share of the width, and of the height, that a curve has covered at `t`. */
const along = (t) => [1.5 * t * (1 - t) + t ** 3, t * t * (3 - 2 * t)];

/** The flow of each line, near the end that it has for itself, and what failed: not on another line or label, or on what the line joins. */
function labelsOf({ links, deaths, place }, seconds) {
  const placed = [];
  const halfOf = (...texts) => (texts.join("").length * LETTER) / 2 + LABEL.room;
  const add = (label) => {
    const isFree = !placed.some((one) => Math.abs(one.x - label.x) < one.half + label.half && Math.abs(one.y - label.y) < LABEL.height);
    if (isFree) placed.push(label);
    return isFree;
  };
  for (const death of deaths) {
    const [from, to] = [death.from, death.to].map((key) => place.get(`1\n${key}`));
    const failed = `✕ ${compact(death.count)}`;
    add({ x: from.x - BEND, y: (from.y + to.y) / 2 + from.height * 0.85, half: halfOf(failed), failed, isTouched: (lit) => isOf(death, lit) });
  }
  const urgent = links.flatMap((beside, n) => beside.map((link) => ({ link, beside, n }))).sort((a, b) => failuresOf(b.link) - failuresOf(a.link));
  for (const { link, beside, n } of urgent) {
    const ends = (one) => [place.get(`${n}\n${one.from}`), place.get(`${n + 1}\n${one.to}`)];
    const [from, to] = ends(link);
    const own = ["to", "from"].find((end) => beside.filter((one) => one[end] === link[end]).length === 1);
    const failures = failuresOf(link);
    if ((!link.count && !failures) || (!failures && beside.length > MOST_MIDDLE && !own)) continue;
    const [failed, rate] = [failures ? `✕ ${compact(failures)} failed` : "", link.count ? flowing(link.count, seconds) : ""];
    const half = halfOf(failed, rate);
    const [left, right] = [from.x + from.width, to.x];
    const yOf = ([a, b], share) => a.y + a.height / 2 + (b.y - a.y) * share;
    const label = (t) => {
      const [x, y] = along(t);
      return { x: Math.max(left + half, Math.min(left + (right - left) * x, right - half)), y: yOf([from, to], y), half, failed, rate, isTouched: (lit) => touches(link, n, lit) };
    };
    const isClear = ({ x: at, y }) => !Array.from({ length: STEPS }, (_, i) => along(i / STEPS)).some(([x, share]) => Math.abs(left + (right - left) * x - at) < half
      && beside.some((one) => one !== link && Math.abs(yOf(ends(one), share) - y) < LABEL.height / 2));
    const best = own === "to" ? 0.78 : own ? 0.22 : 0.5;
    const labels = [...PLACES].sort((a, b) => Math.abs(a - best) - Math.abs(b - best)).map(label);
    labels.filter(isClear).some(add) || labels.some(add);
  }
  return placed;
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
  failures: ["no failure known", "under 1 % failed", "under 10 % failed", "10 % or more failed"],
  waits: [...["10 ms", "100 ms", "1 s", "10 s"].map((bound) => `median wait under ${bound}`), "10 s or longer"],
};

/** The meaning of those colours, signs and lines that are drawn. */
function FlowLegend({ colour, flows: { links, nodes, deaths }, waiting }) {
  const entries = [...links, ...Object.values(nodes)].flatMap((map) => [...map.values()]);
  const tones = new Set(entries.map((entry) => toneOf(entry, colour)));
  return html`<ul class="flow-legend" aria-label="Legend">
    ${KEYS[colour].map((words, tone) => tones.has(tone) && html`<li key=${tone}><i class="flow-key ${colour}-${tone}"></i>${words}</li>`)}
    ${entries.some(({ failed }) => failed) && html`<li><b class="bad-text">✕</b>failed: unroutable, rejected or dead in another way, or redelivered</li>`}
    ${waiting.size > 0 && html`<li><b class="warn-text">◷</b>waiting now, and for how long the oldest</li>`}
    ${[...deaths.values()].some(({ from }) => from !== null) && html`<li><i class="flow-key dead"></i>dead letters, to their next queue</li>`}
  </ul>`;
}
