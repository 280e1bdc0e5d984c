// What the record teaches: which fields tie messages together, what normally follows what, what a release
// changed, and whether what should hold did.
import { html } from "../core/html.js";
import { count, dateTime } from "../core/format.js";
import { openEvent } from "../core/route.js";
import { EventDrawer } from "../ui/event/lazy-drawer.js";
import { Choice } from "../ui/panel.js";
import { Reports } from "../ui/reports.js";
import { Shown } from "./shown.js";
import { Verdict } from "./words.js";

const KINDS = [
  ["expectations", "Expectations", "What messages of each type lead to, how often and how fast, and which conversations went another way"],
  ["comparison", "Comparison", "What appeared, vanished or changed since the time before, as long as the period"],
  ["correlations", "Correlations", "Which fields of messages tie them together, as rules of links"],
  ["assertions", "Assertions", "Whether what should hold did"],
];

export default function LearnTab() {
  return html`<div class="beside">
    <div class="scrolled"><div class="page-inner">
      <div class="page-title"><h1>Learn</h1>
        <p>What normally follows what, which orders went another way, what a release changed, and whether what should hold did.</p></div>
      <${Reports} title="Reports" note="on a period, made by jobs" kinds=${KINDS} none=${NONE} columns="Found"
        Cells=${Cells} Fields=${Fields} asked=${asked} Shown=${Shown} />
    </div></div>
    ${openEvent.value && html`<${EventDrawer} id=${openEvent.value} key=${openEvent.value} />`}
  </div>`;
}

const NONE = "A report looks at all conversations of a period: it says what is usual there and what is not, finds rules of links, and judges assertions.";

const FOUND = {
  expectations: (one) => `${count(one.variants_count)} variants, ${count(one.outliers_count)} out of the ordinary`,
  comparison: (one) => `${count(one.changes)} changed since ${dateTime(one.before_since)}`,
  correlations: (one) => `${count(one.reactions)} publishes that may have a cause`,
  assertions: (one) => html`<${Verdict} word=${one.verdict} />`,
};

const Cells = ({ one }) => html`<td>${FOUND[one.report](one)}</td>`;

const ALONG = [
  ["links", "Links", "What messages and links join"],
  ["conversation", "Shared keys too", "What shares a key of a conversation, as well"],
];
const EXAMPLE = `- name: invoice-in-time
  every: order.new
  leads_to: invoice
  within: 30s`;

function Fields({ kind, values, set }) {
  return html`
    ${kind !== "correlations" && html`<${Choice} small label="What belongs together" options=${ALONG}
      value=${values.via ?? "links"} onChange=${(via) => set("via", via)} />`}
    ${kind === "assertions" && html`<label class="field"><span>What should hold (YAML or JSON)</span>
      <textarea class="input code" rows="8" spellcheck=${false} placeholder=${EXAMPLE} value=${values.file ?? ""}
        onInput=${(e) => set("file", e.currentTarget.value)}></textarea></label>`}`;
}

function asked(kind, { via = "links", file = "" }) {
  if (kind === "correlations") return {};
  return kind === "assertions" ? { via, body: file } : { via };
}
