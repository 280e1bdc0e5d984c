// For a first visit: what this is, an example from the stored events, and the words.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { useResource } from "../core/resource.js";
import { href, vhost } from "../core/route.js";
import { traces } from "../core/traces.js";
import { GLOSSARY } from "../ui/glossary.js";
import { about } from "../ui/marks.js";

export function FirstVisit({ onLeave }) {
  return html`<section class="about">
      <h3>What this is</h3>
      <p>Every publish and every delivery of a traced virtual host is recorded as an event with a logical
        clock. So it can be told of any two events whether one caused the other, may have had a part in it,
        or cannot have. The line below the tabs says how far that is to be relied on.</p>
    </section>
    <${Example} onLeave=${onLeave} />`;
}

/** From the newest message that died (or was delivered) back to its root, in three steps. */
function Example({ onLeave }) {
  const name = vhost.value;
  const { data } = useResource((signal) => findExample(name, signal), [name], { every: 0 });
  if (!data) return null;
  const { last, first } = data;
  const link = (tab, params, text) =>
    html`<a href=${href(tab, { vhost: last.vhost, ...params })} onClick=${onLeave}>${text}</a>`;
  const [a, b] = [String(first.id), String(last.id)];
  const pins = { a, b };
  return html`<section class="about">
    <h3>A worked example, from what is stored here</h3>
    <ol>
      <li>Something happened: ${link("events", { event: b, at: b }, `event #${b}`)},
        <bdi> ${about(last)}</bdi>${last.match === "dead_lettered" ? ", a dead letter" : ""}. Open it: below
        <em> Causes</em> is what certainly led to it.</li>
      ${first.id !== last.id &&
      html`<li>Where did it begin? With ${link("events", { event: a, at: a }, `event #${a}`)},
          <bdi> ${about(first)}</bdi>: follow the causes back, or press <kbd>C</kbd>.</li>
        <li>Did the one cause the other? Pin them as <kbd>A</kbd> and <kbd>B</kbd>:
          ${" "}${link("chain", pins, "the answer, and the way from one to the other")}.</li>`}
      <li>What happened beside it? ${link("space-time", { ...pins, event: b }, "See it in space-time")}: what is
        lit had a part in it or came of it.</li>
    </ol>
  </section>`;
}

const COLUMNS = "id,vhost,type,match,exchange,queue,routing_keys";

async function findExample(name, signal) {
  if (!(traces.peek().data ?? []).some((trace) => trace.events > 0)) return null;
  const newest = (filters) =>
    api.events({ vhost: name, page_size: 1, columns: COLUMNS, payload: "none", ...filters }, signal);
  const [last] = [
    ...(await newest({ match: "dead_lettered" })),
    ...(await newest({ type: "received", match: "routed" })),
  ];
  if (!last) return null;
  const asked = { via: "links", limit: 100, columns: COLUMNS, payload: "none" };
  const { items } = await api.relatives(last.id, "causes", asked, signal);
  return { last, first: items.at(-1) ?? last };
}

// The words that one cannot do without; the others are explained where they stand.
const FEW = ["event", "participant", "complete", "sound", "gap", "unknown", "concurrent"];

export const Words = () => html`<section class="about">
  <h3>Words</h3>
  <dl class="facts">${FEW.map((word) => html`<dt key=${word}>${word}</dt><dd>${GLOSSARY[word]}</dd>`)}</dl>
</section>`;
