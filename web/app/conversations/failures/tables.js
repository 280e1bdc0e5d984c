// Failures as a table: each by itself, where alike ones are one row that opens.
import { html } from "../../core/html.js";
import { dateTime, exchangeName, plural, recent } from "../../core/format.js";
import { href, hrefHere } from "../../core/route.js";
import { foldedOf, useOpen } from "../../ui/alike.js";
import { Queue, Value } from "../../ui/marks.js";
import { shortOf } from "../../ui/names.js";
import { PutBack } from "../../ui/put-back.js";
import { Table } from "../../ui/table.js";
import { KindMark } from "../../ui/failure-mark.js";

const brief = (iso) => recent(iso).split(".")[0];

const kindOf = ({ vhost, kind, reason, queue, to, type, exception, by }) => JSON.stringify([vhost, kind, reason, queue, to, type, exception, by?.name]);

/** `several`: whether the failures of several virtual hosts are shown. */
export function ItemsTable({ items, several }) {
  const [open, turn] = useOpen();
  const short = shortOf(items.flatMap(({ by, publisher }) => [by, publisher]).flatMap((one) => one?.name ?? []));
  const hasException = items.some(({ exception }) => exception);
  const folded = foldedOf(items, kindOf);
  const rows = folded.length === 1 ? items : folded; // where all are alike, each
  const hasEvent = rows.some(({ alike, id }) => !alike || open.has(id));
  return html`<${Table} label="Conversations that failed" rows=${rows} lines
      by=${["correlation_id", "at", "type", "kind", "queue", ({ by }) => by && short(by.name), ...(hasException ? ["exception"] : []), ...(several ? ["vhost"] : []), ...(hasEvent ? ["event"] : [])]}
      heads=${`${rows.some(({ alike }) => alike) ? "Failures" : "Conversation"}|When|Message|What happened|Queue|Had it last${hasException ? "|Exception" : ""}${several ? "|Virtual host" : ""}${hasEvent ? "|#Event" : ""}`}>
    ${({ alike = [], id, ...one }) => [[one, alike.length > 0 && { number: alike.length, first: alike.at(-1).at, isOpen: open.has(id), onTurn: () => turn(id) }], ...(open.has(id) ? alike : []).map((each) => [each, null])].map(
      ([item, group]) => html`<${Item} key=${`${group ? id : item.event} ${item.kind} ${item.queue}`} item=${item} group=${group} several=${several} hasException=${hasException} hasEvent=${hasEvent} short=${short} />`)}
  <//>`;
}

/** A failure; or a `group` of alike ones, `{number, first, isOpen, onTurn}`, of which it is the newest. */
function Item({ item, group, several, hasException, hasEvent, short }) {
  const { event, by, handed_over: handed, times, to } = item;
  return html`<tr class=${group ? "chosen-by-click" : undefined} onClick=${(e) => group && (e.target.closest("a, details") || group.onTurn())}>
    <td class="name at-first ${group === null ? "inner" : ""}">${group
      ? html`<button type="button" class="failure as-link strong" aria-expanded=${String(group.isOpen)}>${group.isOpen ? "▾" : "▸"} ${plural(group.number, "failure")}</button>`
      : html`<a class="failure strong" href=${href("conversations", { vhost: item.vhost, event: String(event) })} title="Open its conversation"><${Value}>${item.correlation_id ?? "no key"}<//></a>`}</td>
    <td class="tabular at-end" title=${dateTime(item.at)}>${group ? `${brief(group.first)} – ${brief(item.at)}` : recent(item.at)}</td>
    <td class="name at-second"><${Value}>${item.type}<//>${item.kind === "error_queue" && item.message == null && html`<${Unnamed} candidate=${item.candidate} />`}</td>
    <td class="at-first-end"><${KindMark} kind=${item.kind} reason=${item.reason} vhost=${item.vhost} />${times > 1 && html` <span class="soft small">${plural(times, "time")}</span>`}</td>
    <td class="name">${item.queue == null
      ? html`<span class="soft">sent to</span> ${exchangeName(item.exchange)}`
      : html`<${Queue} vhost=${item.vhost} name=${item.queue} />`}${to && html` → <${Queue} vhost=${item.vhost} name=${to} />`}${!group && html`${item.put_back && html`<br />`}<${PutBack} event=${item.put_back} command=${item.remedy} />`}</td>
    <td class="name">${by
      ? html`<${By} name=${short(by.name)} handed=${handed} />`
      : item.kind === "overdue" ? html`<span class="faint">–</span>` : html`<span class="soft">nobody; published by ${item.publisher ? html`<${Value}>${short(item.publisher.name)}<//>` : "an unknown"}</span>`}</td>
    ${hasException && html`<td class="name"><${Value}>${item.exception}<//></td>`}
    ${several && html`<td><${Value}>${item.vhost}<//></td>`}
    ${hasEvent && html`<td class="number">${!group && html`<a href=${hrefHere({ event: String(event) })}>#${event}</a>`}</td>`}
  </tr>`;
}

/** A failure without its message: at best there is one that it may be. */
const Unnamed = ({ candidate }) => html`<br /><span class="soft small">of which message: not known${candidate &&
  html`; it may be <a href=${hrefHere({ event: String(candidate) })} title="The newest delivery of the same body to the participant that reports the failure">#${candidate}</a>`}</span>`;

/** The participant that was handed the message last, and the delivery. */
function By({ name, handed }) {
  const said = html`<${Value}>${name}<//>`;
  return handed ? html`<a href=${hrefHere({ event: String(handed) })} title=${`Handed over by event ${handed}`}>${said}</a>` : said;
}
