import { html } from "../core/html.js";
import { openEvent } from "../core/route.js";
import { Conversation } from "./conversation.js";
import { ConversationList } from "./list.js";

export default function ConversationsTab() {
  return openEvent.value ? html`<${Conversation} event=${openEvent.value} />` : html`<${ConversationList} />`;
}
