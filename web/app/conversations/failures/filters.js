// The filters of the failures: all of them are in the address.
import { html } from "../../core/html.js";
import { count, dateTime } from "../../core/format.js";
import { hrefHere, patch, route } from "../../core/route.js";
import { Chip } from "../../ui/chip.js";
import { Choice } from "../../ui/panel.js";
import { KINDS, reasonWord } from "../../ui/failure-mark.js";
import { PeriodSelect } from "../../ui/period.js";

const NAMES = {
  kind: "kind", queue: "queue", reason: "reason", type: "type", exception: "exception",
  participant: "participant", since: "since", until: "until",
};
const KIND_OPTIONS = [["", "All"], ...Object.entries(KINDS).map(([key, [, word]]) => [key, word])];

/** The kinds; where an answer has all of them, those that it has, with their numbers. */
function kindOptions(first, chosen) {
  if (chosen || !first?.counted_all || first.groups_truncated) return KIND_OPTIONS;
  const numberOf = (kind) => first.groups.reduce((sum, one) => sum + (!kind || one.kind === kind ? one.count : 0), 0);
  return KIND_OPTIONS.filter(([kind]) => !kind || numberOf(kind)).map(([kind, word]) => [kind, `${word} ${count(numberOf(kind))}`]);
}

/** The set ones, by the names of the API. */
export function filtersOf(params) {
  return Object.fromEntries(Object.keys(NAMES).filter((name) => params[name]).map((name) => [name, params[name]]));
}

/** `first`: the first page of the failures, once it is known. */
export function Filters({ first }) {
  const { params } = route.value;
  return html`<div class="failure-filters">
    <${Choice} label="Kind" options=${kindOptions(first, params.kind)} value=${params.kind ?? ""} onChange=${(value) => patch({ kind: value || null })} />
    <${PeriodSelect} />
  </div>`;
}

/** The filters in force that have no control of their own, each with a way to take it off. */
export function Chips() {
  const { params } = route.value;
  const set = Object.keys(NAMES).filter((name) => name !== "kind" && params[name]);
  if (!set.length) return null;
  return html`<div class="failure-filters" role="group" aria-label="Filters">
    ${set.map((name) => html`<${Chip} key=${name} name=${name}>${shown(name, params[name])}<//>`)}
    ${set.length > 1 && html`<a class="button small quiet" href=${hrefHere(Object.fromEntries(Object.keys(NAMES).map((name) => [name, null])))}>Clear</a>`}
  </div>`;
}

function shown(name, value) {
  if (name === "since" || name === "until") return dateTime(value);
  return name === "reason" ? reasonWord(value) : value;
}
