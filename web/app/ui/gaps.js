// Gaps: losses, and what is left out by choice.

/** Whether a gap is no loss: only some exchanges and queues were asked for. */
export const isChosen = (gap) => gap.declared === true && !gap.quarantined;

/** How many gaps of a trace are no choice. */
export const losses = (trace) => trace.gaps.filter((gap) => !isChosen(gap)).length;
