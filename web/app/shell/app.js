import { html } from "../core/html.js";
import { isStale, useHealthPolling } from "../core/health.js";
import { tab, TABS, vhost } from "../core/route.js";
import { signInError, user } from "../core/session.js";
import { useTracesPolling } from "../core/traces.js";
import { AdminTab } from "../admin/admin-tab.js";
import { ChainTab } from "../chain/chain-tab.js";
import { ConversationsTab } from "../conversations/conversations-tab.js";
import { EventsTab } from "../events/events-tab.js";
import { FailuresTab } from "../failures/failures-tab.js";
import { JobsTab } from "../jobs/jobs-tab.js";
import { OverviewTab } from "../overview/overview-tab.js";
import { SpaceTimeTab } from "../spacetime/space-time-tab.js";
import { TopologyTab } from "../topology/topology-tab.js";
import { useKeptFocus } from "./focus.js";
import { Header } from "./header.js";
import { Help, useGlobalKeys } from "./help.js";
import { Notices } from "./notices.js";
import { Pins } from "./pins.js";
import { Question } from "./question.js";
import { SignIn } from "./sign-in.js";
import { Tip } from "../ui/term.js";
import { Trust } from "./trust.js";

const PAGES = {
  overview: OverviewTab,
  events: EventsTab,
  conversations: ConversationsTab,
  failures: FailuresTab,
  chain: ChainTab,
  "space-time": SpaceTimeTab,
  topology: TopologyTab,
  jobs: JobsTab,
  admin: AdminTab,
};
// These fill the window and have scroll bars of their own.
const FILLED = new Set(["events", "conversations", "space-time"]);

export function App() {
  if (user.value === undefined) {
    return html`<p class="loading" role="status">${signInError.value} Connecting …</p>`;
  }
  return user.value === null ? html`<${SignIn} />` : html`<${Shell} />`;
}

function Shell() {
  useGlobalKeys();
  useKeptFocus();
  useTracesPolling();
  useHealthPolling();
  const name = tab.value;
  const Page = PAGES[name];
  document.title = `${TABS.find(([known]) => known === name)[1]} · rabbitmq-itc`;
  return html`<div class="shell ${isStale.value ? "stale" : ""}">
    <div>
      <a class="button skip" href="#page" onClick=${skip}>Skip to the content</a>
      <${Header} />
      <${Trust} />
    </div>
    <${Pins} />
    <main class="page ${FILLED.has(name) ? "filled" : ""}" id="page" tabindex="-1">
      <${Page} key=${name + (vhost.value ?? "")} />
    </main>
    <${Help} /><${Question} /><${Notices} /><${Tip} />
  </div>`;
}

// The hash is the state of the page, so the link must not change it.
function skip(event) {
  event.preventDefault();
  document.getElementById("page").focus();
}
