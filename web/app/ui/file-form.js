// Asks for the name and the format of a file that a job is to write.
import { useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { mayWrite } from "../core/session.js";

const PLAIN_NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}$/;

/** `formats` are [{extension, title}], the first of which is chosen; `onSubmit` gets the whole name. */
export function FileForm({ name, formats, button, busy, onSubmit }) {
  const [typed, setTyped] = useState(null);
  const [extension, setExtension] = useState(formats[0].extension);
  const shown = typed ?? name;
  const valid = PLAIN_NAME.test(`${shown}${extension}`);
  const submit = (event) => {
    event.preventDefault();
    if (valid && !busy) onSubmit(`${shown}${extension}`);
  };
  return html`<form class="export-form" onSubmit=${submit}>
    <label class="field name"><span>File name</span>
      <input class="input" value=${shown} aria-invalid=${String(!valid)} spellcheck=${false}
        onInput=${(e) => setTyped(e.currentTarget.value)} aria-describedby="file-name-rule" />
    </label>
    <label class="field format"><span>Format</span>
      <select class="select" value=${extension} onChange=${(e) => setExtension(e.currentTarget.value)}>
        ${formats.map(
          (f) => html`<option key=${f.extension} value=${f.extension} selected=${f.extension === extension}>
            ${f.extension}: ${f.title}</option>`,
        )}
      </select>
    </label>
    <button class="button main" disabled=${!valid || !mayWrite.value} aria-disabled=${String(Boolean(busy))}>
      ${busy ? "Running …" : button}</button>
    <p class="small soft form-note" id="file-name-rule">${valid ? "" : "A plain name: letters, digits, . _ - and no dot at the start."}</p>
  </form>`;
}
