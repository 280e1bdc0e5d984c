import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { useResource } from "../core/resource.js";
import { href, openEvent, patch, pinnedA, pinnedB, route } from "../core/route.js";
import { justAfter, useViewed } from "../core/viewed.js";
import { EventDrawer } from "../ui/event/lazy-drawer.js";
import Touched from "../ui/event/touched.js";
import { Choice, Empty, Failure, Panel, pending } from "../ui/panel.js";
import { ExportsTable } from "../ui/exports-table.js";
import { Icon } from "../ui/icons.js";
import { Chain } from "./chain.js";
import { Pair, useEvent } from "./pair.js";

export default function ChainTab() {
  const a = pinnedA.value;
  const b = pinnedB.value;
  const events = [useEvent(a), useEvent(b)];
  return html`<div class="beside">
      <div class="scrolled"><div class="page-inner">
        <div class="page-title">
          <h1>Compare and chain</h1>
          <p>Could one event have caused the other, and through which events?</p>
        </div>
        ${a && b ? html`<${Compared} a=${a} b=${b} events=${events} />` : html`<${Pair} a=${a} b=${b} events=${events} /><${Missing} a=${a} b=${b} />`}
        ${(a || b) && html`<${WhatTheyTouched} a=${a} b=${b} />`}
        <${ExportsTable} />
      </div></div>
      ${openEvent.value && html`<${EventDrawer} id=${openEvent.value} key=${openEvent.value} />`}
    </div>`;
}

function Missing({ a, b }) {
  const what = !a && !b ? "two events" : `event ${a ? "B" : "A"}`;
  return html`<${Panel} title="Chain">
    <${Empty} title=${`Pin ${what} to compare`}
      actions=${html`<a class="button main" href=${href("events")}>Choose events</a>`}>
      Type a number above, or open an event and press A or B. The answer says whether one
      caused the other, may have had a part in it, or cannot have. Where one happened before the other, the chain between
      them is listed and drawn.
    <//>
  <//>`;
}

function Compared({ a, b, events }) {
  const loaded = useResource((signal) => api.compare(a, b, signal), [a, b], { every: 0 });
  const { data, error } = loaded;
  const [one, other] = events.map((event) => event.data);
  const [since, last] = data && one && other ? [one.recorded_at, other.recorded_at].sort() : [];
  useViewed(one?.vhost, since, last && justAfter(last), "between A and B", data);
  return html`
    <${Pair} a=${a} b=${b} answer=${data} events=${events} />
    ${error && html`<${Failure} error=${error} onRetry=${loaded.reload} />`}
    ${!data && !error && pending(loaded, "the relation")}
    ${data && html`<${ChainPanel} a=${a} b=${b} answer=${data} />`}`;
}

function ChainPanel({ a, b, answer }) {
  if (answer.relation === "concurrent") {
    const sure = answer.answer !== "unknown";
    return html`<${Panel} title="Chain"><${Empty} title=${`${sure ? "There is no chain" : "No chain is known"} between them`}
      actions=${html`<a class="button" href=${href("space-time", { event: a })}>
        <${Icon} name="diagram" />See them in space-time</a>`}>
      ${sure
        ? `The two are concurrent: no message and no participant carries anything from one to the other.
           If both failed, they failed independently, or from a common cause before them or outside the broker.`
        : "No path between the two is known. There may be one that was not recorded."}<//><//>`;
  }
  if (answer.relation === "equal") {
    return html`<${Panel} title="Chain"><${Empty} title="A and B are the same event">
      Pin another event to see the chain between the two.<//><//>`;
  }
  return html`<${Chain} a=${a} b=${b} answer=${answer} key=${`${a} ${b}`} />`;
}

/** Events that one pinned event, or both, touched. */
function WhatTheyTouched({ a, b }) {
  const ways = { a: [a], b: [b], both: [a, b] };
  const options = [["a", "A"], ["b", "B"], ["both", "A and B"]].filter(([key]) => ways[key].every(Boolean));
  const { by } = route.value.params;
  const chosen = options.some(([key]) => key === by) ? by : options[0][0];
  return html`<${Panel} title="What it touched" note="and what it cannot have"
      tools=${options.length > 1 && html`<${Choice} label="What it touched: by which event" options=${options} value=${chosen} small
        onChange=${(value) => patch({ by: value }, { replace: true })} />`}>
    <${Touched} ids=${ways[chosen]} name="all_touched" key=${chosen} />
  <//>`;
}
