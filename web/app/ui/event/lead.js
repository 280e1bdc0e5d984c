// Above an event: how its conversation failed, or what that waits for.
import { html } from "../../core/html.js";
import { api } from "../../core/api.js";
import { ageOf, moment, returnsText, said, visible } from "../../core/format.js";
import { useResource } from "../../core/resource.js";
import { Queue } from "../marks.js";
import { inShort, shortOf } from "../names.js";

const MOST_EVENTS = 100; // of a conversation

/** The message that a conversation waits for, where and since when; `type`, where its position has none. */
export function Waited({ answer: { vhost, position }, type = position.type }) {
  const { queue, holder, since, returns } = position;
  const what = html`<bdi>${type ? visible(type) : "A message"}</bdi>`;
  if (queue == null) return html`${what} was handed to ${said(shortOf([holder])(holder))} ${ageOf(since)} ago, at ${moment(since)}`;
  return html`${what} waits in queue <${Queue} vhost=${vhost} name=${queue} />${returnsText(returns)}; nobody took it${returns ? " again" : ""} for ${ageOf(since)}, since ${moment(since)}`;
}

/** The first failure of a conversation, as the API has its messages, in a text; undefined where there is none. */
function failureIn({ messages, participants }) {
  const [clause] = messages.find(({ failure }) => failure)?.failure_clauses ?? [];
  return clause && said(inShort(clause.text, clause.names, shortOf(participants.map(({ name }) => name))));
}

/** `answer`: the conversation, where it is known; `children`: the way to what it tells of. */
export function Lead({ event, answer: known, type, children }) {
  const { data = null } = useResource((signal) => (known ? null : api.conversation(event, { limit: MOST_EVENTS }, signal)), [event, known]);
  const answer = known ?? data;
  const failure = answer?.state === "failed" && failureIn(answer);
  const isOpen = answer?.position && ["waiting", "in_work"].includes(answer.state);
  if (answer?.via === "any" || !(failure || isOpen)) return null;
  return html`<p class="badge ${failure ? "bad" : "warn"} drawer-lead"><span><strong>${failure ? "failed" : answer.state.replace("_", " ")}:</strong>
    ${" "}${failure || html`<${Waited} answer=${answer} type=${type} />`}</span>${children}</p>`;
}
