// The running service, and this browser's preferences.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { clock } from "../core/preferences.js";
import { useResource } from "../core/resource.js";
import { user } from "../core/session.js";
import { reasonOf, visible } from "../core/format.js";
import { StateMark, Value } from "../ui/marks.js";
import { Choice, Panel } from "../ui/panel.js";

const LINKS = [
  ["metrics", "Metrics", "for Prometheus"],
  ["openapi.json", "OpenAPI", "description of the REST API"],
  ["health/ready", "Readiness", "as probes see it"],
];

export function Service() {
  const { data, error } = useResource(api.ready, []);
  const checks = Object.entries(data?.checks ?? {});
  return html`<${Panel} title="Service">
    <dl class="facts">
      <dt>Health</dt>
      <dd>${data
        ? html`<${StateMark} state=${data.status === "ok" ? "running" : "failed"}>${visible(data.status ?? "ready")}<//>`
        : error
          ? html`<${StateMark} state="failed">not ready<//> ${reasonOf(error)}`
          : "…"}</dd>
      ${checks.map(
        ([name, state]) => html`<dt key=${name}>${visible(name)}</dt>
          <dd><${Value}>${typeof state === "string" ? state : JSON.stringify(state)}<//></dd>`,
      )}
      <dt>Signed in as</dt>
      <dd><${Value}>${user.value.name}<//> <span class="soft">${user.value.tags.map((t) => visible(t)).join(", ")}</span></dd>
      <dt>Rights</dt>
      <dd>${user.value.may_write ? "read, start, stop, export and delete" : "read"}</dd>
      ${LINKS.map(
        ([address, label, note]) => html`<dt key=${address}>${label}</dt>
          <dd><a href=${address} target="_blank" rel="noopener">/${address}</a> <span class="soft">${note}</span></dd>`,
      )}
    </dl>
  <//>`;
}

const CLOCK_OPTIONS = [
  ["local", "Local"],
  ["utc", "UTC"],
];

export function Preferences() {
  return html`<${Panel} title="This browser">
    <dl class="facts roomy">
      <dt>Times</dt>
      <dd><${Choice} label="Times" options=${CLOCK_OPTIONS} value=${clock.value} onChange=${(v) => (clock.value = v)} /></dd>
    </dl>
  <//>`;
}
