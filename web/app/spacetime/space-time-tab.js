import { useEffect, useMemo } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { count, said, sentence } from "../core/format.js";
import { loadParticipants } from "../core/participants.js";
import { useResource, useRetry } from "../core/resource.js";
import { href, hrefHere, openEvent, patch, route, vhost } from "../core/route.js";
import { useTail } from "../core/tail.js";
import { busiestVhost, reloadTraces, traces } from "../core/traces.js";
import { useViewed } from "../core/viewed.js";
import { EventDrawer } from "../ui/event/lazy-drawer.js";
import { Empty, Failure, pending } from "../ui/panel.js";
import { DiagramCanvas } from "./canvas.js";
import { Foot, Title, Toolbar, ViewList } from "./controls.js";
import { useDiagramKeys } from "./keys.js";
import { LaneHeads } from "./lanes.js";
import { Legend } from "./legend.js";
import { FORM } from "./model.js";
import { alone, explained, listed, live, Stage } from "./stage.js";
import { askedIn, loadSubset } from "./subset.js";
import { Tip } from "./tip.js";
import { loadWaits } from "./waits.js";

const WAITS_SECONDS = 30;
const MOST_NAMED = 5000; // participants beyond these are shown by number alone

export default function SpaceTime() {
  const known = traces.value.data;
  const { params } = route.value;
  const asked = askedIn(params);
  const pair = usePair(params);
  const chosen = vhost.value ?? pair.vhost ?? busiestVhost();
  const drawer = openEvent.value && html`<${EventDrawer} id=${openEvent.value} key=${openEvent.value} />`;
  if (!known) return pending({ ...traces.value, reload: () => reloadTraces() }, "traces");
  if (asked) return html`<${OfSubset} asked=${asked} key=${JSON.stringify(asked)} />${drawer}`;
  if (pair.isPending) return html`<p class="loading" role="status">Loading the chain …</p>`;
  if (chosen == null) {
    return html`<div class="page-inner grow"><${Empty} title="Nothing is traced yet"
      actions=${html`<a class="button" href=${href("overview")}>To the traces</a>`}>
      The diagram shows who did what in which order, as soon as a trace runs.<//></div>`;
  }
  return html`<${Diagram} vhost=${chosen} ends=${pair.vhost === chosen ? pair.ends : []} key=${chosen} />${drawer}`;
}

/** The pinned events and their virtual host, where the view opens on them: an address without a place names them alone. */
function usePair({ a, b, at, event }) {
  const isAsked = a && b && !at && !event;
  const { data, error } = useResource((signal) => (isAsked ? api.event(a, signal) : null), [a, b], { every: 0 });
  useEffect(() => {
    if (data && !vhost.peek()) patch({ vhost: data.vhost }, { replace: true });
  }, [data]);
  return { vhost: data?.vhost, ends: [a, b].map(Number).sort((x, y) => x - y), isPending: isAsked && data === undefined && !error };
}

/** A chain or a conversation, alone or among the other events of its time. */
function OfSubset({ asked }) {
  const found = useResource((signal) => loadSubset(asked, signal), [JSON.stringify(asked)], { every: 0 });
  if (!found.data) {
    return html`<div class="diagram">${pending(found, `the ${asked.kind}`)}</div>`;
  }
  const subset = found.data;
  const whole = html`<a class="button" href=${hrefHere({ chain: null, conversation: null, via: null, only: null })}>
    All events</a>`;
  if (!subset.events.length) {
    return html`<div class="page-inner grow"><${Empty} title="No events between them" actions=${whole}>
      ${sentence(subset.sentence)}<//></div>`;
  }
  return html`<${Diagram} vhost=${subset.vhost} subset=${subset} key=${alone.value ? "alone" : "among others"} />`;
}

function Diagram({ vhost: name, subset = null, ends = [] }) {
  const stage = useStage(name, subset, ends);
  const { loader, model } = stage;
  const error = loader.error.value;
  useDiagramKeys(stage);
  useRetry(error, () => loader.retry());
  useTail({
    wanted: live.value && loader.atNewest.value && !stage.alone,
    filters: { vhost: name, ...FORM },
    from: () => model.id[model.length - 1] ?? 0,
    onEvents: (events) => stage.append(events),
  });

  const loaded = stage.loaded.value;
  const end = loaded && (stage.alone || !loader.atNewest.value) ? isoOf(model.at[loaded - 1] + 1000) : null;
  const period = subset ? [subset.since, subset.until] : [loaded ? isoOf(model.at[0]) : undefined, end];
  useViewed(name, ...period, subset ? `the ${subset.kind}` : "the loaded events", subset?.answer);

  const empty = !loaded && !loader.busy.value;
  return html`<div class="diagram">
    <${Title} stage=${stage} />
    <${Toolbar} stage=${stage} />
    ${subset && html`<${Subject} subset=${subset} />`}
    ${error && html`<div class="panel-body"><${Failure} error=${error} onRetry=${() => loader.retry()} /></div>`}
    ${empty && !error
      ? html`<${Empty} title="No events yet">Events of this virtual host appear here as they are traced.<//>`
      : html`<${LaneHeads} stage=${stage} />
          <div class="diagram-body">
            <${DiagramCanvas} stage=${stage} describedBy="diagram-keys" />
            <${Tip} stage=${stage} />
            ${explained.value && html`<${Legend} stage=${stage} />`}
          </div>
          ${listed.value && html`<${ViewList} stage=${stage} />`}`}
    <${Foot} stage=${stage} />
    <p class="unseen" id="diagram-keys">Arrow keys move between events, plus and minus zoom, F fits
      everything, L lists what is in view as a table, G explains every sign. Question mark shows all keys.</p>
  </div>`;
}

const isoOf = (microseconds) => new Date(microseconds / 1000).toISOString();

/** The diagram's subject, in the service's words. */
function Subject({ subset }) {
  const { sentence, truncated, events } = subset;
  return html`<div class="subject"><strong>${said(sentence)}</strong>
    ${truncated && html`<span class="warn-text">Only its first ${count(events.length)} events are drawn.</span>`}
    <a href=${hrefHere({ chain: null, conversation: null, via: null, only: null, at: null, zoom: null })}>All events</a>
    </div>`;
}

/** The stage of a virtual host, or of a part of its events, open while this is shown. */
function useStage(name, subset, ends) {
  const stage = useMemo(() => new Stage(name, subset, Boolean(subset) && alone.peek(), ends), [name, subset]);
  const participants = useResource((s) => loadParticipants(name, MOST_NAMED, s), [name]).data;
  useEffect(() => {
    stage.open();
    return () => stage.close();
  }, [stage]);
  useEffect(() => stage.name(participants ?? []), [stage, participants]);
  const waits = useResource((s) => loadWaits(name, subset, s), [name, subset], { every: WAITS_SECONDS }).data;
  useEffect(() => waits && stage.wait(waits), [stage, JSON.stringify(waits?.waits)]);
  return stage;
}
