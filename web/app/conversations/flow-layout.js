// Who sent what to whom: participants and queues as nodes, from left to right as the conversation went. Pure.
import { visible } from "../core/format.js";
import { holderOf, median, nameOf, took } from "./model.js";
import { arrowHead, fitted, path, rect, round, text } from "./shapes.js";

const NODE = { width: 160, height: 46 };
const GAP = { x: 128, y: 26 };
const PAD = 14;
const BULGE = 44; // how far a way back reaches beyond its nodes
const LINE = 13;
const CROWDED = 300; // square pixels: a label that would hide more is shown for the chosen message only
const PLACES = [0.5, 0.38, 0.62, 0.28, 0.72];
const SWEEPS = 6;
const MOST_NODES = 60;
const NOWHERE = "queue\n\u0000";

/** `{nodes, edges}`: each edge with its `count`, `times`, `events` and `how`: sent, received, died or rejected. */
export function graphOf({ messages, places, names }) {
  const nodes = new Map();
  const edges = new Map();
  const node = (kind, key, name) => {
    const id = `${kind}\n${key}`;
    if (!nodes.has(id)) nodes.set(id, { id, kind, name, count: 0, events: [] });
    return nodes.get(id);
  };
  const person = (number) => node("participant", number, visible(nameOf(names, number)));
  const place = (name) => (name == null ? node("queue", "\u0000", "(no queue)") : node("queue", name, visible(name)));
  const join = (from, to, how, seconds, event, type) => {
    const id = `${from.id}\n${how}\n${to.id}`;
    if (!edges.has(id)) edges.set(id, { id, from: from.id, to: to.id, how, count: 0, times: [], events: [], types: new Set() });
    const edge = edges.get(id);
    edge.count += 1;
    edge.times.push(seconds);
    edge.events.push(event);
    edge.types.add(visible(type));
  };
  for (const message of messages.values()) {
    const { event, type } = message;
    const sender = person(message.participant);
    sender.count += 1;
    sender.events.push(event);
    const cause = places.get(message.cause)?.delivery;
    const worked = cause ? message.offset - cause.offset : null;
    if (!message.copies.length) join(sender, place(null), "sent", worked, event, type);
    for (const copy of message.copies) {
      const queue = place(copy.queue);
      queue.count += 1;
      queue.events.push(event);
      if (copy.state === "waiting") queue.waiting = (queue.waiting ?? 0) + 1;
      join(sender, queue, "sent", worked, event, type);
      let after = queue;
      for (const name of copy.dead_lettered_to) {
        const dead = place(name);
        dead.dead = true;
        const letter = copy.deliveries.find(({ queue, acts }) => queue === name && acts.some(({ kind }) => kind === "rejected"));
        const holder = letter && holderOf({ places }, letter);
        join(holder ? person(holder.participant) : after, dead, holder ? "rejected" : "died", null, event, type);
        after = dead;
      }
      for (const one of copy.deliveries) {
        const receiver = person(one.participant);
        receiver.events.push(one.event);
        join(one.queue == null ? queue : place(one.queue), receiver, "received", one.queued, one.event, type);
      }
    }
  }
  return busiest([...nodes.values()], [...edges.values()]);
}

/** Without the nodes beyond MOST_NODES; `left` says how many that are. */
function busiest(nodes, edges) {
  const kept = nodes.length <= MOST_NODES ? nodes : [...nodes].sort((a, b) => b.events.length - a.events.length).slice(0, MOST_NODES);
  const known = new Set(kept.map(({ id }) => id));
  return {
    nodes: nodes.filter(({ id }) => known.has(id)),
    edges: edges.filter(({ from, to }) => known.has(from) && known.has(to)),
    left: nodes.length - kept.length,
  };
}

/** The same without queues that only hand on to one who takes: one arrow for each two, which halves the width. */
export function withoutQueues({ nodes, edges, left }) {
  const out = (id) => edges.filter(({ from }) => from === id);
  const passed = new Map(); // by queue, the arrow to who takes from it
  for (const { id, kind, dead, waiting } of nodes) {
    const [taken, ...others] = out(id);
    if (kind === "queue" && !dead && !waiting && taken?.how === "received" && !others.length) passed.set(id, taken);
  }
  return {
    nodes: nodes.filter(({ id }) => !passed.has(id)),
    edges: edges.filter(({ from }) => !passed.has(from)).map((edge) => {
      const taken = passed.get(edge.to);
      if (!taken) return edge;
      return { ...edge, to: taken.to, waited: median(taken.times), events: [...edge.events, ...taken.events] };
    }),
    left,
  };
}

export const edgeTime = (edge) => median(edge.times);

/** `{width, height, nodes, edges}` with places: a node has x and y, an edge has d, head and label. */
export function arrange({ nodes, edges }) {
  const columns = columnsOf(nodes, edges);
  untangle(columns, edges);
  const tall = Math.max(...columns.map((column) => column.length));
  const height = tall * (NODE.height + GAP.y) - GAP.y;
  const at = new Map();
  const left = edges.some(({ to }) => columns[0].some(({ id }) => id === to)) ? BULGE : PAD; // room for a way back
  columns.forEach((column, n) => {
    const top = (height - (column.length * (NODE.height + GAP.y) - GAP.y)) / 2;
    column.forEach((node, i) => {
      at.set(node.id, { ...node, column: n, x: left + n * (NODE.width + GAP.x), y: PAD + 10 + top + i * (NODE.height + GAP.y) });
    });
  });
  let back = 0;
  const floor = height + PAD + 10;
  const taken = [...at.values()].map(({ x, y }) => ({ x, y, w: NODE.width, h: NODE.height }));
  const drawn = edges.map((edge) => {
    const from = at.get(edge.from);
    const to = at.get(edge.to);
    if (to.column > from.column) return { ...edge, ...forward(from, to, edgeLabel(edge), taken) };
    back += 1;
    return { ...edge, ...around(from, to, floor + back * 30 - 8) };
  });
  return {
    nodes: [...at.values()],
    edges: drawn,
    width: columns.length * (NODE.width + GAP.x) - GAP.x + left + PAD + (back ? BULGE : 0),
    height: floor + (back ? back * 30 + 10 : 0) + PAD,
  };
}

/** Nodes by how many steps they are from the first one, which is what began it. */
function columnsOf(nodes, edges) {
  const next = new Map();
  for (const { from, to } of edges) next.set(from, [...(next.get(from) ?? []), to]);
  const far = new Map();
  for (const { id } of nodes) {
    if (far.has(id)) continue;
    far.set(id, 0);
    const todo = [id];
    for (let i = 0; i < todo.length; i += 1) {
      for (const to of next.get(todo[i]) ?? []) {
        if (far.has(to)) continue;
        far.set(to, far.get(todo[i]) + 1);
        todo.push(to);
      }
    }
  }
  const columns = Array.from({ length: Math.max(...far.values()) + 1 }, () => []);
  for (const node of nodes) columns[far.get(node.id)].push(node);
  return columns.filter((column) => column.length);
}

/** Orders each column by the mean place of its neighbours, back and forth. */
function untangle(columns, edges) {
  const place = new Map();
  const number = (column) => column.forEach(({ id }, i) => place.set(id, i / Math.max(1, column.length - 1)));
  columns.forEach(number);
  const near = new Map();
  for (const { from, to } of edges) {
    near.set(from, [...(near.get(from) ?? []), to]);
    near.set(to, [...(near.get(to) ?? []), from]);
  }
  const mean = ({ id }) => {
    const others = near.get(id) ?? [];
    return others.length ? others.reduce((sum, one) => sum + place.get(one), 0) / others.length : 0.5;
  };
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const column of sweep % 2 ? [...columns].reverse() : columns) {
      const means = new Map(column.map((node) => [node, mean(node)]));
      column.sort((a, b) => means.get(a) - means.get(b) || (a.id < b.id ? -1 : 1));
      number(column);
    }
  }
}

/** A curve to a later column; its label where it hides least of what is drawn already. */
function forward(from, to, lines, taken) {
  const [x1, y1] = [from.x + NODE.width, from.y + NODE.height / 2];
  const [x2, y2] = [to.x - 3, to.y + NODE.height / 2];
  const bend = Math.max(30, (x2 - x1) / 2);
  const along = (t, a, b, c, d) => (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t ** 2 * c + t ** 3 * d;
  const w = Math.max(...lines.map((line) => line.length)) * 6 + 4;
  const boxes = PLACES.map((t) => {
    const [x, y] = [along(t, x1, x1 + bend, x2 - bend, x2), along(t, y1, y1, y2, y2)];
    const box = { x: x - w / 2, y: y - LINE - 2, w, h: LINE * lines.length + 4, label: [x, y] };
    return { ...box, hidden: taken.reduce((sum, other) => sum + overlap(box, other), 0) };
  });
  const best = boxes.reduce((a, b) => (b.hidden < a.hidden ? b : a));
  if (best.hidden < CROWDED) taken.push(best);
  return {
    d: `M${x1} ${round(y1)}C${round(x1 + bend)} ${round(y1)} ${round(x2 - bend)} ${round(y2)} ${round(x2)} ${round(y2)}`,
    head: [x2, y2],
    label: best.label,
    crowded: best.hidden >= CROWDED,
  };
}

const overlap = (a, b) =>
  Math.max(0, Math.min(a.x + a.w, b.x + b.w) - Math.max(a.x, b.x)) * Math.max(0, Math.min(a.y + a.h, b.y + b.h) - Math.max(a.y, b.y));

/** Back to an earlier column: between the columns, and below everything. */
function around(from, to, floor) {
  const [x1, y1] = [from.x + NODE.width, from.y + NODE.height / 2 + 8];
  const [x2, y2] = [to.x - 3, to.y + NODE.height / 2 + 8];
  return {
    d: `M${x1} ${round(y1)}C${x1 + BULGE} ${round(y1)} ${x1 + BULGE} ${floor} ${x1} ${floor}H${x2}C${x2 - BULGE} ${floor} ${x2 - BULGE} ${round(y2)} ${x2} ${round(y2)}`,
    head: [x2, y2],
    label: [(x1 + x2) / 2, floor],
  };
}

const TONES = { sent: "--published", received: "--received", died: "--bad", rejected: "--bad" };

const isDeath = ({ how }) => how === "died" || how === "rejected";

/** The words on an edge, above and below its line: what and how many, and how long the middle one took. */
export function edgeLabel(edge) {
  const time = edgeTime(edge);
  const what = isDeath(edge) ? edge.how : edge.how === "sent" && edge.types.size === 1 ? fitted([...edge.types][0], 100, 11) : "";
  const count = edge.count > 1 || !what ? `${edge.count} ×` : "";
  const line = [count, what].filter(Boolean).join(" ");
  if (edge.waited != null) return [line, `waited ${took(edge.waited)}`];
  return time == null ? [line] : [line, `${edge.how === "sent" ? "after" : "waited"} ${took(time)}`];
}

/** The shapes of one edge and of one node. `lit` ones belong to the chosen message. */
export function edgeShapes(edge, lit) {
  const tone = TONES[edge.how];
  const [x, y] = edge.head;
  const words = { size: 11, halo: true, bold: lit, fill: lit ? "--ink" : "--ink-soft" };
  return [
    path(edge.d, tone, { width: (lit ? 2.5 : 1) + Math.min(2, Math.log2(edge.count) / 4), dash: isDeath(edge) ? "6 4" : undefined }),
    arrowHead(x + 3, y, 0, tone),
    ...(edge.crowded && !lit ? [] : edgeLabel(edge)).map((line, n) => text(round(edge.label[0]), round(edge.label[1] - 5 + n * 18), line, words)),
  ];
}

export function nodeShapes(node, lit) {
  const isQueue = node.kind === "queue";
  const bad = node.dead || node.id === NOWHERE;
  const note = isQueue
    ? `${node.count ? `${node.count} in` : "dead letters"}${node.waiting ? ` · ${node.waiting} waiting` : ""}`
    : `${node.count} sent`;
  return [
    rect(node.x, node.y, NODE.width, NODE.height, {
      r: isQueue ? 4 : 23,
      fill: lit ? "--chosen" : "--raised",
      stroke: bad ? "--bad" : node.waiting ? "--warn" : lit ? "--fill" : "--line-control",
    }),
    text(node.x + NODE.width / 2, node.y + 20, fitted(node.name, NODE.width - 22, 12), { bold: true }),
    text(node.x + NODE.width / 2, node.y + 36, note, { size: 11, fill: node.waiting ? "--warn" : "--ink-soft" }),
  ];
}
