// Data that a component shows: loaded when it appears, reloaded when its inputs change or a refresh
// is due, aborted when it disappears. A failed refresh keeps the last good data and shows the error;
// an outage is retried whatever the refresh interval.
import { useCallback, useEffect, useMemo, useRef, useState } from "../../vendor/hooks.js";
import { keepAnswer, lastAnswer } from "./credentials.js";
import { refreshSeconds } from "./preferences.js";

export const ASK_AGAIN_MS = 3000;
const DOWN = [0, 502, 503, 504]; // 0: no answer at all

/** True if the service, the broker or the store is down. */
export const isOutage = ({ status }) => DOWN.includes(status);

const LOADING = { data: undefined, error: null, loading: true, at: null };

/**
 * `load(signal)` returns a promise. Returns `{data, error, loading, at, reload}`; `data` is undefined
 * until the first answer for these `inputs`, `at` is when it came (ms). `every` overrides the refresh in
 * seconds (0: once). With a `memory`, its name in this browser tab, the last answer stands until there is a new one.
 */
export function useResource(load, inputs, { every, memory } = {}) {
  const key = memory && JSON.stringify([memory, ...inputs]);
  const [state, setState] = useState({ ...LOADING, inputs });
  const [turn, setTurn] = useState(0);
  const latest = useRef(load);
  latest.current = load;
  const seconds = every ?? refreshSeconds.value;

  useEffect(() => {
    const controller = new AbortController();
    let timer = 0;
    const again = () => {
      if (seconds > 0) timer = setTimeout(run, seconds * 1000);
    };
    const run = async () => {
      if (document.hidden && timer) return again();
      try {
        const data = await latest.current(controller.signal);
        if (controller.signal.aborted) return;
        const answer = { data, at: Date.now() };
        setState({ ...answer, error: null, loading: false, inputs });
        if (key) keepAnswer(key, answer);
      } catch (error) {
        if (controller.signal.aborted) return;
        setState((before) => {
          const { data, at } = same(before.inputs, inputs) ? before : LOADING;
          return { data, at, error, loading: false, inputs };
        });
      }
      again();
    };
    run();
    return () => {
      controller.abort();
      clearTimeout(timer);
    };
  }, [...inputs, turn, seconds]);

  const reload = useCallback(() => setTurn((n) => n + 1), []);
  // Data of other inputs is never shown for these, not even before the effects have run.
  const shown = same(state.inputs, inputs) ? state : LOADING;
  useRetry(shown.error, reload);
  const last = useMemo(() => key && lastAnswer(key), [key]);
  return { ...shown, ...(shown.data === undefined && last), reload };
}

const same = (these, those) => these.every((each, i) => Object.is(each, those[i]));

/** Calls `again()` a while after each new `error` caused by an outage, unless the page is hidden. */
export function useRetry(error, again) {
  const latest = useRef(again);
  latest.current = again;
  useEffect(() => {
    if (!error || !isOutage(error)) return undefined;
    const timer = setInterval(() => {
      if (document.hidden) return;
      clearInterval(timer);
      latest.current();
    }, ASK_AGAIN_MS);
    return () => clearInterval(timer);
  }, [error]);
}
