// Text with what was searched for marked in it.
import { html } from "../core/html.js";

const MOST_MARKS = 200;

/** `text` with every place that has one of `words` marked, whatever the case. */
export function marked(text, words) {
  const wanted = words.filter(Boolean).map((word) => word.toLowerCase());
  if (!wanted.length || typeof text !== "string") return text;
  const lower = text.toLowerCase();
  if (lower.length !== text.length) return text; // letters that grow with their case
  const parts = [];
  let from = 0;
  while (parts.length < 2 * MOST_MARKS) {
    const [at, length] = nearest(lower, wanted, from);
    if (at < 0) break;
    parts.push(text.slice(from, at), html`<mark>${text.slice(at, at + length)}</mark>`);
    from = at + length;
  }
  return parts.length ? [...parts, text.slice(from)] : text;
}

function nearest(text, words, from) {
  let best = [-1, 0];
  for (const word of words) {
    const at = text.indexOf(word, from);
    if (at >= 0 && (best[0] < 0 || at < best[0])) best = [at, word.length];
  }
  return best;
}
