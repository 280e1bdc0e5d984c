// The live tail: one stream while it is on, reopened when it breaks.
import { useEffect, useRef, useState } from "../../vendor/hooks.js";
import { api, stream } from "./api.js";

const GATHER_MS = 150; // a busy broker must not redraw the table for each event
const FIRST_RETRY_MS = 1000;
const LAST_RETRY_MS = 30_000;

/**
 * Calls `onEvents(list)` with events as they are stored, while `wanted`. `from()` returns the id to
 * continue after.
 * Returns "off", "connecting", "on" or "broken".
 */
export function useTail({ wanted, filters, from, onEvents }) {
  const [state, setState] = useState("off");
  const latest = useRef({});
  latest.current = { from, onEvents };

  useEffect(() => {
    if (!wanted) return setState("off");
    const controller = new AbortController();
    const gather = gatherer((events) => latest.current.onEvents(events));
    follow({ filters, latest, gather, setState, signal: controller.signal });
    return () => {
      controller.abort();
      gather.stop();
    };
  }, [wanted, JSON.stringify(filters)]);

  return state;
}

async function follow({ filters, latest, gather, setState, signal }) {
  let lastEventId = latest.current.from();
  let retry = FIRST_RETRY_MS;
  while (!signal.aborted) {
    setState("connecting");
    const opened = performance.now();
    try {
      setTimeout(() => !signal.aborted && setState((s) => (s === "connecting" ? "on" : s)), 300);
      await stream(api.liveUrl(filters), {
        signal,
        lastEventId,
        onId: (id) => (lastEventId = id),
        onEvent: ({ id, data }) => {
          if (data.id === undefined) return; // a notice from the server, not an event
          lastEventId = id ?? data.id;
          gather.add(data);
        },
      });
    } catch (error) {
      if (signal.aborted) return;
      setState("broken");
      if (error.status === 401 || error.status === 400) return;
    }
    if (performance.now() - opened > LAST_RETRY_MS) retry = FIRST_RETRY_MS;
    await pause(retry, signal);
    retry = Math.min(retry * 2, LAST_RETRY_MS);
  }
}

function gatherer(deliver) {
  let waiting = [];
  let timer = 0;
  const flush = () => {
    timer = 0;
    const events = waiting;
    waiting = [];
    deliver(events);
  };
  return {
    add(event) {
      waiting.push(event);
      timer ||= setTimeout(flush, GATHER_MS);
    },
    stop: () => clearTimeout(timer),
  };
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
