"""Whereabouts of a message, in one word: was it ever here, and what became of it.

An id is looked for as a message id, as a correlation id, as the key of a conversation, and last as
a text anywhere in a message; the first of these that any message has is taken. *Never* published is
said only if nothing can hide the message: no gap, no quarantine, no selection, no body that is
stored in part, nothing removed, and everything stored that was traced until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from app.api.certainty import (
    LAST,
    MOST_TRACES,
    TraceRecord,
    certainty_between,
    merge,
    record_of,
)
from app.api.crossings import MOST_HOPS, crossings_of
from app.api.services import ServiceParts
from app.api.signin.auth import User
from app.errors import BadRequestError, NotFoundError, OutageError
from app.stored.causality import Fate
from app.stored.reading import EventFilter
from model.event import ALL_LARGE, Event
from model.sound import Certainty, join_names
from model.times import LATEST, Microseconds, now, said_time
from model.where import (
    Fact,
    QueueView,
    WhereWord,
    queue_to_ask,
    strongest,
    whereabouts,
)
from model.words import EventType

if TYPE_CHECKING:
    from app.broker.management import QueueInfo

By: TypeAlias = Literal["message_id", "correlation_id", "conversation", "text"]
_Place: TypeAlias = tuple[int, str]  # a trace, and a queue's name
KINDS: Sequence[By] = ("message_id", "correlation_id", "conversation", "text")

# Messages whose fate one answer tells.
MOST_MESSAGES = 20
# Queues that the broker is asked about for one message.
MOST_QUEUES = 20
_LARGE = ALL_LARGE - {"payload"}
# Seconds that an answer waits until all is stored that was traced before it was asked.
SETTLE_SECONDS = 3.0


class MessageWhereabouts(msgspec.Struct, frozen=True, kw_only=True):
    """A message that the id stands for."""

    event: Annotated[int, "Its publish; its delivery where the publish is not stored."]
    vhost: str
    word: WhereWord
    sentence: str


class Whereabouts(msgspec.Struct, frozen=True, kw_only=True):
    """The whereabouts of the messages that an id stands for."""

    id: str
    by: Annotated[By | None, "As what messages have it; `null` where none has."]
    word: WhereWord
    sentence: str
    since: Annotated[Microseconds | None, "From when on was looked; `null`: nothing is recorded."]
    until: Annotated[Microseconds | None, "Up to when."]
    messages: Annotated[list[MessageWhereabouts], "At most 20, the newest first."]
    truncated: Annotated[bool, "Whether there are more."]


class _Record(NamedTuple):
    """A trace's record, looked at from one time to another (µs)."""

    trace: TraceRecord
    since: int
    until: int

    @classmethod
    def of(cls, record: TraceRecord, search: Search, settled: Mapping[str, int]) -> _Record:
        """The record up to when all is stored, ``settled``, by virtual host."""
        until = LATEST if search.until is None else search.until
        since = max(search.since or 0, record.begin or record.trace.created_at)
        return cls(record, since, min(until, settled[record.trace.vhost]))


class Search(NamedTuple):
    """A search: an id, the field to look in (None: any), and the period (µs)."""

    id: str
    by: By | None
    vhost: str | None
    since: int | None
    until: int | None


async def locate(search: Search, user: User, parts: ServiceParts) -> tuple[Whereabouts, Certainty]:
    """Locate messages by an id; raises `NotFoundError` and `BadRequestError`."""
    scope = EventFilter(
        vhosts=user.vhosts_to_search(search.vhost),
        vhost=search.vhost,
        since=search.since,
        until=search.until,
    )
    traces = await parts.store.traces.list(scope.visible)
    if not traces:
        raise NotFoundError("nothing is traced here: start a trace first")
    if len(traces) > MOST_TRACES:
        raise BadRequestError(
            f"vhost: more than {MOST_TRACES} virtual hosts are traced, say in which to look"
        )
    asked_at = now()
    settled = await _settle([trace.vhost for trace in traces], asked_at, parts)
    async with parts.searches.turn(user.name):
        by, events = await _events(search, scope, parts)
    if by is None:
        records = [await record_of(trace, search.since, search.until, parts) for trace in traces]
        absence = await _absence(search, [_Record.of(r, search, settled) for r in records], parts)
        return absence, merge([record.certainty for record in records])
    shown = await _messages(events[:MOST_MESSAGES], asked_at, settled, user, parts)
    first = {event.trace_id: event.id for event in events}
    grounds = [await certainty_between(*start, LAST, parts) for start in first.items()]
    word = strongest(message.word for message in shown)
    alike = [message for message in shown if message.word is word]
    sentence = alike[0].sentence
    if len(shown) > 1:
        more = "+" if len(events) > MOST_MESSAGES else ""
        sentence = f"{len(alike)} of {len(shown)}{more} messages; the newest: {sentence}"
    answer = Whereabouts(
        id=search.id,
        by=by,
        word=word,
        sentence=f"{word.replace('_', ' ')}: {sentence}",
        since=min(event.recorded_at for event in events),
        until=Microseconds(max(settled[event.vhost] for event in events)) or None,
        messages=shown,
        truncated=len(events) > MOST_MESSAGES,
    )
    return answer, merge(grounds)


async def _settle(vhosts: Collection[str], moment: int, parts: ServiceParts) -> dict[str, int]:
    """The time up to which everything is stored, by virtual host (µs)."""
    moments = await asyncio.gather(
        *(parts.traces.settle(vhost, moment, SETTLE_SECONDS) for vhost in vhosts)
    )
    return dict(zip(vhosts, moments, strict=True))


async def _events(
    search: Search, scope: EventFilter, parts: ServiceParts
) -> tuple[By | None, Sequence[Event]]:
    """The messages that have an id, newest first, each as an event and the field that has it."""
    for by in KINDS if search.by is None else (search.by,):
        condition: dict[str, Any] = {by: search.id}
        if by == "text":
            condition = {"q": search.id, "in_properties": True}
        for kind in (EventType.published, EventType.received):
            events = await parts.store.events.find(
                replace(scope, type=kind, **condition), limit=MOST_MESSAGES + 1, large=_LARGE
            )
            if events.items:
                return by, events.items
    return None, []


async def _absence(search: Search, records: Sequence[_Record], parts: ServiceParts) -> Whereabouts:
    """The answer where no message has the id: never published, or unknown and why."""
    obstacles = [clause for record in records for clause in await _obstacles(search, record, parts)]
    since, until = max(record.since for record in records), min(record.until for record in records)
    names = join_names([repr(record.trace.trace.vhost) for record in records])
    sought = "anything" if search.by is None else search.by.replace("_", " ")
    absence = f"no message in {names} has {search.id!r} as {sought}"
    if obstacles:
        word, sentence = WhereWord.unknown, f"unknown: {absence}, but {'; '.join(obstacles)}"
    else:
        word = WhereWord.never_published
        span = f"from {said_time(since)} to {said_time(until)}"
        sentence = f"never published: {absence}, and the record is complete {span}"
    return Whereabouts(
        id=search.id,
        by=None,
        word=word,
        sentence=sentence,
        since=Microseconds(since) if since <= until else None,
        until=Microseconds(until) if until else None,
        messages=[],
        truncated=False,
    )


async def _obstacles(search: Search, record: _Record, parts: ServiceParts) -> list[str]:
    """Reasons why a message may have been in a trace and is not in its record, a clause each."""
    trace, period = record.trace.trace, record.trace.period
    vhost, obstacles = trace.vhost, list[str]()
    if not record.until:
        obstacles.append(f"the trace of {vhost!r} does not run, or has stored nothing yet")
    elif search.until is not None and record.until < search.until:
        obstacles.append(f"the record of {vhost!r} goes up to {said_time(record.until)}")
    if count := period.gap_count:
        noun = "gap" if count == 1 else "gaps"
        obstacles.append(f"the record of {vhost!r} has {count} {noun} in that time")
    if search.since is None and trace.pruned:
        begin = said_time(record.since)
        obstacles.append(f"what was before {begin} is removed (since: ask about the time after)")
    elif search.since is not None and record.since > search.since:
        obstacles.append(f"the record of {vhost!r} begins at {said_time(record.since)}")
    if search.by in (None, "text"):
        first, last = period.first, period.last
        is_cut = first is not None and await parts.store.periods.has_cut_bodies(
            trace.id, first, last or first
        )
        if is_cut or not trace.bodies:
            obstacles.append("bodies are not stored whole (by: ask for an id or a key alone)")
    return obstacles


async def _messages(
    events: Sequence[Event],
    asked_at: int,
    settled: Mapping[str, int],
    user: User,
    parts: ServiceParts,
    hops: int = MOST_HOPS,
) -> list[MessageWhereabouts]:
    """The messages' whereabouts, by the broker's word on the queues that they may wait in.

    Asks about each queue once, then waits once until everything traced before is stored: a copy
    that is not handed over by then was still in its queue, or gone from it. One that left by
    a shovel or a federation link is where its message on the other side is.
    """
    publishes = [event for event in events if event.type is EventType.published]
    fates = {event.id: await parts.store.copies.fate_of(event.id, _LARGE) for event in publishes}
    names = _names(fates.values())
    before = {place: await parts.store.copies.count_waiting(*place) for place in names}
    queues = await _queues(names, parts)
    required = dict.fromkeys(settled, asked_at)
    if queues:
        vhosts = {names[place] for place in queues}
        answered_at = now()
        required |= dict.fromkeys(vhosts, answered_at)
        settled = {**settled, **await _settle(vhosts, answered_at, parts)}
        for event_id in [*fates]:
            fates[event_id] = await parts.store.copies.fate_of(event_id, _LARGE)
        for place, view in queues.items():
            if view is not None:
                newest = before[place].newest
                waiting = await parts.store.copies.count_waiting(*place, newest)
                is_still = waiting == (view.messages, before[place].copies, newest)
                queues[place] = view._replace(expected=waiting.older, is_still=is_still)
    shown, is_blind = [], None
    for event in events:
        if event.id not in fates:
            shown.append(_delivery(event))
            continue
        gaps = await parts.store.gaps.between(event.trace_id, event.id, LAST)
        fact = whereabouts(
            fates[event.id].message,
            {name: view for (trace, name), view in queues.items() if trace == event.trace_id},
            wait=asked_at - event.recorded_at,
            is_whole=settled[event.vhost] >= required[event.vhost] and not gaps,
            onward=await _onward(fates[event.id], asked_at, user, parts, hops),
        )
        if fact.word is WhereWord.died and fates[event.id].message.failure is None:
            if is_blind is None:
                is_blind = await _may_move_unseen(parts)
            if is_blind:
                reason = f"{fact.reason}, or moved by a local shovel, which is not traced"
                fact = Fact(WhereWord.unknown, reason)
        shown.append(_publish(event, fates[event.id], fact))
    return shown


async def _may_move_unseen(parts: ServiceParts) -> bool:
    try:
        return await parts.broker.may_move_unseen()
    except OutageError:
        return True


async def _onward(
    fate: Fate, asked_at: int, user: User, parts: ServiceParts, hops: int
) -> dict[int, Fact]:
    """The fates of copies that left by a shovel or a federation link, by their deliveries."""
    copies = fate.message.copies if hops else ()
    left = [d.event for copy in copies for d in copy.deliveries[-1:] if d.mover]
    facts: dict[int, Fact] = {}
    for crossing in await crossings_of(left, user, parts) if left else ():
        sides = [side.event for side in crossing.elsewhere]
        if not crossing.certain:
            facts[crossing.event] = Fact(WhereWord.unknown, crossing.sentence)
            continue
        others = await parts.store.events.get_existing(sides, _LARGE)
        settled = await _settle({other.vhost for other in others}, asked_at, parts)
        for other in await _messages(others, asked_at, settled, user, parts, hops - 1):
            facts[crossing.event] = Fact(other.word, f"in {other.vhost!r}, {other.sentence}")
    return facts


def _delivery(event: Event) -> MessageWhereabouts:
    sentence = (
        f"event {event.id}: handed to {event.participant_name} from {event.queue} at "
        f"{said_time(event.recorded_at)}; its publish is not stored"
    )
    return MessageWhereabouts(
        event=event.id, vhost=event.vhost, word=WhereWord.unknown, sentence=sentence
    )


def _publish(event: Event, fate: Fate, fact: Fact) -> MessageWhereabouts:
    clauses = [
        f"event {event.id}, published {said_time(event.recorded_at)} by {event.participant_name}"
        f" to {event.exchange or '(default)'} ({', '.join(event.routing_keys)})",
        fate.sentence,
        *filter(None, [fact.reason]),
    ]
    return MessageWhereabouts(
        event=event.id, vhost=event.vhost, word=fact.word, sentence="; ".join(clauses)
    )


def _names(fates: Iterable[Fate]) -> dict[_Place, str]:
    """The queues in which a copy may wait, with their virtual hosts."""
    names: dict[_Place, str] = {}
    for fate in fates:
        needed = {name for copy in fate.message.copies if (name := queue_to_ask(copy)) is not None}
        places = ((fate.publish.trace_id, name) for name in sorted(needed)[:MOST_QUEUES])
        names |= dict.fromkeys(places, fate.publish.vhost)
    return names


async def _queues(
    names: Mapping[_Place, str], parts: ServiceParts
) -> dict[_Place, QueueView | None]:
    """The broker's word on queues, without those that have no answer."""
    views: dict[_Place, QueueView | None] = {}
    lengths: dict[str, Mapping[str, int]] = {}
    try:
        for vhost in set(names.values()):
            queues = [name for (_, name), other in names.items() if other == vhost]
            lengths[vhost] = await parts.lengths(vhost, queues)
        for (trace_id, name), vhost in sorted(names.items()):
            try:
                info = await parts.broker.queue(vhost, name)
                views[trace_id, name] = _view(info, lengths[vhost].get(name))
            except NotFoundError:
                views[trace_id, name] = None
    except OutageError:
        pass
    return views


def _view(queue: QueueInfo, length: int | None) -> QueueView:
    expires_after = queue.setting("message-ttl")
    limits = ("max-length", "max-length-bytes", "max-age")
    return QueueView(
        messages=length,
        keeps=queue.keeps_messages,
        has_dead_letters=queue.has_dead_letters,
        is_limited=any(queue.setting(name) is not None for name in limits),
        expires_after=expires_after * 1_000 if isinstance(expires_after, int) else None,
    )
