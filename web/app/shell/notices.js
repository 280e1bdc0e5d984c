// Short messages in the corner: what was done, what was refused. Errors stay until closed.
import { signal } from "../../vendor/signals.js";
import { sentence } from "../core/format.js";
import { html } from "../core/html.js";
import { Icon } from "../ui/icons.js";

const STAY_MS = 5000;
const MOST = 4;
const notices = signal([]);
let last = 0;

export function tell(text, tone = "good") {
  const notice = { id: (last += 1), text, tone };
  notices.value = [...notices.peek().slice(1 - MOST), notice];
  if (tone === "good") setTimeout(() => dismiss(notice.id), STAY_MS);
}

/** Runs an action and tells of its refusal; gives whether it went through. */
export async function attempt(action, done) {
  try {
    await action();
    if (done) tell(done);
    return true;
  } catch (error) {
    tell(sentence(error.reason ?? String(error)), "bad");
    return false;
  }
}

function dismiss(id) {
  notices.value = notices.peek().filter((notice) => notice.id !== id);
}

export function Notices() {
  return html`<div class="notices" role="status" aria-live="polite">
    ${notices.value.map(
      ({ id, text, tone }) => html`<div class="notice ${tone}" key=${id}>
        <p>${text}</p>
        <button class="button quiet icon small" aria-label="Close this message"
          onClick=${() => dismiss(id)}><${Icon} name="close" /></button>
      </div>`,
    )}
  </div>`;
}
