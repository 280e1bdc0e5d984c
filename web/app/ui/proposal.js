// What would tie messages together, in a line: to see it so, to adopt it, and to take that back.
import { useEffect, useState } from "../../vendor/hooks.js";
import { html } from "../core/html.js";
import { adoptProposal, api, startRestamp } from "../core/api.js";
import { count, visible } from "../core/format.js";
import { hasEnded, useJob } from "../core/jobs.js";
import { attempt } from "../core/notices.js";
import { useResource } from "../core/resource.js";
import { mayWrite } from "../core/session.js";

// Below this share of publishes that name their cause, something is missing.
const LEAST_COVERAGE = 0.9;

/** The best proposal for a trace whose messages tell little of their causes; null while there is none. */
export function useProposal(vhost, coverage) {
  const isAsked = vhost != null && (coverage == null || coverage < LEAST_COVERAGE);
  const load = async (signal) => (isAsked ? api.proposals(vhost, signal) : null);
  const { data, reload } = useResource(load, [vhost, isAsked]);
  return { proposal: data?.items[0] ?? null, reload };
}

/** `more` is said behind how many publishes it joins; `show` is what leads to a look at it. */
export function ProposalLine({ vhost, proposal, more, show, onChange }) {
  const [adopted, setAdopted] = useState(null);
  const [id, setId] = useState(null);
  const job = useJob(id);
  const ended = job && hasEnded(job);
  useEffect(() => {
    if (ended) onChange?.();
  }, [ended]);
  const one = adopted ?? proposal;
  if (!one) return null;
  const start = (work) => attempt(async () => setId((await work()).job?.id ?? null));
  const adopt = async () => {
    if (await start(() => adoptProposal(vhost, one.id))) setAdopted(one);
  };
  const takeBack = async () => {
    const remove = async () => {
      for (const { name } of one.rules) await api.removeLinkRule(vhost, name);
      return startRestamp(vhost);
    };
    if (await start(remove)) setAdopted(null);
  };
  const busy = id !== null && !ended;
  const refused = mayWrite.value ? undefined : "Only an administrator may adopt it";
  return html`<div class="alert calm proposal-line" role="status">
    <p>${adopted
      ? html`Adopted: ${visible(one.says)}. ${busy ? "What is stored is being read by it …" : ended && job.state !== "succeeded" ? `What is stored was not read by it: ${job.error ?? job.state}.` : "What is stored was read by it, too."}`
      : html`${visible(one.says)}: it would join ${count(one.joins)} of ${count(one.of)} publishes${more} to what led to them (${visible(one.certainty)}).`}</p>
    ${!adopted && show}
    ${adopted
      ? html`<button class="button small" disabled=${!mayWrite.value || busy} onClick=${takeBack}>Take back</button>`
      : html`<button class="button small main" disabled=${!mayWrite.value || busy} title=${refused ?? "From now on, and for what is stored"} onClick=${adopt}>Adopt</button>`}
    <details><summary class="small">Rules</summary><pre class="small">${visible(one.rules.map((rule) => JSON.stringify(rule)).join("\n"))}</pre></details>
  </div>`;
}
