import { html } from "../core/html.js";
import { isConversation, openEvent, route } from "../core/route.js";
import { EventDrawer } from "../ui/event/lazy-drawer.js";
import { FindConversation } from "../ui/find-conversation.js";
import { lazy } from "../ui/lazy.js";
import { Conversation } from "./conversation.js";
import { ConversationList } from "./list.js";
import { SavedFilters } from "./saved-filters.js";

const Failed = lazy(() => import("./failures/failures.js"), "what failed");

export default function ConversationsTab() {
  const { filter, find = "" } = route.value.params;
  const event = openEvent.value;
  if (event && isConversation(route.value)) return html`<${Conversation} event=${event} />`;
  return html`<div class="conv-scroll"><div class="page-inner dense">
      <div class="page-title"><h1>Conversations</h1>
        <p>What happened to an order: a message, and all that came of it.</p></div>
      <${FindConversation} shown=${find} />
      <${SavedFilters} />
      ${filter === "failures" ? html`<${Failed} />` : html`<${ConversationList} find=${find} />`}
    </div></div>
    ${event && html`<${EventDrawer} id=${event} key=${event} />`}`;
}
