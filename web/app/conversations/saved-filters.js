// Filters by name: failures first, then those that were saved in this browser.
import { html } from "../core/html.js";
import { href, route } from "../core/route.js";
import { addressNow, savedHere, SavedViews } from "../ui/saved-views.js";

const FILTERS = [
  ["All", {}],
  ["Failures", { filter: "failures" }],
];
const UNPINNED = { a: null, b: null };

export function SavedFilters() {
  const now = addressNow();
  const own = FILTERS.map(([name, params]) => ({ name, address: href("conversations", params), means: href("conversations", { ...params, ...UNPINNED }) }));
  const filters = [...own, ...savedHere().map(({ name, address }) => ({ name, address, means: address }))];
  // Failures are chosen however they are narrowed.
  const chosen = filters.findLast(({ means }) => means === now) ?? (route.value.params.filter === "failures" ? own[1] : null);
  return html`<div class="saved-filters">
    <nav aria-label="Saved filters">${filters.map(
      (one) => html`<a class="button small quiet" key=${`${own.includes(one)} ${one.name}`} href=${one.address} aria-current=${one === chosen ? "page" : undefined}><bdi>${one.name}</bdi></a>`,
    )}</nav>
    <${SavedViews} small />
  </div>`;
}
