// One report, drawn by its kind.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { dateTime } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { hrefHere } from "../core/route.js";
import { useViewed } from "../core/viewed.js";
import { Value } from "../ui/marks.js";
import { Alert, Panel, pending } from "../ui/panel.js";
import { Assertions } from "./assertions.js";
import { Comparison } from "./comparison.js";
import { Correlations } from "./correlations.js";
import { Expectations } from "./expectations.js";

const KINDS = {
  expectations: ["Expectations", Expectations],
  comparison: ["Comparison", Comparison],
  correlations: ["Correlations", Correlations],
  assertions: ["Assertions", Assertions],
};

export function Shown({ id }) {
  const loaded = useResource((signal) => api.report(id, signal), [id], { every: 0 });
  const { data } = loaded;
  useViewed(data?.vhost, data?.since, data?.until, "this report", data);
  const [title, Body] = KINDS[data?.report] ?? ["Report"];
  return html`<${Panel} title=${title} id="report-panel" note=${data && html`<${Period} data=${data} />`}
      tools=${html`<a class="button small quiet" href=${hrefHere({ report: null, job: null })}>Close</a>`}>
    ${!data ? pending(loaded, "the report") : html`<div class="learnt"><${Cut} data=${data} /><${Body} data=${data} /></div>`}
  <//>`;
}

const Period = ({ data }) => html`<${Value}>${data.vhost}<//> from ${dateTime(data.since)} to ${dateTime(data.until)}`;

function Cut({ data }) {
  if (data.counted_all !== false && data.looked_at_all !== false) return null;
  return html`<${Alert} tone="calm">There is more than was counted: this is of a part of the period.<//>`;
}
