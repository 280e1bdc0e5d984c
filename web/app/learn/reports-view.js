// Reports on a period: those that there are, a form for another, and one of them drawn by its kind.
import { html } from "../core/html.js";
import { count, dateTime } from "../core/format.js";
import { Choice } from "../ui/panel.js";
import { Reports } from "../ui/reports.js";
import { AssertionFile } from "./assertion-file.js";
import { Shown } from "./shown.js";
import { Verdict } from "./words.js";

export const KINDS = [
  ["expectations", "Expectations", "What messages of each type lead to, how often and how fast, and which conversations went another way"],
  ["comparison", "Comparison", "What appeared, vanished or changed since the time before, as long as the period"],
  ["correlations", "Correlations", "Which fields of messages tie them together, as rules of links"],
  ["assertions", "Assertions", "Whether what should hold did"],
];

/** `file`: the assertions that a form begins with. */
export const LearnReports = ({ title, note = "on a period, made by jobs", kinds = KINDS, none, file }) => html`<${Reports} title=${title}
  note=${note} kinds=${kinds} none=${none} columns="Found"
  Cells=${Cells} Fields=${Fields} asked=${asked} begin=${{ file }} Shown=${Shown} />`;

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

function Fields({ kind, values, set, error }) {
  return html`
    ${kind !== "correlations" && html`<${Choice} small label="What belongs together" options=${ALONG}
      value=${values.via ?? "links"} onChange=${(via) => set("via", via)} />`}
    ${kind === "assertions" && html`<${AssertionFile} value=${values.file ?? ""} error=${error} onInput=${(file) => set("file", file)} />`}`;
}

function asked(kind, { via = "links", file = "" }) {
  if (kind === "correlations") return {};
  return kind === "assertions" ? { via, body: file } : { via };
}
