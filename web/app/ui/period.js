// A period of the address, up to now: `since`, without `until`.
import { html } from "../core/html.js";
import { toMicros } from "../core/format.js";
import { patch, route } from "../core/route.js";

export const PERIODS = [["", "any time"], ["900", "the last 15 minutes"], ["3600", "the last hour"], ["86400", "the last day"], ["604800", "the last 7 days"]];

/** `more`: other parameters that change with it. */
export function PeriodSelect({ more }) {
  const chosen = periodOf(route.value.params);
  const choose = (event) => {
    const back = Number(event.currentTarget.value);
    patch({ since: back ? new Date(Date.now() - back * 1000).toISOString() : null, until: null, ...more });
  };
  return html`<select class="select" aria-label="Period" value=${chosen} onChange=${choose}>
    ${PERIODS.map(([key, word]) => html`<option key=${key} value=${key} selected=${key === chosen}>${word}</option>`)}
    ${chosen === "other" && html`<option value="other" selected>as chosen</option>`}
  </select>`;
}

/** The period that `since` means; it was set a while ago if it comes from a link. */
export function periodOf({ since, until }) {
  if (!since && !until) return "";
  if (until || !since) return "other";
  const ago = (Date.now() - toMicros(since) / 1000) / 1000;
  return PERIODS.find(([key]) => key && ago >= Number(key) && ago < Number(key) * 1.1)?.[0] ?? "other";
}
