// As tracing users know it: a row for each message, below its cause; time runs to the right.
import { useMemo, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { plural, visible } from "../core/format.js";
import { useKeys } from "../core/keys.js";
import { patch } from "../core/route.js";
import { Icon } from "../ui/icons.js";
import { Queue } from "../ui/marks.js";
import { afterText, countBelow, isInner, nameOf, rowsOf } from "./model.js";
import { Rows } from "./rows.js";
import { paint } from "./shapes-view.js";
import { axisOf, BASE, BEYOND, CRITICAL, INDENT, markOf, MOST_INDENT, openPath, ROW, rowShapes, scaleOf, toneOf, USUAL_WORDS } from "./waterfall-layout.js";
import { slackText, timesOf } from "./words.js";

const HEAD = 28;
const NARROW = 760;
const STACKED = 560; // below that, names are above the bars
const NAME = 20; // pixels that a name takes there
const MARGIN = 14; // right of the last sign
const MOST_LINES = 6;
const LABEL = 34; // pixels that a time on the axis takes

export default function Waterfall({ model: conversation, usual, selected, share, onSelect }) {
  const model = useMemo(() => ({ ...conversation, usual }), [conversation, usual]);
  const [folded, setFolded] = useState(() => new Set());
  const [width, setWidth] = useState(1000);
  const [tip, setTip] = useState(null);
  const [span, setSpan] = useZoom(model);
  const rows = useMemo(() => rowsOf(model, folded), [model, folded]);
  const shapes = useMemo(() => rows.map((row) => rowShapes(row, () => 0, model, 0)), [rows, model]);
  const kinds = useMemo(() => kindsOf(shapes), [shapes]);
  const isStacked = width < STACKED;
  const height = ROW + (isStacked ? NAME : 0);
  const names = isStacked ? MARGIN : width < NARROW ? width * 0.38 : 320;
  const pixels = Math.max(80, width - names - MARGIN);
  const x = useMemo(() => scaleOf(span, pixels), [span, pixels]);
  const chosen = model.places.get(selected)?.message;
  const active = useMemo(() => rowOf(rows, chosen, selected), [rows, chosen, selected]);

  const fold = (message, wanted) => {
    if (!isInner(message) || folded.has(message.event) === wanted) return false;
    const next = new Set(folded);
    if (wanted) next.add(message.event);
    else next.delete(message.event);
    setFolded(next);
    return true;
  };
  /** Goes to a row, or on in that direction to one with an event of its own: a copy that nobody got has none. */
  const step = (index) => {
    const by = Math.sign(index - active) || 1;
    const isMute = (at) => rows[at]?.sub && eventOf(rows[at]) === rows[at].message.event;
    let to = index;
    while (isMute(to)) to += by;
    if (!rows[to]) for (to = index; isMute(to); ) to -= by; // the last ones have none
    if (rows[to]) onSelect(eventOf(rows[to]), { replace: true });
  };
  const keys = {
    ArrowRight: () => chosen && (fold(chosen, false) || (chosen.children[0] && (onSelect(chosen.children[0].event, { replace: true }), true))),
    ArrowLeft: () => chosen && (fold(chosen, true) || (chosen.parent && (onSelect(chosen.parent.event, { replace: true }), true))),
    Enter: () => (patch({ panel: "on" }), true),
  };
  useKeys({
    ArrowDown: () => active + 1 < rows.length && step(active + 1),
    ArrowUp: () => active > 0 && step(active - 1),
    ArrowRight: keys.ArrowRight,
    ArrowLeft: keys.ArrowLeft,
    "+": () => setSpan(0.5, chosen),
    "-": () => setSpan(2, chosen),
    "−": () => setSpan(2, chosen),
    f: () => setSpan(null),
  });
  const inner = useMemo(() => [...model.messages.values()].filter(isInner), [model]);

  share.current = { drawing: async () => (await import("./waterfall-picture.js")).default(model, rows), name: `conversation-${model.answer.root}` };

  return html`<div class="waterfall ${isStacked ? "stacked" : ""}" style=${{ "--names": `${names}px`, "--height": `${HEAD + rows.length * height}px` }}>
    <div class="conv-tools">
      <div class="tool"><button class="button small icon" aria-label="Zoom in (+)" title="Zoom in (+)" onClick=${() => setSpan(0.5, chosen)}><${Icon} name="plus" /></button>
        <button class="button small icon" aria-label="Zoom out (-)" title="Zoom out (-)" onClick=${() => setSpan(2, chosen)}><${Icon} name="minus" /></button>
        <button class="button small icon" aria-label="Show all of it (F)" title="Show all of it (F)" onClick=${() => setSpan(null)}><${Icon} name="fit" /></button></div>
      <button class="button small" disabled=${!inner.length}
        onClick=${() => setFolded(new Set(folded.size ? [] : inner.map(({ event }) => event)))}>${folded.size ? "Unfold all" : "Fold all"}</button>
      <${Legend} kinds=${kinds} hasPath=${[...model.messages.values()].some(({ critical }) => critical)} hasUsual=${usual?.size > 0}
        hasBeyond=${shapes.some(({ spans }) => spans.some(({ tone }) => tone === BEYOND))} />
    </div>
    <${Rows} name="waterfall" role="tree" label=${`Messages, ${plural(rows.length, "row")}`} count=${rows.length} height=${height}
      active=${active} onStep=${step} onKey=${(key) => keys[key]?.()} onWidth=${setWidth} headHeight=${HEAD}
      head=${html`<${Axis} model=${model} span=${span} pixels=${pixels} x=${x} onSpan=${setSpan} />`}
      row=${(index, place) => html`<${Row} key=${keyOf(rows[index])} row=${rows[index]} place=${place} height=${height} model=${model}
        selected=${selected} x=${x} pixels=${pixels} onFold=${fold} onTip=${setTip} onSelect=${onSelect} />`} />
    ${tip && html`<${Tip} tip=${tip} model=${model} />`}
    <${Detail} message=${chosen} model=${model} />
  </div>`;
}

/** The event that a row stands for. */
const eventOf = ({ message, copies, sub }) => (sub ? (copies[0].deliveries.at(-1)?.event ?? message.event) : message.event);
const keyOf = ({ message, copies, sub }) => `${message.event} ${sub ? copies[0].queue : ""}`;

/** The row of an event, else of its message, or of the folded one that it is below. */
function rowOf(rows, message, event) {
  const own = rows.findIndex(({ copies }) => copies.some(({ deliveries }) => deliveries.some((one) => one.event === event)));
  if (own >= 0) return own;
  const at = new Map(rows.map(({ message, sub }, index) => [sub ? null : message, index]));
  let one = message;
  while (one && !at.has(one)) one = one.parent;
  return one ? at.get(one) : -1;
}

/** The seconds in view, and how to change them: by a factor around a message, `{from, to}`, or null for all. */
function useZoom(model) {
  const all = { from: 0, to: model.width };
  const [part, setPart] = useState(null);
  const span = useMemo(() => part ?? all, [part, model.width]);
  const change = (wanted, around) => {
    if (wanted === null) return setPart(null);
    setPart((earlier) => {
      const before = earlier ?? all;
      if (typeof wanted !== "number") return within(wanted, model.width);
      const length = Math.min(model.width, Math.max(model.width / 1e5, (before.to - before.from) * wanted));
      const middle = around && wanted < 1 ? around.offset : (before.from + before.to) / 2;
      return within({ from: middle - length / 2, to: middle + length / 2 }, model.width);
    });
  };
  return [span, change];
}

/** The same length, moved so that it lies between 0 and `end`. */
function within({ from, to }, end) {
  const length = Math.min(end, to - from);
  const start = Math.max(0, Math.min(end - length, from));
  return { from: start, to: start + length };
}

function Axis({ model, span, pixels, x, onSpan }) {
  const drag = useRef(null);
  const perPixel = (span.to - span.from) / pixels;
  const wheel = (event) => {
    const by = event.deltaX || (event.shiftKey ? event.deltaY : 0);
    if (by) onSpan({ from: span.from + by * perPixel, to: span.to + by * perPixel });
  };
  const move = ({ clientX }) => {
    if (!drag.current) return;
    const by = (drag.current.at - clientX) * perPixel;
    onSpan({ from: drag.current.from + by, to: drag.current.to + by });
  };
  return html`<div class="conv-axis" style=${{ height: `${HEAD}px` }} onWheel=${wheel}
    onPointerDown=${(e) => { e.currentTarget.setPointerCapture(e.pointerId); drag.current = { at: e.clientX, ...span }; }}
    onPointerMove=${move} onPointerUp=${() => (drag.current = null)}>
    <span class="conv-axis-name">Message, from</span>
    <div class="conv-axis-time" aria-hidden="true">
      ${axisOf(model, span, pixels).map(({ at, label }) => html`<span key=${at} style=${{ left: `${x(at)}px` }}>${pixels - x(at) < LABEL ? "" : label}</span>`)}
    </div>
  </div>`;
}

function Row({ row, place, height, model, selected, x, pixels, onFold, onTip, onSelect }) {
  const { message, depth, folded, copies, sub } = row;
  const shapes = useMemo(() => rowShapes(row, x, model, pixels), [row, x, model, pixels]); // not at each move of the pointer
  const { bars, marks, words, spans, label: times } = shapes;
  const below = !sub && isInner(message);
  const from = visible(nameOf(model.names, message.participant));
  const [copy] = copies;
  const choose = (event) => {
    if (event.target.closest("a")) return;
    const one = Number(event.target.dataset?.event) || eventOf(row);
    onSelect(one, { panel: "on" });
  };
  const label = sub
    ? `${visible(message.type)} in ${visible(copy.queue)}, ${copy.state.replaceAll("_", " ")}: ${times}`
    : `${visible(message.type)} from ${from}, ${afterText(message.offset)}, ${message.outcome}${message.critical ? ", on the critical path" : ""}`;
  return html`<div class="conv-row ${place.chosen ? "chosen" : ""}" id=${place.id} role="treeitem" aria-label=${label}
      aria-level=${depth + 1} aria-selected=${String(place.chosen)} aria-expanded=${below ? String(!folded) : undefined}
      style=${{ top: place.top, height: `${height}px` }} onClick=${choose}
      onPointerMove=${(e) => onTip({ message, x: e.clientX, y: e.clientY })} onPointerLeave=${() => onTip(null)}>
    <div class="conv-row-name" style=${{ paddingLeft: `${8 + Math.min(depth, MOST_INDENT) * INDENT}px` }}>
      <span class="fold" aria-hidden="true" onClick=${(e) => below && (e.stopPropagation(), onFold(message, !folded))}>${below ? (folded ? "▸" : "▾") : ""}</span>
      ${depth > MOST_INDENT && html`<span class="soft small">${depth}</span>`}
      ${sub
        ? html`<span class="cut copy">→ <${Queue} vhost=${model.answer.vhost} name=${copy.queue} still /></span>`
        : html`<span class="conv-sign ${message.outcome}" title=${message.outcome}></span>
            <bdi class="cut ${message.critical ? "strong" : ""}">${visible(message.type)}</bdi>
            ${folded && html`<span class="badge">+${countBelow(message)}</span>`}
            <span class="cut soft small"><bdi>${from}</bdi>${copy && html` → <${Queue} vhost=${model.answer.vhost} name=${copy.queue} still />`}</span>`}
    </div>
    <svg class="conv-bars" width=${pixels + MARGIN} height=${ROW} aria-hidden="true">
      ${spans.map((span, n) => html`<rect key=${n} class="usual" x=${span.x} y=${span.y} width=${span.width} height=${span.height} fill=${paint(span.tone.fill)} />`)}
      ${bars.map((bar, n) => html`<${Bar} key=${n} bar=${bar} lit=${bar.event === selected} />`)}
      ${bars.filter(({ critical }) => critical).map((bar) => html`<rect class="critical" x=${bar.x} y=${CRITICAL.y} width=${bar.width} height=${CRITICAL.height} />`)}
      ${marks.map((mark, n) => html`<${Mark} key=${n} mark=${mark} lit=${mark.event === selected} />`)}
      ${words.map((word, n) => html`<text key=${n} class=${word.on ? undefined : "halo"} fill=${paint(word.on ? toneOf(word.on, word.lit).ink : "--ink")} x=${word.x} y=${BASE} text-anchor=${word.anchor}>${word.text}</text>`)}
    </svg>
  </div>`;
}

function Bar({ bar, lit }) {
  const { kind, critical, event, x, y, width, height } = bar;
  const look = { class: `bar ${kind} ${critical ? "on" : ""} ${lit ? "lit" : ""}`, "data-event": event, ...painted(toneOf(kind, critical)) };
  return bar.open ? html`<path ...${look} d=${openPath(bar)} />` : html`<rect ...${look} x=${x} y=${y} width=${width} height=${height} rx="1.5" />`;
}

function Mark({ mark, lit }) {
  const { d, stroke } = markOf(mark);
  return html`${mark.kind === "died" && html`<path class="halo" d=${d} />`}<path class=${lit ? "lit" : undefined} d=${d} stroke=${paint(stroke)} data-event=${mark.event} />`;
}

const painted = ({ fill, stroke, dash }) => ({ fill: paint(fill), stroke: paint(stroke), "stroke-dasharray": dash });

const KINDS = {
  queued: "waiting",
  lit: "handling on the critical path",
  handled: "handling, until it published",
  back: "held, and back in its queue",
  rejected: "held and rejected",
  waiting: "still waiting",
  settled: "handling, until it was settled",
  held: "handling, not settled yet",
  redelivered: "handed over again",
  died: "died",
  open: "goes on",
  torn: "time left out",
};

const MARKED = new Set(["redelivered", "died", "open", "torn"]);

/** The kinds of bars and marks among these shapes that have to be explained. */
function kindsOf(shapes) {
  const drawn = new Set(shapes.flatMap(({ bars, marks }) => [...bars, ...marks]).map(({ kind, critical }) => (kind === "handled" && critical ? "lit" : kind)));
  return Object.keys(KINDS).filter((kind) => drawn.has(kind));
}

/** A bar or a mark by itself. */
const Key = ({ kind }) => html`<svg width="18" height="16">${MARKED.has(kind)
  ? html`<${Mark} mark=${{ kind, tone: "--warn", x: 9, y: 4, height: 8 }} />`
  : html`<rect x="1" y="3" width="16" height="10" rx="1.5" ...${painted(kind === "lit" ? toneOf("handled", true) : toneOf(kind))} />`}</svg>`;

const Legend = ({ kinds, hasPath, hasUsual, hasBeyond }) => html`<div class="conv-legend small soft" aria-hidden="true">
  ${kinds.map((kind) => html`<span key=${kind}><${Key} kind=${kind} />${kind === "handled" && kinds.includes("lit") ? "other handling" : KINDS[kind]}</span>`)}
  ${hasPath && html`<span><i class="conv-key critical"></i>critical path</span>`}
  ${hasUsual && html`<span><i class="conv-key usual"></i>${USUAL_WORDS}</span>`}
  ${hasBeyond && html`<span><i class="conv-key beyond"></i>clearly longer</span>`}
</div>`;

function linesOf(message, model) {
  const lines = timesOf(message, model);
  const rest = lines.length - MOST_LINES;
  return rest > 0 ? [...lines.slice(0, MOST_LINES), `and ${plural(rest, "further delivery", "further deliveries")}`] : lines;
}

function Tip({ tip: { message, x, y }, model }) {
  const left = Math.min(x + 14, innerWidth - 330);
  const below = y < innerHeight - 220;
  return html`<div class="tip conv-tip" aria-hidden="true" style=${below ? { left: `${left}px`, top: `${y + 16}px` } : { left: `${left}px`, bottom: `${innerHeight - y + 12}px` }}>
    <p class="strong"><bdi>${visible(message.type)}</bdi> #${message.event}</p>
    ${linesOf(message, model).map((line, n) => html`<p class="small" key=${n}>${line}</p>`)}
    <p class="small soft">${slackText(message)}</p>
  </div>`;
}

/** The same as the tip, for the chosen message and those who use no pointer. */
function Detail({ message, model }) {
  if (!message) return null;
  return html`<p class="conv-detail small" role="status"><strong>${visible(message.type)}</strong> #${message.event}:
    ${" "}${linesOf(message, model).join("; ")}. <span class="soft">${slackText(message)}</span></p>`;
}
