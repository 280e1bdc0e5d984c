"""Dead letters: who died where, and who rejected it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.reading.messages import MOST_PROPERTIES, MessageFacts, table_of
from app.stored.failures import FailureDraft, FailureKind
from model.deaths import HANDED_OVER_BEFORE, Death, ReportedDeaths, deaths_of, is_put_off
from model.times import CLOCKS_DIFFER
from model.words import ACTS, Disposition, EdgeKind, EventType

# Of each message the last so many deliveries are looked at, up to the dead letter.
MOST_BACK = 512
_STORY = text(
    "SELECT each.id, each.cause_id, each.queue,"
    " CASE WHEN each.match = 3 AND length(each.properties) <= :long"
    " THEN each.properties END AS properties"
    " FROM events AS letter JOIN events AS each"
    " ON each.cause_id = letter.cause_id AND each.id <= letter.id"
    " WHERE letter.id IN :ids AND NOT each.quiet AND each.id >= coalesce(("
    "SELECT back.id FROM events AS back"
    " WHERE back.cause_id = letter.cause_id AND back.id <= letter.id"
    " ORDER BY back.id DESC LIMIT 1 OFFSET :back), 0)"
    " ORDER BY each.cause_id, each.id"
).bindparams(bindparam("ids", expanding=True), long=MOST_PROPERTIES, back=MOST_BACK - 1)
# Who rejected dead letters, or may have, each by a delivery from the queue where the message died,
# and what became of that before the letter came: the broker's clock and ours differ.
_REJECTED = text(
    "SELECT g.effect_id, g.cause_id, g.kind, cause.queue, cause.participant, letter.doubtful,"
    " CASE WHEN cause.settled_at > letter.recorded_at + :differ THEN :in_hand"
    " ELSE cause.settlement END AS settlement"
    " FROM edges AS g JOIN events AS cause ON cause.id = g.cause_id"
    " JOIN events AS letter ON letter.id = g.effect_id"
    " WHERE g.effect_id IN :ids AND g.rule = :rejected AND cause.type = :received"
    " ORDER BY g.effect_id, g.cause_id"
).bindparams(
    bindparam("ids", expanding=True),
    rejected=ACTS[EdgeKind.rejected],
    received=int(EventType.received),
    in_hand=int(Disposition.in_hand),
    differ=CLOCKS_DIFFER,
)
# What its holder did where a message died for some reason.
_DONE = {"rejected": Disposition.rejected, "delivery_limit": Disposition.returned}


class _StoryPart(NamedTuple):
    """A delivery of a message, and the deaths that it tells of."""

    id: int
    message: int | None
    queue: str
    deaths: list[Death]


# By dead letter and queue: the deliveries that may have been rejected.
_Rejecters: TypeAlias = Mapping[tuple[int, str], Sequence[Any]]


async def died(
    connection: AsyncConnection,
    letters: Sequence[MessageFacts],
    publishes: Mapping[int, MessageFacts],
) -> list[FailureDraft]:
    """The deaths that some dead letters are the first to tell of, without planned delays.

    Each with the queue where the message went from there, and with who was handed it last before,
    by which event, where that is certain.
    """
    newest: dict[int, int] = {}
    found: list[FailureDraft] = []
    for letter in letters:
        if letter.cause is None:  # which of equal messages it is, nobody knows
            alone = _StoryPart(letter.id, None, letter.queue or "", deaths_of(letter.properties))
            found += [*_news(ReportedDeaths(), alone, ())][:1]
        else:
            newest[letter.cause] = max(letter.id, newest.get(letter.cause, 0))
    asked = {letter.id for letter in letters}
    for cause, story in (await _stories(connection, [*newest.values()])).items():
        publish = publishes.get(cause)
        told = ReportedDeaths(deaths_of(publish.properties) if publish is not None else ())
        handed_from: set[str] = set()
        for each in story:
            if each.deaths:
                news = _news(told, each, handed_from)
                found += [one for one in news if one.event in asked]
            handed_from.add(each.queue)
    rejecters = await _rejecters(connection, asked)
    return [_with_rejecter(each, rejecters) for each in found]


async def _stories(connection: AsyncConnection, ids: list[int]) -> Mapping[int, list[_StoryPart]]:
    stories: defaultdict[int, list[_StoryPart]] = defaultdict(list)
    if not ids:
        return stories
    for event_id, cause, queue, properties in await connection.execute(_STORY, {"ids": ids}):
        told = [] if properties is None else deaths_of(table_of(properties))
        stories[cause].append(_StoryPart(event_id, cause, queue, told))
    return stories


def _news(
    told: ReportedDeaths, letter: _StoryPart, handed_from: Collection[str]
) -> Iterator[FailureDraft]:
    deaths = letter.deaths
    for place, death in told.news(deaths):
        if not is_put_off(death, handed_from):
            to = deaths[place - 1].queue if place else letter.queue
            yield FailureDraft(
                letter.id,
                letter.message,
                FailureKind.died,
                death.queue,
                death.reason,
                times=death.count,
                to=to,
                path=(deaths[-1].exchange or "", deaths[-1].routing_keys),
            )


async def _rejecters(connection: AsyncConnection, letters: Collection[int]) -> _Rejecters:
    found: defaultdict[tuple[int, str], list[Any]] = defaultdict(list)
    if letters:
        for row in await connection.execute(_REJECTED, {"ids": sorted(letters)}):
            found[row.effect_id, row.queue].append(row)
    return found


def _with_rejecter(died: FailureDraft, rejecters: _Rejecters) -> FailureDraft:
    """The death with who was handed the message last; if that can only be one, nobody else."""
    may_be = rejecters.get((died.event, died.queue or ""), ())
    if died.reason not in HANDED_OVER_BEFORE or not may_be:
        return died
    certain = [each for each in may_be if each.kind == EdgeKind.rejected]
    if not certain and not may_be[0].doubtful:  # of equal messages the others may be known not to
        done = [e for e in may_be if e.settlement in (None, _DONE[died.reason])]
        certain = [each for each in done if len(done) == 1 and each.settlement is not None]
    if certain:
        return died._replace(by=certain[-1].participant, handed_over=certain[-1].cause_id)
    if len({each.participant for each in may_be}) > 1:
        return died
    return died._replace(by=may_be[0].participant)
