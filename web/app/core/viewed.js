// Which part of the record is looked at: the tab that is shown says so, and the banner what is known of it.
import { useEffect } from "../../vendor/hooks.js";
import { signal } from "../../vendor/signals.js";

/** `{vhost, since, until, what}`; times as ISO text, null: from the beginning, until now. Null: everything. */
export const viewed = signal(null);

/** Says what is looked at while the calling component is shown. `what` names it: "the rows in view". */
export function useViewed(vhost, since, until, what) {
  useEffect(() => {
    viewed.value = since === undefined ? null : { vhost, since, until, what };
  }, [vhost, since, until, what]);
  useEffect(() => () => (viewed.value = null), []);
}
