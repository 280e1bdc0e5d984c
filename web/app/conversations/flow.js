// Who sent what to whom, as a graph, and the same as a table.
import { useMemo, useRef } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { count, plural } from "../core/format.js";
import { useKeys } from "../core/keys.js";
import { Value } from "../ui/marks.js";
import { Table } from "../ui/table.js";
import { useWidth } from "../ui/width.js";
import { arrange, edgeLabel, edgeShapes, edgeTime, graphOf, nodeShapes, withoutQueues } from "./flow-layout.js";
import { took } from "./model.js";
import { SaveButtons } from "./save-buttons.js";
import { Shape } from "./shapes-view.js";

const LEAST_SCALE = 0.72; // smaller, and the words could not be read
const WORDS = { sent: "sent to", received: "received by", died: "dead letters to", rejected: "rejected, to" };

export default function Flow({ model, selected, onSelect }) {
  const graph = useMemo(() => graphOf(model), [model]);
  const box = useRef(null);
  const room = useWidth(box, 1000);
  const whole = useMemo(() => arrange(graph), [graph]);
  const isWide = whole.width * LEAST_SCALE > innerWidth; // the same beside an open event
  const placed = useMemo(() => (isWide ? arrange(withoutQueues(graph)) : whole), [whole, isWide]);
  const scale = Math.max(LEAST_SCALE, Math.min(1, room / placed.width));
  const events = eventsOf(model, selected);
  const isLit = (one) => one.events.some((event) => events.has(event));
  const names = new Map(graph.nodes.map(({ id, name }) => [id, name]));
  /** Chooses the next event of an edge or node after the one that is chosen. */
  const choose = (one) => onSelect(one.events[(one.events.indexOf(selected) + 1) % one.events.length], { panel: "on" });
  const step = (by) => {
    const all = [...model.places.keys()].sort((a, b) => a - b);
    const at = Math.max(0, Math.min(all.length - 1, all.indexOf(selected) + by));
    onSelect(all[at], { replace: true });
  };
  useKeys({ ArrowDown: () => step(1), ArrowUp: () => step(-1), j: () => step(1), k: () => step(-1) });
  const drawing = () => ({
    ...placed,
    shapes: [...placed.edges.flatMap((edge) => edgeShapes(edge, false)), ...placed.nodes.flatMap((node) => nodeShapes(node, false))],
  });

  return html`<div class="conv-flow">
    <div class="conv-tools"><${SaveButtons} drawing=${drawing} name=${`conversation-${model.answer.root}-flow`} />
      <span class="small soft">Rounded: who acts. Square: queues${isWide && " in which something stayed, or that several take from"}. A number on an arrow is how many; a time is the median.</span>
      ${graph.left > 0 && html`<span class="small soft">${plural(graph.left, "further node")} are left out.</span>`}</div>
    <div class="conv-flow-scroll" ref=${box} tabindex="0" role="region" aria-label="Flow drawing; the table below has the same numbers">
      <svg class="conv-drawing" width=${placed.width * scale} height=${placed.height * scale}
        viewBox="0 0 ${placed.width} ${placed.height}" aria-hidden="true">
        ${placed.edges.map((edge) => html`<g key=${edge.id} class="part" onClick=${() => choose(edge)}>
          <title>${[...edgeLabel(edge), ...edge.types].join(", ")}</title>
          ${edgeShapes(edge, isLit(edge)).map((shape, n) => html`<${Shape} key=${n} shape=${shape} />`)}</g>`)}
        ${placed.nodes.map((node) => html`<g key=${node.id} class="part" onClick=${() => node.events.length && choose(node)}>
          <title>${node.name}</title>
          ${nodeShapes(node, isLit(node)).map((shape, n) => html`<${Shape} key=${n} shape=${shape} />`)}</g>`)}
      </svg>
      <${Table} label="Flows" heads="From||To|What|#Messages|#Median time">
        ${graph.edges.map((edge) => html`<tr key=${edge.id} class=${isLit(edge) ? "lit" : ""}>
          <td class="name"><${Value}>${names.get(edge.from)}<//></td><td class="soft">${WORDS[edge.how]}</td>
          <td class="name"><button type="button" class="as-link" onClick=${() => choose(edge)}><${Value}>${names.get(edge.to)}<//></button></td>
          <td class="name soft">${[...edge.types].slice(0, 3).join(", ")}${edge.types.size > 3 ? " …" : ""}</td>
          <td class="number">${count(edge.count)}</td><td class="number">${took(edgeTime(edge))}</td>
        </tr>`)}
      <//>
    </div>
  </div>`;
}

/** The events of the message that an event belongs to. */
function eventsOf({ places }, selected) {
  const message = places.get(selected)?.message;
  if (!message) return new Set();
  return new Set([message.event, ...message.copies.flatMap((copy) => copy.deliveries.map(({ event }) => event))]);
}
