// The state of every trace, kept fresh for the whole page, and the rates that follow from it.
import { signal } from "../../vendor/signals.js";
import { useEffect } from "../../vendor/hooks.js";
import { api } from "./api.js";
import { toMicros } from "./format.js";
import { refreshSeconds } from "./preferences.js";

const KEPT_SAMPLES = 720;
const SEED_SECONDS = 600;
const SEED_EVENTS = 500;
const BIN_SECONDS = 5;

/** `{data: [traces] | undefined, error}` */
export const traces = signal({ data: undefined, error: null });

/** `{vhost, at (s), seconds, published, received, unmatched}` with counts of that span. */
export const rateSamples = signal([]);

let before = null; // the counters at the last poll, by vhost

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
  useEffect(() => {
    const controller = new AbortController();
    let timer = 0;
    const run = async () => {
      if (!document.hidden) await reloadTraces(controller.signal);
      if (every && !controller.signal.aborted) timer = setTimeout(run, every * 1000);
    };
    run();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [every]);
  useEffect(() => {
    const controller = new AbortController();
    seed(controller.signal);
    return () => controller.abort();
  }, []);
}

function sample(list) {
  const at = Date.now() / 1000;
  const now = new Map(list.map((trace) => [trace.vhost, { at, ...trace.counters }]));
  const added = [];
  for (const [vhost, counters] of now) {
    const old = before?.get(vhost);
    // A counter that fell was reset by a new start; that span says nothing.
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

/** Fills the plot's past from the newest events, as far back as one page of them reaches. */
async function seed(abort) {
  const until = Date.now() / 1000;
  let since = until - SEED_SECONDS;
  let events;
  try {
    events = await api.events(
      {
        since: new Date(since * 1000).toISOString(),
        page_size: SEED_EVENTS,
        payload: "none",
        columns: "id,vhost,type,match,recorded_at",
      },
      abort,
    );
  } catch {
    return; // the plot then starts empty; what is wrong shows where it matters
  }
  if (events.length === SEED_EVENTS) since = toMicros(events.at(-1).recorded_at) / 1e6;
  const bins = new Map();
  for (const event of events) {
    const bin = Math.floor(toMicros(event.recorded_at) / 1e6 / BIN_SECONDS);
    const key = `${bin} ${event.vhost}`;
    const sums = bins.get(key) ?? newBin(event.vhost, bin);
    sums[event.type] += 1;
    if (event.match === "unmatched") sums.unmatched += 1;
    bins.set(key, sums);
  }
  const full = [...bins.values()].filter(
    (bin) => bin.at - BIN_SECONDS >= since && bin.at <= until - 1,
  );
  const known = rateSamples.peek();
  const first = known.length ? known[0].at - known[0].seconds : until;
  const seeded = full.filter((bin) => bin.at <= first).sort((a, b) => a.at - b.at);
  rateSamples.value = [...seeded, ...known].slice(-KEPT_SAMPLES);
}

function newBin(vhost, bin) {
  const at = (bin + 1) * BIN_SECONDS;
  return { vhost, at, seconds: BIN_SECONDS, published: 0, received: 0, unmatched: 0 };
}
