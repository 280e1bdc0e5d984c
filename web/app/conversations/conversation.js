// One conversation: the facts, two drawings with one selection, and the selected event at the side.
import { useEffect, useMemo, useRef, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { count, plural } from "../core/format.js";
import { useKeys } from "../core/keys.js";
import { attempt } from "../core/notices.js";
import { now } from "../core/now.js";
import { useResource } from "../core/resource.js";
import { href, patch, route } from "../core/route.js";
import { certainUntil, useHeading, useViewed } from "../core/viewed.js";
import { useWork } from "../core/work.js";
import { EventDrawer } from "../ui/event/lazy-drawer.js";
import { Lead } from "../ui/event/lead.js";
import Touched from "../ui/event/touched.js";
import { lazy } from "../ui/lazy.js";
import { serviceIn } from "../ui/names.js";
import { Choice, Empty, Failure, pending } from "../ui/panel.js";
import { Facts } from "./facts.js";
import { failuresOf, inTime, modelOf, nameOf, openIn, retriedOf, stuckIn, typeIn, waitingOf } from "./model.js";
import { slowIn, usualOf } from "./waterfall-layout.js";
import { ConversationProposal } from "./proposal.js";
import { Share } from "./share.js";
import { titleOf, WAYS } from "./words.js";

const MOST_EVENTS = 5000; // of one answer
const VIEWS = [
  ["waterfall", "Waterfall", "When: a row for each message, below what led to it"],
  ["sequence", "Sequence", "In which order, to copy into a ticket"],
];
// Few look at both.
const DRAWINGS = {
  waterfall: lazy(() => import("./waterfall.js"), "the waterfall"),
  sequence: lazy(() => import("./sequence.js"), "the sequence"),
};

export function Conversation({ event }) {
  const { via = "links", view: choice, panel, beyond } = route.value.params;
  const view = choice in DRAWINGS ? choice : "waterfall";
  const share = useRef(null); // what the drawing gives to share
  useEffect(() => void DRAWINGS[view].ask(), []); // while the messages come
  const loaded = useConversation(Number(event), via);
  const { first, error, model: known } = loaded;
  const model = useMemo(() => known && inTime(known), [known, known?.isOpen && now.value]); // what waits grows older
  useViewed(first?.vhost, first?.began_at, first && certainUntil(first), "this conversation", first);
  useHeading(first ? titleOf(first) : null);
  const { data: usual } = useResource((signal) => known && usualAt(known, signal), [known], { every: 0 });
  const slow = useMemo(() => (known ? slowIn(known, usual) : []), [known, usual]); // not at each choice of an event
  return html`<div class="conv">
      ${error && (error.status === 404
        ? html`<${Unknown} event=${event} />`
        : html`<div class="panel-body"><${Failure} error=${error} onRetry=${loaded.reload} /></div>`)}
      ${!model && !error && html`<h1 class="unseen">Conversation</h1>${pending({ error: null }, "the conversation")}`}
      ${model && html`
        <${Facts} model=${model} slow=${slow} onSelect=${(one) => select(one, { panel: "on" })}
          tools=${html`<button class="button small" onClick=${loaded.reload}>Refresh</button>
            <${Share} model=${model} drawn=${share} />`} />
        <${ConversationProposal} answer=${model.answer} via=${via} onChange=${loaded.reload} key=${model.answer.vhost} />
        <${More} loaded=${loaded} />
        <${Drawing} model=${model} usual=${usual} slow=${slow} view=${view} share=${share} selected=${Number(event)} />
        <${Beyond} model=${model} open=${beyond === "on"} />`}
    </div>
    ${panel === "on" && html`<${EventDrawer} id=${event} key=${event} lead=${model && html`<${Subject} model=${model} event=${Number(event)} />`} />`}`;
}

/** The services that it touched, up to its last event if all are here: later the clocks rule out less and less. */
function Beyond({ model: { answer, lastEvent, messages, names }, open }) {
  const from = messages.has(answer.root) ? serviceIn(nameOf(names, messages.get(answer.root).participant)) : null;
  const bounds = lastEvent == null ? [] : [["end", "Until its end", lastEvent]];
  return html`<section class="conv-touched" aria-labelledby="conv-touched">
    <h2 id="conv-touched">What it touched
      <button class="button small" aria-expanded=${String(open)} title="All else that it caused, may have caused, and cannot have"
        onClick=${() => patch({ beyond: open ? null : "on", all_touched: null, all_touched_until: null }, { replace: true })}>Which events</button></h2>
    ${(open || lastEvent != null) && html`<${Touched} ids=${[String(answer.root)]} vhost=${answer.vhost} from=${from} bounds=${bounds} brief=${!open} name="all_touched" key=${answer.root} />`}</section>`;
}

/** Above an event: what its order waits for, or how it failed, and the way there. */
function Subject({ model, event }) {
  const subject = openIn(model) ?? failuresOf(model).map(({ by, message }) => by?.event ?? message.event)[0];
  return html`<${Lead} answer=${model.answer} type=${typeIn(model)}>${subject !== event &&
    html`<button class="button small" onClick=${() => select(subject)}>Show it</button>`}<//>`;
}

/** Chooses an event, in all drawings. Walking along adds no steps to go back to. */
function select(event, { replace = false, ...changes } = {}) {
  patch({ event: String(event), ...changes }, { replace });
}

const MOST_USUAL = 30;

/** The usual times of a conversation's queues and services when it ended; null if nobody answers. */
async function usualAt({ answer, names, messages, places, end }, signal) {
  const first = (all) => [...new Set(all)].filter(Boolean).slice(0, MOST_USUAL);
  const waiting = waitingOf({ messages }).map(({ queue }) => queue);
  const deliveries = [...places.values()].filter(({ delivery }) => delivery);
  const queues = first([...waiting, ...deliveries.map(({ copy, delivery }) => delivery.queue ?? copy.queue)]);
  const services = first(deliveries.map(({ delivery }) => serviceIn(nameOf(names, delivery.participant))));
  const at = new Date(Date.parse(answer.began_at) + end * 1000).toISOString();
  try {
    return usualOf(await api.usual(answer.vhost, at, queues, services, signal));
  } catch {
    return null; // a waterfall without it is better than none
  }
}

/** The conversation of an event; choosing another of its events does not load it again. */
function useConversation(event, via) {
  const kept = useRef(null); // {via, of, events}
  const [pages, setPages] = useState({ of: null, answers: [] });
  const isLoaded = kept.current?.via === via && kept.current.events.has(event);
  const of = isLoaded ? kept.current.of : event;
  const { data, error, reload } = useResource(
    (signal) => api.conversation(of, { via, limit: MOST_EVENTS }, signal),
    [of, via],
    { every: 0 },
  );
  const further = pages.of === data ? pages.answers : [];
  const model = useMemo(() => data && modelOf(together([data, ...further])), [data, further.length]);
  useEffect(() => {
    if (model) kept.current = { via, of, events: model.places };
  }, [model]);
  const next = [data, ...further].at(-1)?.next ?? null;
  const more = () =>
    attempt(async () => {
      const answer = await api.conversation(of, { via, limit: MOST_EVENTS, after: next });
      setPages({ of: data, answers: [...further, answer] });
    });
  return { first: data, model, error, reload, next, more };
}

/** Pages of one conversation as one. */
function together(answers) {
  if (answers.length === 1) return answers[0];
  const messages = new Map(answers.flatMap((answer) => answer.messages).map((one) => [one.event, one]));
  const participants = new Map(answers.flatMap((answer) => answer.participants).map((one) => [one.number, one]));
  const last = answers.at(-1);
  return {
    ...answers[0],
    messages: [...messages.values()].sort((a, b) => a.event - b.event),
    participants: [...participants.values()],
    truncated: last.truncated,
    next: last.next,
  };
}

function More({ loaded: { model, next, more } }) {
  const { busy, run } = useWork();
  if (!model.answer.truncated) return null;
  return html`<div class="alert calm conv-more" role="status">
    <p>The first ${plural(model.messages.size, "message")} are shown${model.answer.counts.messages > model.messages.size
      ? ` of ${count(model.answer.counts.messages)}` : "; there are more"}.</p>
    ${next != null && html`<button class="button small" aria-disabled=${String(busy)} onClick=${() => run(more)}>${busy ? "Loading …" : "Show more"}</button>`}
  </div>`;
}

function Unknown({ event }) {
  return html`<h1 class="unseen">Conversation</h1>
    <${Empty} title=${`There is no event #${event}`}
      actions=${html`<a class="button" href=${href("conversations")}>All conversations</a>`}>
      It may have been removed by retention, or belong to a virtual host that you cannot see.<//>`;
}

/** Selects what failed, waits, was slow or tried again of a conversation that was opened at its beginning, until something else is. */
function Drawing({ model, usual, slow, view, share, selected: event }) {
  const [isOpened, setOpened] = useState(true);
  useEffect(() => void (event !== model.answer.root && setOpened(false)), [event]);
  const subject = useMemo(() => stuckIn(model) ?? slow[0]?.bar.event ?? retriedOf(model)[0]?.delivery.event, [model.messages, slow]);
  const selected = (isOpened && event === model.answer.root && subject) || event;
  const onSelect = (one, changes) => {
    setOpened(false);
    select(one, changes);
  };
  useKeys({ Enter: () => (selected === event ? patch({ panel: "on" }) : onSelect(selected, { panel: "on" })) });
  return html`<div class="conv-bar">
      <${Choice} label="Drawing" options=${VIEWS} value=${view} small onChange=${(value) => patch({ view: value === "waterfall" ? null : value })} />
      <span class="labelled right"><span class="soft small">Follow</span><${Choice} label="Follow" options=${WAYS} value=${model.answer.via} small
        onChange=${(value) => patch({ via: value === "links" ? null : value })} /></span>
    </div>
    <${DRAWINGS[view]} key=${`${view} ${model.answer.root} ${model.answer.via} ${model.messages.size}`} model=${model} usual=${usual} subject=${subject} selected=${selected} share=${share} onSelect=${onSelect} />`;
}
