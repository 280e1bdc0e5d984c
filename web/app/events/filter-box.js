// The filter box: a combobox that completes fields and values, and marks text that it does not understand.
import { useEffect, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { visible } from "../core/format.js";
import { filterWanted } from "../core/keys.js";
import { patch, route } from "../core/route.js";
import { Icon } from "../ui/icons.js";
import { filterNames, parse, print } from "./filter-text.js";
import { suggest, useKnown } from "./suggestions.js";

const LIST = "filter-options";
const PROBLEM = "filter-problem";
const CARET_KEYS = ["ArrowLeft", "ArrowRight", "Home", "End"];
const optionId = (index) => `${LIST}-${index}`;

/** Shows the filters of the address as text; `rows` are events whose values it offers. */
export function FilterBox({ rows }) {
  const { params } = route.value;
  const shown = print(params);
  const input = useRef(null);
  const [text, setText] = useState(shown);
  const [caret, setCaret] = useState(0);
  const [active, setActive] = useState(-1);
  const [open, setOpen] = useState(false);
  const [used, setUsed] = useState(false);
  const [problem, setProblem] = useState(null);
  const { events, vhosts } = useKnown(used);
  const { from, to, options } = open
    ? suggest(text, caret, { events: [...events, ...rows], vhosts })
    : { options: [] };
  const listed = options.length > 0;

  useEffect(() => {
    setText(shown);
    setProblem(null);
  }, [shown]);
  useEffect(() => {
    if (filterWanted.peek()) input.current.focus();
    filterWanted.value = false;
  }, []);
  useEffect(() => document.getElementById(optionId(active))?.scrollIntoView({ block: "nearest" }), [active]);

  const at = (place, isOpen) => {
    setCaret(place);
    setOpen(isOpen);
    setActive(-1);
  };
  const change = (next, place, isOpen = true) => {
    setText(next);
    setProblem(null);
    at(place, isOpen);
  };
  /** Puts something in place of a part of the text, and the caret behind it. */
  const put = (first, last, part) => {
    const rest = text.slice(last);
    const next = text.slice(0, first) + part + (part.endsWith(" ") ? rest.trimStart() : rest);
    const place = first + part.length;
    input.current.value = next;
    input.current.focus();
    input.current.setSelectionRange(place, place);
    change(next, place, /[:.]$/.test(part));
  };
  const take = (index) => put(from, to, options[index].text);
  const submit = (event) => {
    event.preventDefault();
    const answer = parse(text);
    if (answer.problem) {
      setProblem(answer.problem);
      at(answer.problem.to, false); // the list would hide what is said
      return;
    }
    const none = Object.fromEntries(filterNames(params).map((name) => [name, null]));
    patch({ ...none, ...answer.filters, at: null, ...(answer.filters.vhost && { event: null }) });
    at(text.length, false);
  };
  const move = (by) => {
    if (listed) setActive((active + by + options.length + (active < 0 && by < 0 ? 1 : 0)) % options.length);
    else at(input.current.selectionStart, true);
    return true;
  };
  const keys = {
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Enter: () => active >= 0 && (take(active), true),
    Tab: (event) => listed && !event.shiftKey && (active >= 0 || to > from) && (take(Math.max(0, active)), true),
    Escape: () => {
      if (listed) setOpen(false);
      else change(shown, 0, false);
    },
  };

  return html`<form class="search filter-form" role="search" onSubmit=${submit}>
    <div class="combo">
      <input class="input" id="event-filter" ref=${input} type="text" autocomplete="off" spellcheck=${false}
        role="combobox" aria-label="Filter events" aria-autocomplete="list" aria-controls=${LIST}
        aria-expanded=${String(listed)} aria-activedescendant=${active < 0 ? undefined : optionId(active)}
        aria-invalid=${String(problem !== null)} aria-describedby=${PROBLEM}
        placeholder="Filter: text, or queue:billing type:received" value=${text}
        onInput=${(e) => change(e.currentTarget.value, e.currentTarget.selectionStart)}
        onKeyDown=${(e) => keys[e.key]?.(e) && e.preventDefault()}
        onKeyUp=${(e) => CARET_KEYS.includes(e.key) && at(e.currentTarget.selectionStart, false)}
        onClick=${(e) => at(e.currentTarget.selectionStart, true)}
        onFocus=${() => setUsed(true)} onBlur=${() => setOpen(false)} />
      ${listed &&
      html`<ul class="sheet options" id=${LIST} role="listbox" aria-label="Completions"
        onPointerDown=${(e) => e.preventDefault()}>
        ${options.map(
          (one, index) => html`<li key=${one.text} id=${optionId(index)} role="option"
            aria-selected=${String(index === active)} onClick=${() => take(index)}>
            <bdi class="cut">${visible(one.text)}</bdi>${" "}
            ${one.note && html`<span class="faint small cut">${one.note}</span>`}
          </li>`,
        )}
      </ul>`}
    </div>
    <p class="filter-problem small" id=${PROBLEM} role="alert">
      ${problem && html`<${Problem} problem=${problem} onTake=${(part) => put(problem.from, problem.to, part)} />`}
    </p>
    <label class="check" title="Treat exchange, queue, connection, user, participant name and routing key as regular expressions">
      <input type="checkbox" checked=${params.regex === "on"}
        onChange=${(e) => patch({ regex: e.currentTarget.checked ? "on" : null })} />Regex
    </label>
  </form>`;
}

function Problem({ problem: { says, better }, onTake }) {
  return html`${visible(says)} ${better.map(
    (part, index) => html`${index ? "or" : part.startsWith('"') ? "As text:" : "Did you mean"} <button type="button"
      class="button small" key=${part} onClick=${() => onTake(part)}><bdi class="cut">${visible(part)}</bdi></button> `,
  )}`;
}

/** The filters in force, each with a button that takes it away. */
export function FilterChips() {
  const { params } = route.value;
  const names = filterNames(params);
  if (!names.length) return null;
  const none = Object.fromEntries(names.map((name) => [name, null]));
  return html`<div class="filters" role="group" aria-label="Active filters">
    ${names.map(
      (name) => html`<span class="filter" key=${name}>
        <span class="name">${name === "q" ? "text" : visible(name)}</span>
        <bdi class="text" title=${visible(params[name])}>${visible(params[name])}</bdi>
        <button type="button" aria-label=${`Remove the filter ${visible(name)}`}
          onClick=${() => patch({ [name]: null })}><${Icon} name="close" /></button>
      </span>`,
    )}
    ${names.length > 1 &&
    html`<button class="button quiet small" onClick=${() => patch(none)}>Remove all</button>`}
  </div>`;
}
