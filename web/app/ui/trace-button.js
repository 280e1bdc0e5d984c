import { useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { mayWrite } from "../core/session.js";
import { reloadTraces } from "../core/traces.js";
import { visible } from "../core/format.js";
import { attempt } from "../core/notices.js";
import { ask } from "../core/questions.js";
import { Icon } from "./icons.js";
import { WishFields } from "./wish.js";

const RUNNING = new Set(["starting", "running", "waiting"]);
const STOPPING =
  "What is published and delivered until it is started again will not be recorded: that is a gap, and answers across it are not complete. The events that are stored stay.";
const COSTS =
  "From then on it costs the broker one more message for each publish and each delivery, and disk for their events. What happened before is not known.";
export const isRunning = (state) => RUNNING.has(state);

/** `state`: none if it was never traced: then the user chooses what to trace. */
export function TraceButton({ vhost, state, main = false }) {
  const [busy, setBusy] = useState(false);
  const running = isRunning(state);

  const act = async () => {
    if (busy) return;
    const name = visible(vhost);
    const wish = { participant: "client" };
    const fields = state === "none" && html`<${WishFields} wish=${wish} />`;
    const sure = running
      ? await ask(`Stop the trace of ${name}?`, STOPPING, "Stop the trace")
      : await ask(`Start the trace of ${name}?`, COSTS, "Start the trace", { fields, tone: "main" });
    if (!sure) return;
    setBusy(true);
    if (running) await attempt(() => api.stopTrace(vhost), `The trace of ${name} is stopping.`);
    else await attempt(() => api.startTrace(vhost, state === "none" ? wish : undefined), `The trace of ${name} is starting.`);
    await reloadTraces();
    setBusy(false);
  };

  const refused = mayWrite.value ? undefined : "Only an administrator may start and stop traces";
  return html`<button class="button small ${main && !running ? "main" : ""}"
    disabled=${!mayWrite.value} aria-disabled=${String(busy)} title=${refused} onClick=${act}
    data-focus=${`trace of ${vhost}`}
    aria-label=${`${running ? "Stop" : "Start"} the trace of ${visible(vhost)}`}>
    <${Icon} name=${running ? "stop" : "play"} />${running ? "Stop" : "Start"}
  </button>`;
}
