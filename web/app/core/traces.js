// The state of every trace, kept fresh for the whole page, and the rates computed from it.
import { signal } from "../../vendor/signals.js";
import { useEffect } from "../../vendor/hooks.js";
import { api } from "./api.js";
import { toMicros } from "./format.js";
import { useResource, useRetry } from "./resource.js";

const KEPT_SAMPLES = 720;
const SEED_SECONDS = 600;
const BIN_SECONDS = 5;
const MOST_SEEDED = 12;

/** `{data: [traces] | undefined, error, at}`; `at`: when the data was asked for, in ms. */
export const traces = signal({ data: undefined, error: null, at: null });

/** `[{vhost, at (s), seconds, published, received, unmatched}]`: counts over the `seconds` to `at`. */
export const rateSamples = signal([]);

let before = null; // the counters at the last poll, by vhost
let seeded = false;

/** The traced virtual host with the most events, or null: shown when none is chosen. */
export function busiestVhost() {
  const list = traces.value.data ?? [];
  if (!list.length) return null;
  return list.reduce((a, b) => (b.events > a.events ? b : a)).vhost;
}

export async function reloadTraces(abort) {
  try {
    const { data, at } = await api.traces(abort);
    sample(data, at / 1000);
    traces.value = { data, error: null, at };
  } catch (error) {
    if (abort?.aborted) return;
    before = null; // events counted meanwhile may have happened at any time in it
    traces.value = { ...traces.peek(), error };
  }
}

/** Polls while the calling component is shown. */
export function useTracesPolling() {
  useRetry(traces.value.error, reloadTraces);
  useResource(reloadTraces, []);
}

function sample(list, at) {
  // A trace that is not recording has no rate: it would be 0.
  const running = list.filter((trace) => trace.state === "running");
  const now = new Map(running.map((trace) => [trace.vhost, { at, ...trace.counters }]));
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

/** Fills the past of the plot, once it is shown; traces are known then. */
export function useSeededRates() {
  useEffect(() => {
    if (!seeded) seed();
    seeded = true;
  }, []);
}

/** By the service's counts, for the traces with the most events. */
async function seed() {
  const list = [...(traces.peek().data ?? [])].sort((a, b) => b.events - a.events);
  const until = Math.floor(Date.now() / 1000 / BIN_SECONDS) * BIN_SECONDS;
  const past = (await Promise.all(list.slice(0, MOST_SEEDED).map((trace) => binsOf(trace, until)))).flat();
  const known = rateSamples.peek();
  const first = known.length ? known[0].at - known[0].seconds : until;
  const seeded = past.filter((bin) => bin.at <= first).sort((a, b) => a.at - b.at);
  // The number of samples stays the same: from now on each new one drops the oldest.
  rateSamples.value = [...seeded, ...known].slice(-Math.max(KEPT_SAMPLES, seeded.length));
}

/** A trace's counts up to a time, in bins that end before it. */
async function binsOf({ vhost, created_at: created }, until) {
  const since = Math.ceil(Math.max(until - SEED_SECONDS, toMicros(created) / 1e6) / BIN_SECONDS) * BIN_SECONDS;
  if (since >= until) return [];
  const iso = (seconds) => new Date(seconds * 1000).toISOString();
  const asked = { vhost, since: iso(since), until: iso(until), buckets: (until - since) / BIN_SECONDS };
  try {
    const { buckets } = await api.histogram(asked);
    return buckets
      .map(({ published, received, unmatched }, n) => {
        const at = since + (n + 1) * BIN_SECONDS;
        return { vhost, at, seconds: BIN_SECONDS, published, received, unmatched };
      })
      .filter((bin) => bin.published !== null);
  } catch {
    return []; // the plot starts empty; the error shows elsewhere
  }
}
