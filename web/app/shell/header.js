import { html } from "../core/html.js";
import {
  REFRESH_CHOICES,
  refreshSeconds,
  shownTheme,
  theme,
  THEMES,
} from "../core/preferences.js";
import { useResource } from "../core/resource.js";
import { HIDDEN, href, hrefBack, hrefHere, hrefTab, patch, route, tabOf, TABS, view, vhost } from "../core/route.js";
import { reloadUser, signOut, user, usesPassword } from "../core/session.js";
import { visible } from "../core/format.js";
import { Icon } from "../ui/icons.js";
import { Value } from "../ui/marks.js";
import { Alert } from "../ui/panel.js";
import { helpOpen } from "./help.js";
import { JobTray } from "./job-tray.js";

const ICON = document.querySelector("link[rel=icon]").href;
const THEME_ICONS = { system: "screen", light: "sun", dark: "moon" };

export function Header() {
  return html`<header class="top">
    <a class="brand" href=${href("overview")}><img src=${ICON} alt="" /><span>rabbitmq-itc</span></a>
    <nav class="tabs" aria-label="Tabs">
      ${TABS.map(
        (tab) => html`<a href=${hrefTab(tab)} key=${tab[0]}
          aria-current=${tab !== tabOf(view.value) ? undefined : tab[1].length > 1 ? "true" : "page"}>${tab[0]}</a>`,
      )}
    </nav>
    <div class="top-tools">
      <${VhostSelect} />
      <${RefreshSelect} />
      <${JobTray} />
      <${ThemeButton} />
      <button class="button quiet icon" aria-label="Keys and help" title="Help: an example, words, keys (?)"
        onClick=${() => (helpOpen.value = true)}><${Icon} name="help" /></button>
      <${Who} />
    </div>
  </header>
  <${Views} />
  <${Unknown} />
  <${Gone} />`;
}

/** The views of the tab that is shown, where it has several. */
function Views() {
  const [label, views] = tabOf(view.value);
  if (views.length < 2) return null;
  return html`<nav class="views" aria-label=${label}>
    ${views.filter(([name]) => name !== HIDDEN || view.value === HIDDEN).map(
      ([name, said]) => html`<a href=${hrefBack(name)} key=${name} class="button small quiet"
        aria-current=${view.value === name ? "page" : undefined}>${said}</a>`,
    )}
  </nav>`;
}

function Unknown() {
  const { unknown } = route.value;
  return unknown && html`<${Alert} tone="warn">There is no page <${Value}>${unknown}<//>: this is the overview.<//>`;
}

function Gone() {
  const name = vhost.value;
  if (!name || user.value.vhosts.includes(name)) return null;
  return html`<${Alert} tone="warn"
    action=${html`<a class="button small" href=${hrefHere({ vhost: null })}>All virtual hosts</a>`}>
    There is no virtual host <${Value}>${name}<//> that you can see: it was deleted, or you have no access to it.<//>`;
}

function VhostSelect() {
  const known = user.value.vhosts;
  const { reload } = useResource(reloadUser, []);
  const chosen = vhost.value ?? "";
  const all = chosen && !known.includes(chosen) ? [...known, chosen] : known;
  return html`<label class="labelled"><span>Virtual host</span>
    <select class="select" aria-label="Virtual host" value=${chosen} onFocus=${reload}
      onChange=${(e) => patch({ vhost: e.currentTarget.value, event: null, at: null })}>
      <option value="">All</option>
      ${all.map((name) => html`<option value=${name} key=${name}>${visible(name)}</option>`)}
    </select>
  </label>`;
}

function RefreshSelect() {
  return html`<label class="labelled"><span>Refresh</span>
    <select class="select" aria-label="Refresh" value=${String(refreshSeconds.value)}
      onChange=${(e) => (refreshSeconds.value = Number(e.currentTarget.value))}>
      ${REFRESH_CHOICES.map(
        (n) => html`<option value=${String(n)} key=${n}>${n ? `every ${n} s` : "none"}</option>`,
      )}
    </select>
  </label>`;
}

function ThemeButton() {
  const next = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length];
  const label = `Theme: ${theme.value}. Switch to ${next}`;
  return html`<button class="button quiet icon" aria-label=${label} title=${label}
    data-shown=${shownTheme.value} onClick=${() => (theme.value = next)}>
    <${Icon} name=${THEME_ICONS[theme.value]} />
  </button>`;
}

function Who() {
  if (!usesPassword.value) return null;
  const { name, tags } = user.value;
  return html`<div class="who">
    <span class="cut" title=${`${visible(name)}: ${tags.join(", ")}`}>${visible(name)}</span>
    <button class="button quiet icon" aria-label="Sign out" title="Sign out" onClick=${signOut}>
      <${Icon} name="out" />
    </button>
  </div>`;
}
