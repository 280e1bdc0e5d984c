// As tracing users know it: a row for each message, below its cause; time runs to the right.
import { useMemo, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { plural, visible } from "../core/format.js";
import { useKeys } from "../core/keys.js";
import { patch } from "../core/route.js";
import { Icon } from "../ui/icons.js";
import { Queue } from "../ui/marks.js";
import { NARROW as PHONE } from "../ui/width.js";
import { afterText, besideOf, nameOf, rowsOf, unfoldedOf } from "./model.js";
import { Rows } from "./rows.js";
import { paint } from "./shapes-view.js";
import { axisOf, BASE, BEYOND, CRITICAL, INDENT, markOf, MOST_INDENT, openPath, ROW, rowShapes, scaleOf, toneOf, USUAL_WORDS } from "./waterfall-layout.js";
import { slackText, timesOf } from "./words.js";

const HEAD = 28;
const NARROW = 760;
const LONG = 480; // pixels of rows that a phone shows whole, if need be without what is beside
const STACKED = 560; // below that, names are above the bars
const NAME = 14; // pixels that a name takes there, as it reaches into the edge above the bars
const STACKED_ROW = NAME + ROW;
const MARGIN = 14; // right of the last sign
const MOST_LINES = 6;
const LABEL = 34; // pixels that a time on the axis takes

/** `subject`: the event of what failed, waits or was slow, if anything. */
export default function Waterfall({ model: conversation, usual, subject, selected, share, onSelect }) {
  const model = useMemo(() => ({ ...conversation, usual }), [conversation, usual]);
  const all = useMemo(() => rowsOf(model), [model]);
  const [opened] = useState(selected);
  const [choice, setChoice] = useState(null);
  const isLong = innerWidth <= PHONE && all.length * STACKED_ROW > LONG;
  const usually = useMemo(() => (isLong ? besideOf(all, toldIn(all, subject, opened)) : new Set()), [all, subject]);
  const folded = choice ?? usually;
  const [width, setWidth] = useState(1000);
  const [tip, setTip] = useState(null);
  const [span, setSpan] = useZoom(model);
  const rows = useMemo(() => unfoldedOf(all, folded), [all, folded]);
  const shapes = useMemo(() => rows.map((row) => rowShapes(row, () => 0, model, 0)), [rows, model]);
  const kinds = useMemo(() => kindsOf(shapes), [shapes]);
  const isStacked = width < STACKED;
  const height = isStacked ? STACKED_ROW : ROW;
  const names = isStacked ? MARGIN : width < NARROW ? width * 0.38 : 320;
  const pixels = Math.max(80, width - names - MARGIN);
  const x = useMemo(() => scaleOf(span, pixels), [span, pixels]);
  const chosen = model.places.get(selected)?.message;
  const active = useMemo(() => placeOf(rows, rowOf(all, chosen, selected)), [all, rows, chosen, selected]);

  const fold = (row, wanted) => {
    if (!row?.isInner || folded.has(row.key) === wanted) return false;
    setChoice(new Set(wanted ? [...folded, row.key] : [...folded].filter((key) => key !== row.key)));
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
    ArrowRight: () => fold(rows[active], false) || (rows[active]?.isInner && (step(active + 1), true)),
    ArrowLeft: () => fold(rows[active], true) || (rows[active]?.parent && (step(rows.indexOf(rows[active].parent)), true)),
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
  const inner = useMemo(() => all.filter(({ isInner }) => isInner).map(({ key }) => key), [all]);

  share.current = { drawing: async () => (await import("./waterfall-picture.js")).default(model, rows), name: `conversation-${model.answer.root}` };

  return html`<div class="waterfall ${isStacked ? "stacked" : ""} ${rows.length * height > LONG ? "long" : ""}" style=${{ "--names": `${names}px`, "--height": `${HEAD + rows.length * height}px` }}>
    <div class="conv-tools">
      <div class="tool"><button class="button small icon" aria-label="Zoom in (+)" title="Zoom in (+)" onClick=${() => setSpan(0.5, chosen)}><${Icon} name="plus" /></button>
        <button class="button small icon" aria-label="Zoom out (-)" title="Zoom out (-)" onClick=${() => setSpan(2, chosen)}><${Icon} name="minus" /></button>
        <button class="button small icon" aria-label="Show all of it (F)" title="Show all of it (F)" onClick=${() => setSpan(null)}><${Icon} name="fit" /></button></div>
      <button class="button small" disabled=${!inner.length}
        onClick=${() => setChoice(new Set(folded.size ? [] : inner))}>${folded.size ? "Unfold all" : "Fold all"}</button>
      <${Legend} kinds=${kinds} hasPath=${[...model.messages.values()].some(({ critical }) => critical)} hasUsual=${usual?.size > 0}
        hasBeyond=${shapes.some(({ spans }) => spans.some(({ tone }) => tone === BEYOND))} />
    </div>
    <${Rows} name="waterfall" role="tree" label=${`Messages, ${plural(rows.length, "row")}`} count=${rows.length} height=${height}
      active=${active} onStep=${step} onKey=${(key) => keys[key]?.()} onWidth=${setWidth} headHeight=${HEAD}
      head=${html`<${Axis} model=${model} span=${span} pixels=${pixels} x=${x} onSpan=${setSpan} />`}
      row=${(index, place) => html`<${Row} key=${rows[index].key} row=${rows[index]} folded=${folded.has(rows[index].key)} place=${place} height=${height} model=${model}
        selected=${selected} x=${x} pixels=${pixels} onFold=${fold} onTip=${setTip} onSelect=${onSelect} />`} />
    ${tip && html`<${Tip} tip=${tip} model=${model} />`}
    <${Detail} message=${chosen} model=${model} />
  </div>`;
}

/** The event that a row stands for. */
const eventOf = ({ message, copies, sub }) => (sub ? (copies[0].deliveries.at(-1)?.event ?? message.event) : message.event);

/** The row of an event, or else of its message. */
const rowOf = (rows, message, event) =>
  rows.find(({ copies }) => copies.some(({ deliveries }) => deliveries.some((one) => one.event === event))) ?? rows.find((row) => row.message === message && !row.sub);

/** The place of a row, or of the one that it is folded into. */
function placeOf(rows, row) {
  const places = new Map(rows.map((one, at) => [one, at]));
  let one = row;
  while (one && !places.has(one)) one = one.parent;
  return one ? places.get(one) : -1;
}

/** The rows of a conversation's subject and of another event that somebody opened; without a subject those of the critical path. */
function toldIn(rows, subject, opened) {
  const of = (event) => rowOf(rows, rows.find(({ message }) => message.event === event)?.message, event);
  const other = of(opened);
  return [...(subject ? [of(subject)] : rows.filter(({ message, sub }) => message.critical && !sub)), other?.parent ? other : null].filter(Boolean);
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

function Row({ row, folded, place, height, model, selected, x, pixels, onFold, onTip, onSelect }) {
  const { message, depth, copies, sub, isInner, led } = row;
  const shapes = useMemo(() => rowShapes(row, x, model, pixels), [row, x, model, pixels]); // not at each move of the pointer
  const { bars, marks, words, spans, label: times } = shapes;
  const from = visible(nameOf(model.names, message.participant));
  const [copy] = copies;
  const more = folded && html`<span class="badge">+${led}</span>`;
  const choose = (event) => {
    if (event.target.closest("a")) return;
    const one = Number(event.target.dataset?.event) || eventOf(row);
    onSelect(one, { panel: "on" });
  };
  const label = sub
    ? `${visible(message.type)} in ${visible(copy.queue)}, ${copy.state.replaceAll("_", " ")}: ${times}`
    : `${visible(message.type)} from ${from}, ${afterText(message.offset)}, ${message.outcome}${message.critical ? ", on the critical path" : ""}`;
  return html`<div class="conv-row ${place.chosen ? "chosen" : ""}" id=${place.id} role="treeitem" aria-label=${label}
      aria-level=${depth + 1} aria-selected=${String(place.chosen)} aria-expanded=${isInner ? String(!folded) : undefined}
      style=${{ top: place.top, height: `${height}px` }} onClick=${choose}
      onPointerMove=${(e) => onTip({ message, x: e.clientX, y: e.clientY })} onPointerLeave=${() => onTip(null)}>
    <div class="conv-row-name" style=${{ paddingLeft: `${8 + Math.min(depth, MOST_INDENT) * INDENT}px` }}>
      <span class="fold" aria-hidden="true" onClick=${(e) => isInner && (e.stopPropagation(), onFold(row, !folded))}>${isInner ? (folded ? "▸" : "▾") : ""}</span>
      ${depth > MOST_INDENT && html`<span class="soft small">${depth}</span>`}
      ${sub
        ? html`<span class="cut copy">→ <${Queue} vhost=${model.answer.vhost} name=${copy.queue} still /></span>${more}`
        : html`<span class="conv-sign ${message.outcome}" title=${message.outcome}></span>
            <bdi class="cut ${message.critical ? "strong" : ""}">${visible(message.type)}</bdi>
            ${more}
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
