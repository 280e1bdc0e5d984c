// A word with its meaning, under the pointer and with the keyboard's focus.
import { signal } from "../../vendor/signals.js";
import { useEffect } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { GLOSSARY, termOf } from "./glossary.js";

const shown = signal(null); // {text, left, top}

export function Term({ name, children }) {
  const text = GLOSSARY[name];
  const show = ({ currentTarget }) => {
    const { left, bottom, right } = currentTarget.getBoundingClientRect();
    shown.value = { text, left, right, top: bottom };
  };
  const hide = () => (shown.value = null);
  useEffect(() => hide, []);
  return html`<span class="term" tabindex="0" aria-description=${text} onPointerEnter=${show} onPointerLeave=${hide}
    onFocus=${show} onBlur=${hide} onKeyDown=${(event) => event.key === "Escape" && hide()}>${children ?? name}</span>`;
}

/** A heading, with its meaning if the glossary has it. */
export function Word({ children }) {
  const name = termOf(children);
  return name ? html`<${Term} name=${name}>${children}<//>` : html`${children}`;
}

/** The meaning of the word that is pointed at; there is one on the page. */
export function Tip() {
  if (!shown.value) return null;
  const { text, left, right, top } = shown.value;
  const place = left < innerWidth / 2 ? { left: `${left}px` } : { right: `${innerWidth - right}px` };
  return html`<div class="tip" role="tooltip" style=${{ top: `${top + 6}px`, ...place }}>${text}</div>`;
}
