import { useEffect, useMemo, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { askEvents } from "../core/api.js";
import { ageOf, count } from "../core/format.js";
import { outage } from "../core/health.js";
import { useKeys } from "../core/keys.js";
import { refreshSeconds } from "../core/preferences.js";
import { useRetry } from "../core/resource.js";
import { href, openEvent, patch, pinnedA, pinnedB, route, vhost } from "../core/route.js";
import { silence } from "../core/silence.js";
import { useTail } from "../core/tail.js";
import { traces } from "../core/traces.js";
import { justAfter, useViewed } from "../core/viewed.js";
import { EventDrawer } from "../ui/event/lazy-drawer.js";
import { Icon } from "../ui/icons.js";
import { Empty, Failure } from "../ui/panel.js";
import { chosenOf, columnsOf, knownFields, requestFor, sortValue, useFields } from "./columns.js";
import { sortOf } from "./column-heads.js";
import { ColumnSheet } from "./column-sheet.js";
import { Feed, firstPage, MOST_FRESH } from "./feed.js";
import { FilterBox, FilterChips } from "./filter-box.js";
import { filtersOf } from "./filter-text.js";
import { Histogram } from "./histogram.js";
import { RowsTable } from "./rows-table.js";
import { SavedViews } from "../ui/saved-views.js";

// Opened by its address, the list need not wait until it is known who is signed in.
if (knownFields() && route.peek().view === "events" && !openEvent.peek() && !route.peek().params.at) {
  askEvents(firstPage(askedFor(columnsOf(knownFields())).filters));
}

export default function EventsTab() {
  const { data, error, reload } = useFields();
  const all = useMemo(() => data && columnsOf(data), [data]);
  if (all) return html`<${Events} all=${all} />`;
  return html`<h1 class="unseen">Events</h1>
    ${error && html`<div class="panel-body"><${Failure} error=${error} onRetry=${reload} /></div>`}`;
}

function Events({ all }) {
  const { params } = route.value;
  const { columns, sorted, falling, filters } = askedFor(all);
  const [linked, setLinked] = useState(linkedEvent);
  const feed = useFeed(filters, params.at ?? linked);
  const { rows: loaded, fresh, loading, error, atNewest } = feed.state.value;
  const rows = useSorted(loaded, sorted, falling);
  const [atTop, setAtTop] = useState(true);
  const [isMore, setMore] = useState(false); // of the controls, on a phone
  const [active, setActive] = useActive(rows, openEvent.value);
  const live = params.live !== "off";
  const [[newestSeen, oldestSeen], setSeen] = useState([]);
  useViewed(vhost.value, oldestSeen, live && atTop ? null : newestSeen && justAfter(newestSeen), "the rows in view");
  useRetry(error, () => feed.retry());

  const tail = useTail({
    wanted: live && !loading && !error,
    filters,
    from: () => feed.state.peek().rows[0]?.id ?? 0,
    onEvents: (events) => feed.take(events, atTop),
  });

  const see = (top, bottom) => {
    const [newest, oldest] = (sorted ? [loaded[0], loaded.at(-1)] : [top, bottom]).map((row) => row?.recorded_at);
    setSeen((seen) => (seen[0] === newest && seen[1] === oldest ? seen : [newest, oldest]));
  };
  const activate = (index, open) => {
    setActive(rows[index]?.id);
    if (open && rows[index]) patch({ event: String(rows[index].id) });
  };
  const step = (by) => {
    const index = Math.min(rows.length - 1, Math.max(0, active < 0 ? 0 : active + by));
    activate(index, Boolean(openEvent.value));
  };
  const newest = () => {
    setActive(null);
    setLinked(null);
    document.querySelector(".rows").scrollTop = 0;
    if (fresh) feed.showFresh();
    else if (!atNewest) feed.open(null);
    patch({ at: null }, { replace: true });
  };
  useKeys({
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    j: () => step(1),
    k: () => step(-1),
    Enter: () => active >= 0 && activate(active, true),
    Home: newest,
    " ": () => patch({ live: live ? "off" : null }, { replace: true }),
  });

  return html`<h1 class="unseen">Events</h1>
    <div class="events">
      <div class="events-bar ${isMore ? "" : "few"}">
        <${FilterBox} rows=${rows} />
        <div class="right">
          <${Newest} at=${live && atNewest ? (feed.fresh.at(-1) ?? loaded[0])?.recorded_at : null} />
          <${GoTo} />
          <${LiveButton} live=${live} state=${tail} />
          <${SavedViews} />
          <button class="button on-phone" aria-expanded=${String(isMore)} onClick=${() => setMore(!isMore)}>More</button>
          <${ColumnSheet} all=${all} shown=${columns} />
        </div>
      </div>
      <${FilterChips} />
      <${Histogram} filters=${filtersOf(params)} />
      <div class="rows-wrap">
        ${fresh > 0 && html`<${NewEvents} fresh=${fresh} onShow=${newest} />`}
        ${error && html`<div class="panel-body"><${Failure} error=${error} onRetry=${() => feed.retry()} /></div>`}
        ${!rows.length && !error
          ? html`<${NoRows} loading=${loading} filtered=${isFiltered(params)} />`
          : html`<${RowsTable} feed=${feed} rows=${rows} sorted=${sorted !== null} found=${filtersOf(params)} columns=${columns} openId=${openEvent.value}
              active=${active} onActivate=${activate} onTop=${setAtTop} onView=${see} gapAfter=${gapIds()}
              pins=${{ [pinnedA.value]: "A", [pinnedB.value]: "B" }} />`}
      </div>
      <${Foot} state=${feed.state.value} sorted=${sorted} onOlder=${() => feed.older()} />
    </div>
    ${openEvent.value && html`<${EventDrawer} id=${openEvent.value} key=${openEvent.value} />`}`;
}

/** The address's request: the shown columns, the one that rows are sorted by or null, and the filters for the API. */
function askedFor(all) {
  const { params } = route.value;
  const sort = sortOf(params);
  const columns = chosenOf(all, vhost.value);
  const sorted = all.find(({ name }) => name === sort?.name) ?? null; // it need not be shown
  const filters = { ...filtersOf(params), ...requestFor([...columns, ...(sorted ? [sorted] : [])]) };
  return { columns, sorted, falling: sort?.falling, filters };
}

/** A feed for these filters, opened around `at`, closed when they change. */
function useFeed(filters, at) {
  const key = JSON.stringify([filters, at ?? null]);
  const feed = useMemo(() => (left?.key === key ? left.feed : new Feed(filters)), [key]);
  const latest = useRef(null);
  latest.current = { key, feed, linked: at ?? null };
  useEffect(() => {
    if (left?.feed === feed) feed.resume();
    else feed.open(at ? Number(at) : null);
    left = null;
    return () => feed.close();
  }, [feed]);
  useEffect(() => () => (left = latest.current), []);
  return feed;
}

let left = null; // the feed when the tab was left, so that one comes back to the same rows

/** The requested event: the rows are those around it, unless it is among the rows to return to. */
function linkedEvent() {
  const id = openEvent.peek();
  return left?.feed.state.peek().rows.some((event) => event.id === Number(id)) ? left.linked : id;
}

/** The cursor is kept by event, not by row, so that new rows do not move it. */
function useActive(rows, openId) {
  const [id, setId] = useState(openId ? Number(openId) : null);
  const cache = useRef({ rows: null, id: null, index: -1 });
  if (cache.current.rows !== rows || cache.current.id !== id) {
    cache.current = { rows, id, index: id == null ? -1 : rows.findIndex((e) => e.id === id) };
  }
  return [cache.current.index, setId];
}

const isFiltered = (params) =>
  Object.values({ ...filtersOf(params), vhost: undefined, use_regex: undefined }).some((value) => value != null);

function gapIds() {
  const list = traces.value.data ?? [];
  return new Set(list.flatMap((trace) => trace.gaps.map((gap) => gap.after_event_id)));
}

function NewEvents({ fresh, onShow }) {
  const text = fresh > MOST_FRESH ? `More than ${count(MOST_FRESH)} newer` : `${count(fresh)} newer`;
  return html`<button class="button main small new-events" onClick=${onShow}>
    <${Icon} name="up" />${text}
  </button>`;
}

/** The age of the newest event that fits; the page's refresh keeps it true. */
const Newest = ({ at }) => at && refreshSeconds.value > 0 && html`<span class="soft small nowrap">last event ${ageOf(at)} ago</span>`;

function LiveButton({ live, state }) {
  const words = { off: "Paused", connecting: "Live", on: silence.value ? "Live, silent" : "Live", broken: "Reconnecting" };
  const label = live ? "Pause the live tail" : "Resume the live tail";
  return html`<button class="button" aria-pressed=${String(live)} title=${`${label} (Space)`}
    onClick=${() => patch({ live: live ? "off" : null }, { replace: true })}>
    <span class="live-dot ${state === "on" && !outage.value ? "on" : ""}"></span>
    ${words[state]}<${Icon} name=${live ? "pause" : "play"} />
  </button>`;
}

function GoTo() {
  const submit = (event) => {
    event.preventDefault();
    const number = event.currentTarget.elements.id.value.replace(/\D/g, "");
    if (number) patch({ at: number, event: number, live: "off" });
  };
  return html`<form onSubmit=${submit}>
    <input class="input go-to" name="id" inputmode="numeric" autocomplete="off"
      placeholder="Go to #" aria-label="Go to event number" />
  </form>`;
}

function NoRows({ loading, filtered }) {
  if (loading) return html`<p class="loading" role="status">Loading events …</p>`;
  if (filtered) {
    return html`<${Empty} title="No event matches these filters">
      Remove a filter above, or wait: new events that match will appear here.<//>`;
  }
  return html`<${Empty} title="No events yet"
    actions=${html`<a class="button" href=${href("overview")}>To the traces</a>`}>
    Events appear as soon as a trace runs and a message is published or delivered.<//>`;
}

/** The loaded rows in another order; later ones are unknown. */
function useSorted(rows, column, falling) {
  return useMemo(() => {
    if (!column) return rows;
    const keyed = rows.map((row) => [sortValue(column, row), row]);
    const order = ([a], [b]) => (a < b ? -1 : a > b ? 1 : 0);
    keyed.sort(falling ? (a, b) => order(b, a) : order);
    return keyed.map(([, row]) => row);
  }, [rows, column, falling]);
}

function Foot({ state, sorted, onOlder }) {
  const { rows, atNewest, atOldest } = state;
  if (!rows.length) return null;
  if (sorted) {
    return html`<div class="rows-foot">
      <span>the ${count(rows.length)} loaded rows, by ${sorted.label}${" "}
        <button class="button small quiet" onClick=${() => patch({ sort: null }, { replace: true })}>newest first</button></span>
      ${atOldest ? html`<span>the oldest is loaded</span>` : html`<button class="button small quiet" onClick=${onOlder}>Load older</button>`}
    </div>`;
  }
  const span = `#${rows.at(-1).id} to #${rows[0].id}`;
  return html`<div class="rows-foot">
    <span>${count(rows.length)} loaded, ${span}</span>
    <span>${atNewest ? "newest at the top" : "scroll up for newer"} · ${atOldest
      ? "the oldest is loaded"
      : "scroll down for older"}</span>
  </div>`;
}
