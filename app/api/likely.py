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
from model.described import shown
from model.words import Via, WalkWord

if TYPE_CHECKING:
    from app.restamp.replay import Replay
    from app.store.store import Store
    from app.stored.capture import Trace

SAID = (
    " `likely`: as `conversation`, and by the proposals that are not adopted; the answer says "
    "what it rests on."
)


class LikelyQuery(KnownFields):
    """A way to go along, and a choice among proposals."""

    via: WalkWord
    proposal: Name | None = Field(None, description="With `via=likely`: by this proposal alone.")


class LikelyAnswer(TypedDict, total=False):
    """What an answer with `via=likely` rests on; no other has it."""

    rests_on: LikelyBasis


class Ground(NamedTuple):
    """What an answer is found along: ``overlay`` beside what ``via`` says."""

    via: Via
    overlay: Overlay = NO_OVERLAY
    basis: LikelyBasis | None = None

    @property
    def shown(self) -> dict[str, Any]:
        """What such an answer says of it."""
        return {} if self.basis is None else {"rests_on": shown(self.basis)}


async def ground_of(
    query: LikelyQuery, vhost: str, events: tuple[int, ...], user: User, parts: Parts
) -> Ground:
    """The ground of an answer about some events; raises `NotFoundError` for no such proposal.

    Proposals name fields of messages and go by their values: `likely` is for who may read them.
    """
    if query.via != "likely":
        return Ground(Via(query.via))
    user.must_read(vhost)
    trace = await parts.store.traces.find(vhost)
    if trace is None:
        raise NotFoundError("no such trace")
    seen, chosen = await proposed(trace.id, parts)
    if query.proposal is not None:
        chosen = [one_of(seen, query.proposal)]
    first, last = min(events) - MOST_PREVIEWED // 2, max(events) + MOST_PREVIEWED // 2
    overlay = Overlay(max(1, first), last)
    said = "nothing was found that ties messages together and is not adopted"
    if chosen:
        await overlay_with(chosen, overlay, trace, parts.store, parts.previews)
        said = "; ".join(map(_sentence, chosen))
    basis = LikelyBasis([each.id for each in chosen], said, overlay.first, overlay.last)
    return Ground(Via.conversation, overlay, basis)


async def overlay_with(
    chosen: Collection[RuleProposal],
    overlay: Overlay,
    trace: Trace,
    store: Store,
    previews: Callable[[Trace, Sequence[Rule]], Replay],
) -> None:
    """Have an overlay hold what proposals say of its events: by their rules, then in hand."""
    rules = [Rule.from_json(rule) for each in chosen for rule in each.rules]
    await previews(trace, rules).preview(overlay)
    whose = {number for each in chosen for number in each.participants}
    for one in await store.copies.alone_in_hand(trace.id, whose, overlay.first, overlay.last):
        overlay.suggest(one.publish, one.delivery)


def _sentence(chosen: RuleProposal) -> str:
    whose = "" if chosen.alone is None else f", by messages of user {chosen.alone} alone"
    return _how_sure(chosen) + whose


def _how_sure(chosen: RuleProposal) -> str:
    if chosen.agreement is None:
        return f"{chosen.says}: {chosen.certainty}; no links tell how often that is right"
    told = "links" if chosen.rules else "links or keys"
    return f"{chosen.says}: right in {chosen.agreement:.1%} of {chosen.linked:,} where {told} tell"


async def proposed(trace_id: int, parts: Parts) -> tuple[TraceCoverage, list[RuleProposal]]:
    """What was found for a trace, and what of it is not adopted."""
    [seen] = await parts.store.proposals.coverage([trace_id])
    own = await parts.store.link_rules.own(trace_id)
    return seen, seen.waiting([*own, *(each.rule for each in parts.link_rules)])


def one_of(seen: TraceCoverage, proposal: str) -> RuleProposal:
    """A trace's proposal, adopted or not; raises `NotFoundError`."""
    found = next((each for each in seen.found if each.id == proposal), None)
    if found is None:
        raise NotFoundError("no such proposal: the newest look has found others")
    return found
