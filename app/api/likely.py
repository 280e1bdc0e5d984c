"""Proposals that are not adopted, and answers by them, with ``via=likely``."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NamedTuple, TypedDict, cast

from pydantic import Field, GetPydanticSchema
from pydantic_core import core_schema

from app.api.parameters import KnownFields, Name
from app.api.services import Services
from app.errors import NotFoundError
from app.stored.likely import NO_OVERLAY, Overlay
from app.stored.proposals import LikelyBasis, RuleProposal, TraceCoverage
from app.traces.likely import MOST_EVENTS, overlay_of
from app.tracker.links import Rule
from model.described import shown
from model.words import Via, WalkWord

LIKELY: Literal["likely"] = "likely"
SAID = (
    " `likely`: as `conversation`, and by the proposals that are not adopted; the answer says "
    "what it rests on."
)


def _words() -> GetPydanticSchema:
    def schema(*_: Any) -> core_schema.CoreSchema:
        names = core_schema.literal_schema([*Via.__members__, LIKELY])
        return core_schema.no_info_after_validator_function(
            lambda name: name if name == LIKELY else Via[name], names
        )

    return GetPydanticSchema(schema)


WayWord = Annotated[Via | Literal["likely"], _words()]


class LikelyQuery(KnownFields):
    """A choice among proposals."""

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
    via: Via | Literal["likely"],
    proposal: str | None,
    vhost: str,
    span: tuple[int, int],
    parts: Services,
) -> Ground:
    """The ground of an answer about a span of events, of which the first `MOST_EVENTS` are read.

    Raises `NotFoundError` for a proposal that is none.
    """
    if via != LIKELY:
        return Ground(Via(via))
    trace = await parts.store.traces.find(vhost)
    if trace is None:
        raise NotFoundError("no such trace")
    if proposal is not None:
        chosen = [await one_of(trace.id, proposal, parts)]
    else:
        chosen = await waiting(await seen_of(trace.id, parts), parts)
    if not chosen:
        said = "nothing was found that ties messages together and is not adopted"
        return Ground(Via.conversation, NO_OVERLAY, LikelyBasis([], said, *span))
    rules = [Rule.from_json(rule) for each in chosen for rule in each.rules]
    overlay = await overlay_of(parts.previews(trace, rules), *span)
    basis = LikelyBasis(
        [each.id for each in chosen],
        "; ".join(map(_sentence, chosen)),
        overlay.first,
        overlay.last,
    )
    return Ground(Via.conversation, overlay, basis)


def said_as(via: Via | Literal["likely"]) -> WalkWord:
    """The word of an answer."""
    return cast("WalkWord", str(via))


def around(event_id: int) -> tuple[int, int]:
    """The span of ids around an event that is read, of which it is the middle."""
    return max(1, event_id - MOST_EVENTS // 2), event_id + MOST_EVENTS // 2


def past_of(event_id: int) -> tuple[int, int]:
    """The same for what led to an event."""
    return max(1, event_id - MOST_EVENTS), event_id


def future_of(event_id: int) -> tuple[int, int]:
    """The same for what an event led to."""
    return event_id, event_id + MOST_EVENTS


def _sentence(chosen: RuleProposal) -> str:
    if chosen.agreement is None:
        return f"{chosen.says}: {chosen.certainty}; no links tell how often that is right"
    return f"{chosen.says}: right in {chosen.agreement:.1%} of {chosen.linked:,} where links tell"


async def seen_of(trace_id: int, parts: Services) -> TraceCoverage:
    [seen] = await parts.store.proposals.coverage([trace_id])
    return seen


async def waiting(seen: TraceCoverage, parts: Services) -> list[RuleProposal]:
    """A trace's proposals that are not adopted."""
    own = await parts.store.link_rules.own(seen.trace_id)
    return seen.waiting([*own, *(each.rule for each in parts.link_rules)])


async def one_of(trace_id: int, proposal: str, parts: Services) -> RuleProposal:
    """A trace's proposal, adopted or not; raises `NotFoundError`."""
    for each in (await seen_of(trace_id, parts)).found:
        if each.id == proposal:
            return each
    raise NotFoundError("no such proposal: the newest look has found others")
