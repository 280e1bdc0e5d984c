// Fetches the diagram's events: a span of ids that grows at both ends as one moves towards them.
import { api } from "../core/api.js";
import { FIELDS } from "./model.js";

const PAGE = 500;
const PAGES_AT_A_TIME = 4;
const PAGES_IN_A_RUN = 20;
export const MOST_EVENTS = 1_000_000;

export class Loader {
  /** `onLoad()` runs after each batch that went into the model. */
  constructor(model, vhost, onLoad) {
    this.model = model;
    this.filters = { vhost, page_size: PAGE, columns: FIELDS, payload: "none" };
    this.onLoad = onLoad;
    this.abort = new AbortController();
    this.busy = false;
    this.running = null; // what `busy` waits for
    this.atOldest = false;
    this.atNewest = false;
    this.error = null;
    this.failed = null; // what ended with `error`
  }

  close() {
    this.abort.abort();
  }

  fetch(cursor) {
    return api.events({ ...this.filters, ...cursor }, this.abort.signal);
  }

  /** The newest events, or those round `anchor`, in place of what is loaded. */
  open(anchor) {
    const fill = async () => {
      this.model.clear();
      if (anchor) {
        const [older, newer] = await Promise.all([
          this.fetch({ before: anchor + 1 }),
          this.fetch({ after: anchor }),
        ]);
        this.atOldest = older.length < PAGE;
        this.atNewest = newer.length < PAGE;
        this.model.append([...older.reverse(), ...newer]);
      } else {
        const newest = await this.fetch({});
        this.atNewest = true;
        this.atOldest = newest.length < PAGE;
        this.model.append(newest.reverse());
      }
    };
    return this.alone(fill, { wait: true });
  }

  older(pages = PAGES_AT_A_TIME, { wait = false } = {}) {
    if (this.atOldest || !this.canGrow()) return false;
    const fill = async () => {
      let events = [];
      let first = this.model.id[0];
      for (let n = 0; n < pages && !this.atOldest; n += 1) {
        const page = await this.fetch({ before: first });
        this.atOldest = page.length < PAGE;
        if (!page.length) break;
        events = [...page.reverse(), ...events];
        first = events[0].id;
      }
      this.model.prepend(events);
    };
    return this.alone(fill, { wait });
  }

  newer(pages = PAGES_AT_A_TIME, { wait = false } = {}) {
    if (this.atNewest || !this.canGrow()) return false;
    const fill = async () => {
      for (let n = 0; n < pages && !this.atNewest; n += 1) {
        const page = await this.fetch({ after: this.model.id[this.model.length - 1] });
        this.atNewest = page.length < PAGE;
        this.model.append(page);
      }
    };
    return this.alone(fill, { wait });
  }

  /** Loads backwards until there are `events` or no older ones. */
  async loadUpTo(events) {
    const most = Math.min(events, MOST_EVENTS);
    while (this.canGoOn() && !this.atOldest && this.model.length < most) {
      const missing = Math.ceil((most - this.model.length) / PAGE);
      if (!(await this.older(Math.min(PAGES_IN_A_RUN, missing), { wait: true }))) return;
    }
  }

  /** Loads on to an event, either way, while that is `wanted` and at most `most` events more. */
  async reach(id, most, wanted = () => true) {
    const { model } = this;
    const enough = model.length + most;
    while (this.canGoOn() && wanted() && model.length && model.length < enough) {
      const before = id < model.id[0];
      if (!before && id <= model.id[model.length - 1]) return;
      const more = before ? "older" : "newer";
      if (!(await this[more](PAGES_IN_A_RUN, { wait: true }))) return;
    }
  }

  /** Does once more what failed. */
  retry() {
    return this.alone(this.failed, { wait: true });
  }

  /** Not while empty, nor after a failure: who looks at an edge would ask without end. */
  canGrow() {
    return !this.error && this.model.length > 0 && this.model.length < MOST_EVENTS;
  }

  canGoOn() {
    return !this.abort.signal.aborted && !this.error;
  }

  /**
   * One at a time: what comes second waits its turn where somebody asked for it, and is dropped
   * (false) where it was only the sight coming near an edge.
   */
  async alone(action, { wait }) {
    while (wait && this.busy) await this.running;
    if (this.busy || this.abort.signal.aborted) return false;
    this.busy = true;
    this.running = this.run(action);
    return this.running;
  }

  async run(action) {
    this.onLoad({ began: true });
    try {
      await action();
      this.error = null;
    } catch (error) {
      this.error = error;
      this.failed = action;
    }
    this.busy = false;
    if (this.abort.signal.aborted) return false;
    this.onLoad({ began: false });
    return !this.error;
  }
}
