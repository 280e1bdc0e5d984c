import { html } from "../core/html.js";
import { vhost } from "../core/route.js";
import { traces } from "../core/traces.js";
import { GapsTable } from "../ui/gaps-table.js";
import { Participants } from "./participants.js";
import { Quarantine } from "./quarantine.js";
import { Preferences, Service } from "./service.js";
import { TraceSettings } from "./trace-settings.js";

export default function AdminTab() {
  const shown = (traces.value.data ?? []).filter((t) => !vhost.value || t.vhost === vhost.value);
  return html`<div class="page-inner">
    <div class="page-title"><h1>Traces and participants</h1>
      <p>What each trace takes, who acted, and how this page looks.</p></div>
    <${TraceSettings} />
    <${GapsTable} traces=${shown} />
    <${Participants} />
    <${Quarantine} />
    <div class="columns-2"><${Service} /><${Preferences} /></div>
  </div>`;
}
