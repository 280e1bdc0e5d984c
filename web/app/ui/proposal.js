// A proposed rule in a line: to preview it, to adopt it, and to take that back.
import { useEffect } from "../../vendor/hooks.js";
import { signal } from "../../vendor/signals.js";
import { html } from "../core/html.js";
import { adoptProposal, api, startRestamp } from "../core/api.js";
import { count, visible } from "../core/format.js";
import { hasEnded, useJob } from "../core/jobs.js";
import { attempt } from "../core/notices.js";
import { useResource } from "../core/resource.js";
import { mayWrite } from "../core/session.js";
import { Value } from "./marks.js";

// Below this share of publishes that name their cause, something is missing.
const LEAST_COVERAGE = 0.9;
const SURE = "unambiguous, no coincidences"; // what is not so is said

/** The best proposal for a trace whose messages tell little of their causes; null while there is none. */
export function useProposal(vhost, coverage) {
  const isAsked = vhost != null && (coverage == null || coverage < LEAST_COVERAGE);
  const load = async (signal) => (isAsked ? api.proposals(vhost, signal) : null);
  const { data, reload } = useResource(load, [vhost, isAsked]);
  return { proposal: data?.items.find(({ rules }) => rules.length) ?? null, reload };
}

// By virtual host, what was adopted here, or null once it was taken back, and the job that reads what is stored.
const adoptions = signal({});
const note = (vhost, adoption) => (adoptions.value = { ...adoptions.peek(), [vhost]: adoption });

/** True while what is stored is read by what was adopted here, or until somebody has heard that it was. */
export const isUnderWay = (vhost) => adoptions.value[vhost]?.isTold === false;

/** `order` of `$message.payload#/order`, `correlation_id` of a property: the field that a proposal joins by. */
const fieldIn = ({ rules: [{ child }] }) => child.split(/[#/]+/).at(-1);

/**
 * `lead` is said before it, `more` is said behind how many publishes it joins; `show` is what leads to a look at it. `onChange` is told
 * what holds for all that is stored from now on, null if it was taken back.
 */
export function ProposalLine({ vhost, proposal, lead, more = "", show, onChange }) {
  const { adopted = null, job: id = null, isTold = true } = adoptions.value[vhost] ?? {};
  const job = useJob(id);
  const ended = job && hasEnded(job);
  useEffect(() => {
    if (!ended || isTold) return;
    note(vhost, { adopted, job: id, isTold: true });
    onChange(adopted);
  }, [ended, isTold]);
  const one = adopted ?? proposal;
  if (!one) return null;
  const start = (work, next) =>
    attempt(async () => note(vhost, { adopted: next, job: (await work()).job?.id ?? null, isTold: false }));
  const adopt = () => start(() => adoptProposal(vhost, one), one);
  const takeBack = () =>
    start(async () => {
      for (const { name } of one.rules) await api.removeLinkRule(vhost, name);
      return startRestamp(vhost);
    }, null);
  const busy = id !== null && !ended;
  const gain = `${count(one.joins)} of ${count(one.of)} publishes${visible(more)} could be joined to what led to them: ${visible(one.says)}${one.certainty === SURE ? "" : ` (${visible(one.certainty)})`}.`;
  const refused = mayWrite.value ? undefined : "Only an administrator may join them";
  return html`<div class="alert calm proposal-line" role="status">
    <p>${!adopted && lead} ${adopted ? `Joined: ${visible(one.says)}. ${past(job, busy)}` : html`<span class=${lead && "off-phone"}>${gain}</span>`}${one.alone != null && html` <strong>Only messages of user <${Value}>${one.alone}<//> carry it.</strong>`}</p>
    ${!adopted && show}
    ${adopted
      ? html`<button class="button small" disabled=${!mayWrite.value || busy} onClick=${takeBack}>Take back</button>`
      : html`<button class="button small" disabled=${!mayWrite.value || busy} title=${refused ?? "From now on, and for what is stored"} onClick=${adopt}><span>Join messages by <bdi>${visible(fieldIn(one))}</bdi></span></button>`}
    <details><summary class="small">Rules</summary>${lead && !adopted && html`<p class="on-phone">${gain}</p>`}<pre class="small">${visible(one.rules.map((rule) => JSON.stringify(rule)).join("\n"))}</pre></details>
  </div>`;
}

function past(job, busy) {
  if (busy) return "What is stored is being read by it …";
  if (job && job.state !== "succeeded") return `What is stored was not read by it: ${visible(job.error ?? job.state)}.`;
  return "What is stored was read by it, too.";
}
