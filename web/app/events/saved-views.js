// Filters and times under a name, kept in this browser.
import { useEffect, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { savedViews } from "../core/preferences.js";
import { Icon } from "../ui/icons.js";

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
  const [open, setOpen] = useState(false);
  const box = useRef(null);
  const kept = savedViews.value;
  useEffect(() => {
    if (!open) return undefined;
    const close = (event) => {
      if (event.key === "Escape") event.preventDefault();
      else if (event.key || box.current.contains(event.target)) return;
      setOpen(false);
    };
    addEventListener("pointerdown", close);
    addEventListener("keydown", close, true);
    return () => {
      removeEventListener("pointerdown", close);
      removeEventListener("keydown", close, true);
    };
  }, [open]);
  const save = (event) => {
    event.preventDefault();
    const name = event.currentTarget.elements.name.value.trim();
    if (!name) return;
    savedViews.value = [{ name, address: addressNow() }, ...kept.filter((view) => view.name !== name)].slice(0, MOST);
    setOpen(false);
  };
  return html`<div class="sheet-anchor" ref=${box}>
    <button class="button" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}><${Icon} name="list" />Views</button>
    ${open &&
    html`<div class="sheet views-sheet" role="group" aria-label="Saved views">
      ${kept.length === 0 && html`<p class="soft small">None yet: a view has filters, times and order. It is kept in this browser.</p>`}
      <ul>${kept.map(
        ({ name, address }) => html`<li class="drawer-line" key=${name}>
          <a class="cut" href=${address} onClick=${() => setOpen(false)}><bdi>${name}</bdi></a>
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
