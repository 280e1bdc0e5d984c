// A conversation that is not whole, and its form with proposed rules.
import { html } from "../core/html.js";
import { api } from "../core/api.js";
import { plural, said } from "../core/format.js";
import { useResource } from "../core/resource.js";
import { patch } from "../core/route.js";
import { ProposalLine, useProposal } from "../ui/proposal.js";

const MOST_EVENTS = 1000;

export function ConversationProposal({ answer, via, onChange }) {
  const isWhole = answer.counts.messages > 1 && !["open", "unknown"].includes(answer.outcome);
  const isAsked = via !== "any" && (via === "likely" || !isWhole);
  const { proposal, reload } = useProposal(isAsked ? answer.vhost : null, null);
  const load = async (signal) =>
    proposal && via !== "likely" ? api.conversation(answer.event, { via: "likely", proposal: proposal.id, limit: MOST_EVENTS }, signal) : null;
  const { data } = useResource(load, [answer.event, via, proposal?.id], { every: 0 });
  const changed = (adopted) => {
    reload();
    patch({ via: adopted?.rules.some(({ kind }) => kind === "conversation") ? "conversation" : null }, { replace: true });
    onChange();
  };
  const joins = data?.counts.messages > answer.counts.messages;
  const isLikely = via === "likely" && answer.rests_on;
  const show = via !== "likely" && html`<button class="button small" onClick=${() => patch({ via: "likely" })}>Show it so</button>`;
  return html`<div class="conv-proposal">
    ${isLikely && html`<p class="soft small" role="status">Shown as it likely was: ${said(answer.rests_on.sentence)}.</p>`}
    <${ProposalLine} vhost=${answer.vhost} proposal=${data && !joins ? null : proposal}
      more=${joins ? `, and this conversation of ${plural(data.counts.messages, "message")},` : ""} show=${show} onChange=${changed} />
  </div>`;
}
