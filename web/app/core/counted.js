// Counting durations is some seconds behind the store, and further when capture needs the machine.
import { dateTime } from "./format.js";

const LATE_MS = 120_000;

/** The sentence on uncounted events, if they are more than a moment's; `as_of` is null if all are counted. */
export const uncountedText = (as_of) =>
  as_of && Date.now() - Date.parse(as_of) > LATE_MS ? `Messages stored after ${dateTime(as_of)} are not counted yet.` : null;
