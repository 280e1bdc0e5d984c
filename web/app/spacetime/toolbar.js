import { html } from "../core/html.js";
import { compact, count } from "../core/format.js";
import { patch, pinnedA, pinnedB, vhost } from "../core/route.js";
import { Icon } from "../ui/icons.js";
import { Value } from "../ui/marks.js";
import { Choice } from "../ui/panel.js";
import { GROUPINGS } from "./lanes.js";

const ROW_KINDS = [
  ["lamport", "Lamport"],
  ["time", "Wall clock"],
];

/** What the loader is at comes as values: with the same objects again nothing would be drawn anew. */
export function Toolbar({ stage, params, vhost: name, live, ...progress }) {
  const { scene, loader } = stage;
  const { view } = scene;
  const act = (action) => () => {
    action();
    stage.redraw();
  };
  const both = pinnedA.value && pinnedB.value;
  return html`<div class="events-bar">
    ${!vhost.value && html`<span class="badge" title="The busiest virtual host; choose another above"><${Value}>${name}<//></span>`}
    <span class="tool"><span class="soft small">Rows</span>
      <${Choice} label="Rows" options=${ROW_KINDS} value=${scene.kind} onChange=${(v) => patch({ rows: v })} /></span>
    <label class="tool"><span class="soft small">Group by</span>
      <select class="select" value=${params.group ?? "user"} onChange=${(e) => patch({ group: e.currentTarget.value === "user" ? null : e.currentTarget.value, folded: null })}>
        ${GROUPINGS.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
      </select></label>
    ${both && params.event &&
    html`<${Choice} label="What is lit" value=${params.light ?? "event"} onChange=${(v) => patch({ light: v })}
      options=${[["event", "Past and future"], ["chain", "Chain A–B"]]} />`}
    <div class="right">
      <button class="button icon" aria-label="Further away" title="Further away (−)" onClick=${act(() => view.zoomRows(1 / 1.4))}><${Icon} name="minus" /></button>
      <button class="button icon" aria-label="Closer" title="Closer (+)" onClick=${act(() => view.zoomRows(1.4))}><${Icon} name="plus" /></button>
      <button class="button icon" aria-label="Fit all that is loaded" title="Fit all that is loaded (F)" onClick=${act(() => view.fit())}><${Icon} name="fit" /></button>
      <button class="button icon" aria-label="List what is in sight" title="List what is in sight (L)" aria-pressed=${String(params.list === "on")}
        onClick=${() => patch({ list: params.list === "on" ? null : "on" }, { replace: true })}><${Icon} name="list" /></button>
      <button class="button" aria-pressed=${String(live)} title="Follow new events (Space)" onClick=${() => patch({ live: live ? null : "on" }, { replace: true })}>
        <span class="live-dot ${live ? "on" : ""}"></span>${live ? "Live" : "Follow"}</button>
      <${LoadMore} loader=${loader} ...${progress} />
    </div>
  </div>`;
}

const AMOUNTS = [5000, 20_000, 100_000, 1_000_000];

function LoadMore({ loader, busy, loaded, atOldest }) {
  const load = (event) => {
    const amount = Number(event.currentTarget.value);
    event.currentTarget.value = "";
    loader.loadUpTo(amount);
  };
  return html`<select class="select load-more" aria-label="Load more of the past" value=""
    disabled=${atOldest} onChange=${load}>
    <option value="">${busy ? "Loading …" : `${compact(loaded)} loaded`}</option>
    ${AMOUNTS.filter((n) => n > loaded).map(
      (n) => html`<option key=${n} value=${n}>Load ${count(n)}</option>`,
    )}
  </select>`;
}
