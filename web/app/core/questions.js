// Questions before anything that cannot be undone.
import { signal } from "../../vendor/signals.js";

/** `{title, text, action, fields, tone, resolve}` while a question is open, else null. */
export const question = signal(null);

/** Asks with a title, a text and the name of the action, and perhaps with fields to fill; `tone`: of the button that does it; resolves with whether to do it. */
export function ask(title, text, action, { fields = null, tone = "danger" } = {}) {
  question.peek()?.resolve(false);
  return new Promise((resolve) => (question.value = { title, text, action, fields, tone, resolve }));
}

export function answer(yes) {
  const { resolve } = question.peek() ?? {};
  question.value = null;
  resolve?.(yes);
}
