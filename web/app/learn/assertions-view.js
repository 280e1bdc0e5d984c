// Assertions: those held while events come, their violations, and a check over a period.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { useResource } from "../core/resource.js";
import { vhost } from "../core/route.js";
import { busiestVhost } from "../core/traces.js";
import { fileOf } from "./assertion-file.js";
import { Held } from "./held.js";
import { KINDS, Reports } from "./reports-view.js";
import { Violations } from "./violations.js";

const ONLY = KINDS.filter(([kind]) => kind === "assertions");
const NONE = "A report judges a file of assertions over a period, also those that are not held while events come, and shows where they do not hold.";

export default function AssertionsView() {
  const chosen = vhost.value;
  const loaded = useResource((signal) => api.assertions(chosen, signal), [chosen]);
  const name = chosen ?? busiestVhost(); // whose assertions a form is about
  const held = (loaded.data ?? []).filter((one) => one.vhost === name).map(({ assertion }) => assertion);
  return html`
    <${Held} loaded=${loaded} name=${name} held=${held} />
    <${Violations} />
    <${Reports} title="Over a period" note="judged by jobs" kinds=${ONLY} none=${NONE} file=${fileOf(held)} />`;
}
