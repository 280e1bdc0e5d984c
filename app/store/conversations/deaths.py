"""Dead letters: where messages died, and who rejected them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from sqlalchemy import bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.reading.messages import MOST_PROPERTIES, table_of
from app.stored.failures import FailureDraft, FailureKind
from model.deaths import HANDED_OVER_BEFORE, Death, ReportedDeaths, deaths_of, is_put_off
from model.event import Event
from model.times import CLOCKS_DIFFER
from model.words import ACTS, BACK, Disposition, EdgeKind, EventType

# Deliveries of each message that are read, the last up to the dead letter.
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
# Participants that may have rejected dead letters, each by a delivery from the queue where the
# message died, and that delivery's settlement before the letter came: the broker's clock and ours
# differ.
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
# The holder's settlement, by the reason of a death.
_SETTLEMENTS = {"rejected": (Disposition.rejected,), "delivery_limit": BACK}


class _StoryPart(NamedTuple):
    """A delivery of a message, and the deaths in its headers."""

    id: int
    message: int | None
    queue: str
    deaths: Sequence[Death]


# By dead letter and queue: the deliveries that may have been rejected.
_Rejecters: TypeAlias = Mapping[tuple[int, str], Sequence[Any]]


async def first_deaths(
    connection: AsyncConnection,
    letters: Sequence[Event],
    publishes: Mapping[int, Event],
) -> list[FailureDraft]:
    """The deaths that some dead letters are the first to report, without planned delays.

    Each with the queue where the message went, and where it is certain, with the participant that
    was handed it last before, and by which event.
    """
    newest: dict[int, int] = {}
    drafts: list[FailureDraft] = []
    for letter in letters:
        if letter.cause is None:  # one of several equal messages
            alone = _StoryPart(letter.id, None, letter.queue or "", deaths_of(letter.properties))
            drafts += [*_news(ReportedDeaths(), alone, ())][:1]
        else:
            newest[letter.cause] = max(letter.id, newest.get(letter.cause, 0))
    ids = {letter.id for letter in letters}
    for cause, story in (await _stories(connection, [*newest.values()])).items():
        publish = publishes.get(cause)
        reported = ReportedDeaths(deaths_of(publish.properties) if publish is not None else ())
        queues: set[str] = set()
        for delivery in story:
            if delivery.deaths:
                news = _news(reported, delivery, queues)
                drafts += [draft for draft in news if draft.event in ids]
            queues.add(delivery.queue)
    rejecters = await _rejecters(connection, ids)
    return [_with_rejecter(draft, rejecters) for draft in drafts]


async def _stories(connection: AsyncConnection, ids: list[int]) -> Mapping[int, list[_StoryPart]]:
    stories: defaultdict[int, list[_StoryPart]] = defaultdict(list)
    if not ids:
        return stories
    for event_id, cause, queue, properties in await connection.execute(_STORY, {"ids": ids}):
        deaths = () if properties is None else deaths_of(table_of(properties))
        stories[cause].append(_StoryPart(event_id, cause, queue, deaths))
    return stories


def _news(
    reported: ReportedDeaths, letter: _StoryPart, queues: Collection[str]
) -> Iterator[FailureDraft]:
    deaths = letter.deaths
    for index, death in reported.news(deaths):
        if not is_put_off(death, queues):
            target = deaths[index - 1].queue if index else letter.queue
            yield FailureDraft(
                letter.id,
                letter.message,
                FailureKind.died,
                death.queue,
                death.reason,
                times=death.count,
                to=target,
                path=(deaths[-1].exchange or "", deaths[-1].routing_keys),
            )


async def _rejecters(connection: AsyncConnection, letters: Collection[int]) -> _Rejecters:
    rejecters: defaultdict[tuple[int, str], list[Any]] = defaultdict(list)
    if letters:
        for row in await connection.execute(_REJECTED, {"ids": sorted(letters)}):
            rejecters[row.effect_id, row.queue].append(row)
    return rejecters


def _with_rejecter(draft: FailureDraft, rejecters: _Rejecters) -> FailureDraft:
    """Add the participant that was handed the message last, if only one can have been."""
    candidates = rejecters.get((draft.event, draft.queue or ""), ())
    if draft.reason not in HANDED_OVER_BEFORE or not candidates:
        return draft
    certain = [row for row in candidates if row.kind == EdgeKind.rejected]
    if (
        not certain and not candidates[0].doubtful
    ):  # of equal messages the others may be known not to
        fitting = [r for r in candidates if r.settlement in (None, *_SETTLEMENTS[draft.reason])]
        certain = fitting if len(fitting) == 1 and fitting[0].settlement is not None else []
    if certain:
        return draft._replace(by=certain[-1].participant, handed_over=certain[-1].cause_id)
    if len({row.participant for row in candidates}) > 1:
        return draft
    return draft._replace(by=candidates[0].participant)
