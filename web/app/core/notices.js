// Short messages: what was done, what was refused. Errors stay until closed.
import { signal } from "../../vendor/signals.js";
import { reasonOf } from "./format.js";

const STAY_MS = 5000;
const MOST = 4;
let last = 0;

/** `[{id, text, tone}]`, the oldest first. */
export const notices = signal([]);

export function tell(text, tone = "good") {
  const notice = { id: (last += 1), text, tone };
  notices.value = [...notices.peek().slice(1 - MOST), notice];
  if (tone === "good") setTimeout(() => dismiss(notice.id), STAY_MS);
}

export function dismiss(id) {
  notices.value = notices.peek().filter((notice) => notice.id !== id);
}

/** Runs an action, reports its failure, and returns whether it succeeded. */
export async function attempt(action, done) {
  try {
    await action();
    if (done) tell(done);
    return true;
  } catch (error) {
    tell(reasonOf(error), "bad");
    return false;
  }
}
