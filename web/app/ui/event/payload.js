import { useMemo, useState } from "../../../vendor/hooks.js";
import { html } from "../../core/html.js";
import { bytes, visible } from "../../core/format.js";
import { Choice } from "../panel.js";

const MOST_HEX_BYTES = 16_384;
const VIEWS = [
  ["text", "Text"],
  ["json", "JSON"],
  ["hex", "Hex"],
];

export function Payload({ event }) {
  const body = useMemo(() => read(event), [event]);
  const [chosen, setChosen] = useState(null);
  const view = chosen ?? (body.json !== undefined ? "json" : body.binary ? "hex" : "text");
  return html`<section class="section">
    <h3>Payload
      ${body.bytes?.length > 0 &&
      html`<${Choice} label="Show the payload as" options=${VIEWS} value=${view} onChange=${setChosen} small />`}
    </h3>
    <${Body} body=${body} view=${view} event=${event} />
  </section>`;
}

function Body({ body, view, event }) {
  if (!body.bytes) {
    return html`<p class="soft">${event.payload_bytes
      ? `The service keeps no payloads. This one had ${bytes(event.payload_bytes)}.`
      : "Empty."}</p>`;
  }
  if (!body.bytes.length) return html`<p class="soft">Empty.</p>`;
  return html`
    <pre class="payload ${view === "hex" ? "hex" : ""}" tabindex="0" aria-label="Payload">${show(body, view)}</pre>
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
