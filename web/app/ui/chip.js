// A filter in force, with a way to take it off.
import { html } from "../core/html.js";
import { patch } from "../core/route.js";
import { Icon } from "./icons.js";
import { Value } from "./marks.js";

/** `name` is that of the parameter of the address, `children` how its value is written. */
export const Chip = ({ name, children }) => html`<span class="filter">
  <span class="name">${name}</span><span class="text"><${Value}>${children}<//></span>
  <button aria-label=${`Remove the filter ${name}`} onClick=${() => patch({ [name]: null })}><${Icon} name="close" /></button>
</span>`;
