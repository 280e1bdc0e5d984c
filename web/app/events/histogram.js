// Counts of events over time, under the filters in force; a brush chooses a part of it.
import { useEffect, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { count, moment, plural, reasonOf } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { patch, route } from "../core/route.js";
import { traces } from "../core/traces.js";

const BUCKETS = 80;
const LEAST_SECONDS = 10; // between two counts, however often the page refreshes

/** `filters` as the API takes them. */
export function Histogram({ filters }) {
  const { params } = route.value;
  const [kept, setKept] = useState(null);
  const [brush, setBrush] = useState(null); // [from, to], as numbers of buckets
  const isOpen = params.live !== "off" && !filters.until && isTraced(filters.vhost);
  const load = async (signal) => {
    const answer = await api.histogram({ ...filters, buckets: BUCKETS }, signal);
    return isOpen && answer.buckets.length ? untilNow(answer) : answer;
  };
  const { data, error } = useResource(load, [JSON.stringify(filters)], { every: params.live === "off" ? 0 : LEAST_SECONDS });
  useEffect(() => {
    if (data) setKept(data);
    setBrush(null);
  }, [data]);
  const narrowed = Boolean(params.since || params.until);
  if (error) return html`<p class="histogram-foot soft small">How they are spread over time is not known: ${reasonOf(error)}</p>`;
  const shown = data ?? kept;
  if (!shown?.buckets.length) return null;
  const at = (n) => timeOf(shown, n);
  const take = ([from, to]) =>
    patch({ since: at(Math.min(from, to)), until: at(Math.max(from, to) + 1), at: null, event: null });
  return html`<div class="histogram ${data ? "" : "old"}">
    <${Bars} shown=${shown} brush=${brush} onBrush=${setBrush} onTake=${take} />
    <div class="histogram-foot small soft">
      <span>${moment(shown.since)}</span>
      <span aria-live="polite">${brush
        ? html`${moment(at(Math.min(...brush)))} to ${moment(at(Math.max(...brush) + 1))}: ${plural(sum(shown, brush), "event")}`
        : html`${plural(shown.events, "event")}${shown.counted_since ? `, those before ${moment(shown.counted_since)} ${estimated(shown)}` : ""}`}
        ${narrowed && html` <button class="button small quiet" onClick=${() => patch({ since: null, until: null, at: null })}>All times</button>`}
      </span>
      <span>${shown.isToNow ? "now" : moment(shown.until)}</span>
    </div>
  </div>`;
}

const isTraced = (vhost) => (traces.value.data ?? []).every((trace) => trace.state === "running" || (vhost && trace.vhost !== vhost));

/** The same with the time since its end, of which nothing is recorded, unless that dwarfs the rest. */
function untilNow(answer) {
  const [since, until] = [answer.since, answer.until].map(Date.parse);
  const silent = Date.now() - until;
  if (silent > until - since) return answer;
  const empty = Array.from({ length: Math.max(0, Math.floor(silent / 1000 / answer.seconds)) }, (_, n) => ({ at: timeOf(answer, answer.buckets.length + n), events: 0, published: 0 }));
  return { ...answer, buckets: [...answer.buckets, ...empty], isToNow: true };
}

const timeOf = ({ since, seconds }, n) => new Date(Date.parse(since) + n * seconds * 1000).toISOString();
const estimated = ({ buckets }) => (buckets.some((one) => one.events === null) ? "not counted" : "estimated");

function sum({ buckets }, [from, to]) {
  return buckets.slice(Math.min(from, to), Math.max(from, to) + 1).reduce((all, one) => all + (one.events ?? 0), 0);
}

/** By the pointer: drag, or click a bar. By keys: arrows move, with Shift they widen, Enter takes. */
function Bars({ shown, brush, onBrush, onTake }) {
  const box = useRef(null);
  const { buckets } = shown;
  const most = Math.max(1, ...buckets.map((one) => one.events ?? 0));
  const placeOf = ({ clientX }) => {
    const { left, width } = box.current.getBoundingClientRect();
    return Math.min(buckets.length - 1, Math.max(0, Math.floor(((clientX - left) / width) * buckets.length)));
  };
  const begin = (event) => {
    if (event.button) return;
    box.current.setPointerCapture(event.pointerId);
    onBrush([placeOf(event), placeOf(event)]);
  };
  const move = (event) => box.current.hasPointerCapture(event.pointerId) && brush && onBrush([brush[0], placeOf(event)]);
  const end = () => brush && onTake(brush);
  const step = (by, widen) => {
    const [from, to] = brush ?? [buckets.length, buckets.length];
    const next = Math.min(buckets.length - 1, Math.max(0, to + by));
    onBrush(widen ? [Math.min(from, buckets.length - 1), next] : [next, next]);
  };
  const press = (event) => {
    const keys = {
      ArrowLeft: () => step(-1, event.shiftKey),
      ArrowRight: () => step(1, event.shiftKey),
      Enter: () => brush && onTake(brush),
      Escape: () => brush && onBrush(null),
    };
    if (!keys[event.key] || (!brush && event.key === "Escape")) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  };
  const inside = (n) => brush && n >= Math.min(...brush) && n <= Math.max(...brush);
  return html`<div class="bars" ref=${box} tabindex="0" role="slider" aria-label="Events over time: choose a period"
    aria-valuemin="0" aria-valuemax=${buckets.length - 1} aria-valuenow=${brush ? brush[1] : buckets.length - 1}
    aria-valuetext=${brush ? `${moment(timeOf(shown, Math.min(...brush)))} to ${moment(timeOf(shown, Math.max(...brush) + 1))}, ${plural(sum(shown, brush), "event")}` : "all of it"}
    onPointerDown=${begin} onPointerMove=${move} onPointerUp=${end} onKeyDown=${press}>
    ${buckets.map(
      (one, n) => html`<i key=${n} class=${`${inside(n) ? "chosen" : ""} ${one.events === null ? "unknown" : one.published === null ? "estimate" : ""}`}
        title=${`${moment(one.at)}: ${one.events === null ? "not counted" : count(one.events)}`}><b style=${{ height: `${one.events ? Math.max(4, (100 * one.events) / most) : 0}%` }}></b></i>`,
    )}
  </div>`;
}
