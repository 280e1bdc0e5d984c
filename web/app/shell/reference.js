// The page /docs: the routes as /openapi.json describes them, with a command for each.
import { useState } from "../../vendor/hooks.js";
import { api } from "../core/api.js";
import { html, render } from "../core/html.js";
import { useResource } from "../core/resource.js";
import { resume, user } from "../core/session.js";
import { Panel, pending } from "../ui/panel.js";
import { SignIn } from "./sign-in.js";

const nameOf = ($ref) => $ref.split("/").pop();

/** A schema in words; an object of the document is a link to its table. */
function Type({ of }) {
  if (of.$ref) return html`<a href="#${nameOf(of.$ref)}">${nameOf(of.$ref)}</a>`;
  const several = of.anyOf ?? of.oneOf ?? of.allOf;
  const between = of.allOf ? " and " : " or ";
  if (several) return several.map((each, i) => html`${i > 0 && between}<${Type} of=${each} />`);
  if (of.enum) return of.enum.map((each, i) => html`${i > 0 && ", "}<code>${String(each)}</code>`);
  if (of.const !== undefined) return html`<code>${String(of.const)}</code>`;
  if (of.type === "array") return html`list of <${Type} of=${of.items ?? {}} />`;
  if (of.format?.startsWith("date")) return "time";
  return of.type ?? "anything";
}

/** A text, with the parts between backticks as code. */
const prose = (text = "") => text.split("`").map((part, i) => (i % 2 ? html`<code key=${i}>${part}</code>` : part));

/** Rows of names, types and meanings. */
function Fields({ label, rows }) {
  return html`<div class="list-scroll" tabindex="0" role="group" aria-label=${label}>
    <table class="list"><tbody>${rows.map(
      ([name, type, said]) => html`<tr key=${name}>
        <td><code>${name}</code></td><td class="text"><${Type} of=${type} /></td><td class="text">${prose(said)}</td>
      </tr>`,
    )}</tbody></table>
  </div>`;
}

/** A command that asks for an operation, with the values of its examples. */
function command(method, path, { parameters = [], requestBody }) {
  const given = (where) =>
    parameters
      .filter((each) => each.in === where && each.examples)
      .map((each) => [each.name, String(each.examples.default.value)]);
  const names = Object.fromEntries(given("path"));
  const filled = path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(names[name] ?? name));
  const query = new URLSearchParams(given("query")).toString();
  const address = new URL(filled.slice(1) + (query && `?${query}`), document.baseURI).href;
  const how = method === "GET" ? "" : ` -X ${method}`;
  const example = requestBody?.required && Object.values(requestBody.content)[0].schema.examples?.[0];
  const body = example ? ` -d '${JSON.stringify(example)}'` : "";
  return `curl -u ${user.value.name}${how}${body} '${address}'`;
}

function Operation({ method, path, operation }) {
  const { parameters = [], responses } = operation;
  const rows = parameters.map((each) => [each.name, each.schema, `${each.required ? "Required. " : ""}${each.description}`]);
  return html`<${Panel} id=${operation.operationId} title=${`${method} ${path}`}>
    ${operation.description.split("\n\n").map((text) => html`<p key=${text}>${prose(text)}</p>`)}
    <pre class="payload">${command(method, path, operation)}</pre>
    ${rows.length > 0 && html`<${Fields} label=${`Parameters of ${method} ${path}`} rows=${rows} />`}
    <ul>${Object.entries(responses).map(([status, answer]) => {
      const schema = Object.values(answer.content ?? {})[0]?.schema;
      return html`<li key=${status}>${status}: ${prose(answer.description)} ${schema && status < 400 && html`<${Type} of=${schema} />`}</li>`;
    })}</ul>
  <//>`;
}

function Reference() {
  const [wanted, setWanted] = useState("");
  const found = useResource((signal) => api.description(signal), [], { every: 0 });
  const loading = pending(found, "the description");
  if (loading) return loading;
  const { paths, components, info } = found.data;
  const all = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
  );
  const text = wanted.toLowerCase();
  const shown = all.filter(({ method, path, operation }) =>
    `${method} ${path} ${operation.description} ${operation.tags}`.toLowerCase().includes(text),
  );
  const objects = Object.entries(components.schemas).filter(
    ([name, each]) => !text || `${name} ${each.description}`.toLowerCase().includes(text),
  );
  return html`<div class="page-inner">
    <div class="page-title"><h1>The REST API</h1><p>${info.summary} ${prose(info.description)}</p></div>
    <p>For programs: <a href="openapi.json">openapi.json</a>. <a href="./">The dashboard</a></p>
    <label class="field"><span>Find</span>
      <input class="input" type="search" value=${wanted} onInput=${({ target }) => setWanted(target.value)} />
    </label>
    <p role="status">${shown.length} of ${all.length} operations, ${objects.length} objects</p>
    ${shown.map((each) => html`<${Operation} key=${each.operation.operationId} ...${each} />`)}
    ${objects.map(
      ([name, { description, properties }]) => html`<${Panel} key=${name} id=${name} title=${name}>
        <p>${prose(description)}</p>
        <${Fields} label=${`Fields of ${name}`}
          rows=${Object.entries(properties).map(([field, each]) => [field, each, each.description])} />
      <//>`,
    )}
  </div>`;
}

function Page() {
  if (user.value === undefined) return html`<p class="loading" role="status">Connecting …</p>`;
  return user.value === null ? html`<${SignIn} />` : html`<main><${Reference} /></main>`;
}

render(html`<${Page} />`, document.getElementById("app"));
resume();
