// Filters and times of a view under a name, kept in this browser.
import { html } from "../core/html.js";
import { savedViews } from "../core/preferences.js";
import { hrefHere, view } from "../core/route.js";
import { Icon } from "./icons.js";
import { useSheet } from "./sheet.js";

const MOST = 30;
// Parameters of the moment, not of the view.
const PASSING = Object.fromEntries(["at", "event", "a", "b", "report", "job"].map((name) => [name, null]));

/** The present view's address, as it would be saved. */
export const addressNow = () => hrefHere(PASSING);

/** `[{name, address}]`: those of this view. */
export const savedHere = () => savedViews.value.filter(({ address }) => address.split("?")[0] === `#/${view.value}`);

export function SavedViews({ small }) {
  const { open, anchor, close, toggle } = useSheet();
  const kept = savedHere();
  const forget = (name) => savedViews.value.filter((one) => one.name !== name || !kept.includes(one));
  const save = (event) => {
    event.preventDefault();
    const name = event.currentTarget.elements.name.value.trim();
    if (!name) return;
    savedViews.value = [{ name, address: addressNow() }, ...forget(name)].slice(0, MOST);
    close();
  };
  return html`<div class="sheet-anchor" ref=${anchor}>
    <button class="button ${small ? "small" : ""}" aria-expanded=${String(open)} onClick=${toggle}><${Icon} name="list" />Views</button>
    ${open &&
    html`<div class="sheet views-sheet" role="group" aria-label="Saved views">
      ${kept.length === 0 && html`<p class="soft small">None yet: a view has filters and times. It is kept in this browser.</p>`}
      <ul>${kept.map(
        ({ name, address }) => html`<li class="drawer-line" key=${name}>
          <a class="cut" href=${address} onClick=${close}><bdi>${name}</bdi></a>
          <button class="button quiet icon small" aria-label=${`Forget the view ${name}`}
            onClick=${() => (savedViews.value = forget(name))}><${Icon} name="trash" /></button>
        </li>`,
      )}</ul>
      <form class="drawer-line" onSubmit=${save}>
        <input class="input" name="name" maxlength="60" autocomplete="off" aria-label="Name of this view" placeholder="Name of this view" />
        <button class="button">Save</button>
      </form>
    </div>`}
  </div>`;
}
