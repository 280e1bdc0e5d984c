import { html } from "../core/html.js";
import { clock, REFRESH_CHOICES, refreshSeconds, theme } from "../core/preferences.js";
import { Choice, Panel } from "../ui/panel.js";

const CLOCK_OPTIONS = [
  ["local", "Local"],
  ["utc", "UTC"],
];
const THEME_OPTIONS = [
  ["system", "System"],
  ["light", "Light"],
  ["dark", "Dark"],
];

export function Preferences() {
  return html`<${Panel} title="This browser">
    <dl class="facts roomy">
      <dt>Times</dt>
      <dd><${Choice} label="Times" options=${CLOCK_OPTIONS} value=${clock.value} onChange=${(v) => (clock.value = v)} /></dd>
      <dt>Theme</dt>
      <dd><${Choice} label="Theme" options=${THEME_OPTIONS} value=${theme.value} onChange=${(v) => (theme.value = v)} /></dd>
      <dt>Refresh</dt>
      <dd><${Choice} label="Refresh" value=${refreshSeconds.value} onChange=${(v) => (refreshSeconds.value = v)}
        options=${REFRESH_CHOICES.map((n) => [n, n ? `${n} s` : "None"])} /></dd>
    </dl>
  <//>`;
}
