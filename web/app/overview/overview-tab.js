import { html } from "../core/html.js";
import { clockTime, compact, count, percent, rate } from "../core/format.js";
import { href, vhost } from "../core/route.js";
import { mayWrite, user } from "../core/session.js";
import { reloadTraces, traces } from "../core/traces.js";
import { FindConversation } from "../ui/find-conversation.js";
import { isChosen, isMute, losses } from "../ui/gaps.js";
import { GapsTable } from "../ui/gaps-table.js";
import { Value } from "../ui/marks.js";
import { Failure, Panel, pending } from "../ui/panel.js";
import { Word } from "../ui/term.js";
import { slowFigure, SlowNow, useSlow } from "../ui/slow-now.js";
import { TraceButton } from "../ui/trace-button.js";
import { failuresFigure, FailuresNow, useFailures } from "./failures-now.js";
import { HiddenWays } from "./hidden-ways.js";
import { InHand } from "./in-hand.js";
import { Proposals } from "./proposals.js";
import { RatesPlot } from "./rates-plot.js";
import { TracesTable } from "./traces-table.js";
import { waitingFigure, WaitingNow, useWaiting } from "./waiting-now.js";

export default function OverviewTab() {
  const { data, error } = traces.value;
  const waiting = pending({ data, error, reload: () => reloadTraces() }, "traces");
  if (waiting) return html`<div class="page-inner"><h1 class="unseen">Overview</h1>${waiting}</div>`;

  const chosen = vhost.value;
  const rows = vhostRows(data, chosen);
  const shown = rows.map((row) => row.trace).filter(Boolean);
  return html`<div class="page-inner">
    <div class="page-title">
      <h1>${chosen ? html`<${Value}>${chosen}<//>` : "All virtual hosts"}</h1>
      <p>What was published, what was received, and what caused it.</p>
    </div>
    ${error && html`<${Failure} error=${error} onRetry=${() => reloadTraces()} />`}
    ${shown.length === 0
      ? html`<${NothingTraced} rows=${rows} />`
      : html`<${FindConversation} />
          <${Present} vhost=${chosen} />
          <${Figures} shown=${shown} />
          <${RatesPlot} vhost=${chosen} traces=${shown} />
          <${Proposals} traces=${shown} />
          <${InHand} vhost=${chosen} />
          <${TracesTable} rows=${rows} />
          <${HiddenWays} traces=${shown} />
          <${GapsTable} traces=${shown} />`}
  </div>`;
}

function vhostRows(data, chosen) {
  const names = new Set([...user.value.vhosts, ...data.map((trace) => trace.vhost)]);
  const by = new Map(data.map((trace) => [trace.vhost, trace]));
  return [...names]
    .filter((name) => !chosen || name === chosen)
    .map((name) => ({ vhost: name, trace: by.get(name) ?? null }))
    .sort((a, b) => !a.trace - !b.trace || (a.vhost < b.vhost ? -1 : 1));
}

/** The first that an operator asks: what fails, what waits, and what became slow. */
function Present({ vhost: of }) {
  const [failures, waiting, slow] = [useFailures(of), useWaiting(of), useSlow(of)];
  const figures = [failuresFigure(failures, of) ?? ["Failures", "…", "counting"], waitingFigure(waiting, of) ?? ["Waiting", "…", "counting"], slowFigure(slow, of)];
  return html`<${FigureList} now figures=${figures} times=${[failures, waiting, slow].map(({ at }) => at)} />
    <${FailuresNow} vhost=${of} loaded=${failures} />
    <div class="side-by-side"><${WaitingNow} vhost=${of} loaded=${waiting} />
      <${SlowNow} loaded=${slow} tools=${html`<a class="button small" href=${href("durations", { vhost: of })}>Since when is it slow?</a>`} /></div>`;
}

const OLD_MS = 60_000;

/** `figures`: name, value, note, and a tone where something is wrong; `times`: of when each is (ms), shown where the bar's is much later. */
const FigureList = ({ figures, now, times = [] }) => html`<dl class="figures ${now ? "now" : ""}">
  ${figures.map(
    ([name, value, note, tone], i) => html`<div class="figure" key=${name}>
      <dt><${Word}>${name}<//>${traces.value.at - times[i] > OLD_MS && html` <span class="as-of">as of ${clockTime(times[i])}</span>`}</dt><dd class=${tone || ""}>${value}</dd><dd class="note">${note}</dd>
    </div>`,
  )}
</dl>`;

function Figures({ shown }) {
  const sum = (pick) => shown.reduce((total, trace) => total + (pick(trace) ?? 0), 0);
  const received = sum((t) => t.counters.received);
  const unmatched = sum((t) => t.counters.unmatched);
  const gaps = sum(losses);
  const isPartial = shown.some((t) => t.gaps.some(isChosen));
  const open = shown.reduce((total, t) => total + t.gaps.filter((gap) => !gap.until && !isChosen(gap)).length, 0);
  const mute = shown.filter(isMute).length;
  const record = mute ? (mute < shown.length ? `${count(mute)} of ${count(shown.length)} not recorded` : "not recorded now") : gaps ? (open ? `${count(open)} still open` : "all have ended") : `the record is ${isPartial ? "partial by choice" : "complete"}`;
  const lags = shown.map((t) => t.lag).filter((lag) => lag != null);
  const figures = [
    ["Rate", rate(sum((t) => t.rate)), "of events, in the last 10 s"],
    ["Events stored", compact(sum((t) => t.events)), html`<a href=${href("events")}>show them</a>`],
    ["Participants", compact(sum((t) => t.participants)), "who took part"],
    ["Lag", lags.length ? compact(lags.reduce((a, b) => a + b)) : "–", "messages to read"],
    ["Unmatched", percent(unmatched, received), `${count(unmatched)} of ${compact(received)} received`],
    ["Gaps", compact(gaps), `${record}${shown.some((t) => t.doubts.length) ? ", not sound" : ""}`, (gaps > 0 || mute > 0) && "warn"],
  ];
  return html`<${FigureList} figures=${figures} />`;
}

function NothingTraced({ rows }) {
  return html`<${Panel} title="Nothing is traced yet">
    <div class="empty">
      <h2>Start a trace to see what causes what</h2>
      <p>From then on every publish and delivery of that virtual host is stamped with a logical clock
        and stored, so that any two can be compared and the chain between them restored. What
        happened before is not known. Tracing costs the broker one more message for each publish
        and each delivery.</p>
      ${!mayWrite.value && html`<p>You may look but not start a trace: ask an administrator.</p>`}
      <div class="start-list">
        ${rows.map(
          ({ vhost }) => html`<div class="start-row" key=${vhost}>
            <strong><${Value} cut>${vhost}<//></strong>
            <${TraceButton} vhost=${vhost} state="none" main />
          </div>`,
        )}
      </div>
    </div>
  <//>`;
}
