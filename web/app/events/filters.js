// The filter box: `queue:billing type:received refund` sets fields of the API and a text search.
import { useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { visible } from "../core/format.js";
import { patch, route } from "../core/route.js";
import { Icon } from "../ui/icons.js";

export const FIELDS = [
  ["type", "published or received"],
  ["match", "routed, redelivered, dead_lettered, unmatched, untraced"],
  ["exchange", "name"],
  ["queue", "name"],
  ["routing_key", "one of the keys"],
  ["user", "user name"],
  ["participant_name", "name"],
  ["participant", "number"],
  ["connection", "ip:port -> ip:port"],
  ["channel", "number"],
  ["redelivered", "true or false"],
  ["since", "time, such as 2026-01-02T03:04"],
  ["until", "time, such as 2026-01-02T03:04"],
];
const NAMES = new Set(FIELDS.map(([name]) => name));

/** The filters in the URL, as the API expects them. */
export function filtersOf(params) {
  const set = Object.entries(params).filter(([name]) => NAMES.has(name) || name === "q");
  const filters = Object.fromEntries(set);
  for (const name of ["since", "until"]) if (filters[name]) filters[name] = toUtc(filters[name]);
  const regex = params.regex === "on" ? true : undefined;
  return { vhost: params.vhost, ...filters, use_regex: regex };
}

/** A time as people write it, local unless it has a zone; anything else stays as it is. */
function toUtc(text) {
  const today = new Date().toLocaleDateString("sv-SE");
  const date = new Date(/^\d{1,2}:/.test(text) ? `${today}T${text.padStart(5, "0")}` : text);
  return Number.isNaN(date.getTime()) ? text : date.toISOString();
}

/** `a:b "c:d e"` as parameter changes; whatever names no field is searched for as text. */
function parse(text) {
  const changes = {};
  const rest = [];
  for (const [, name, quoted, bare, word] of text.matchAll(
    /(?:(\w+):(?:"([^"]*)"|(\S+)))|(\S+)/g,
  )) {
    if (name && NAMES.has(name)) changes[name] = quoted ?? bare;
    else rest.push(word ?? `${name}:${quoted ?? bare}`);
  }
  if (rest.length) changes.q = rest.join(" ");
  return changes;
}

export function FilterBox() {
  const [text, setText] = useState("");
  const submit = (event) => {
    event.preventDefault();
    if (!text.trim()) return;
    patch({ ...parse(text), at: null });
    setText("");
  };
  const begin = (event) => {
    const name = event.currentTarget.value;
    event.currentTarget.value = "";
    setText(`${text.trim()} ${name}:`.trimStart());
    document.getElementById("event-filter").focus();
  };
  return html`<form class="search filter-form" role="search" onSubmit=${submit}>
    <input class="input" id="event-filter" type="text" autocomplete="off" spellcheck=${false}
      aria-label="Filter events" placeholder="Filter: text, or queue:billing type:received"
      value=${text} onInput=${(e) => setText(e.currentTarget.value)} />
    <label class="check" title="Treat exchange, queue, connection, user, participant name and routing key as regular expressions">
      <input type="checkbox" checked=${route.value.params.regex === "on"}
        onChange=${(e) => patch({ regex: e.currentTarget.checked ? "on" : null })} />Regex
    </label>
    <select class="select" aria-label="Filter by a field" onChange=${begin}>
      <option value="">Field …</option>
      ${FIELDS.map(
        ([name, hint]) => html`<option key=${name} value=${name} title=${hint}>${name}</option>`,
      )}
    </select>
  </form>`;
}

export function FilterChips() {
  const set = Object.entries(route.value.params).filter(([n]) => NAMES.has(n) || n === "q");
  if (!set.length) return null;
  const none = Object.fromEntries(set.map(([name]) => [name, null]));
  return html`<div class="filters" role="group" aria-label="Active filters">
    ${set.map(
      ([name, value]) => html`<span class="filter" key=${name}>
        <span class="name">${name === "q" ? "text" : name.replace("_", " ")}</span>
        <bdi class="text" title=${visible(value)}>${value === "" ? "(empty)" : visible(value)}</bdi>
        <button type="button" aria-label=${`Remove the filter ${name}`}
          onClick=${() => patch({ [name]: null })}><${Icon} name="close" /></button>
      </span>`,
    )}
    ${set.length > 1 &&
    html`<button class="button quiet small" onClick=${() => patch(none)}>Remove all</button>`}
  </div>`;
}
