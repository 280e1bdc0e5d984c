// The assertions that are held while events come, and a form that sets and removes them.
import { useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { count, dateTime, plural, reasonOf, recent, said, visible } from "../core/format.js";
import { isStale } from "../core/health.js";
import { attempt, tell } from "../core/notices.js";
import { ask } from "../core/questions.js";
import { href, hrefHere, vhost } from "../core/route.js";
import { mayWrite } from "../core/session.js";
import { traces } from "../core/traces.js";
import { useWork } from "../core/work.js";
import { Value } from "../ui/marks.js";
import { Alert, Empty, Panel, pending } from "../ui/panel.js";
import { Table } from "../ui/table.js";
import { AssertionFile, fileOf } from "./assertion-file.js";
import { HoldMenu, NeverSeen, useSeen } from "./hold.js";
import { neverSeen, typesNamed } from "./seen.js";
import { saysOf, Verdict } from "./words.js";

/** `name`: the virtual host to set, null if none is traced; `held`: its assertions. */
export function Held({ loaded, name, held }) {
  const [editing, setEditing] = useState(false);
  const list = loaded.data;
  const done = () => (setEditing(false), loaded.reload());
  const file = fileOf(held);
  const hold = async (chosen) => {
    const now = (await api.assertions(name)).map(({ assertion }) => assertion); // somebody else may have set some
    const taken = new Set(now.map((one) => one.name));
    await api.setAssertions(name, fileOf(now) + fileOf(chosen.map((one) => ({ ...one, name: unused(one.name, taken) }))));
    tell(`${plural(chosen.length, "assertion")} more ${chosen.length === 1 ? "is" : "are"} held from now on.`);
    loaded.reload();
  };
  return html`<${Panel} title="Live checks" flush note="what should hold, judged within seconds"
      tools=${mayWrite.value && name != null && list && html`${!editing && html`<${HoldMenu} name=${name} held=${held} onHold=${hold} key=${name} />`}
        <button class="button small" data-focus="set assertions" aria-expanded=${String(editing)}
        onClick=${() => setEditing(!editing)}>${file ? "Change" : "Set assertions"}</button>`}
      foot=${!mayWrite.value && "Only an administrator of the broker may set or remove assertions."}>
    ${editing && list && html`<${Editor} name=${name} key=${name} file=${file} onDone=${done} onCancel=${() => setEditing(false)} />`}
    <${NotJudged} list=${list ?? []} />
    ${!list
      ? pending(loaded, "assertions")
      : list.length
        ? html`<${HeldTable} list=${list} reload=${loaded.reload} />`
        : !editing && html`<${Empty} title="No assertion is held">${name == null
            ? "Nothing is traced yet: assertions are held against what a trace records."
            : "An assertion says what should hold of messages, such as that an order leads to its invoice within 30 seconds. What does not hold is listed here within seconds."}<//>`}
  <//>`;
}

/** Nothing new is judged for a trace that does not run. */
function NotJudged({ list }) {
  const still = (traces.value.data ?? []).filter((one) => one.state !== "running" && list.some((each) => each.vhost === one.vhost));
  const notTraced = vhost.value && traces.value.data && !traces.value.data.some((one) => one.vhost === vhost.value);
  if (!still.length && !notTraced) return null;
  return html`<div class="panel-body"><${Alert} tone="warn" action=${html`<a class="button small" href=${href("overview")}>To the traces</a>`}>
    ${notTraced
      ? "This virtual host is not traced: nothing can be held against its messages."
      : html`The trace of ${still.map((one, i) => html`${i > 0 && ", "}<${Value}>${one.vhost}<//>`)} does not run: nothing new is judged there.`}<//></div>`;
}

/** A name that none of these has; adds it to them. */
function unused(name, taken) {
  let found = name;
  for (let n = 2; taken.has(found); n += 1) found = `${name}-${n}`;
  taken.add(found);
  return found;
}

function HeldTable({ list, reload }) {
  const several = !vhost.value;
  return html`<${Table} label="Live checks"
      heads=${`Assertion|So far|${several ? "Virtual host|" : ""}#Held|#Did not hold|#Unknown|#Waiting|Since|${mayWrite.value ? "|" : ""}`.slice(0, -1)}
      rows=${list} by=${["name", null, ...(several ? ["vhost"] : []), "held", "violated", "unknown", "waiting", "set_at"]}>
    ${(one) => html`<${Row} key=${`${one.vhost} ${one.name}`} one=${one} several=${several} reload=${reload} />`}
  <//>`;
}

function Row({ one, several, reload }) {
  const { name, vhost: of, violated } = one;
  return html`<tr>
    <td class="text"><strong><${Value}>${name}<//></strong><div class="soft small"><${Value}>${saysOf(one.assertion)}<//></div>
      ${one.unwatched && html`<div class="small">Not held while events come: ${said(one.unwatched)}. A report judges it.</div>`}</td>
    <td><${State} one=${one} /></td>
    ${several && html`<td><${Value}>${of}<//></td>`}
    <td class="number">${count(one.held)}</td>
    <td class="number">${violated
      ? html`<a href=${hrefHere({ assertion: name, vhost: of })} title="Only these" aria-label=${`Where ${name} did not hold: ${plural(violated, "event")}`}>${count(violated)}</a>`
      : "0"}</td>
    <td class="number">${count(one.unknown)}</td>
    <td class="number">${count(one.waiting)}</td>
    <td class="tabular" title=${`Set by ${visible(one.set_by)} at ${dateTime(one.set_at)}; judged from event ${one.from_event_id} to ${one.judged_id}`}>${recent(one.set_at).split(".")[0]}</td>
    ${mayWrite.value && html`<td class="end"><button class="button small" aria-label=${`Remove ${name}`} onClick=${() => remove(of, name, reload)}>Remove</button></td>`}
  </tr>`;
}

function State({ one }) {
  if (one.violated) return html`<${Verdict} word="violated" />`;
  if (one.unwatched) return html`<span class="badge">Not judged</span>`;
  if (one.unknown) return html`<${Verdict} word="unknown" />`;
  return one.held ? html`<${Verdict} word="holds" stale=${isStale.value} />` : html`<span class="badge">No case yet</span>`;
}

async function remove(of, name, reload) {
  const text = `${visible(name)} is no longer held against the messages of ${visible(of)}. What was found stays; set anew, it begins anew.`;
  if (!(await ask("Remove this assertion?", text, "Remove"))) return;
  await attempt(() => api.removeAssertion(of, name), `${visible(name)} is removed.`);
  reload();
}

function Editor({ name, file, onDone, onCancel }) {
  const [text, setText] = useState(file);
  const [looked, setLooked] = useState(file); // that text when it was left last: a warning at each key would be in the way
  const { busy, error, run, forget } = useWork();
  const { data: seen } = useSeen(name);
  const save = (event) => {
    event.preventDefault();
    run(async () => {
      await api.setAssertions(name, text);
      tell("These assertions are held from now on.");
      onDone();
    });
  };
  return html`<form class="panel-body report-form" aria-label="Set assertions" onSubmit=${save}>
    <p class="small soft">Of <${Value}>${name}<//>: these and no others, from the next event on. One whose text stays the same goes on where it was.</p>
    <${AssertionFile} value=${text} error=${error} onInput=${(value) => (forget(), setText(value))} onChange=${setLooked} />
    ${error && html`<${Alert}>${error.status === 404 ? "This virtual host is not traced: nothing can be held against its messages." : reasonOf(error)}<//>`}
    <div class="drawer-line"><button class="button main" aria-disabled=${String(busy)}>${busy ? "Setting …" : "Set"}</button>
      <button type="button" class="button" onClick=${onCancel}>Cancel</button></div>
    ${seen && html`<${NeverSeen} names=${neverSeen(typesNamed(looked), seen.types)} seen=${seen} />`}
  </form>`;
}
