// Gaps: losses, and what is left out by choice.

/** True if a gap is no loss: only some exchanges and queues were asked for. */
export const isChosen = (gap) => gap.declared === true && !gap.quarantined;

/** True while nothing of a virtual host is recorded: its trace waits, failed or was stopped. */
export const isMute = ({ state }) => state === "waiting" || state === "failed" || state === "stopped";

/** The number of a trace's gaps that nobody chose. */
export const losses = (trace) => trace.gaps.filter((gap) => !isChosen(gap)).length;
