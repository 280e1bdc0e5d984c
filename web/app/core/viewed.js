// The part of the record in view: the open tab sets it, and the banner says how certain it is.
import { useEffect } from "../../vendor/hooks.js";
import { signal } from "../../vendor/signals.js";

/** `{vhost, since, until, what}`; times as ISO text, null: from the beginning, until now. Null: everything. */
export const viewed = signal(null);

/** Names the part in view while the calling component is shown. `what` names it: "the rows in view". */
export function useViewed(vhost, since, until, what) {
  useEffect(() => {
    viewed.value = since === undefined ? null : { vhost, since, until, what };
  }, [vhost, since, until, what]);
  useEffect(() => () => (viewed.value = null), []);
}
