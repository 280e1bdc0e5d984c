// The rows of the events table: a window of at most MOST_ROWS that slides over any number of events
// by keyset cursors, newest first. Knows nothing of the DOM.
import { signal } from "../../vendor/signals.js";
import { api } from "../core/api.js";

const PAGE = 200;
const FIRST = 60; // as many as a window shows: a slow line brings them a second earlier
const MOST_ROWS = 6000;
export const MOST_FRESH = 1000;

/** The query for the newest events. */
export const firstPage = (filters) => ({ ...filters, page_size: FIRST });

export class Feed {
  /** `filters` go to the API with every request. */
  constructor(filters) {
    this.filters = filters;
    this.abort = new AbortController();
    this.busy = { older: false, newer: false };
    // `moved`: how many rows were added before the first one (negative: removed) since the state
    // before, so that the table can keep the rows in view where they are.
    this.state = signal({
      rows: [],
      moved: 0,
      atNewest: false,
      atOldest: false,
      loading: true,
      error: null,
      fresh: 0,
      version: 0,
    });
    this.fresh = [];
    this.anchor = null;
    this.top = 0; // how far the rows were scrolled, for when they are shown again
  }

  close() {
    this.abort.abort();
    this.publish({}); // nothing has moved when the rows are shown again
  }

  /** After a close: goes on with the rows it has, or opens again where it has none. */
  resume() {
    this.abort = new AbortController();
    this.busy = { older: false, newer: false };
    const { rows, error } = this.state.peek();
    if (error || !rows.length) this.open(this.anchor);
  }

  /** Starts at the newest event, or around the event `anchor`. */
  async open(anchor) {
    this.fresh = [];
    this.anchor = anchor; // the table scrolls to it once, then resets it
    this.publish({ rows: [], loading: true, fresh: 0, moved: 0 });
    await this.attempt(async () => {
      if (!anchor) {
        const rows = await this.fetch({ page_size: FIRST });
        this.publish({ rows, loading: false, atNewest: true, atOldest: rows.length < FIRST });
        return;
      }
      const [newer, older] = await Promise.all([
        this.fetch({ after: anchor }),
        this.fetch({ before: anchor + 1 }),
      ]);
      this.publish({
        rows: [...newer.reverse(), ...older],
        loading: false,
        atNewest: newer.length < PAGE,
        atOldest: older.length < PAGE,
      });
    });
  }

  /** After a failure: opens again, or with rows shown only checks that the service is back. */
  retry() {
    if (!this.state.peek().rows.length) return this.open(this.anchor);
    return this.attempt(() => this.fetch({}));
  }

  older() {
    const { rows, atOldest } = this.state.peek();
    return this.extend("older", atOldest, rows.at(-1), async (last) => {
      const more = await this.fetch({ before: last.id });
      const now = this.state.peek().rows;
      const all = [...now, ...more];
      const cut = Math.max(0, all.length - MOST_ROWS);
      this.publish({
        rows: all.slice(cut),
        moved: -cut,
        atOldest: more.length < PAGE,
        ...(cut ? { atNewest: false } : {}),
      });
    });
  }

  newer() {
    const { rows, atNewest } = this.state.peek();
    return this.extend("newer", atNewest, rows[0], async (first) => {
      const more = (await this.fetch({ after: first.id })).reverse();
      this.prepend(more, more.length < PAGE);
    });
  }

  async extend(side, done, from, load) {
    if (done || !from || this.busy[side] || this.state.peek().error) return;
    this.busy[side] = true;
    await this.attempt(() => load(from));
    this.busy[side] = false;
  }

  /** Takes events from the live tail, oldest first; `show` puts them into the table at once. */
  take(events, show) {
    const { rows, atNewest } = this.state.peek();
    const last = this.fresh.at(-1)?.id ?? rows[0]?.id ?? 0;
    this.fresh.push(...events.filter((event) => event.id > last));
    if (show && atNewest) return this.showFresh();
    this.publish({ fresh: this.fresh.length });
    if (this.fresh.length > MOST_FRESH) this.fresh.splice(0, this.fresh.length - MOST_FRESH - 1);
  }

  showFresh() {
    if (!this.fresh.length) return;
    if (!this.state.peek().atNewest || this.fresh.length > MOST_FRESH) return this.open(null);
    const newest = this.fresh.reverse();
    this.fresh = [];
    this.prepend(newest, true);
  }

  prepend(newest, atNewest) {
    const all = [...newest, ...this.state.peek().rows];
    const cut = all.length > MOST_ROWS;
    this.publish({
      rows: cut ? all.slice(0, MOST_ROWS) : all,
      moved: newest.length,
      atNewest,
      fresh: this.fresh.length,
      ...(cut ? { atOldest: false } : {}),
    });
  }

  fetch(cursor) {
    return api.events({ ...this.filters, page_size: PAGE, ...cursor }, this.abort.signal);
  }

  async attempt(action) {
    try {
      await action();
      if (this.state.peek().error) this.publish({ error: null });
    } catch (error) {
      if (!this.abort.signal.aborted) this.publish({ error, loading: false });
    }
  }

  publish(changes) {
    const before = this.state.peek();
    this.state.value = { ...before, moved: 0, ...changes, version: before.version + 1 };
  }
}
