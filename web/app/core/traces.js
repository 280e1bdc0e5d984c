// The state of every trace, kept fresh for the whole page, and the rates computed from it.
import { signal } from "../../vendor/signals.js";
import { useEffect } from "../../vendor/hooks.js";
import { api } from "./api.js";
import { toMicros } from "./format.js";
import { refreshSeconds } from "./preferences.js";
import { useRetry } from "./resource.js";

const KEPT_SAMPLES = 720;
const SEED_SECONDS = 600;
const SEED_EVENTS = 500;
const BIN_SECONDS = 5;

/** `{data: [traces] | undefined, error}` */
export const traces = signal({ data: undefined, error: null });

/** `[{vhost, at (s), seconds, published, received, unmatched}]`: counts over the `seconds` to `at`. */
export const rateSamples = signal([]);

let before = null; // the counters at the last poll, by vhost
let seeded = false;

/** The traced virtual host with the most events, or null: what is shown when none is chosen. */
export function busiestVhost() {
  const list = traces.value.data ?? [];
  if (!list.length) return null;
  return list.reduce((a, b) => (b.events > a.events ? b : a)).vhost;
}

export async function reloadTraces(abort) {
  try {
    const data = await api.traces(abort);
    sample(data);
    traces.value = { data, error: null };
  } catch (error) {
    if (!abort?.aborted) traces.value = { data: traces.peek().data, error };
  }
}

/** Polls while the calling component is shown. */
export function useTracesPolling() {
  const every = refreshSeconds.value;
  useRetry(traces.value.error, reloadTraces);
  useEffect(() => {
    const controller = new AbortController();
    let timer = 0;
    const run = async () => {
      if (!document.hidden) await reloadTraces(controller.signal);
      if (!seeded) seed(); // once; a change of the refresh interval must not abort it
      seeded = true;
      if (every && !controller.signal.aborted) timer = setTimeout(run, every * 1000);
    };
    run();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [every]);
}

function sample(list) {
  const at = Date.now() / 1000;
  const now = new Map(list.map((trace) => [trace.vhost, { at, ...trace.counters }]));
  const added = [];
  for (const [vhost, counters] of now) {
    const old = before?.get(vhost);
    // A counter that fell was reset by a restart; nothing is known about that span.
    if (!old || old.published > counters.published || at - old.at < 0.5) continue;
    added.push({
      vhost,
      at,
      seconds: at - old.at,
      published: counters.published - old.published,
      received: counters.received - old.received,
      unmatched: counters.unmatched - old.unmatched,
    });
  }
  before = now;
  if (added.length) rateSamples.value = [...rateSamples.peek(), ...added].slice(-KEPT_SAMPLES);
}

/** Fills the past of the plot from the newest events, as far back as one page of them reaches. */
async function seed() {
  const until = Date.now() / 1000;
  let since = until - SEED_SECONDS;
  let events;
  try {
    events = await api.events({
      since: new Date(since * 1000).toISOString(),
      page_size: SEED_EVENTS,
      payload: "none",
      columns: "id,vhost,type,match,recorded_at",
    });
  } catch {
    return; // the plot starts empty; the error shows elsewhere
  }
  if (events.length === SEED_EVENTS) since = toMicros(events.at(-1).recorded_at) / 1e6;
  const bins = emptyBins(events, since, until);
  for (const event of events) {
    const sums = bins.get(binKey(event.vhost, toMicros(event.recorded_at) / 1e6));
    if (!sums) continue; // in a bin that is only partly known
    sums[event.type] += 1;
    if (event.match === "unmatched") sums.unmatched += 1;
  }
  const known = rateSamples.peek();
  const first = known.length ? known[0].at - known[0].seconds : until;
  const seeded = [...bins.values()].filter((bin) => bin.at <= first).sort((a, b) => a.at - b.at);
  rateSamples.value = [...seeded, ...known].slice(-KEPT_SAMPLES);
}

const binKey = (vhost, at) => `${Math.floor(at / BIN_SECONDS)} ${vhost}`;

/** Bins of every traced virtual host that lie wholly between the two times and within its trace. */
function emptyBins(events, since, until) {
  const list = traces.peek().data ?? [];
  const begun = new Map(list.map((trace) => [trace.vhost, toMicros(trace.created_at) / 1e6]));
  const bins = new Map();
  for (const vhost of new Set([...begun.keys(), ...events.map((event) => event.vhost)])) {
    const from = Math.max(since, begun.get(vhost) ?? since);
    for (let n = Math.ceil(from / BIN_SECONDS); (n + 1) * BIN_SECONDS <= until; n += 1) {
      bins.set(binKey(vhost, n * BIN_SECONDS), newBin(vhost, n));
    }
  }
  return bins;
}

function newBin(vhost, bin) {
  const at = (bin + 1) * BIN_SECONDS;
  return { vhost, at, seconds: BIN_SECONDS, published: 0, received: 0, unmatched: 0 };
}
