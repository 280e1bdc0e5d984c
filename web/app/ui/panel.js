import { reasonOf } from "../core/format.js";
import { html } from "../core/html.js";

/** A titled box with `tools` at the end of its head. */
export function Panel({ title, note, tools, flush, foot, children, id }) {
  const heading = id ?? `panel-${String(title).toLowerCase().replace(/\W+/g, "-")}`;
  return html`<section class="panel" aria-labelledby=${heading}>
    <div class="panel-head">
      <h2 id=${heading}>${title}</h2>
      ${note && html`<span class="soft small">${note}</span>`}
      ${tools && html`<div class="tools">${tools}</div>`}
    </div>
    <div class="panel-body ${flush ? "flush" : ""}">${children}</div>
    ${foot && html`<div class="panel-foot">${foot}</div>`}
  </section>`;
}

export function Empty({ title, children, actions }) {
  return html`<div class="empty">
    <h2>${title}</h2>
    ${children && html`<p>${children}</p>`}
    ${actions && html`<div class="actions">${actions}</div>`}
  </div>`;
}

export function Alert({ tone = "bad", children, action }) {
  return html`<div class="alert ${tone}" role=${tone === "bad" ? "alert" : "status"}>
    <p>${children}</p>${action}
  </div>`;
}

/** An error, and a button to try again. */
export function Failure({ error, onRetry }) {
  return html`<${Alert}
    action=${html`<button class="button small" onClick=${onRetry}>Try again</button>`}>
    ${reasonOf(error)}
  <//>`;
}

/** Stands in until a load has data: says that it is loading, or its error. Null once it has data. */
export function pending({ data, error, reload }, what) {
  if (data !== undefined) return null;
  if (!error) return html`<p class="loading" role="status">Loading ${what} …</p>`;
  return html`<div class="panel-body"><${Failure} error=${error} onRetry=${reload} /></div>`;
}

/** Buttons, one of them pressed. `options` are [value, label], or [value, label, title]. */
export function Choice({ label, options, value, onChange, small }) {
  return html`<div class="choice ${small ? "small" : ""}" role="group" aria-label=${label}>
    ${options.map(
      ([key, text, title]) => html`<button type="button" key=${key} title=${title} aria-pressed=${String(key === value)}
        onClick=${() => onChange(key)}>${text}</button>`,
    )}
  </div>`;
}
