// Filters and times under a name, kept in this browser.
import { html } from "../core/html.js";
import { savedViews } from "../core/preferences.js";
import { Icon } from "../ui/icons.js";
import { useSheet } from "../ui/sheet.js";

const MOST = 30;
// Of the moment, not of the view.
const PASSING = ["at", "event", "a", "b"];

function addressNow() {
  const [tab, search = ""] = location.hash.split("?");
  const params = new URLSearchParams(search);
  PASSING.forEach((name) => params.delete(name));
  return params.size ? `${tab}?${params}` : tab;
}

export function SavedViews() {
  const { open, anchor, close, toggle } = useSheet();
  const kept = savedViews.value;
  const save = (event) => {
    event.preventDefault();
    const name = event.currentTarget.elements.name.value.trim();
    if (!name) return;
    savedViews.value = [{ name, address: addressNow() }, ...kept.filter((view) => view.name !== name)].slice(0, MOST);
    close();
  };
  return html`<div class="sheet-anchor" ref=${anchor}>
    <button class="button" aria-expanded=${String(open)} onClick=${toggle}><${Icon} name="list" />Views</button>
    ${open &&
    html`<div class="sheet views-sheet" role="group" aria-label="Saved views">
      ${kept.length === 0 && html`<p class="soft small">None yet: a view has filters, times and order. It is kept in this browser.</p>`}
      <ul>${kept.map(
        ({ name, address }) => html`<li class="drawer-line" key=${name}>
          <a class="cut" href=${address} onClick=${close}><bdi>${name}</bdi></a>
          <button class="button quiet icon small" aria-label=${`Forget the view ${name}`}
            onClick=${() => (savedViews.value = kept.filter((view) => view.name !== name))}><${Icon} name="trash" /></button>
        </li>`,
      )}</ul>
      <form class="drawer-line" onSubmit=${save}>
        <input class="input" name="name" maxlength="60" autocomplete="off" aria-label="Name of this view" placeholder="Name of this view" />
        <button class="button">Save</button>
      </form>
    </div>`}
  </div>`;
}
