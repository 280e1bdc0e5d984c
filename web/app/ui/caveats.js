// Caveats of an answer: gaps in its span, doubts about who acts, quiet traffic.
import { html } from "../core/html.js";
import { dateTime, plural, said, sentence } from "../core/format.js";
import { href } from "../core/route.js";
import { isChosen } from "./gaps.js";
import { Alert } from "./panel.js";

export const isSure = (answer) => answer.complete && answer.sound;

const incomplete = ({ gaps }) => {
  const lost = gaps.filter((gap) => !isChosen(gap)).length;
  const chosen = gaps.find(isChosen);
  return [
    lost > 0 && `${lost === 1 ? "A gap lies" : `${lost} gaps lie`} in this span: trace messages may have
      been lost there, and with them signs of influence.`,
    chosen && `In this span ${said(chosen.reason)}, since ${dateTime(chosen.since)}. What is left out may have carried
      influence.`,
  ].filter(Boolean).join(" ");
};
export const leftOut = (quiet) =>
  `${quiet < 1000 ? "" : "At least "}${plural(quiet, "quiet event")} in this span: such traffic is not followed.`;

export function Caveats({ answer }) {
  return html`${!answer.complete && html`<${Alert} tone="warn"
      action=${html`<a class="button small" href=${href("overview")}>Show the gaps</a>`}>
      <strong>Not complete.</strong> ${incomplete(answer)}<//>`}
    ${answer.doubts?.map((doubt) => html`<${Alert} tone="warn" key=${doubt}>
      <strong>Not sound.</strong> ${sentence(doubt)}<//>`)}
    ${answer.quiet > 0 && html`<p class="small soft">${leftOut(answer.quiet)}</p>`}`;
}

/** The same below a list. */
export function Footnotes({ answer }) {
  return [
    !answer.complete && `Not complete. ${incomplete(answer)}`,
    ...answer.doubts.map((doubt) => `Not sound. ${sentence(doubt)}`),
    answer.quiet > 0 && leftOut(answer.quiet),
  ].map((text) => text && html`<p class="small soft" key=${text}>${text}</p>`);
}
