// The AMQP properties as a tree of names and values.
import { html } from "../../core/html.js";
import { visible } from "../../core/format.js";

const MOST_DEPTH = 12;

export function Properties({ properties }) {
  const entries = Object.entries(properties ?? {}).filter(
    ([, value]) => !(isTable(value) && Object.keys(value).length === 0),
  );
  return html`<section class="section">
    <h3>Properties</h3>
    ${entries.length
      ? html`<div class="tree"><${Entries} entries=${entries} depth=${0} /></div>`
      : html`<p class="soft">None are set.</p>`}
  </section>`;
}

const isTable = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function Entries({ entries, depth }) {
  return html`<ul>
    ${entries.map(
      ([name, value]) => html`<li key=${name}>
        <bdi class="name">${visible(name)}</bdi>: <${Node} value=${value} depth=${depth + 1} />
      </li>`,
    )}
  </ul>`;
}

function Node({ value, depth }) {
  if (value === null || typeof value !== "object") {
    return html`<bdi class="value">${visible(value)}</bdi>`;
  }
  const entries = Object.entries(value);
  if (!entries.length) return html`<span class="faint">${Array.isArray(value) ? "[ ]" : "{ }"}</span>`;
  if (depth > MOST_DEPTH) return html`<bdi class="value">${visible(JSON.stringify(value).slice(0, 500))}</bdi>`;
  return html`<${Entries} entries=${entries} depth=${depth} />`;
}
