// A queue: who publishes to it, who takes from it, what waits, for how long, and what failed.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { ageOf, count, dateTime, exchangeName, moment, plural, seconds, span, visible } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { go, href, hrefFailures, route, vhost } from "../core/route.js";
import { busiestVhost, reloadTraces, traces } from "../core/traces.js";
import { useViewed } from "../core/viewed.js";
import { KindMark } from "../ui/failure-mark.js";
import { firstOf, incidentsOf, NextLook } from "../ui/incidents.js";
import { MatchMark, Queue, Value } from "../ui/marks.js";
import { shortOf } from "../ui/names.js";
import { NextStep } from "../ui/next-step.js";
import { Empty, Failure, Panel, pending } from "../ui/panel.js";
import { PutBack } from "../ui/put-back.js";
import { Table } from "../ui/table.js";

const MOST = 10;
const MOST_FAILED = 5;
const MOST_OFFERS = 20;
const MOST_MESSAGES = 100;
const EVERY_SECONDS = 30;
const MEASURED = { waiting: "Waiting", handling: "Handling" };

export default function QueuePage() {
  const { queue } = route.value.params;
  const { data } = traces.value;
  if (!data) return pending({ ...traces.value, reload: () => reloadTraces() }, "traces");
  const name = vhost.value ?? (queue == null ? busiestVhost() : null);
  return html`<div class="page-inner">
    <div class="page-title"><h1>${queue == null ? "Queues" : html`<${Value}>${queue}<//>`}</h1>
      <p>Who publishes to a queue${name == null ? "" : html` of <b><${Value}>${name}<//></b>`}, who takes from it, and how long its messages wait.</p></div>
    ${!data.length ? html`<${Empty} title="Nothing is traced">A queue's page is made of what a trace has stored.<//>`
      : name == null || queue == null ? html`<${Offers} name=${name} queue=${queue} />` : html`<${One} name=${name} queue=${queue} />`}
  </div>`;
}

const isKnown = ({ waiting, publishers, receivers }) => waiting > 0 || publishers.length > 0 || receivers.length > 0;

/** The queues of a virtual host, or those of this name in any; those with messages waiting first. */
async function offersOf(name, queue, signal) {
  const pairs = queue == null ? (await api.durations({ vhost: name }, signal)).queues.map((one) => [name, one]) : traces.peek().data.map((trace) => [trace.vhost, queue]);
  const all = [];
  for (const pair of pairs.slice(0, MOST_OFFERS)) all.push(await api.queue(...pair, signal)); // one after the other: each is a search
  return { items: all.filter(isKnown).sort((a, b) => b.waiting - a.waiting), left: Math.max(0, pairs.length - MOST_OFFERS) };
}

/** Queues to choose from; one that is alone is shown. */
function Offers({ name, queue }) {
  const loaded = useResource((signal) => offersOf(name, queue, signal), [name, queue], { every: 0 });
  const { data } = loaded;
  if (!data) return pending(loaded, "queues");
  const { items, left } = data;
  if (queue != null && !left && items.length === 1) return html`<${One} name=${items[0].vhost} queue=${queue} />`;
  if (!items.length) {
    return queue == null ? html`<${Empty} title="No message of a queue is counted yet" />`
      : html`<${Empty} title=${`None of the newest events names a queue ${visible(queue)}`}>Choose a virtual host above for what is older.<//>`;
  }
  const [title, head, key] = queue == null ? ["Queues", "Queue", "queue"] : ["In several virtual hosts", "Virtual host", "vhost"];
  return html`<${Panel} title=${title} flush note="of the newest events, with messages waiting first" foot=${left > 0 && `${count(left)} more were not looked at.`}>
    <${Table} label=${title} heads=${`${head}|#Waiting|Since|#Published`} rows=${items} by=${[key, "waiting", "oldest_at", published]}>
      ${(one) => html`<tr key=${one[key]}><td class="name"><a href=${href("queue", { vhost: one.vhost, queue: one.queue })}><${Value}>${one[key]}<//></a></td>
        <td class="number ${one.waiting ? "warn-text" : ""}">${count(one.waiting)}</td>
        <td class="tabular">${one.oldest_at == null ? "–" : moment(one.oldest_at)}</td><td class="number">${count(published(one))}</td></tr>`}
    <//>
  <//>`;
}

const published = ({ publishers }) => publishers.reduce((sum, one) => sum + one.count, 0);

function One({ name, queue }) {
  const of = { vhost: name, queue };
  const use = (ask) => useResource(ask, [name, queue], { every: EVERY_SECONDS });
  const durations = use((signal) => api.durations(of, signal));
  const view = use((signal) => api.queue(name, queue, signal));
  const failures = use((signal) => api.failures({ ...of, limit: MOST_FAILED }, signal));
  const newest = use((signal) => api.events({ ...of, page_size: MOST, payload: "none" }, signal));
  useViewed(name, view.data?.since ?? undefined, null, "the newest events");
  const isEmpty = view.data && !isKnown(view.data) && newest.data?.length === 0 && failures.data?.items.length === 0;
  if (!view.data) return pending(view, "the queue");
  const choice = html`<div class="heat-tools queue-choice"><label class="labelled"><span>Queue</span>
      <select class="select" aria-label="Queue" value=${queue} onChange=${({ currentTarget: { value } }) => go("queue", { vhost: name, queue: value || null })}>
        <option value="">all of them …</option>
        ${[...new Set([...(durations.data?.queues ?? []), queue])].map((one) => html`<option key=${one} value=${one}>${visible(one)}</option>`)}
      </select></label></div>`;
  if (isEmpty) return html`${choice}<${Empty} title=${`No event of ${visible(name)} names a queue ${visible(queue)}`} actions=${html`<a class="button" href=${href("queue", { vhost: name })}>Its queues</a>`} />`;
  return html`<${Standing} view=${view.data} usual=${durations.data?.waiting.usual.median} failures=${failures.data} />
    ${choice}
    <${Failed} loaded=${failures} of=${of} />
    <${Times} map=${durations} of=${of} waiting=${view.data.waiting} />
    <${Routed} view=${view.data} />
    <${Newest} loaded=${newest} of=${of} />`;
}

/** The message that waits longest, beside what is usual, and the failures; below each what to do. */
function Standing({ view, usual, failures }) {
  const { vhost: of, queue, waiting, oldest, oldest_at: at } = view;
  const { data } = useResource((signal) => (oldest == null ? null : api.conversation(oldest, { limit: MOST_MESSAGES }, signal)), [oldest], { every: 0 });
  const name = data ? [data.messages.find(({ event }) => event === oldest)?.type ?? `#${oldest}`, data.keys[0]].filter(Boolean).join(" of ") : `#${oldest}`;
  const median = usual != null && html`<span class="soft">Median wait: ${seconds(usual)}.</span>`;
  const isFailing = failures?.items.length > 0;
  return html`<section class="standing" aria-label="What to do">
    ${waiting > 0 && html`<div><p class="verdict warn-text">${plural(waiting, "message waits", "messages wait")}${waiting > 1 ? ", the oldest" : ""}: <a href=${href("conversations", { vhost: of, event: String(oldest) })}><${Value}>${name}<//></a>, for ${ageOf(at)}, since ${moment(at)}</p>
      <p class="verdict-step"><${NextStep} vhost=${of} queue=${queue} view=${view} at=${at} isHere /> ${median}</p></div>`}
    ${isFailing && html`<${Failing} failures=${failures} vhost=${of} />`}
    ${!waiting && html`<p class=${isFailing ? "" : "verdict"}>No message is known to wait here${failures && !isFailing ? ", and none to have failed" : ""}.</p>${median}`}
  </section>`;
}

/** The number of failures, where to look for the cause of most, where dead letters went and how the newest is put back. */
function Failing({ failures, vhost: of }) {
  const { items, groups } = failures;
  const [most] = incidentsOf(groups);
  const dead = [...new Set(items.map(({ to }) => to).filter((to) => to != null))];
  const newest = items.find(({ put_back: event, remedy }) => event || remedy);
  return html`<div><p class="verdict bad-text">${failedText(failures)}.</p>
    <ul class="verdict-step">
      ${most && html`<li>${TAKEN_LATE[most.reason] ?? html`<${NextLook} of=${most} />`}</li>`}
      ${dead.length > 0 && html`<li>${items.length > 1 ? "The newest dead letters" : "Its dead letter"} went to ${dead.map((to, i) => html`${i > 0 && ", "}queue <${Queue} vhost=${of} name=${to} title="Who takes from it" />`)}.</li>`}
      ${newest && html`<li><${PutBack} event=${newest.put_back} command=${newest.remedy} words=${`Once the cause is mended: put ${items.length > 1 ? "the newest" : "it"} back …`} /></li>`}
    </ul></div>`;
}

const TAKEN_LATE = { expired: "Nobody took them in time: see who takes from it, below.", maxlen: "They were not taken fast enough: see who takes from it, below." };

/** `24 rejected, from 02:12:46 to 02:15:11`, of one reason; else `failed`. */
function failedText({ items, groups, counted, counted_all: isWhole }) {
  const reasons = new Set(groups.map(({ kind, reason }) => (kind === "died" && reason ? reason : "failed")));
  const word = reasons.size === 1 && reasons.has("rejected") ? "rejected" : "failed";
  const first = isWhole && firstOf(groups);
  return `${isWhole ? "" : "At least "}${count(counted)} ${word}${counted > 1 && first ? `, from ${span(first, items[0].at)}` : `, last at ${moment(items[0].at)}`}`;
}

function Routed({ view: { publishers, receivers, looked_at: all, since, vhost: of, queue } }) {
  const short = shortOf([...publishers, ...receivers].map(({ participant }) => participant?.name ?? ""));
  const hasDead = [...publishers, ...receivers].some((one) => one.dead_letters > 0);
  const note = since && `among the newest ${plural(all, "event")} of the virtual host, since ${dateTime(since)}`;
  const flows = (title, items, none, type) => html`<${Panel} title=${title} flush note=${note}>
    ${items.length
      ? html`<${Table} label=${title} heads=${`Who|Exchange|#Messages|${hasDead ? "#Arrived as dead letters|" : ""}Last`}
            lines rows=${items} by=${[({ participant }) => participant && short(participant.name), "exchange", "count", ...(hasDead ? ["dead_letters"] : []), "last"]}>
          ${({ participant, exchange, count: messages, dead_letters: dead, last }) => html`<tr key=${`${participant?.number} ${exchange}`}>
            <td class="name at-first">${participant
              ? html`<a href=${href("events", { vhost: of, participant: String(participant.number), ...(type === "received" ? { queue, type } : { exchange, type }) })}><${Value}>${short(participant.name)}<//></a>`
              : html`<span class="soft">not observed</span>`}</td>
            <td class="name at-second">${exchangeName(exchange)}</td>
            <td class="number at-first-end">${count(messages)}</td>${hasDead && html`<td class="number">${count(dead)}</td>`}<td class="tabular at-end">${moment(last)}</td></tr>`}
        <//>`
      : html`<p class="nothing">${none}</p>`}
  <//>`;
  return html`<div class="side-by-side">
    ${flows("Who publishes to it", publishers, "None of these events is a publish to it.", "published")}
    ${flows("Who takes from it", receivers, "None of these events is a delivery from it.", "received")}
  </div>`;
}

function Times({ map: { data, error, reload }, of, waiting }) {
  if (!data) return error && html`<${Failure} error=${error} onRetry=${reload} />`;
  return html`<${Panel} title="How long its messages take" flush note=${`in the last hour${waiting ? `; ${plural(waiting, "wait goes on and is not counted", "waits go on and are not counted")}` : ""}`} tools=${html`<a class="button" href=${href("durations", of)}>Over time</a>`}>
    <${Table} label="How long its messages take" heads="What|#Messages|#Median|#9 of 10|Longer since" rows=${Object.entries(MEASURED)} lines>
      ${([key, word]) => {
        const { usual, change, comparable } = data[key];
        return html`<tr key=${key}><td class="at-first">${word}</td><td class="number">${count(usual.count)}</td>
          <td class="number at-first-end" data-label="median">${usual.median == null ? "–" : seconds(usual.median)}</td><td class="number at-end" data-label="9 of 10 within">${usual.p90 == null ? "–" : seconds(usual.p90)}</td>
          <td class="at-second">${change ? html`<strong class="bad-text">${moment(change.since)}</strong>, usually ${seconds(change.before)}, now ${seconds(change.after)}` : html`<span class="soft">${comparable ? "no clear change" : "too little to compare"}</span>`}</td></tr>`;
      }}
    <//>
  <//>`;
}

function Failed({ loaded, of }) {
  const { data } = loaded;
  if (!data) return pending(loaded, "failures");
  const { items, counted, counted_all: isWhole } = data;
  if (!items.length) return null; // said above
  const note = `${isWhole ? "" : "at least "}${plural(counted, "failure")}${counted > items.length ? `, the newest ${items.length} below` : ""}`;
  return html`<${Panel} title="What failed in it" flush note=${note} tools=${html`<a class="button" href=${hrefFailures(of)}>All failures</a>`}>
    <${Table} label="What failed in it" heads="Conversation|When|Message|What happened" rows=${items} lines by=${["correlation_id", "at", "type", "kind"]}>
      ${(one) => html`<tr key=${`${one.event} ${one.kind}`}><td class="name at-first"><a href=${href("conversations", { vhost: of.vhost, event: String(one.event) })}><${Value}>${one.correlation_id ?? "no key"}<//></a></td><td class="tabular at-end">${moment(one.at)}</td><td class="name at-second"><${Value}>${one.type}<//></td>
        <td class="at-first-end"><${KindMark} kind=${one.kind} reason=${one.reason} vhost=${one.vhost} /></td></tr>`}
    <//>
  <//>`;
}

function Newest({ loaded, of }) {
  const { data } = loaded;
  if (!data) return pending(loaded, "messages");
  const short = shortOf(data.map((one) => one.participant_name));
  return html`<${Panel} title="Newest messages" flush tools=${html`<a class="button" href=${href("events", of)}>All of them</a>`}>
    ${data.length
      ? html`<${Table} label="Newest messages" heads="When|Routing key|Taken by||#Event" rows=${data} lines by=${["recorded_at", ({ routing_keys: keys }) => keys[0], "participant_name", null, "id"]}>
          ${(one) => html`<tr key=${one.id}><td class="tabular at-second">${moment(one.recorded_at)}</td><td class="name at-first"><${Value}>${one.routing_keys[0] ?? ""}<//></td>
            <td class="name at-first-end"><${Value}>${short(one.participant_name)}<//></td><td>${one.match !== "routed" && html`<${MatchMark} match=${one.match} />`}</td>
            <td class="number at-end"><a href=${href("conversations", { vhost: of.vhost, event: String(one.id) })}>#${one.id}</a></td></tr>`}
        <//>`
      : html`<p class="nothing">Nobody was handed a message from it.</p>`}
  <//>`;
}
