// What should hold: held while events come, what did not hold, and over a period.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { useResource } from "../core/resource.js";
import { vhost } from "../core/route.js";
import { busiestVhost } from "../core/traces.js";
import { Held } from "./held.js";
import { KINDS, LearnReports } from "./reports-view.js";
import { Violations } from "./violations.js";

const ONLY = KINDS.filter(([kind]) => kind === "assertions");
const NONE = "A report judges a file of assertions over a period, also those that are not held while events come, and shows where they do not hold.";

export default function AssertionsView() {
  const chosen = vhost.value;
  const loaded = useResource((signal) => api.assertions(chosen, signal), [chosen]);
  const name = chosen ?? busiestVhost(); // whose assertions a form is about
  const file = fileOf((loaded.data ?? []).filter((one) => one.vhost === name));
  return html`
    <${Held} loaded=${loaded} name=${name} file=${file} />
    <${Violations} />
    <${LearnReports} title="Over a period" note="judged by jobs" kinds=${ONLY} none=${NONE} file=${file} />`;
}

// Which texts YAML takes as they stand; the others are written as JSON, which YAML is as well.
const PLAIN = /^(?!null$)[a-z_][\w.-]*( [\w.-]+)*$/i;

/** Assertions as the file that sets them. */
const fileOf = (held) => held.map(({ assertion }) =>
  Object.entries(assertion).map(([key, value], place) => `${place ? "  " : "- "}${key}: ${written(value)}\n`).join("")).join("");

function written(value) {
  if (Array.isArray(value)) return `[${value.map(written).join(", ")}]`;
  return PLAIN.test(value) || /^\d+(ms|s|min|h|d)$/.test(value) ? String(value) : JSON.stringify(value);
}
