// The AMQP properties as a tree of names and values. Those by which messages are found lead to them.
import { html } from "../../core/html.js";
import { visible } from "../../core/format.js";
import { href } from "../../core/route.js";

const MOST_DEPTH = 12;
const FOUND_BY = ["message_id", "correlation_id"];

export function Properties({ event: { vhost, properties, recorded_at } }) {
  const entries = Object.entries(properties ?? {}).filter(
    ([, value]) => !(isTable(value) && Object.keys(value).length === 0),
  ).map(([name, value]) => [name, name === "timestamp" && isCut(value, recorded_at) ? `${value} (not usable: milliseconds, cut to 32 bits)` : value]);
  return html`<section class="section">
    <h3>Properties</h3>
    ${entries.length
      ? html`<div class="tree"><${Entries} entries=${entries} depth=${0} vhost=${vhost} /></div>`
      : html`<p class="soft">${properties === null ? "Withheld, as the payload is." : "None are set."}</p>`}
  </section>`;
}

const DAY = 86_400_000; // ms

/** True if a `timestamp` was set in milliseconds, of which the broker's trace keeps 32 bits: near now once restored. */
function isCut(value, recordedAt) {
  const now = Date.parse(recordedAt);
  return Number.isInteger(value) && Math.abs(1000 * value - now) > DAY
    && (value < 0 || Math.abs(((now - value + 2 ** 31) % 2 ** 32) - 2 ** 31) < DAY);
}

const isTable = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

/** `vhost` only where values may lead to other messages: properties, and the `headers` among them. */
function Entries({ entries, depth, vhost }) {
  const field = (name) => (depth ? `header.${name}` : FOUND_BY.includes(name) && name);
  return html`<ul>
    ${entries.map(
      ([name, value]) => html`<li key=${name}>
        <bdi class="name">${visible(name)}</bdi>: <${Node} value=${value} depth=${depth + 1} vhost=${vhost}
          field=${vhost != null && field(name)} inside=${!depth && name === "headers"} />
      </li>`,
    )}
  </ul>`;
}

function Node({ value, depth, vhost, field, inside }) {
  if (value === null || typeof value !== "object") {
    const shown = html`<bdi class="value">${visible(value)}</bdi>`;
    const leads = field && (Number.isInteger(value) || (typeof value === "string" && value !== ""));
    return leads ? html`<a href=${href("events", { vhost, [field]: String(value) })}>${shown}</a>` : shown;
  }
  const entries = Object.entries(value);
  if (!entries.length) return html`<span class="faint">${Array.isArray(value) ? "[ ]" : "{ }"}</span>`;
  if (depth > MOST_DEPTH) return html`<bdi class="value">${visible(JSON.stringify(value).slice(0, 500))}</bdi>`;
  return html`<${Entries} entries=${entries} depth=${depth} vhost=${inside ? vhost : undefined} />`;
}
