import { useMemo, useState } from "../../../vendor/hooks.js";
import { html } from "../../core/html.js";
import { api } from "../../core/api.js";
import { saveBlob } from "../../core/download.js";
import { bytes, reasonOf, visible } from "../../core/format.js";
import { wrapPayload } from "../../core/preferences.js";
import { useResource } from "../../core/resource.js";
import { pinnedA, pinnedB, route } from "../../core/route.js";
import { CopyButton } from "../copy.js";
import { Icon } from "../icons.js";
import { marked } from "../marked.js";
import { Choice } from "../panel.js";
import { diff } from "./diff.js";

const MOST_HEX_BYTES = 16_384;
const VIEWS = [
  ["text", "Text"],
  ["json", "JSON"],
  ["hex", "Hex"],
];

export function Payload({ event }) {
  const body = useMemo(() => read(event), [event]);
  const [chosen, setChosen] = useState(null);
  const [other, setOther] = useState(null);
  const view = chosen ?? (body.json !== undefined ? "json" : body.binary ? "hex" : "text");
  return html`<section class="section">
    <h3>Payload
      ${body.bytes?.length > 0 &&
      html`<${Choice} label="Show the payload as" options=${VIEWS} value=${view} onChange=${setChosen} small />`}
    </h3>
    ${body.bytes?.length > 0 && html`<${Tools} body=${body} view=${view} event=${event} other=${other} onCompare=${setOther} />`}
    ${other
      ? html`<${Compared} id=${other} event=${event} body=${body} />`
      : html`<${Body} body=${body} view=${view} event=${event} />`}
  </section>`;
}

/** Events to compare with: the pinned ones, and a delivery's publish. */
function others({ id, cause }) {
  const named = [[pinnedA.value, "A"], [pinnedB.value, "B"], [cause, "its publish"]];
  return named.filter(([one], n) => one && String(one) !== String(id) && named.findIndex(([x]) => String(x) === String(one)) === n);
}

function Tools({ body, view, event, other, onCompare }) {
  const save = () => {
    const type = body.json === undefined ? "bin" : "json";
    saveBlob(new Blob([body.bytes]), `event-${event.id}.${body.binary ? type : body.json === undefined ? "txt" : type}`);
  };
  const choices = others(event);
  return html`<div class="drawer-line payload-tools">
    <${CopyButton} text=${() => (view === "hex" ? hex(body.bytes) : view === "json" && body.json !== undefined ? JSON.stringify(body.json, null, 2) : body.text)}
      label="Copy" title="Copy the payload as it is shown" />
    <button class="button small" onClick=${save}><${Icon} name="download" />Save</button>
    <label class="check small"><input type="checkbox" checked=${wrapPayload.value}
      onChange=${(e) => (wrapPayload.value = e.currentTarget.checked)} />Wrap</label>
    ${choices.length > 0 &&
    html`<select class="select small" aria-label="Compare the payload with" value=${other ?? ""}
      onChange=${(e) => onCompare(e.currentTarget.value || null)}>
      <option value="">Compare with …</option>
      ${choices.map(([id, name]) => html`<option key=${id} value=${String(id)}>${name} (#${id})</option>`)}
    </select>`}
  </div>`;
}

const SIGNS = { "-": "del", "+": "ins", " ": "span" };

/** Differences from another event's payload: JSON with its names in order. */
function Compared({ id, event, body }) {
  const { data, error } = useResource((signal) => api.event(id, signal), [id], { every: 0 });
  if (error) return html`<p class="soft">${reasonOf(error)}</p>`;
  if (!data) return html`<p class="loading">Loading #${id} …</p>`;
  const theirs = read(data);
  if (!theirs.bytes) return html`<p class="soft">${data.payload_encoding === "withheld" ? `The payload of #${id} is withheld.` : `Of #${id} no payload is kept.`}</p>`;
  const lines = diff(comparable(theirs), comparable(body));
  if (!lines) return html`<p class="soft">They differ in too many lines to be compared here.</p>`;
  const differ = lines.some(({ sign }) => sign !== " ");
  return html`<p class="small soft">${differ ? `“−” is only in #${id}, “+” only in #${event.id}.` : `The same as that of #${id}.`}</p>
    ${differ &&
    html`<pre class="payload diff ${wrapPayload.value ? "" : "unwrapped"}" tabindex="0" aria-label=${`Payload compared with #${id}`}>${lines.map(
      ({ sign, line }, n) => html`<${SIGNS[sign]} key=${n}>${sign === "-" ? "−" : sign} ${visible(line)}${"\n"}<//>`,
    )}</pre>`}`;
}

const comparable = (one) =>
  one.json !== undefined ? JSON.stringify(ordered(one.json), null, 2) : one.binary ? hex(one.bytes) : one.text;

function ordered(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(ordered);
  return Object.fromEntries(Object.keys(value).sort().map((name) => [name, ordered(value[name])]));
}

function Body({ body, view, event }) {
  if (event.payload_encoding === "withheld") {
    return html`<p class="soft">Withheld: your permissions in this virtual host let you read none of this message’s queues.</p>`;
  }
  if (!body.bytes) {
    return html`<p class="soft">${event.payload_bytes
      ? `The payload was not kept. It had ${bytes(event.payload_bytes)}.`
      : "Empty."}</p>`;
  }
  if (!body.bytes.length) return html`<p class="soft">Empty.</p>`;
  return html`
    <pre class="payload ${view === "hex" ? "hex" : wrapPayload.value ? "" : "unwrapped"}" tabindex="0" aria-label="Payload">${marked(show(body, view), view === "hex" ? [] : [route.value.params.q])}</pre>
    ${event.payload_truncated &&
    html`<p class="small soft">The first ${bytes(body.bytes.length)} of ${bytes(event.payload_bytes)} are kept.</p>`}`;
}

/** The payload as bytes, as text, and as JSON if it is JSON. */
function read(event) {
  if (event.payload == null) return {};
  if (event.payload_encoding === "base64") {
    const raw = atob(event.payload);
    const data = Uint8Array.from(raw, (c) => c.charCodeAt(0));
    return { bytes: data, text: new TextDecoder().decode(data), binary: true };
  }
  return {
    bytes: new TextEncoder().encode(event.payload),
    text: event.payload,
    json: parsed(event.payload),
  };
}

function parsed(text) {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // only looks like JSON, or was cut
  }
}

function show({ bytes: data, text, json }, view) {
  if (view === "hex") return hex(data);
  if (view === "json" && json !== undefined) return visible(JSON.stringify(json, null, 2), { lines: true });
  if (view === "json") return "This is not JSON.";
  return visible(text, { lines: true });
}

function hex(data) {
  const lines = [];
  const end = Math.min(data.length, MOST_HEX_BYTES);
  for (let at = 0; at < end; at += 16) {
    const row = [...data.subarray(at, Math.min(at + 16, end))];
    const digits = row.map((b) => b.toString(16).padStart(2, "0")).join(" ");
    const letters = row.map((b) => (b > 0x1f && b < 0x7f ? String.fromCharCode(b) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(47)}  ${letters}`);
  }
  if (end < data.length) lines.push(`… ${bytes(data.length - end)} more`);
  return lines.join("\n");
}
