// Words of a publisher, a queue or a consumer on the map, and where each leads.
import { ageOf, compact, passed, percent, visible } from "../core/format.js";
import { html } from "../core/html.js";
import { filterOfService } from "../core/participants.js";
import { href, hrefQueue } from "../core/route.js";
import { flowing, NOBODY, percentiles, toneOf, waitsOf } from "./flows.js";

const SLOW = 1; // s: from here on a median is out of the ordinary

/** `{name, notes, title}` of a node: its notes are what is out of the ordinary. `map` is what `FlowMap` was given, and `short`. */
export function wordsOf(node, column, { flows, short, waiting: stuck }) {
  const name = node.rest ? `${node.rest} more` : column !== 1 && node.key === NOBODY ? "not observed" : visible(column === 1 ? node.key : short(node.key));
  const waits = column === 1 && stuck.get(node.key);
  const failed = node.failed ? `✕ ${compact(node.failed)} failed` : null;
  const share = failed && `${percent(node.failed, Math.max(node.count, node.failed))} of them`;
  const waiting = waits && `◷\u00a0${compact(waits.count)}${waits.more ? "+" : ""} waiting ${ageOf(waits.since).replaceAll(" ", "\u00a0")}`;
  const unmatched = node.unmatched ? `${compact(node.unmatched)} unmatched` : null;
  const none = node.count || node.rest || !column ? null : "no delivery seen";
  const flow = node.count ? flowing(node.count, flows.seconds) : null;
  const warnings = [waiting, unmatched, timesOf(node, column, SLOW).join(" · ")].filter(Boolean);
  const notes = (failed || none || warnings.length > 0) && html`<span class="small soft">${failed && html`<span class="bad-text">${failed} </span>`}
    ${warnings.map((one) => html`<span class="warn-text" key=${one}>${one} </span>`)}${none}</span>`;
  const title = [node.rest || !node.key ? name : visible(node.key), failed, share, waiting, unmatched, none ?? flow, ...timesOf(node, column)].filter(Boolean).join(" · ");
  return { name, notes, title, flow };
}

/** A node's times from `least` seconds on: messages' waits in queues, and programs' work on them. */
function timesOf(node, column, least = 0) {
  const median = waitsOf(node)?.median ?? null;
  const worked = (node.worked ?? percentiles(node.works))?.median ?? null;
  return [
    column >= 1 && median !== null && median >= least && `median ${passed(median)} waiting`,
    column === 2 && worked !== null && worked >= least && `median ${passed(worked)} handling`,
  ].filter(Boolean);
}

/** The page of a queue, or the events of who publishes or consumes, of the period. */
export function hrefNode({ key }, column, { vhost, by, period = {} }) {
  if (column === 1) return hrefQueue(vhost, key);
  if (key === NOBODY) return href("events", { vhost, match: "unmatched", ...period });
  const who = by === "user" ? { user: key } : by === "participant" ? { participant_name: key } : filterOfService(key);
  return href("events", { vhost, type: column === 0 ? "published" : "received", ...who, ...period });
}

/** A class of no tone has no style. */
export const toneClass = (entry, colour) => `${colour}-${toneOf(entry, colour)}`;
