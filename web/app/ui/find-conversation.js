// "What happened to order 1234?": leads to its conversation, or to the list if several fit.
import { html } from "../core/html.js";
import { eventIn, eventNamed, findConversations } from "../core/conversations.js";
import { attempt } from "../core/notices.js";
import { go, route, vhost } from "../core/route.js";
import { useWork } from "../core/work.js";
import { Icon } from "./icons.js";

const SEVERAL = 2;

export function FindConversation({ shown = "" }) {
  const { busy, run } = useWork();
  const submit = (event) => {
    event.preventDefault();
    const text = event.currentTarget.elements.find.value.trim();
    run(() => attempt(() => lead(text)));
  };
  return html`<form class="find" role="search" aria-label="Conversations" onSubmit=${submit}>
    <${Icon} name="search" />
    <input class="input" name="find" type="text" autocomplete="off" spellcheck=${false} key=${shown}
      aria-label="What happened to" value=${shown}
      placeholder="What happened to … order-1234, a message id, a text" />
    <button class="button main" aria-disabled=${String(busy)}>${busy ? "Looking …" : "Find"}</button>
  </form>`;
}

async function lead(text) {
  const before = route.peek();
  const known = { vhost: vhost.peek() };
  const queue = /^queue:("[^"]+"|[^\s"]+)$/.exec(text)?.[1].replaceAll('"', "");
  if (queue) return go("queue", { ...known, queue });
  let event = eventIn(text);
  if (text && !event) {
    const found = await findConversations(text, { ...known, limit: SEVERAL });
    if (found.items.length === 1 && !found.truncated) event = await eventNamed(text, found, known);
  }
  if (route.peek() !== before) return; // went elsewhere meanwhile
  return event ? go("conversations", { event }) : go("conversations", { event: null, find: text || null });
}
