// While the service, the broker or the store is down: retry until it is back.
import { useEffect, useRef } from "../../vendor/hooks.js";

export const ASK_AGAIN_MS = 3000;
const DOWN = [0, 502, 503, 504]; // 0: no answer at all

export const isOutage = ({ status }) => DOWN.includes(status);

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
