import { useEffect, useRef } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { answer, question } from "../core/questions.js";

/** The open question; Escape is no. */
export function Question() {
  const dialog = useRef(null);
  const open = question.value;
  useEffect(() => {
    if (open) dialog.current.showModal();
    else dialog.current.close();
  }, [open]);
  return html`<dialog class="question" ref=${dialog} role=${open?.fields ? "dialog" : "alertdialog"} aria-labelledby="question-title"
    aria-describedby="question-text" onClose=${() => question.peek() && answer(false)}>
    ${open &&
    html`<div class="dialog-body">
      <h2 id="question-title">${open.title}</h2>
      <p id="question-text">${open.text}</p>
      ${open.fields}
      <div class="drawer-line">
        <button class="button" autofocus onClick=${() => answer(false)}>No, leave it</button>
        <button class="button ${open.tone}" onClick=${() => answer(true)}>${open.action}</button>
      </div>
    </div>`}
  </dialog>`;
}
