// Fetches the events of the diagram: a span of ids that grows at both ends as the view nears them.
import { signal } from "../../vendor/signals.js";
import { api } from "../core/api.js";
import { FORM } from "./model.js";

const PAGE = 500;
const PAGES_AT_A_TIME = 4;
const PAGES_IN_A_RUN = 20;
export const MOST_EVENTS = 1_000_000;

export class Loader {
  /**
   * `onLoad()` runs after each run, whether it put events into the model or failed. With `events` these
   * are all that there is to load.
   */
  constructor(model, vhost, onLoad, events = null) {
    this.model = model;
    this.events = events;
    this.filters = { vhost, page_size: PAGE, ...FORM };
    this.onLoad = onLoad;
    this.abort = new AbortController();
    this.busy = signal(false);
    this.atOldest = signal(false);
    this.atNewest = signal(false);
    this.error = signal(null);
    this.running = null; // the promise of the current run
    this.failed = null; // the action that ended with `error`
  }

  close() {
    this.abort.abort();
  }

  fetch(cursor) {
    return api.events({ ...this.filters, ...cursor }, this.abort.signal);
  }

  /** Replaces the loaded events by the newest ones, or by those around `anchor`. */
  open(anchor) {
    const fill = async () => {
      this.model.clear();
      if (this.events) {
        this.atOldest.value = this.atNewest.value = true;
        this.model.append(this.events);
      } else if (anchor) {
        const [older, newer] = await Promise.all([
          this.fetch({ before: anchor + 1 }),
          this.fetch({ after: anchor }),
        ]);
        this.atOldest.value = older.length < PAGE;
        this.atNewest.value = newer.length < PAGE;
        this.model.append([...older.reverse(), ...newer]);
      } else {
        const newest = await this.fetch({});
        this.atNewest.value = true;
        this.atOldest.value = newest.length < PAGE;
        this.model.append(newest.reverse());
      }
    };
    return this.alone(fill, { wait: true });
  }

  older(pages = PAGES_AT_A_TIME, { wait = false } = {}) {
    if (this.atOldest.peek() || !this.canGrow()) return false;
    const fill = async () => {
      let events = [];
      let first = this.model.id[0];
      for (let n = 0; n < pages && !this.atOldest.peek(); n += 1) {
        const page = await this.fetch({ before: first });
        this.atOldest.value = page.length < PAGE;
        if (!page.length) break;
        events = [...page.reverse(), ...events];
        first = events[0].id;
      }
      this.model.prepend(events);
    };
    return this.alone(fill, { wait });
  }

  newer(pages = PAGES_AT_A_TIME, { wait = false } = {}) {
    if (this.atNewest.peek() || !this.canGrow()) return false;
    const fill = async () => {
      for (let n = 0; n < pages && !this.atNewest.peek(); n += 1) {
        const page = await this.fetch({ after: this.model.id[this.model.length - 1] });
        this.atNewest.value = page.length < PAGE;
        this.model.append(page);
      }
    };
    return this.alone(fill, { wait });
  }

  /** Loads backwards until `events` are loaded or none are older. */
  async loadUpTo(events) {
    const most = Math.min(events, MOST_EVENTS);
    while (this.canGoOn() && !this.atOldest.peek() && this.model.length < most) {
      const missing = Math.ceil((most - this.model.length) / PAGE);
      if (!(await this.older(Math.min(PAGES_IN_A_RUN, missing), { wait: true }))) return;
    }
  }

  /** Loads towards an event, either way, at most `most` more and while it is `needed`. */
  async reach(id, most, needed = () => true) {
    const { model } = this;
    const enough = model.length + most;
    while (this.canGoOn() && needed() && model.length && model.length < enough) {
      const before = id < model.id[0];
      if (!before && id <= model.id[model.length - 1]) return;
      const more = before ? "older" : "newer";
      if (!(await this[more](PAGES_IN_A_RUN, { wait: true }))) return;
    }
  }

  /** Repeats what failed. */
  retry() {
    return this.alone(this.failed, { wait: true });
  }

  /** Not while empty, nor after a failure: a view at the edge would ask again and again. */
  canGrow() {
    return !this.error.peek() && this.model.length > 0 && this.model.length < MOST_EVENTS;
  }

  canGoOn() {
    return !this.abort.signal.aborted && !this.error.peek();
  }

  /**
   * One run at a time. With `wait` (somebody asked for it) an action waits its turn; without (the
   * view came near an edge) it is dropped, and the answer is false.
   */
  async alone(action, { wait }) {
    while (wait && this.busy.peek()) await this.running;
    if (this.busy.peek() || this.abort.signal.aborted) return false;
    this.busy.value = true;
    this.running = this.run(action);
    return this.running;
  }

  async run(action) {
    try {
      await action();
      this.error.value = null;
    } catch (error) {
      this.error.value = error;
      this.failed = action;
    }
    this.busy.value = false;
    if (this.abort.signal.aborted) return false;
    this.onLoad();
    return !this.error.peek();
  }
}
