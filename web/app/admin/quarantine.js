import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { bytes, dateTime, said } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { vhost } from "../core/route.js";
import { Value } from "../ui/marks.js";
import { Panel, pending } from "../ui/panel.js";
import { Table } from "../ui/table.js";

export function Quarantine() {
  const chosen = vhost.value;
  const loaded = useResource((signal) => api.quarantine(chosen, signal), [chosen]);
  const list = loaded.data;
  if (list?.length === 0) return null; // all could be read
  return html`<${Panel} title="Quarantine" flush note="trace messages that could not be read">
    ${!list
      ? pending(loaded, "the quarantine")
      : html`<${Table} label="Quarantine" heads="Time|Virtual host|Reason|Routing key|#Size"
              rows=${list} by=${["recorded_at", "vhost", "reason", "routing_key", "body_bytes"]}>
            ${(message) => html`<tr key=${message.id}>
                <td class="tabular">${dateTime(message.recorded_at)}</td>
                <td><${Value}>${message.vhost}<//></td>
                <td class="text">${said(message.reason)}</td>
                <td class="name"><${Value}>${message.routing_key}<//></td>
                <td class="number">${bytes(message.body_bytes)}</td>
              </tr>`}
          <//>`}
  <//>`;
}
