// A file of assertions as text: typed, pasted or opened, with a mistake shown where it is.
import { useEffect, useRef } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { tell } from "../core/notices.js";

const MOST_BYTES = 256 * 1024; // as the service has it
const PLACE = /^line (\d+), column (\d+): /;
const EXAMPLE = `- name: invoice-in-time
  every: order.new
  leads_to: invoice
  within: 30s`;

/** `error`: why the service refused `value`, or null; `onChange(value)` is called once a change is complete. */
export function AssertionFile({ value, onInput, onChange = () => {}, error }) {
  const box = useRef(null);
  const place = placeIn(value, error);
  useEffect(() => {
    if (!error) return;
    if (place) box.current.setSelectionRange(place.from, place.to);
    box.current.focus();
  }, [error]);
  const open = async ({ currentTarget }) => {
    const [file] = currentTarget.files;
    currentTarget.value = ""; // so that the same file can be opened again
    if (file?.size > MOST_BYTES) tell("A file of assertions has at most 256 kB.", "bad");
    else if (file) {
      const text = await file.text();
      onInput(text);
      onChange(text);
    }
  };
  return html`<label class="field"><span>What should hold (YAML or JSON)</span>
      <textarea class="input file-text" rows="10" spellcheck=${false} placeholder=${EXAMPLE} value=${value} ref=${box}
        aria-invalid=${String(Boolean(error))} aria-describedby=${place ? "mistake" : undefined}
        onInput=${(e) => onInput(e.currentTarget.value)} onChange=${(e) => onChange(e.currentTarget.value)}></textarea></label>
    ${place && html`<pre class="mistake" id="mistake">${`${place.line}  ${place.text}\n`}<strong>${`${" ".repeat(place.indent)}↑ here`}</strong></pre>`}
    <div><label class="button small file-button">Open a file
      <input class="unseen" type="file" accept=".yaml,.yml,.json" onChange=${open} /></label></div>`;
}

/** The line of a mistake, how far in it begins, and from where to where it lies in the text. */
function placeIn(text, error) {
  const [, line, column] = PLACE.exec(error?.reason ?? "") ?? [];
  const lines = text.split("\n");
  const found = lines[line - 1];
  if (found === undefined) return null;
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  // The service counts characters, of which some are two here.
  const from = before + [...found].slice(0, column - 1).join("").length;
  const indent = line.length + 2 + Number(column) - 1;
  return { line, text: found, indent, from, to: Math.max(from + 1, before + found.length) };
}

// Texts that YAML takes as they stand; the others are written as JSON, which is YAML too.
const PLAIN = /^(?!null$)[a-z_][\w.-]*( [\w.-]+)*$/i;

/** Assertions as the file that sets them. */
export const fileOf = (assertions) => assertions.map((one) =>
  Object.entries(one).map(([key, value], place) => `${place ? "  " : "- "}${key}: ${written(value)}\n`).join("")).join("");

function written(value) {
  if (Array.isArray(value)) return `[${value.map(written).join(", ")}]`;
  return PLAIN.test(value) || /^\d+(ms|s|min|h|d)$/.test(value) ? String(value) : JSON.stringify(value);
}
