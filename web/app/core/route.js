// The whole state of the page is its URL: `#/events?vhost=%2F&event=17`. A link shows a colleague
// the same thing, and the browser's back button goes one step back.
import { computed, signal } from "../../vendor/signals.js";

export const TABS = [
  ["overview", "Overview"],
  ["events", "Events"],
  ["conversations", "Conversations"],
  ["failures", "Failures"],
  ["chain", "Chain"],
  ["space-time", "Space-time"],
  ["topology", "Topology"],
  ["learn", "Learn"],
  ["jobs", "Jobs"],
  ["admin", "Admin"],
];

/** The key that opens a tab by its place: 1 to 9, and 0 for the tenth. */
export const numberKey = (place) => String((place + 1) % 10);

// Kept when another tab is opened: the virtual host and the pins.
const GLOBAL = ["vhost", "a", "b"];
// The tabs that can show an event at their side; it stays open from one to another.
const EVENT_TABS = new Set(["events", "conversations", "failures", "chain", "space-time"]);

export const route = signal(parse(location.hash));

const REMEMBERED = new Set(["events"]);
const places = new Map(); // the parameters of tabs that were left
route.subscribe(({ tab, params }) => REMEMBERED.has(tab) && places.set(tab, params));

function parse(hash) {
  const [name, search = ""] = hash.replace(/^#\/?/, "").split("?");
  const tab = TABS.some(([known]) => known === name) ? name : "overview";
  return { tab, params: Object.fromEntries(new URLSearchParams(search)) };
}

function print({ tab, params }) {
  const set = Object.entries(params).filter(([, value]) => value != null && value !== "");
  set.sort(([a], [b]) => (a < b ? -1 : 1));
  return `#/${tab}${set.length ? `?${new URLSearchParams(set)}` : ""}`;
}

addEventListener("hashchange", () => {
  const next = parse(location.hash);
  if (print(next) !== print(route.peek())) route.value = next;
});

/** The address of another tab: what is kept, and `params` on top. */
export function href(tab, params = {}) {
  const here = route.value.params;
  const kept = Object.fromEntries(GLOBAL.map((name) => [name, here[name]]));
  const fromHere = tab === "conversations" && route.value.tab === tab; // leads to the list of all
  if (EVENT_TABS.has(tab) && EVENT_TABS.has(route.value.tab) && !fromHere) kept.event = here.event;
  return print({ tab, params: { ...kept, ...params } });
}

/**
 * The address of a tab as it was left, for the same virtual host; of the one that is shown, without
 * anything chosen in it. Only a tab where one loses much by beginning anew is remembered.
 */
export function hrefBack(tab) {
  const left = places.get(tab);
  const here = route.value;
  if (!left || tab === here.tab || (left.vhost ?? "") !== (here.params.vhost ?? "")) return href(tab);
  const event = EVENT_TABS.has(here.tab) ? here.params.event : left.event;
  return print({ tab, params: { ...left, ...params(GLOBAL, here), event } });
}

const params = (names, { params: all }) => Object.fromEntries(names.map((name) => [name, all[name]]));

/** The address of this tab with some parameters changed. */
export function hrefHere(changes) {
  const { tab, params } = route.value;
  return print({ tab, params: { ...params, ...changes } });
}

/** Changes the parameters of this tab; null removes one. `replace` adds no step to go back to. */
export function patch(changes, { replace = false } = {}) {
  const { tab, params } = route.peek();
  show({ tab, params: { ...params, ...changes } }, replace);
}

export function go(tab, params) {
  show(parse(href(tab, params)), false);
}

export const goBack = (tab) => show(parse(hrefBack(tab)), false);

function show(next, replace) {
  const text = print(next);
  if (text === location.hash) return;
  route.value = parse(text);
  if (replace) history.replaceState(null, "", text);
  else history.pushState(null, "", text);
}

/** Closes the event at the side. A conversation stays: there the address keeps which event it is of. */
export function closeEvent() {
  patch(tab.peek() === "conversations" ? { panel: null } : { event: null });
}

export function param(name) {
  return computed(() => route.value.params[name] ?? null);
}

export const tab = computed(() => route.value.tab);
export const vhost = param("vhost");
export const pinnedA = param("a");
export const pinnedB = param("b");
export const openEvent = param("event");
