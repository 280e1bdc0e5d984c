// The part of the record in view: the open tab sets it, and the banner says how certain it is.
import { useEffect } from "../../vendor/hooks.js";
import { signal } from "../../vendor/signals.js";

/** `{vhost, since, until, what, answer}`; times as ISO text, null: from the beginning, until now. Null: everything. */
export const viewed = signal(null);

/**
 * Names the part in view while the calling component is shown. `what` names it: "the rows in view". Of an `answer`
 * the banner says what the answer says of itself.
 */
export function useViewed(vhost, since, until, what, answer = null) {
  useEffect(() => {
    viewed.value = since === undefined ? null : { vhost, since, until, what, answer };
  }, [vhost, since, until, what, answer]);
  useEffect(() => () => (viewed.value = null), []);
}

/** A name of what is open, for the document's title; null: the address says it. */
export const heading = signal(null);

export function useHeading(text) {
  useEffect(() => {
    heading.value = text;
    return () => (heading.value = null);
  }, [text]);
}

/** A time just after another: "until" leaves out events at its own time. */
export const justAfter = (time) => new Date(Date.parse(time) + 1).toISOString();

/** The end of the time of which a conversation says whether it is complete and sound; null: until now, as more may come. */
export const certainUntil = ({ truncated, counts, outcome, ended_at: end }) =>
  truncated || counts.waiting || ["open", "unknown"].includes(outcome) ? null : justAfter(end);
