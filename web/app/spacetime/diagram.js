import { useEffect, useMemo } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { loadParticipants } from "../core/participants.js";
import { useResource, useRetry } from "../core/resource.js";
import { href, openEvent, vhost } from "../core/route.js";
import { useTail } from "../core/tail.js";
import { busiestVhost, traces } from "../core/traces.js";
import { EventDrawer } from "../ui/event/drawer.js";
import { Empty, Failure } from "../ui/panel.js";
import { DiagramCanvas } from "./canvas.js";
import { Foot, LaneHeads, ViewList, Tip, Toolbar } from "./controls.js";
import { useDiagramKeys } from "./keys.js";
import { FORM } from "./model.js";
import { listed, live, Stage } from "./stage.js";

const MOST_NAMED = 5000; // participants beyond these are shown by number alone

export default function SpaceTime() {
  const known = traces.value.data;
  const chosen = vhost.value ?? busiestVhost();
  if (!known) return html`<p class="loading" role="status">Loading traces …</p>`;
  if (chosen == null) {
    return html`<div class="page-inner grow"><${Empty} title="Nothing is traced yet"
      actions=${html`<a class="button" href=${href("overview")}>To the traces</a>`}>
      The diagram shows who did what in which order, as soon as a trace runs.<//></div>`;
  }
  return html`<h1 class="unseen">Space-time</h1>
    <${Diagram} vhost=${chosen} key=${chosen} />
    ${openEvent.value && html`<${EventDrawer} id=${openEvent.value} key=${openEvent.value} />`}`;
}

function Diagram({ vhost: name }) {
  const stage = useStage(name);
  const { loader, model } = stage;
  const error = loader.error.value;
  useDiagramKeys(stage);
  useRetry(error, () => loader.retry());
  useTail({
    wanted: live.value && loader.atNewest.value,
    filters: { vhost: name, ...FORM },
    from: () => model.id[model.length - 1] ?? 0,
    onEvents: (events) => stage.append(events),
  });

  const empty = !stage.loaded.value && !loader.busy.value;
  return html`<div class="diagram">
    <${Toolbar} stage=${stage} />
    ${error && html`<div class="panel-body"><${Failure} error=${error} onRetry=${() => loader.retry()} /></div>`}
    ${empty && !error
      ? html`<${Empty} title="No events yet">Events of this virtual host appear here as they are traced.<//>`
      : html`<${LaneHeads} stage=${stage} />
          <div class="diagram-body">
            <${DiagramCanvas} stage=${stage} describedBy="diagram-keys" />
            <${Tip} stage=${stage} />
          </div>
          ${listed.value && html`<${ViewList} stage=${stage} />`}`}
    <${Foot} stage=${stage} />
    <p class="unseen" id="diagram-keys">Arrow keys move between events, plus and minus zoom, F fits
      everything, L lists what is in view as a table. Question mark shows all keys.</p>
  </div>`;
}

/** The stage of a virtual host, open while this is shown. */
function useStage(name) {
  const stage = useMemo(() => new Stage(name), [name]);
  const participants = useResource((s) => loadParticipants(name, MOST_NAMED, s), [name]).data;
  useEffect(() => {
    stage.open();
    return () => stage.close();
  }, [stage]);
  useEffect(() => stage.name(participants ?? []), [stage, participants]);
  return stage;
}
