"""Proposals that are not adopted, and answers by them, with ``via=likely``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from pydantic import Field

from app.api.parameters import KnownFields, Name
from app.api.services import Parts
from app.api.signin.auth import User
from app.errors import NotFoundError
from app.restamp.replay import MOST_PREVIEWED
from app.stored.likely import NO_OVERLAY, Overlay
from app.stored.proposals import LikelyBasis, RuleProposal, TraceCoverage
from app.tracker.links import Rule
from model.described import json_of
from model.words import Via, WalkWord

if TYPE_CHECKING:
    from app.restamp.replay import Replay
    from app.store.store import Store
    from app.stored.capture import Trace

LIKELY = (
    " `likely`: as `conversation`, and by the proposals that are not adopted; the answer says "
    "what it rests on."
)


class LikelyQuery(KnownFields):
    """Links to follow, and a choice among proposals."""

    via: WalkWord
    proposal: Name | None = Field(None, description="With `via=likely`: by this proposal alone.")


class LikelyAnswer(TypedDict, total=False):
    """The basis of an answer with `via=likely`; no other has it."""

    rests_on: LikelyBasis


class Ground(NamedTuple):
    """Links to follow for an answer: ``overlay`` beside those of ``via``."""

    via: Via
    overlay: Overlay = NO_OVERLAY
    basis: LikelyBasis | None = None

    @property
    def view(self) -> dict[str, Any]:
        """The fields that such an answer has beside the others."""
        return {} if self.basis is None else {"rests_on": json_of(self.basis)}


async def ground_of(
    query: LikelyQuery, vhost: str, events: tuple[int, ...], user: User, parts: Parts
) -> Ground:
    """The ground of an answer about some events; raises `NotFoundError` if a proposal does not
    exist.

    Proposals name fields of messages and go by their values: only users who may read these get
    `likely`.
    """
    if query.via != "likely":
        return Ground(Via(query.via))
    user.must_read(vhost)
    trace = await parts.store.traces.find(vhost)
    if trace is None:
        raise NotFoundError("no such trace")
    coverage, proposals = await find_proposals(trace.id, parts)
    if query.proposal is not None:
        proposals = [proposal_of(coverage, query.proposal)]
    first, last = min(events) - MOST_PREVIEWED // 2, max(events) + MOST_PREVIEWED // 2
    overlay = Overlay(max(1, first), last)
    sentence = "nothing was found that ties messages together and is not adopted"
    if proposals:
        await overlay_with(proposals, overlay, trace, parts.store, parts.previews)
        sentence = "; ".join(map(_sentence, proposals))
    basis = LikelyBasis(
        [proposal.id for proposal in proposals], sentence, overlay.first, overlay.last
    )
    return Ground(Via.conversation, overlay, basis)


async def overlay_with(
    proposals: Collection[RuleProposal],
    overlay: Overlay,
    trace: Trace,
    store: Store,
    previews: Callable[[Trace, Sequence[Rule]], Replay],
) -> None:
    """Add the proposals' links of its events to an overlay: by their rules, then in hand."""
    rules = [Rule.from_json(rule) for proposal in proposals for rule in proposal.rules]
    await previews(trace, rules).preview(overlay)
    participants = {number for proposal in proposals for number in proposal.participants}
    for pair in await store.copies.alone_in_hand(
        trace.id, participants, overlay.first, overlay.last
    ):
        overlay.suggest(pair.publish, pair.delivery)


def _sentence(proposal: RuleProposal) -> str:
    suffix = "" if proposal.alone is None else f", by messages of user {proposal.alone} alone"
    return _how_sure(proposal) + suffix


def _how_sure(proposal: RuleProposal) -> str:
    if proposal.agreement is None:
        return f"{proposal.says}: {proposal.certainty}; no links tell how often that is right"
    evidence = "links" if proposal.rules else "links or keys"
    share = f"{proposal.agreement:.1%} of {proposal.linked:,}"
    return f"{proposal.says}: right in {share} where {evidence} tell"


async def find_proposals(trace_id: int, parts: Parts) -> tuple[TraceCoverage, list[RuleProposal]]:
    """A trace's coverage, and the proposals for it that are not adopted."""
    [coverage] = await parts.store.proposals.coverage([trace_id])
    rules = await parts.store.link_rules.list_own(trace_id)
    return coverage, coverage.open_proposals(
        [*rules, *(common.rule for common in parts.link_rules)]
    )


def proposal_of(coverage: TraceCoverage, proposal_id: str) -> RuleProposal:
    """A trace's proposal, adopted or not; raises `NotFoundError`."""
    proposal = next(
        (candidate for candidate in coverage.found if candidate.id == proposal_id), None
    )
    if proposal is None:
        raise NotFoundError("no such proposal: the newest look has found others")
    return proposal
