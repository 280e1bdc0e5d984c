// A virtual host's trace that is stopped or has failed: since when, and how it goes on.
import { html } from "../core/html.js";
import { moment, sentence } from "../core/format.js";
import { mayWrite } from "../core/session.js";
import { isChosen } from "../ui/gaps.js";
import { Value } from "../ui/marks.js";
import { Alert } from "../ui/panel.js";
import { TraceButton } from "../ui/trace-button.js";

export default function IdleTrace({ trace: { vhost, state, gaps, last_error: error } }) {
  const since = gaps.findLast((gap) => !gap.until && !isChosen(gap))?.since;
  return html`<${Alert} tone="warn" action=${mayWrite.value && html`<${TraceButton} vhost=${vhost} state=${state} main />`}>
    <strong><${Value}>${vhost}<//> is not being recorded</strong>${since && html` since <span class="tabular">${moment(since)}</span>`}: its trace ${state === "failed" ? "failed" : "was stopped"}.
    ${" "}${state === "failed" && error && html`${sentence(error)} `}What happens until it is started is lost.${!mayWrite.value && " Ask an administrator to start it."}
  <//>`;
}
