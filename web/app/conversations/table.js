// The rows of the list: a conversation each, or several messages that are alike and stand alone.
import { html } from "../core/html.js";
import { ageOf, count, dateTime, plural, recent, said, seconds as took, secondsSince, span, visible } from "../core/format.js";
import { hrefHere, patch, vhost } from "../core/route.js";
import { user } from "../core/session.js";
import { foldedOf, useOpen } from "../ui/alike.js";
import { Value } from "../ui/marks.js";
import { inShort, shortOf } from "../ui/names.js";
import { useSteps } from "../ui/steps.js";
import { Table } from "../ui/table.js";
import { addressOf, isAlone, kindOf, wayOf } from "./alone.js";
import { Position, rowText, State, STATES, subjectOf } from "./words.js";

const FEW = 3;

const sum = (items) => items.reduce((all, { counts }) => all + counts.messages, 0);
const BY = [subjectOf, ({ state }) => Object.keys(STATES).indexOf(state),
  ({ position, began_at: at, seconds }) => (position ? secondsSince(at) : seconds), "began_at", "type",
  ({ counts, alike }) => (alike ? sum(alike) : counts.messages), null, ({ participants }) => participants.length, "vhost"];

export function Rows({ items, order }) {
  const [open, turn] = useOpen();
  const several = !vhost.value && user.value.vhosts.length > 1;
  const short = shortOf(items.flatMap((one) => one.participants));
  useSteps("[id^='conversation-']");
  const isKeyless = items.every(isAlone);
  const row = (one, under) => html`<${Row} key=${one.root} one=${one} isKeyless=${isKeyless} several=${several} short=${short} under=${under} />`;
  // A group is known by its oldest member, which stays when newer ones come.
  const rows = foldedOf(items, kindOf).map((one) => (one.alike ? { ...one, root: one.alike.at(-1).root } : one));
  const heads = `${isKeyless ? "Message|State|#Duration|Began|Exchange|#Messages|What happened|Taken by" : "Conversation|State|#Duration|Began|Type|#Messages|What happened|Participants"}${several ? "|Virtual host" : ""}`;
  return html`<${Table} label=${`Conversations, ${order}`} heads=${heads} rows=${rows} by=${BY} lines>
    ${(one) => (one.alike
      ? [html`<${Group} key=${`all ${one.root}`} one=${one} isKeyless=${isKeyless} several=${several} short=${short} isOpen=${open.has(one.root)} onTurn=${() => turn(one.root)} />`,
          ...(open.has(one.root) ? one.alike.map((each) => row(each, true)) : [])]
      : row(one))}
  <//>`;
}

/** The participants; of messages without a key all but the publisher, who stands beside. */
function Participants({ of: items, isKeyless, short }) {
  const all = [...new Set(items.flatMap(({ participants, first }) => participants.filter((one) => !isKeyless || one !== first.publisher)))];
  return html`<td class="name" title=${visible(all.join(", "))}>${visible(few(all.map(short)))}</td>`;
}

function Row({ one, isKeyless, several, short, under }) {
  const isNamed = one.keys.length > 0 || (isKeyless && !under);
  const tells = isKeyless || one.failure || one.position; // more than the type, where there is room for one
  return html`<tr class="chosen-by-click" onClick=${(e) => e.target.closest("a") || patch({ event: String(one.root) })}>
    <td class="at-first ${under ? "inner" : ""}" title=${visible(one.keys.join(", "))}><a id=${`conversation-${one.root}`} class=${under ? undefined : "strong"} data-focus=${`conversation ${one.root}`}
      href=${hrefHere({ event: String(one.root) })}>${isNamed ? html`<${Value} cut>${subjectOf(one)}<//>` : `#${one.root}`}</a>${several && html` <span class="on-phone soft small"><${Value}>${one.vhost}<//></span>`}</td>
    <td class="place at-first-end"><${State} state=${one.state} />${one.position && html` <span class="soft small"><${Position} of=${one} short=${short} /></span>`}</td>
    <td class="number" title=${one.position ? `Its last event came after ${took(one.seconds)}` : null}>${one.position
      ? html`<span class="soft">${ageOf(one.began_at)} so far</span>` : took(one.seconds)}</td>
    <td class="tabular at-end" title=${dateTime(one.began_at)}>${recent(one.began_at)}</td>
    <td class=${tells ? undefined : "at-second"}><${Value} cut>${isKeyless ? addressOf(one) : one.type}<//></td>
    <td class="number">${count(one.counts.messages)}${one.truncated ? "+" : ""}</td>
    <td class="text ${tells ? "at-second" : ""}" title=${said(one.sentence)}><span>${said(isAlone(one) && (isKeyless || !one.failure) ? wayOf(one, short) : inShort(rowText(one), one.participants, short))}</span></td>
    <${Participants} of=${[one]} isKeyless=${isKeyless} short=${short} />
    ${several && html`<td><${Value} cut>${one.vhost}<//></td>`}
  </tr>`;
}

/** Messages that are alike: a row that opens to each. */
function Group({ one, isKeyless, several, short, isOpen, onTurn }) {
  const { alike } = one;
  const lasted = alike.map(({ seconds }) => seconds);
  const [least, most] = [took(Math.min(...lasted)), took(Math.max(...lasted))];
  const since = one.state === "waiting" && alike.map(({ position }) => position?.since).sort()[0];
  return html`<tr class="chosen-by-click" onClick=${onTurn}>
    <td class="at-first"><button type="button" class="as-link strong" id=${`conversation-all-${one.root}`} data-focus=${`conversations ${one.root}`} aria-expanded=${String(isOpen)}
      onClick=${(e) => (e.stopPropagation(), onTurn())}>${isOpen ? "▾" : "▸"} <${Value}>${one.type}<//> × ${count(alike.length)}</button></td>
    <td class="place at-first-end"><${State} state=${one.state} />${since && html` <span class="soft small off-phone">the oldest for ${ageOf(since)}</span>`}</td>
    <td class="number">${least === most ? most : `${least} – ${most}`}</td>
    <td class="tabular at-last" title=${`${plural(alike.length, "message")}, the first at ${dateTime(alike.at(-1).began_at)}`}>${span(alike.at(-1).began_at, alike[0].began_at, "–")}</td>
    <td><${Value} cut>${isKeyless ? addressOf(one) : one.type}<//></td>
    <td class="number">${count(sum(alike))}</td>
    <td class="text at-second" title=${said(one.sentence)}><span>${said(wayOf(one, short))}</span></td>
    <${Participants} of=${alike} isKeyless=${isKeyless} short=${short} />
    ${several && html`<td><${Value} cut>${one.vhost}<//></td>`}
  </tr>`;
}

const few = (names) =>
  names.slice(0, FEW).join(", ") + (names.length > FEW ? ` and ${names.length - FEW} more` : "");
