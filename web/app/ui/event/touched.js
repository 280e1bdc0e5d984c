// Events since these: those that they caused, those that they may have, and the rest, which
// they cannot have or of which nobody knows. Each number opens its list; which one is open is in the address, and
// until when, as `touched` and `touched_until`.
import { useState } from "../../../vendor/hooks.js";
import { html } from "../../core/html.js";
import { api, startTouched } from "../../core/api.js";
import { clockTime, count, plural, sentence } from "../../core/format.js";
import { hasEnded, useJob } from "../../core/jobs.js";
import { attempt } from "../../core/notices.js";
import { download } from "../../core/download.js";
import { usePages } from "../../core/pages.js";
import { useResource } from "../../core/resource.js";
import { hrefEvent, patch, route } from "../../core/route.js";
import { mayWrite } from "../../core/session.js";
import { FileForm } from "../file-form.js";
import { Icon } from "../icons.js";
import { JobProgress } from "../job-progress.js";
import { Queue, Value } from "../marks.js";
import { Menu } from "../menu.js";
import { Choice, Failure, pending } from "../panel.js";
import { List } from "./relatives.js";

const PAGE = 20;
const MOST_QUEUES = 20;
const SPANS = [
  ["minute", "The next minute", "What came in the minute after it"],
  ["gap", "Until a gap", "What came before a gap begins"],
  ["now", "Until now", "All that came since"],
];
const COLUMNS = "id,type,exchange,queue,routing_keys,recorded_at";
const FORMATS = [
  { extension: ".jsonl", title: "JSON, one event a line" },
  { extension: ".parquet", title: "Parquet" },
];

/** In an event's drawer, with the export behind a menu. */
export function TouchedSection({ id, vhost }) {
  const [number, setNumber] = useState(null);
  const job = useJob(number);
  return html`<section class="section">
    <h3>What it touched <${ExportMenu} id=${id} busy=${job && !hasEnded(job)} onJob=${setNumber} /></h3>
    ${job && html`<${Export} job=${job} />`}
    <${Touched} ids=${[id]} vhost=${vhost} />
  </section>`;
}

/**
 * `bounds`: `[[key, label, event]]`, up to which event it may be asked for, beside all; the first is asked first.
 * `brief`: the services alone. `name`: what the address calls it, its own where another may be shown beside it.
 * `from`: the service that they are of, counted apart from the others.
 */
export default function Touched({ ids, vhost, from = null, bounds = [], brief = false, name = "touched" }) {
  const { [name]: touched, [`${name}_until`]: asked } = route.value.params;
  const options = [...bounds.map(([key, label]) => [key, label]), ...SPANS];
  const isOption = !brief && options.some(([key]) => key === asked);
  const until = isOption ? asked : (bounds[0]?.[0] ?? "now");
  const to = bounds.find(([key]) => key === until)?.[2];
  const span = to == null ? { until } : { to };
  const loaded = useResource((signal) => api.touched(ids, span, signal), [ids.join(), to, until], { every: 0 });
  const { data } = loaded;
  const choice = html`<${Choice} label="What it touched: until when" options=${options} value=${until} small
    onChange=${(key) => patch({ [`${name}_until`]: key }, { replace: true })} />`;
  if (!data) return html`${!brief && choice}${pending(loaded, "what it touched")}`;
  if (brief) return html`<${Strip} data=${data} from=${from} />`;
  const press = (verdict) => patch({ [name]: verdict === touched ? null : verdict }, { replace: true });
  return html`<div class="touched">
    ${choice}
    <${Strip} data=${data} from=${from} />
    <${Queues} vhost=${vhost} queues=${data.queues} />
    <p>${sentence(data.sentence)}</p>
    <p class="touched-sure">
      <${Sure} yes=${data.complete} word="complete" />${" "}<${Sure} yes=${data.sound} word="sound" />${" "}
      <span class="small soft"> as of <a href=${hrefEvent(data.as_of)}>#${data.as_of}</a></span>
    </p>
    ${data.since > 0 && html`<${Choice} label="List what it touched" options=${verdicts(data)} value=${touched} small onChange=${press} />
      ${touched && html`<${Items} ids=${ids} span=${span} verdict=${touched} key=${`${touched} ${until}`} />`}`}
  </div>`;
}

const WORDS = {
  caused: "touched for certain",
  may_have: "may have been touched",
  unknown: "unknown",
  cannot_have: "cannot have been touched",
};

/** Nothing uncertain is called impossible. */
const wordOf = (verdict, data) => (verdict === "cannot_have" && !(data.complete && data.sound) ? "not known to have been touched" : WORDS[verdict]);

/** `[{name, verdict, word, first}]`: the services that did something, and in words what is known of each. */
const servicesOf = (data) => data.services.map((one) => ({ ...one, word: wordOf(one.verdict, data) }));

/** Every service that did something since, by the strongest that is known of it: a line for each tone. */
function Strip({ data, from }) {
  const { all_heard_at: heard } = data;
  const services = servicesOf(data);
  const word = from == null ? "" : "other ";
  if (!services.length) return html`<p class="soft">No participant did anything since.</p>`;
  const tones = Object.keys(WORDS)
    .map((verdict) => [verdict, services.filter((one) => one.verdict === verdict)])
    .filter(([, those]) => those.length);
  const others = services.filter(({ name }) => name !== from);
  const isTouched = ({ verdict }) => verdict === "caused";
  const touched = others.filter(isTouched).length;
  const isBack = services.some((one) => one.name === from && isTouched(one));
  return html`<p><strong>${count(touched)} of ${plural(others.length, `${word}participant`)}</strong> ${touched === 1 ? "was" : "were"} touched for certain${isBack && html`; it came back to <${Value}>${from}<//>`}.
      ${heard && html` By ${clockTime(heard)} each had received a message that goes back to it, so whatever they did later may come of it.`}</p>
    <dl class="strip">${tones.map(([verdict, those]) => html`
      <dt key=${verdict}>${those[0].word} <span class="soft">${count(those.length)}</span></dt>
      <dd><ul>${those.map(({ name, word, first }) => html`<li key=${name} class=${`tone-${verdict}`}>${first == null
        ? html`<${Value}>${name}<//>`
        : html`<a href=${hrefEvent(first)} title=${`${word}, first by #${first}`}><${Value}>${name}<//></a>`}</li>`)}</ul></dd>`)}
    </dl>`;
}

/** Queues of deliveries that were caused for certain. */
function Queues({ vhost, queues }) {
  if (!queues.length) return null;
  const names = queues.slice(0, MOST_QUEUES).map(({ name, first, deliveries }) => html` <${Queue} key=${name} vhost=${vhost} name=${name}
    title=${`${plural(deliveries, "message")} handed over, first by #${first}`} />`);
  return html`<p class="small touched-queues">${plural(queues.length, "queue")} handed over what it caused:${names}${queues.length > MOST_QUEUES && " …"}</p>`;
}

const Sure = ({ yes, word }) => html`<span class="badge ${yes ? "good" : "warn"}">${yes ? "" : "not "}${word}</span>`;

/** Each number with its word. */
function verdicts(data) {
  const caused = `${count(data.caused)}${data.caused_truncated ? " or more" : ""} caused`;
  return [
    ["caused", caused, "What it led to by messages and links"],
    ["may_have", `${count(data.may_have)} ${wordOf("may_have", data)}`, "What came after it in causal order, with no such way known"],
    ["cannot_have", `${count(data.cannot_have)} ${wordOf("cannot_have", data)}`, "What nothing carries anything to"],
    ...(data.unknown > 0 ? [["unknown", `${count(data.unknown)} unknown`, "What came after a delivery whose publish was not seen"]] : []),
  ];
}

function Items({ ids, span, verdict }) {
  const load = (after, signal) =>
    api.touched(ids, { ...span, verdict, limit: PAGE, after, columns: COLUMNS, payload: "none" }, signal);
  const loaded = usePages(load, [ids.join(), span.to, span.until, verdict], { every: 0 });
  if (!loaded.data) return pending(loaded, "events");
  const items = loaded.data.flatMap((page) => page.items);
  return html`<${List} items=${items} none="None." />
    ${loaded.error && html`<${Failure} error=${loaded.error} onRetry=${loaded.reload} />`}
    ${loaded.further && html`<button class="button small quiet flush-start" onClick=${loaded.more}>Show ${PAGE} more</button>`}`;
}

function ExportMenu({ id, busy, onJob }) {
  if (!mayWrite.value) return null;
  const start = (file) =>
    attempt(async () => {
      const { job, summary } = await startTouched(id, file);
      onJob(String(job?.id ?? summary.job));
    });
  return html`<${Menu} label="Export" icon="download" small>
    ${(close) => html`<p class="small soft">A job on Spark writes every event since, each with its verdict and the evidence.
        <code>rabbitmq-itc verify</code> checks the file again.</p>
      <${FileForm} name=${`touched-${id}`} formats=${FORMATS} busy=${busy} button="Export" onSubmit=${(file) => (close(), start(file))} />`}
  <//>`;
}

function Export({ job }) {
  if (!hasEnded(job) || !job.result?.location) {
    return html`<${JobProgress} job=${job}>Job ${job.id}: ${job.stage ?? job.state}<//>`;
  }
  const { location, file } = job.result;
  return html`<p class="job-line"><button class="button small" onClick=${() => attempt(() => download(location, file))}>
    <${Icon} name="download" />Download ${file}</button></p>`;
}
