// Lessons of the record: fields that tie messages together, what normally follows what, what a release
// changed, and assertions.
import { html } from "../core/html.js";
import { openEvent, patch, route } from "../core/route.js";
import { EventDrawer } from "../ui/event/lazy-drawer.js";
import { lazy } from "../ui/lazy.js";
import { Choice } from "../ui/panel.js";
import { Reports } from "./reports-view.js";

const VIEWS = [
  ["reports", "Reports", "What a period teaches"],
  ["assertions", "Assertions", "What should hold, and whether it does"],
];
const AssertionsView = lazy(() => import("./assertions-view.js"), "the assertions");

export default function LearnTab() {
  const view = route.value.params.view === "assertions" ? "assertions" : "reports";
  const show = (one) => patch({ view: one === "reports" ? null : one, report: null, job: null, assertion: null });
  return html`<div class="beside">
    <div class="scrolled"><div class="page-inner">
      <div class="page-title"><h1>Rules</h1>
        <p>What normally follows what, which orders went another way, what a release changed, and whether what should hold does.</p></div>
      <div><${Choice} label="View" options=${VIEWS} value=${view} onChange=${show} /></div>
      ${view === "assertions" ? html`<${AssertionsView} />` : html`<${Reports} title="Reports" none=${NONE} />`}
    </div></div>
    ${openEvent.value && html`<${EventDrawer} id=${openEvent.value} key=${openEvent.value} />`}
  </div>`;
}

const NONE = "A report looks at all conversations of a period: it says what is usual there and what is not, finds rules of links, and judges assertions.";
