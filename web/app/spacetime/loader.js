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
    this.atOldest = false;
    this.atNewest = false;
    this.error = null;
  }

  close() {
    this.abort.abort();
  }

  fetch(cursor) {
    return api.events({ ...this.filters, ...cursor }, this.abort.signal);
  }

  /** The newest events, or those round `anchor`, in place of what is loaded. */
  open(anchor) {
    return this.alone(async () => {
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
    });
  }

  older(pages = PAGES_AT_A_TIME) {
    if (this.atOldest || this.isFull()) return false;
    return this.alone(async () => {
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
    });
  }

  newer(pages = PAGES_AT_A_TIME) {
    if (this.atNewest || this.isFull()) return false;
    return this.alone(async () => {
      for (let n = 0; n < pages && !this.atNewest; n += 1) {
        const page = await this.fetch({ after: this.model.id[this.model.length - 1] });
        this.atNewest = page.length < PAGE;
        this.model.append(page);
      }
    });
  }

  /** Loads backwards until there are `events` or no older ones. */
  async loadUpTo(events) {
    const most = Math.min(events, MOST_EVENTS);
    while (this.canGoOn() && !this.atOldest && this.model.length < most) {
      const missing = Math.ceil((most - this.model.length) / PAGE);
      if (!(await this.older(Math.min(PAGES_IN_A_RUN, missing)))) return;
    }
  }

  /** Loads on to an event, either way, as long as that takes at most `most` events more. */
  async reach(id, most) {
    const { model } = this;
    const enough = model.length + most;
    while (this.canGoOn() && model.length && model.length < enough) {
      const before = id < model.id[0];
      if (!before && id <= model.id[model.length - 1]) return;
      if (!(await (before ? this.older(PAGES_IN_A_RUN) : this.newer(PAGES_IN_A_RUN)))) return;
    }
  }

  isFull() {
    return this.model.length === 0 || this.model.length >= MOST_EVENTS;
  }

  canGoOn() {
    return !this.abort.signal.aborted && !this.error;
  }

  /** One request at a time; the answer to a second one is that the first still runs. */
  async alone(action) {
    if (this.busy) return false;
    this.busy = true;
    this.onLoad({ began: true });
    try {
      await action();
      this.error = null;
    } catch (error) {
      if (this.abort.signal.aborted) return false;
      this.error = error;
    }
    this.busy = false;
    this.onLoad({ began: false });
    return true;
  }
}
