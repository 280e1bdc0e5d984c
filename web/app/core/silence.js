// Silence: how long the virtual hosts in view have recorded no message although a trace runs. An idle broker is normal.
import { computed, signal } from "../../vendor/signals.js";
import { useEffect } from "../../vendor/hooks.js";
import { api } from "./api.js";
import { secondsSince } from "./format.js";
import { useResource } from "./resource.js";

const SILENT_SECONDS = 30;
const newest = signal(null);

/** True where the newest message of a running trace, at `last`, is so old that the broker is idle. */
export const isSilent = ({ state, rate }, last) => state === "running" && !(rate > 0) && last !== undefined && secondsSince(last) >= SILENT_SECONDS;

/** The time of the newest message in view, as ISO text, while there is silence; else null. */
export const silence = computed(() => (newest.value && secondsSince(newest.value) >= SILENT_SECONDS ? newest.value : null));

/** True if the silence began with something that happened at a time: then it says nothing of who acts. */
export const isSilentSince = (at) => silence.value !== null && Date.parse(silence.value) - Date.parse(at) < SILENT_SECONDS * 1000;

/** Asks for the newest message of `shown` traces, those of `vhost` or of all, while the calling component is shown. */
export function useSilencePolling(vhost, shown) {
  const isIdle = shown.some(({ state }) => state === "running") && !shown.some(({ rate }) => rate > 0);
  const newestAt = async (abort) => (await api.events({ vhost, page_size: 1, columns: "recorded_at", payload: "none" }, abort))[0]?.recorded_at;
  const { data: last = null } = useResource((abort) => (isIdle ? newestAt(abort) : null), [vhost, isIdle, Math.max(0, ...shown.map((trace) => trace.last_event_id))], { every: 0 });
  useEffect(() => void (newest.value = last), [last]);
}
