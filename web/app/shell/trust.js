// One line on every tab: whether the shown part of the record is complete and sound, and how old
// that knowledge is.
import { useEffect, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { ageOf, clockTime, count, dateTime, moment, plural, said, sentence, span, visible } from "../core/format.js";
import { isStale, outage } from "../core/health.js";
import { helpRead } from "../core/preferences.js";
import { useResource } from "../core/resource.js";
import { href, view, vhost } from "../core/route.js";
import { user } from "../core/session.js";
import { silence, useSilencePolling } from "../core/silence.js";
import { traces } from "../core/traces.js";
import { viewed } from "../core/viewed.js";
import { isChosen, isMute } from "../ui/gaps.js";
import { lazy } from "../ui/lazy.js";
import { Value } from "../ui/marks.js";
import { Term } from "../ui/term.js";
import { helpOpen } from "./help.js";

const SETTLED_MS = 400;
const MOST_GAPS = 5;
const IDLE = new Set(["failed", "stopped"]); // nothing is recorded until somebody starts it
const IdleTrace = lazy(() => import("./idle-trace.js"), "the trace's state");

export function Trust() {
  const period = useSettled(viewed.value);
  const { data: list, at } = traces.value;
  const chosen = period?.vhost ?? vhost.value;
  const shown = (list ?? []).filter((trace) => !chosen || trace.vhost === chosen);
  useSilencePolling(chosen, shown);
  const one = useCertainty(shown.length === 1 && !period?.answer ? chosen : null, period);
  if (!list) return html`<section class="trust" aria-label="What is known"><span class="soft">${outage.value ?? "Asking what is known …"}</span></section>`;
  const known = period?.answer ? knownBy(period) : one ?? knownOf(shown, period);
  const idle = shown.length === 1 && IDLE.has(shown[0].state) ? shown[0] : null;
  const missed = missedNow(shown, known.until);
  const verdict = verdictOf(known, shown, missed);
  return html`<section class="trust ${isStale.value ? "stale" : ""}" aria-label="What is known">
    <span class="trust-verdict" aria-live="polite"><span class="soft">Recording:</span> <${Part} tone=${verdict.tone} term=${verdict.term}>${verdict.word}<//>
    ${shown.length > 0 && html`<${Part} tone=${known.doubts.length ? "warn" : "good"} term="sound">${known.doubts.length ? "not sound" : "sound"}<//>`}</span>
    <span class="trust-period">${chosen ? html`<${Value} cut>${chosen}<//>` : hostsText(list)}, ${periodText(known, period)}</span>
    ${silence.value && !outage.value && !period?.until && html`<span class="warn-text"><span class="off-phone">No message recorded since ${moment(silence.value)} (${ageOf(silence.value)})</span><span class="on-phone">No message for ${ageOf(silence.value)}</span></span>`}
    ${missed && !idle && html`<span class="badge warn trust-missed" title=${missed.names}><bdi class="cut">${missed.names}</bdi> <span class="nowrap">${missed.verb} not being recorded</span></span>`}
    <${Why} known=${known} />
    <${Age} at=${at} />
    ${!helpRead.value && html`<button class="button small quiet" onClick=${() => (helpOpen.value = true)}>New here?</button>`}
    ${idle && html`<${IdleTrace} trace=${idle} />`}
  </section>`;
}

/** `all virtual hosts`, or how many of them have a record. */
function hostsText(list) {
  const all = new Set([...user.value.vhosts, ...list.map((trace) => trace.vhost)]).size;
  return list.length < all ? `${count(list.length)} of ${plural(all, "virtual host")}` : "all virtual hosts";
}

/** A part of the verdict, which stands out only where something is not right. */
const Part = ({ tone, term, children }) => html`<span class="trust-part ${tone === "good" ? "" : `badge ${tone}`}"><${Term} name=${term}>${children}<//></span>`;

/** A value once it has stayed the same for a moment: one scrolls over a thousand rows. */
function useSettled(value) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [value]);
  return settled;
}

/** The certainty of a period of one virtual host; the last answer until there is another. */
function useCertainty(name, period) {
  const wanted = name !== null && period !== null;
  const load = async (signal) =>
    wanted ? api.certainty({ vhost: name, since: period.since, until: period.until }, signal) : null;
  const { data } = useResource(load, [wanted && name, wanted && period.since, wanted && period.until]);
  const last = useRef(null);
  if (data !== undefined) last.current = data;
  return wanted && last.current?.vhost === name ? last.current : null;
}

/** The same as an answer says it of itself. */
const knownBy = ({ since, until, answer }) => ({ since, until, gaps: answer.gaps, gap_count: answer.gaps.length, doubts: answer.doubts ?? [], caveats: answer.caveats });

/** The same from what is known of whole traces. */
function knownOf(shown, period) {
  const begin = period?.since ? Date.parse(period.since) : -Infinity;
  const end = period?.until ? Date.parse(period.until) : Infinity;
  const gaps = shown
    .flatMap((trace) => trace.gaps.map((gap) => ({ ...gap, vhost: trace.vhost })))
    .filter((gap) => Date.parse(gap.since) < end && (!gap.until || Date.parse(gap.until) > begin));
  return {
    since: period?.since ?? null,
    until: period?.until ?? null,
    gaps,
    gap_count: gaps.length,
    doubts: [...new Set(shown.flatMap((trace) => trace.doubts))],
    known_since: null,
  };
}

/** The virtual hosts that are not being recorded, if the period reaches until now: `{names, verb}`. */
function missedNow(shown, until) {
  const missed = until ? [] : shown.filter(isMute);
  return missed.length ? { names: missed.map((trace) => visible(trace.vhost)).join(", "), verb: missed.length > 1 ? "are" : "is" } : null;
}

function verdictOf({ gaps, gap_count: all, since, until, known_since: from }, shown, missed) {
  if (!shown.length) return { tone: "", word: "unknown, not traced", term: "unknown" };
  const chosen = gaps.filter(isChosen).length;
  const now = !since && !until && !missed && completeSince(gaps, chosen);
  if (now) return { tone: "", word: `complete since ${moment(now)}; ${plural(all, "earlier gap")}`, term: "complete" };
  if (all > chosen) return { tone: "warn", word: `incomplete, ${plural(all - chosen, "gap")}`, term: "complete" };
  if (chosen) return { tone: "", word: "partial by choice", term: "partial" };
  if (since && from && Date.parse(since) < Date.parse(from)) {
    return { tone: "", word: `unknown before ${dateTime(from)}`, term: "unknown" };
  }
  if (missed) return { tone: "warn", word: "unknown", term: "unknown" };
  return { tone: "good", word: "complete", term: "complete" };
}

/** The time since when nothing wanted is missing; null while something is. */
function completeSince(gaps, chosen) {
  if (!gaps.length || chosen || gaps.some((gap) => !gap.until)) return null;
  return gaps.map(({ until }) => until).sort().at(-1);
}

function periodText({ since, until }, period) {
  if (!since && !until) return "all that was recorded";
  const times = since && until ? span(since, until) : `${since ? moment(since) : "the beginning"} to ${until ? moment(until) : "now"}`;
  return period?.what ? html`<span class="off-phone">${period.what}:${" "}</span>${times}` : times;
}

function Age({ at }) {
  const away = outage.value;
  if (!at) return null;
  return html`<span class="trust-age ${away ? "warn-text" : ""}">as of ${clockTime(at)}${away ? `. ${away}` : ""}</span>`;
}

/** The newest of these gaps. */
const Gaps = ({ gaps, still }) => html`<ul>${gaps.slice(-MOST_GAPS).reverse().map(
  (gap) => html`<li key=${`${gap.vhost} ${gap.id}`}>
    <span class="tabular">${dateTime(gap.since)}${gap.until ? ` to ${clockTime(gap.until)}` : still}</span>
    ${gap.vhost && !vhost.value && html` in <${Value}>${gap.vhost}<//>`}: ${said(gap.reason)}</li>`,
)}</ul>`;

/** The gaps and the doubts themselves. */
function Why({ known: { gaps: listed, gap_count, doubts, caveats = doubts } }) {
  const chosen = listed.filter(isChosen);
  const gaps = listed.filter((gap) => !isChosen(gap));
  const all = gap_count - chosen.length;
  const box = useRef(null);
  useEffect(() => {
    const outside = ({ target }) => {
      if (box.current && !box.current.contains(target)) box.current.open = false;
    };
    addEventListener("pointerdown", outside);
    return () => removeEventListener("pointerdown", outside);
  }, []);
  if (!listed.length && !caveats.length) return null;
  return html`<details class="trust-why" key=${view.value} ref=${box}>
    <summary>Why?</summary>
    <div class="sheet">
      ${caveats.length > 0 && html`<ul>${caveats.map((text) => html`<li key=${text}>${sentence(text)}</li>`)}</ul>`}
      ${gaps.length > 0 &&
      html`<p><strong>Gaps</strong></p>
        <${Gaps} gaps=${gaps} still=", still open" />
        ${all > MOST_GAPS && html`<p class="soft">and ${count(all - MOST_GAPS)} more</p>`}
        <p><a href=${href("overview")}>Show all gaps</a></p>`}
      ${chosen.length > 0 &&
      html`<p><strong>Left out by choice</strong></p>
        <${Gaps} gaps=${chosen} still=" to now" />`}
    </div>
  </details>`;
}
