// Counting durations is some seconds behind what is stored, and further where capture needs the machine.
import { dateTime } from "./format.js";

const LATE_MS = 120_000;

/** The sentence on what is not counted, where that is more than a moment; `as_of` is null where all is. */
export const uncountedText = (as_of) =>
  as_of && Date.now() - Date.parse(as_of) > LATE_MS ? `What was stored after ${dateTime(as_of)} is not counted yet.` : null;
