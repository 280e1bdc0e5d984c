// Where the order of messages mattered, found by jobs: races and inversions over a period.
import { html } from "../../core/html.js";
import { count } from "../../core/format.js";
import { Value } from "../../ui/marks.js";
import { Reports } from "../../ui/reports.js";
import { Report } from "./report.js";

const KINDS = [
  ["races", "Races", "Publishes into one queue of which neither knew of the other"],
  ["inversions", "Inversions", "Messages of which one came of the other and was handed over before it"],
];

export const OrderReports = () => html`<${Reports} title="Does order matter?"
  note="races and inversions over a period, found by jobs" kinds=${KINDS}
  none="A report says which messages raced into one queue, so that they might as well have come in the other order, and which were handed over before the one that they came of."
  columns="Key|#Found" Cells=${Cells} Fields=${Fields} asked=${asked} Shown=${Report} />`;

const asked = (kind, { key = "" }) => ({ key: key.trim() });

const Cells = ({ one }) => html`
  <td class="name">${one.key ? html`<${Value}>${one.key}<//>` : html`<span class="faint">–</span>`}</td>
  <td class="number">${one.counted_all ? "" : "over "}${count(one.count)}</td>`;

const Fields = ({ values, set }) => html`<label class="field"><span>Only for the same key (optional)</span>
  <input class="input" value=${values.key ?? ""} placeholder="correlation_id, header.NAME, body.NAME" spellcheck=${false}
    onInput=${(e) => set("key", e.currentTarget.value)} /></label>`;
