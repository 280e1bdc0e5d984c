// Silence: how long the virtual hosts in view have recorded no message although a trace runs. An idle broker is normal.
import { api } from "./api.js";
import { secondsSince } from "./format.js";
import { useResource } from "./resource.js";

const SILENT_SECONDS = 30;

/** True where the newest message of a running trace, at `last`, is so old that the broker is idle. */
export const isSilent = ({ state, rate }, last) => state === "running" && !(rate > 0) && last !== undefined && secondsSince(last) >= SILENT_SECONDS;

const newestAt = async (vhost, abort) => (await api.events({ vhost, page_size: 1, columns: "recorded_at", payload: "none" }, abort))[0]?.recorded_at;

/** The times of the newest messages of `shown` traces, by virtual host. */
export function useLastTimes(shown) {
  const load = async (abort) => new Map(await Promise.all(shown.map(async ({ vhost }) => [vhost, await newestAt(vhost, abort)])));
  return useResource(load, [JSON.stringify(shown.map((trace) => [trace.vhost, trace.last_event_id]))], { every: 0 }).data;
}

/** The time of the newest message of `shown` traces, those of `vhost` or of all, as ISO text, while there is silence; else null. */
export function useSilence(vhost, shown) {
  const isIdle = shown.some(({ state }) => state === "running") && !shown.some(({ rate }) => rate > 0);
  const { data: last } = useResource((abort) => (isIdle ? newestAt(vhost, abort) : null), [vhost, isIdle, Math.max(0, ...shown.map((trace) => trace.last_event_id))], { every: 0 });
  return last && secondsSince(last) >= SILENT_SECONDS ? last : null;
}
