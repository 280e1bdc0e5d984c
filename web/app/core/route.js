// The whole state of the page is its URL: `#/events?vhost=%2F&event=17`. A link shows a colleague
// the same thing, and the browser's back button goes one step back.
import { computed, signal } from "../../vendor/signals.js";

/** The tabs, each with its views: name in addresses, and label. The page begins with the first. */
export const TABS = [
  ["Overview", [["overview", "Now"], ["durations", "Slow since"]]],
  ["Conversations", [["conversations", "Conversations"], ["learn", "Rules"]]],
  ["Events", [["events", "Events"]]],
  ["Map", [["topology", "Topology"], ["queue", "Queue"], ["chain", "Chain"], ["space-time", "Space-time"]]],
  ["Settings", [["admin", "Traces and participants"], ["rules", "Rules"], ["jobs", "Jobs"]]],
];
// The view that the tray of jobs leads to; its tab lists it only while it is shown.
export const HIDDEN = "jobs";
const VIEWS = TABS.flatMap(([, views]) => views.map(([name]) => name));

/** The tab that a view is in: `[label, views]`. */
export const tabOf = (view) => TABS.find(([, views]) => views.some(([name]) => name === view));

// Kept when another view is opened: the virtual host and the pins.
const GLOBAL = ["vhost", "a", "b"];
// The views that can show an event at their side; it stays open from one to another.
const EVENT_VIEWS = new Set(["events", "conversations", "chain", "space-time"]);

export const route = signal(parse(location.hash));

const REMEMBERED = new Set(["events"]);
const places = new Map(); // the parameters of views that were left
const last = new Map(); // of each tab, the view that was shown last
route.subscribe(({ view, params }) => {
  if (REMEMBERED.has(view)) places.set(view, params);
  last.set(tabOf(view), view);
});

function parse(hash) {
  const [name, search = ""] = hash.replace(/^#\/?/, "").split("?");
  const params = Object.fromEntries(new URLSearchParams(search));
  return VIEWS.includes(name) ? { view: name, params } : { view: "overview", params, unknown: name };
}

function print({ view, params }) {
  const set = Object.entries(params).filter(([, value]) => value != null && value !== "");
  set.sort(([a], [b]) => (a < b ? -1 : 1));
  return `#/${view}${set.length ? `?${new URLSearchParams(set)}` : ""}`;
}

addEventListener("hashchange", () => {
  const next = parse(location.hash);
  if (next.unknown || route.peek().unknown || print(next) !== print(route.peek())) route.value = next;
});

/** The address of another view: what is kept, and `params` on top. */
export function href(view, params = {}) {
  const here = route.value.params;
  const kept = Object.fromEntries(GLOBAL.map((name) => [name, here[name]]));
  const fromHere = view === "conversations" && route.value.view === view; // leads to a list
  if (EVENT_VIEWS.has(view) && EVENT_VIEWS.has(route.value.view) && !fromHere) kept.event = here.event;
  return print({ view, params: { ...kept, ...params } });
}

/** The address of a queue's page. */
export const hrefQueue = (vhost, queue) => href("queue", { vhost, queue });

/** The address of the conversations that failed. */
export const hrefFailures = (params) => href("conversations", { filter: "failures", ...params });

/**
 * The address of a view as it was left, for the same virtual host; of the one that is shown, without
 * anything chosen in it. Only a view where one loses much by beginning anew is remembered.
 */
export function hrefBack(view) {
  const left = places.get(view);
  const here = route.value;
  if (!left || view === here.view || (left.vhost ?? "") !== (here.params.vhost ?? "")) return href(view);
  const event = EVENT_VIEWS.has(here.view) ? here.params.event : left.event;
  return print({ view, params: { ...left, ...params(GLOBAL, here), event } });
}

const params = (names, { params: all }) => Object.fromEntries(names.map((name) => [name, all[name]]));

/** The address of this view with some parameters changed. */
export function hrefHere(changes) {
  const { view, params } = route.value;
  return print({ view, params: { ...params, ...changes } });
}

/** Changes the parameters of this view; null removes one. `replace` adds no step to go back to. */
export function patch(changes, { replace = false } = {}) {
  const { view, params } = parse(location.hash); // a link that was just followed is not heard of yet
  show({ view, params: { ...params, ...changes } }, replace);
}

export function go(view, params) {
  show(parse(href(view, params)), false);
}

/** The address of a tab: of its view that was shown last. */
export const hrefTab = (tab) => hrefBack(last.get(tab) ?? tab[1][0][0]);

export const goToTab = (tab) => show(parse(hrefTab(tab)), false);

function show(next, replace) {
  const text = print(next);
  if (text === location.hash) return;
  route.value = parse(text);
  if (replace) history.replaceState(null, "", text);
  else history.pushState(null, "", text);
}

/** True if one conversation is shown: there the address keeps its event. */
export const isConversation = ({ view, params }) => view === "conversations" && params.filter !== "failures";

/** The address that shows an event at the side. A conversation's address has its own event. */
export const hrefEvent = (id) => hrefHere({ event: String(id), ...(isConversation(route.value) && { panel: "on" }) });

/** Parameters that close the event at the side. A conversation stays. */
export const closed = () => (isConversation(route.peek()) ? { panel: null } : { event: null });

export const closeEvent = () => patch(closed());

export function param(name) {
  return computed(() => route.value.params[name] ?? null);
}

export const view = computed(() => route.value.view);
export const vhost = param("vhost");
export const pinnedA = param("a");
export const pinnedB = param("b");
export const openEvent = param("event");
