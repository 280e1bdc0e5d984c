// The conversations that fit, newest first; those that wait, oldest first.
import { api, askConversations } from "../core/api.js";
import { html } from "../core/html.js";
import { findConversations } from "../core/conversations.js";
import { ageOf, count, dateTime, plural, reasonOf, sentence } from "../core/format.js";
import { usePages } from "../core/pages.js";
import { useResource } from "../core/resource.js";
import { href, patch, route, vhost } from "../core/route.js";
import { Value } from "../ui/marks.js";
import { Choice, Empty, Failure, Panel, pending } from "../ui/panel.js";
import { NARROW } from "../ui/width.js";
import { isAlone, KeyNotice } from "./alone.js";
import { Scatter } from "./scatter.js";
import { Rows } from "./table.js";
import { STATES, WAYS } from "./words.js";

const PAGE = 50; // as many as the service finds together
const MOST = 200; // of those that are folded
const PERIODS = [
  ["", "any time"],
  ["900", "last 15 minutes"],
  ["3600", "last hour"],
  ["86400", "last day"],
];
const OTHER_SECONDS = 15;

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
  const order = params.state === "waiting" ? "oldest first" : "newest first";
  // Among the newest ones nobody sees an order that is stuck: what waits is asked for by itself.
  const isOfWaiting = params.state === "waiting";
  const isAsked = !find && (isOfWaiting || !!last?.truncated);
  const ask = (signal) => (isAsked ? api.conversations({ ...since(filters, params.within), state: isOfWaiting ? null : "waiting" }, signal) : null);
  const other = useResource(ask, [JSON.stringify([filters, params.within]), isAsked], { every: OTHER_SECONDS }).data;
  const [all, waiting] = isOfWaiting && isAsked ? [other && [other], last] : [data, other];

  return html`
    <${States} pages=${all} waiting=${waiting} chosen=${params.state ?? ""} />
    <${Filters} params=${params} />
    <${KeyNotice} items=${items} via=${filters.via} onChange=${reload} />
    <${Panel} title="Conversations" flush note=${data && noteOf(last, items, order)}
      foot=${further && html`<button class="button small" aria-disabled=${String(coming)}
        onClick=${() => coming || more()}>${coming ? "Loading …" : "Show older"}</button>
        <span> ${plural(data.reduce((sum, page) => sum + page.looked_at, 0), "conversation")} looked at${last.since ? `, since ${dateTime(last.since)}` : ""}</span>`}>
      ${data && error && html`<div class="panel-body"><${Failure} error=${error} onRetry=${reload} /></div>`}
      ${!data
        ? pending(loaded, "conversations")
        : items.length
          ? html`<${Scatter} items=${items.every(isAlone) ? [] : items} /><${Rows} items=${items} order=${order} />`
          : html`<${NoneFound} find=${find} filtered=${[find, params.within, ...FILTERS.map((name) => params[name])].some(Boolean)} further=${further} />`}
    <//>`;
}

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

/** Numbers of the conversations that were looked at, and of all that wait, by state; each part is a filter. */
function States({ pages, waiting, chosen }) {
  const sums = new Map();
  for (const { state, number, since: at } of (pages ?? []).flatMap(({ states }) => states)) {
    const { count: sum = 0, since: first = at } = sums.get(state) ?? {};
    sums.set(state, { count: sum + number, since: [first, at].filter(Boolean).sort()[0] });
  }
  const all = [...sums.values()].reduce((sum, one) => sum + one.count, 0);
  const [those] = waiting?.states ?? [];
  if (waiting) sums.set("waiting", { count: those?.number ?? 0, since: those?.since, more: waiting.truncated });
  const part = ([state, [tone, word]]) => {
    const { count: some = 0, since: at, more } = sums.get(state) ?? {};
    const age = state === "waiting" && at ? html`<span class="soft">${ageOf(at)}</span>` : null;
    return [state, html`<span class="dot ${tone}"></span>${pages ? `${count(some)}${more ? "+" : ""} ` : ""}${word.split(",")[0]}${age}`];
  };
  const total = (pages ?? []).reduce((sum, page) => sum + page.looked_at, 0);
  return html`<div class="state-strip">
    <${Choice} label="State" value=${chosen} onChange=${(value) => patch({ state: value || null })}
      options=${[["", pages ? `All ${count(all)}` : "All"], ...Object.entries(STATES).map(part)]} />
    <span class="soft small">${pages?.at(-1)?.truncated ? `of the newest ${plural(total, "conversation")}${waiting ? "; waiting: of all" : ""}` : ""}</span>
  </div>`;
}

function Filters({ params }) {
  const field = (name, label, hint) => html`<label class="field"><span>${label}</span>
    <input class="input" key=${params[name] ?? ""} defaultValue=${params[name] ?? ""} placeholder=${hint} spellcheck=${false}
      inputmode=${name.endsWith("seconds") ? "decimal" : undefined}
      onChange=${(e) => patch({ [name]: clean(name, e.currentTarget.value) })} /></label>`;
  const isSet = ["within", ...FILTERS].some((name) => name !== "state" && params[name]);
  return html`<details class="fold" open=${innerWidth > NARROW || isSet}><summary>Filters</summary>
  <div class="conv-filters" role="group" aria-label="Filters">
    <label class="field"><span>Began</span>
      <select class="select" value=${params.within ?? ""} onChange=${(e) => patch({ within: e.currentTarget.value || null })}>
        ${PERIODS.map(([value, text]) => html`<option key=${value} value=${value} selected=${value === (params.within ?? "")}>${text}</option>`)}
      </select></label>
    ${field("type", "Message type", "order.new")}
    ${field("participant_name", "Participant", "name")}
    ${field("min_seconds", "At least, s", "0.5")}
    ${field("max_seconds", "At most, s", "60")}
    <label class="field"><span>Follow</span>
      <select class="select" value=${params.via ?? "links"} onChange=${(e) => patch({ via: e.currentTarget.value === "links" ? null : e.currentTarget.value })}>
        ${WAYS.slice(0, 2).map(([value, text]) => html`<option key=${value} value=${value} selected=${value === (params.via ?? "links")}>${text}</option>`)}
      </select></label>
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
