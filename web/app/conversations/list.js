// The conversations that fit: failed and waiting ones first, then newest first; or by time alone. Where only those that wait are asked for, oldest first.
import { api, askConversations } from "../core/api.js";
import { html } from "../core/html.js";
import { findConversations } from "../core/conversations.js";
import { count, dateTime, plural, reasonOf, sentence } from "../core/format.js";
import { usePages } from "../core/pages.js";
import { useResource } from "../core/resource.js";
import { href, hrefFailures, patch, route, vhost } from "../core/route.js";
import { Value } from "../ui/marks.js";
import { Choice, Empty, Failure, Panel, pending } from "../ui/panel.js";
import { PERIODS } from "../ui/period.js";
import { isAlone, KeyNotice } from "./alone.js";
import { Scatter } from "./scatter.js";
import { Rows } from "./table.js";
import { STATES, WAYS } from "./words.js";

const PAGE = 50; // as many as the service finds together
const MOST = 200; // of those that are folded
const ORDERS = [["", "failed and waiting first"], ["newest", "newest first"]];
const OTHER_SECONDS = 15;
const FAILURES_SECONDS = 30;

/** `find`: what was typed to find some. */
export function ConversationList({ find }) {
  const { params } = route.value;
  const filters = filtersOf(params, vhost.value);
  // Later pages go on with the search of the first one.
  const load = async (next, signal) => {
    const asked = { ...since(filters, params.within), ...next?.filters };
    const page = await findConversations(find, asked, signal, next?.by);
    const limit = page.items.some((one) => !isAlone(one)) ? PAGE : MOST;
    return { ...page, next: page.next && { filters: { before: page.next, limit }, by: page.by } };
  };
  const loaded = usePages(load, [find, filters, params.within]);
  const { data, error, reload, further, coming, more } = loaded;
  const items = data?.flatMap((page) => page.items) ?? [];
  const last = data?.at(-1);
  // Among the newest ones nobody sees an order that is stuck: what waits is asked for by itself.
  const isOfWaiting = params.state === "waiting";
  const isAsked = !find && (isOfWaiting || !!last?.truncated);
  const ask = (signal) => (isAsked ? api.conversations({ ...since(filters, params.within), state: isOfWaiting ? null : "waiting" }, signal) : null);
  const other = useResource(ask, [JSON.stringify([filters, params.within]), isAsked], { every: OTHER_SECONDS }).data;
  const [all, waiting] = isOfWaiting && isAsked ? [other && [other], last] : [data, isAsked ? other : null];
  const isCounted = !!last?.truncated && ![find, params.within, ...FILTERS.filter((name) => name !== "state").map((name) => params[name])].some(Boolean);
  const failures = useResource(async (signal) => (isCounted ? api.failures({ vhost: vhost.value, limit: 1 }, signal) : null), [vhost.value, isCounted], { every: FAILURES_SECONDS }).data;
  const isUrgentFirst = !find && !params.state && params.order !== "newest";
  const order = isUrgentFirst ? "failed and waiting first" : isOfWaiting ? "oldest first" : "newest first";
  const older = isUrgentFirst && data ? (waiting?.items ?? []).filter(({ root }) => !items.some((one) => one.root === root)) : [];
  const rows = isUrgentFirst ? [...items, ...older].sort((a, b) => isUrgent(b) - isUrgent(a)) : items;

  return html`
    <${States} pages=${all} waiting=${waiting} hasFailed=${failures?.counted > 0} chosen=${params.state ?? ""} />
    <${Filters} params=${params} />
    <${KeyNotice} items=${items} via=${filters.via} onChange=${reload} />
    <${Panel} title="Conversations" flush note=${data && noteOf(last, rows, order)}
      tools=${failures?.counted > 0 && html`<a class="button small" href=${hrefFailures({ vhost: vhost.value })}>${plural(failures.counted, "failure")}${failures.counted_all ? "" : " or more"} in all</a>`}
      foot=${further && html`<button class="button small" aria-disabled=${String(coming)}
        onClick=${() => coming || more()}>${coming ? "Loading …" : "Show older"}</button>
        <span> ${plural(data.reduce((sum, page) => sum + page.looked_at, 0), "conversation")} looked at${last.since ? `, since ${dateTime(last.since)}` : ""}</span>`}>
      ${data && error && html`<div class="panel-body"><${Failure} error=${error} onRetry=${reload} /></div>`}
      ${!data
        ? pending(loaded, "conversations")
        : rows.length
          ? html`<${Scatter} items=${items.every(isAlone) ? [] : items} /><${Rows} items=${rows} order=${order} />`
          : html`<${NoneFound} find=${find} filtered=${[find, params.within, ...FILTERS.map((name) => params[name])].some(Boolean)} further=${further} />`}
    <//>`;
}

const isUrgent = ({ state }) => state === "failed" || state === "waiting";

const FILTERS = ["state", "type", "participant_name", "min_seconds", "max_seconds", "via"];

function filtersOf(params, chosen) {
  const set = FILTERS.filter((name) => params[name]).map((name) => [name, params[name]]);
  return { vhost: chosen ?? undefined, limit: PAGE, ...Object.fromEntries(set) };
}

// Opened by its address, the list need not wait until it is known who is signed in.
const address = route.peek();
const isPlain = address.view === "conversations" && ["event", "filter", "find", "within"].every((name) => !address.params[name]);
if (isPlain) askConversations(filtersOf(address.params, vhost.peek()));

const since = (filters, within) =>
  within ? { ...filters, since: new Date(Date.now() - Number(within) * 1000).toISOString() } : filters;

const FOUND_BY = {
  conversation: "by what their messages share, ",
  correlation_id: "by correlation id, ",
  message_id: "by message id, ",
  q: "by text, ",
};

const noteOf = ({ by, truncated }, items, order) =>
  items.length ? `${count(items.length)}${truncated ? " so far" : ""}, ${FOUND_BY[by] ?? ""}${order}` : null;

/** Numbers of the conversations that were looked at, and of all that wait (undefined: not known yet), by state; each part is a filter. `hasFailed`: also older ones. */
function States({ pages, waiting, hasFailed, chosen }) {
  const sums = new Map();
  for (const { state, number } of (pages ?? []).flatMap(({ states }) => states)) sums.set(state, (sums.get(state) ?? 0) + number);
  if (waiting) sums.set("waiting", waiting.states[0]?.number ?? 0);
  const all = [...sums.values()].reduce((sum, one) => sum + one, 0);
  const isPending = (state) => pages && waiting === undefined && state === "waiting";
  const part = ([state, [tone, word]]) => {
    const some = sums.get(state);
    const number = isPending(state) ? "…" : some && `${count(some)}${state === "waiting" && waiting?.truncated ? "+" : ""}`;
    return [state, html`<span class="dot ${tone}"></span>${number ? `${number} ` : ""}${word.split(",")[0]}`];
  };
  const isShown = ([state]) => !pages || sums.get(state) || isPending(state) || (state === "failed" && hasFailed) || state === chosen;
  const total = (pages ?? []).reduce((sum, page) => sum + page.looked_at, 0);
  return html`<div class="state-strip">
    <${Choice} label="State" value=${chosen} onChange=${(value) => patch({ state: value || null })}
      options=${[["", pages ? `All ${waiting === undefined ? "…" : `${count(all)}${waiting?.truncated ? "+" : ""}`}` : "All"], ...Object.entries(STATES).filter(isShown).map(part)]} />
    <span class="soft small off-phone">${pages?.at(-1)?.truncated && `of the newest ${plural(total, "conversation")}${waiting ? ", and all that wait" : ""}`}</span>
  </div>`;
}

function Filters({ params }) {
  const field = (name, label, hint) => html`<label class="field"><span>${label}</span>
    <input class="input" key=${params[name] ?? ""} defaultValue=${params[name] ?? ""} placeholder=${hint} spellcheck=${false}
      inputmode=${name.endsWith("seconds") ? "decimal" : undefined}
      onChange=${(e) => patch({ [name]: clean(name, e.currentTarget.value) })} /></label>`;
  /** The first of `options` is that without the parameter. */
  const select = (name, options, label) => html`<label class="field"><span>${label}</span>
    <select class="select" value=${params[name] ?? options[0][0]} onChange=${({ currentTarget: { value } }) => patch({ [name]: value === options[0][0] ? null : value })}>
      ${options.map(([value, text]) => html`<option key=${value} value=${value} selected=${value === (params[name] ?? options[0][0])}>${text}</option>`)}
    </select></label>`;
  const isSet = ["within", ...FILTERS].some((name) => name !== "state" && params[name]);
  return html`<details class="fold" open=${isSet}><summary>Filters</summary>
  <div class="conv-filters" role="group" aria-label="Filters">
    ${select("within", PERIODS, "Began")}
    ${select("order", ORDERS, "Sort")}
    ${field("type", "Message type", "order.new")}
    ${field("participant_name", "Participant", "name")}
    ${field("min_seconds", "Duration from, s", "0.5")}
    ${field("max_seconds", "Duration to, s", "60")}
    ${select("via", WAYS.slice(0, 2), "Follow")}
  </div></details>`;
}

const clean = (name, text) => (name.endsWith("seconds") ? text.replace(/[^\d.]/g, "") : text.trim()) || null;

function NoneFound({ find, filtered, further }) {
  if (further) return html`<${Empty} title="None among the newest events">Older ones were not looked at yet: show older.<//>`;
  if (!filtered) {
    return html`<${Empty} title="No conversations yet" actions=${html`<a class="button" href=${href("overview")}>To the traces</a>`}>
      A conversation begins with a message that nothing led to, as soon as a trace runs.<//>`;
  }
  return find
    ? html`<${Whereabouts} id=${find} />`
    : html`<${Empty} title="No conversation fits these filters" actions=${toAll()}>
        Take a filter away, or wait: new ones appear here.<//>`;
}

const toAll = () => html`<a class="button" href=${href("conversations")}>All conversations</a>`;

/** Was it ever here? The service's word on an id that no conversation has. */
function Whereabouts({ id }) {
  const load = (signal) => api.where({ id, vhost: vhost.value }, signal);
  const { data, error } = useResource(load, [id, vhost.value], { every: 0 });
  return html`<${Empty} title=${html`No conversation has <${Value}>${id}<//>`}
    actions=${html`${toAll()}<a class="button" href=${href("events", { q: id })}>Look among the events</a>`}>
    <span role="status">${data ? sentence(data.sentence) : error ? reasonOf(error) : "Asking whether it was ever here …"}</span><//>`;
}
