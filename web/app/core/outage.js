// While the service, or what stands behind it, is away: ask again until it is back.
import { useEffect, useRef } from "../../vendor/hooks.js";

export const ASK_AGAIN_MS = 3000;
const AWAY = [0, 502, 503, 504]; // 0: no answer at all

export const isOutage = ({ status }) => AWAY.includes(status);

/** Calls `again()` some time after each new `error` that an outage made; not in a hidden page. */
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
