import { signal } from "../../vendor/signals.js";
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { bytes, count, dateTime, plural } from "../core/format.js";
import { download } from "../core/download.js";
import { useResource } from "../core/resource.js";
import { href, view, vhost } from "../core/route.js";
import { mayWrite } from "../core/session.js";
import { attempt } from "../core/notices.js";
import { ask } from "../core/questions.js";
import { Icon } from "./icons.js";
import { Value } from "./marks.js";
import { Panel, pending } from "./panel.js";
import { Table } from "./table.js";

const turn = signal(0);

export const reloadExports = () => (turn.value = turn.peek() + 1);

const useExports = () => useResource(api.exports, [turn.value]);

/** The files written by chain jobs, newest first, of the chosen virtual host or of all. */
export function ExportsTable() {
  const loaded = useExports();
  const list = loaded.data
    ?.filter((file) => !vhost.value || file.vhost === vhost.value)
    .sort((x, y) => (x.created_at < y.created_at ? 1 : -1));
  return html`<${Panel} title="Exports" flush note="files written by chain jobs">
    ${!list
      ? pending(loaded, "exports")
      : list.length === 0
        ? html`<p class="nothing">None yet. ${view.value === "chain" ? "Export above writes one, once a chain is shown." : "Chains are exported in the Map, under Chain."}</p>`
        : html`<${Table} label="Exports" heads="File|Virtual host|Chain|#Events|#Size|Written|"
              rows=${list} by=${["file", "vhost", "from", "events", "bytes", "created_at"]}>
            ${(file) => html`<${Row} key=${file.location} file=${file} />`}
          <//>`}
  <//>`;
}

function Row({ file }) {
  const remove = async () => {
    const what = `It was written at ${dateTime(file.created_at)}, with ${plural(file.events, "event")}. Its events stay stored.`;
    if (!(await ask(`Delete ${file.file}?`, what, "Delete the file"))) return;
    await attempt(() => api.deleteExport(file.location), `${file.file} was removed.`);
    reloadExports();
  };
  return html`<tr>
    <td class="name"><${Value}>${file.file}<//></td>
    <td><${Value}>${file.vhost}<//></td>
    <td class="nowrap"><a href=${href("chain", { a: String(file.from), b: String(file.to) })}>#${file.from} – #${file.to}</a></td>
    <td class="number">${count(file.events)}</td>
    <td class="number">${bytes(file.bytes)}</td>
    <td class="tabular">${dateTime(file.created_at)}</td>
    <td class="end nowrap">
      <button class="button small" aria-label=${`Download ${file.file}`}
        onClick=${() => attempt(() => download(file.location, file.file))}><${Icon} name="download" /><span class="roomy">Download</span></button>
      ${" "}
      <button class="button small icon danger" aria-label=${`Remove ${file.file}`} title="Remove"
        disabled=${!mayWrite.value} onClick=${remove}><${Icon} name="trash" /></button>
    </td>
  </tr>`;
}
