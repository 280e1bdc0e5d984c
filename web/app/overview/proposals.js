// Proposed rules for traces whose messages name few of their causes.
import { html } from "../core/html.js";
import { href } from "../core/route.js";
import { reloadTraces } from "../core/traces.js";
import { ProposalLine, useProposal } from "../ui/proposal.js";

export const Proposals = ({ traces }) => traces.map((trace) => html`<${Proposal} key=${trace.vhost} trace=${trace} />`);

function Proposal({ trace: { vhost, evidence } }) {
  const { proposal, reload } = useProposal(evidence.reactions ? vhost : null, evidence.coverage);
  const example = proposal?.examples[0]?.publish;
  const show = example != null && html`<a class="button small" href=${href("conversations", { vhost, event: String(example), via: "likely" })}>Show it so</a>`;
  const changed = () => {
    reload();
    reloadTraces();
  };
  return html`<${ProposalLine} vhost=${vhost} proposal=${proposal} more=${` of ${vhost}`} show=${show} onChange=${changed} />`;
}
