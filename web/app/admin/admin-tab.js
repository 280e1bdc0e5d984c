import { html } from "../core/html.js";
import { expertOpen } from "../core/preferences.js";
import { vhost } from "../core/route.js";
import { traces } from "../core/traces.js";
import { Expert } from "../ui/fold.js";
import { GapsTable } from "../ui/gaps-table.js";
import { Participants, useParticipants } from "./participants.js";
import { Quarantine } from "./quarantine.js";
import { Preferences, Service } from "./service.js";
import { StopTraces, TraceCounters, TraceSettings } from "./trace-settings.js";

export default function AdminTab() {
  const shown = (traces.value.data ?? []).filter((t) => !vhost.value || t.vhost === vhost.value);
  const participants = useParticipants();
  return html`<div class="page-inner">
    <div class="page-title"><h1>Traces and participants</h1>
      <p>What is recorded, who acts, and how this page looks.</p></div>
    <${TraceSettings} participants=${participants.data ?? []} />
    <${GapsTable} traces=${shown} />
    <${Participants} loaded=${participants} />
    <${Quarantine} />
    <div class="columns-2"><${Preferences} /><${Service} /></div>
    <${StopTraces} shown=${shown} />
    <${Expert} what="counters and clocks">${expertOpen.value && html`<div class="page-inner inner">
      <${TraceCounters} /><${Participants} loaded=${participants} isAdvanced />
    </div>`}<//>
  </div>`;
}
