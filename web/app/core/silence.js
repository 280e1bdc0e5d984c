// Silence: how long the virtual hosts in view have recorded no message although a trace runs. An idle broker is normal.
import { api } from "./api.js";
import { secondsSince } from "./format.js";
import { useResource } from "./resource.js";

const SILENT_SECONDS = 30;

/** The time of the newest message of `shown` traces, those of `vhost` or of all, as ISO text, while there is silence; else null. */
export function useSilence(vhost, shown) {
  const isIdle = shown.some(({ state }) => state === "running") && !shown.some(({ rate }) => rate > 0);
  const load = (abort) => (isIdle ? api.events({ vhost, page_size: 1, columns: "recorded_at", payload: "none" }, abort) : []);
  const { data } = useResource(load, [vhost, isIdle, Math.max(0, ...shown.map((trace) => trace.last_event_id))], { every: 0 });
  const last = data?.[0]?.recorded_at;
  return last && secondsSince(last) >= SILENT_SECONDS ? last : null;
}
