"""Dead letters: who died where, and whom it was handed to last before that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from sqlalchemy import bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store.conversations import alike
from app.store.conversations.alike import HandOver, QueueDelivery
from app.store.reading.messages import MOST_PROPERTIES, MessageFacts, table_of
from app.tracker.links.rules import MESSAGE_ID
from model.deaths import HANDED_OVER_BEFORE, Death, ReportedDeaths, deaths_of
from model.words import Match

# Of each message the last so many deliveries are looked at, up to the dead letter.
MOST_BACK = 512
_STORY = text(
    "SELECT each.id, each.cause_id, each.queue, each.participant, each.match, each.fingerprint,"
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
# A message's deliveries, the oldest first, each with the deaths that it tells of.
Story: TypeAlias = list[tuple[QueueDelivery, list[Death]]]


class DeathRecord(NamedTuple):
    """A death that a dead letter is the first to tell of.

    ``to`` is the queue where the message went; ``by`` the participant who was handed it last, by
    the event ``handed_over``, None where that is not certain.
    """

    letter: int
    death: Death
    first: Death
    to: str | None
    by: int | None = None
    handed_over: int | None = None


class _Suspect(NamedTuple):
    """Who may have rejected a message: its last delivery from the queue where it died."""

    died: DeathRecord
    trace_id: int
    last: QueueDelivery
    # Whether that is the only delivery that can be meant, if no other message is like it.
    is_last: bool


async def died(
    connection: AsyncConnection,
    letters: Sequence[MessageFacts],
    publishes: Mapping[int, MessageFacts],
) -> list[DeathRecord]:
    """The deaths that some dead letters are the first to tell of."""
    newest: dict[int, int] = {}
    for letter in letters:
        if letter.cause is not None:
            newest[letter.cause] = max(letter.id, newest.get(letter.cause, 0))
    stories = await _stories(connection, [*newest.values()])
    asked = {letter.id: letter for letter in letters}
    found: list[DeathRecord] = []
    suspects: list[_Suspect] = []
    for cause, story in stories.items():
        publish = publishes.get(cause)
        told = ReportedDeaths(deaths_of(publish.properties) if publish is not None else ())
        handed: list[QueueDelivery] = []
        for each, deaths in story:
            news = _news(told, each, deaths) if each.match is Match.dead_lettered else ()
            for one, times in news:
                if each.id not in asked:
                    continue
                suspect = None
                if len(story) < MOST_BACK:
                    suspect = _suspect(one, times, asked[each.id].trace_id, handed)
                if suspect is None:
                    found.append(one)
                else:
                    suspects.append(suspect)
            handed.append(each)
    return found + await _named(connection, suspects, publishes)


async def _stories(connection: AsyncConnection, ids: list[int]) -> Mapping[int, Story]:
    """The deliveries of some dead letters' messages, by publish, the oldest first."""
    stories: defaultdict[int, Story] = defaultdict(list)
    if not ids:
        return stories
    for row in await connection.execute(_STORY, {"ids": ids}):
        *plain, match, mark, properties = row
        each = QueueDelivery._make([*plain, Match(match), mark])
        told = [] if properties is None else deaths_of(table_of(properties))
        stories[row.cause_id].append((each, told))
    return stories


def _news(
    told: ReportedDeaths, letter: QueueDelivery, deaths: Sequence[Death]
) -> Iterator[tuple[DeathRecord, int]]:
    """The deaths that a dead letter is the first to tell of, and how often that was."""
    for place, death in told.news(deaths):
        to = deaths[place - 1].queue if place else letter.queue
        yield DeathRecord(letter.id, death, deaths[-1], to), told.times(death)


def _suspect(
    died: DeathRecord, times: int, trace_id: int, before: Sequence[QueueDelivery]
) -> _Suspect | None:
    """Who was handed a copy before it died, where that can only be one.

    The n-th death of a message in a queue ends what its n-th first delivery from there began. Where
    these are not as many, others than the last may be meant, or have not been seen.
    """
    if died.death.reason not in HANDED_OVER_BEFORE:
        return None
    handed = [each for each in before if each.queue == died.death.queue]
    firsts = sum(each.match is not Match.redelivered for each in handed)
    if not handed or firsts < times:
        return None
    if firsts > times and len({each.participant for each in handed}) > 1:
        return None
    return _Suspect(died, trace_id, handed[-1], firsts == times)


async def _named(
    connection: AsyncConnection, suspects: Sequence[_Suspect], publishes: Mapping[int, MessageFacts]
) -> list[DeathRecord]:
    """The deaths with those who were handed the messages last, where no other is like them.

    Nobody can tell equal messages in one queue apart, so which of them died is not known; if all
    were handed to one participant, who it was is.
    """
    asked = [_handed(each, publishes.get(each.last.cause or 0)) for each in suspects]
    others = await alike.handed_to(connection, asked)
    return [
        each.died
        if to is None or to - {each.last.participant}
        else each.died._replace(
            by=each.last.participant,
            handed_over=each.last.id if each.is_last and not to else None,
        )
        for each, to in zip(suspects, others, strict=True)
    ]


def _handed(suspect: _Suspect, publish: MessageFacts | None) -> HandOver:
    handed = HandOver(suspect.trace_id, suspect.last, suspect.died.letter)
    if publish is None:
        return handed
    message_id = publish.properties.get(MESSAGE_ID)
    return handed._replace(
        publish=publish.id, message_id=message_id if isinstance(message_id, str) else None
    )
