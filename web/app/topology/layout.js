// Places the three columns: of queues those that fail first, then those where messages wait or dead letters come, then by traffic; beside them
// the busiest of each other column, ordered so that few links cross.
import { COLUMNS, NOBODY } from "./flows.js";

const MOST_NODES = 24;
const NODE_GAP = 12;
const NODE_WIDTH = { least: 190, most: 250 };
const COLUMN_GAP = 70;
const NODE_HEIGHT = 52;
export const LEAST_WIDTH = 3 * NODE_WIDTH.least + 2 * COLUMN_GAP;
const REST = "\u0000rest";

/**
 * `{columns: [[node]], links: [[link]], deaths: [link], height, x: of each column, node: {width, height}, place: Map}`;
 * a place is {x, y, width, height}. `waiting` is by queue; `isQuiet(queue)` is true of a library's own traffic.
 */
export function arrange(flows, width, waiting, isQuiet) {
  const dead = new Set([...flows.deaths.values()].map(({ to }) => to));
  const order = [({ failed }) => -failed, ({ key }) => -(waiting.get(key)?.count ?? 0), ({ key }) => -dead.has(key), ({ key }) => isQuiet(key), ({ count }) => -count];
  const urgentFirst = (a, b) => order.reduce((before, of) => before || of(a) - of(b), 0) || (a.key < b.key ? -1 : 1);
  const kept = COLUMNS.map((name, n) => most(flows.nodes[name], n === 1 ? urgentFirst : (a, b) => b.count - a.count));
  const links = flows.links.map((map, n) => foldLinks(map, kept[n], kept[n + 1]));
  const known = new Map([...flows.deaths].filter(([, death]) => death.from !== null));
  const deaths = foldLinks(known, kept[1], kept[1]);
  const columns = kept.map(({ nodes }) => nodes);
  sort(columns[0], columns[1], links[0], "from", "to");
  sort(columns[2], columns[1], links[1], "to", "from");
  columns[0].sort((a, b) => (a.key === NOBODY) - (b.key === NOBODY)); // who is not known is last
  const node = { width: Math.min(NODE_WIDTH.most, (width - 2 * COLUMN_GAP) / 3), height: NODE_HEIGHT };
  const stacked = (count) => Math.max(count, 1) * (node.height + NODE_GAP) - NODE_GAP;
  const height = stacked(Math.max(...columns.map((nodes) => nodes.length)));
  const x = columns.map((_, n) => (n * (width - node.width)) / 2);
  const place = new Map(columns.flatMap((nodes, n) => nodes.map(({ key }, i) => [`${n}\n${key}`, { x: x[n], y: i * (node.height + NODE_GAP), ...node }])));
  return { columns, links, deaths, height, x, node, place };
}

function most(map, order) {
  const sorted = [...map.values()].sort(order);
  if (sorted.length <= MOST_NODES) return { nodes: sorted, keys: new Set(map.keys()) };
  const nodes = sorted.slice(0, MOST_NODES - 1);
  const rest = sorted.slice(MOST_NODES - 1);
  const sums = ["count", "unmatched", "failed"].map((name) => [name, rest.reduce((sum, node) => sum + node[name], 0)]);
  const seconds = rest.some((node) => node.seconds !== undefined) ? null : undefined;
  nodes.push({ key: REST, rest: rest.length, ...Object.fromEntries(sums), waits: rest.flatMap(({ waits }) => waits), seconds });
  return { nodes, keys: new Set(nodes.map((node) => node.key)) };
}

/** Links of nodes that were left out go to the node that stands for them. */
function foldLinks(map, left, right) {
  const folded = new Map();
  for (const link of map.values()) {
    const from = left.keys.has(link.from) ? link.from : REST;
    const to = right.keys.has(link.to) ? link.to : REST;
    const key = `${from}\n${to}`;
    const known = folded.get(key);
    if (known) {
      for (const name of ["count", "unmatched", "failed"]) known[name] += link[name];
      known.waits?.push(...link.waits);
      if (known.seconds !== undefined) known.seconds = null; // percentiles cannot be combined
    } else folded.set(key, { ...link, waits: [...(link.waits ?? [])], from, to });
  }
  return [...folded.values()];
}

/** Orders a column by the mean place of its neighbours in the one beside it. */
function sort(column, beside, links, own, other) {
  const at = new Map(beside.map((node, i) => [node.key, i / Math.max(1, beside.length - 1)]));
  const sums = new Map();
  for (const link of links) {
    const sum = sums.get(link[own]) ?? { weight: 0, total: 0 };
    sum.weight += link.count;
    sum.total += link.count * (at.get(link[other]) ?? 0.5);
    sums.set(link[own], sum);
  }
  const mean = (node) => {
    const sum = sums.get(node.key);
    return sum?.weight ? sum.total / sum.weight : 0.5;
  };
  column.sort((a, b) => mean(a) - mean(b) || (a.key < b.key ? -1 : 1));
}
