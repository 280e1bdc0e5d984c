import { html } from "../core/html.js";
import { isStale, useHealthPolling } from "../core/health.js";
import { visible } from "../core/format.js";
import { route, tabOf, view, vhost } from "../core/route.js";
import { signInError, user } from "../core/session.js";
import { silence } from "../core/silence.js";
import { useTracesPolling } from "../core/traces.js";
import { heading } from "../core/viewed.js";
import { useKeptFocus } from "./focus.js";
import { Header } from "./header.js";
import { Help, useGlobalKeys } from "./help.js";
import { Notices } from "./notices.js";
import { Pins } from "./pins.js";
import { Question } from "./question.js";
import { SignIn } from "./sign-in.js";
import { lazy } from "../ui/lazy.js";
import { Tip } from "../ui/term.js";
import { Trust } from "./trust.js";
import { CODE } from "./views.js";

// Name of each view, shown while its code loads.
const NAMES = {
  overview: "the overview",
  durations: "durations",
  events: "events",
  conversations: "conversations",
  chain: "the chain",
  "space-time": "the diagram",
  topology: "the topology",
  queue: "the queue",
  learn: "the rules",
  jobs: "jobs",
  admin: "the settings",
};
const VIEWS = Object.fromEntries(Object.entries(NAMES).map(([name, said]) => [name, lazy(CODE[name], said)]));
VIEWS.rules = VIEWS.learn; // the same, in the settings
// These fill the window and have scroll bars of their own.
const FILLED = new Set(["events", "conversations", "space-time"]);

VIEWS[view.peek()].ask(); // while it is found out, or typed, who signs in

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
  const name = view.value;
  const View = VIEWS[name];
  document.title = titleOf(route.value);
  return html`<div class="shell ${isStale.value ? "stale" : ""} ${silence.value ? "silent" : ""}">
    <div>
      <a class="button skip" href="#page" onClick=${skip}>Skip to the content</a>
      <${Header} />
      <${Trust} />
    </div>
    <${Pins} />
    <main class="page ${FILLED.has(name) ? "filled" : ""}" id="page" tabindex="-1">
      <${View} key=${name + (vhost.value ?? "")} />
    </main>
    <${Help} /><${Question} /><${Notices} /><${Tip} />
  </div>`;
}

/** The title: what is open, its view and virtual host: `order-1126 · OrderPlaced · failed · Conversations · shop · rabbitmq-itc`. */
function titleOf({ view: name, params }) {
  const [label, views] = tabOf(name);
  const said = name === views[0][0] ? label : views.find(([known]) => known === name)[1];
  const open = params.event ? `#${params.event}` : params.find ?? params.queue ?? (params.filter === "failures" ? "Failures" : null);
  const parts = [heading.value ?? (open && visible(open)), said, vhost.value && visible(vhost.value), "rabbitmq-itc"];
  return parts.filter(Boolean).join(" · ");
}

// The hash is the state of the page, so the link must not change it.
function skip(event) {
  event.preventDefault();
  document.getElementById("page").focus();
}
