// The next step where a message waits in a queue since `at`: by the queue's answer, or, while it is pending, where to look.
import { html } from "../core/html.js";
import { moment, visible } from "../core/format.js";
import { href } from "../core/route.js";
import { isSilentSince, silence } from "../core/silence.js";
import { Queue } from "./marks.js";
import { shortOf } from "./names.js";

/** The next step; before it the recording, where nothing at all was recorded since then. */
export const NextStep = (of) => html`${isSilentSince(of.at) && html`<span class="next-step">Check <a href=${href("overview", { vhost: of.vhost })}>the recording</a> first: no message at all was recorded since ${moment(silence.value)}. </span>`}<${Step} ...${of} />`;

/** `isHere`: on the page of this queue. */
function Step({ vhost, queue, view, at, isHere }) {
  const where = isHere ? html`queue <bdi>${visible(queue)}</bdi>` : html`queue <${Queue} vhost=${vhost} name=${queue} title="Who takes from it" />`;
  if (!view) return html`See who takes from ${where}.`;
  const [last] = [...view.receivers].sort((a, b) => (a.last < b.last ? 1 : -1));
  if (!last) return html`Check that a consumer of ${where} runs: nobody took a message from it since ${moment(view.since)}.`;
  const { name } = last.participant ?? {};
  const who = name == null ? "its consumer" : html`<bdi>${visible(shortOf([name])(name))}</bdi>`;
  if (last.last >= at) return html`Check whether the message is still in ${where}: ${who} took another from it at ${moment(last.last)}, after this one came.`;
  return html`Check that ${name == null ? "the consumer" : who} runs: it has taken nothing from ${where} since ${moment(last.last)}.`;
}
