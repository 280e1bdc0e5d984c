"""Whereabouts of a message: was it ever here, and what became of it, in one word.

An id is looked for as a message id, as a correlation id, as the key of a conversation, and last as
a text anywhere in a message; the first of these that any message has is taken. That it was *never*
published is said only where nothing can hide it: no gap, no quarantine, no selection, no body that
is stored in part, nothing removed, and all stored that was traced until then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, TypeAlias

import msgspec

from app.api.services import ServiceParts
from app.api.signin.auth import User
from app.errors import BadRequestError, NotFoundError, OutageError
from app.stored.causality import Fate
from app.stored.reading import EventFilter, TracePeriod
from model.event import ALL_LARGE, Event
from model.gaps import Gap
from model.sound import Certainty, Soundness, join_names
from model.times import LATEST, Microseconds, now, said_time
from model.where import STATISTICS_AGE, QueueView, WhereWord, strongest, whereabouts
from model.words import EventType

if TYPE_CHECKING:
    from app.broker.management import QueueInfo
    from app.stored.capture import Trace

By: TypeAlias = Literal["message_id", "correlation_id", "conversation", "text"]
KINDS: Sequence[By] = ("message_id", "correlation_id", "conversation", "text")

# Messages whose fate one answer tells, and traces that one looks through.
MOST_MESSAGES = 20
MOST_TRACES = 20
_NEWEST = 2**63 - 1
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
    """A trace's record of the period: from when to when (µs), and what may be missing in it."""

    trace: Trace
    period: TracePeriod
    since: int
    until: int
    is_pruned: bool


class Search(NamedTuple):
    """A search: for which id, as what (None: as anything), and in which period (µs)."""

    id: str
    by: By | None
    vhost: str | None
    since: int | None
    until: int | None


async def locate(search: Search, user: User, parts: ServiceParts) -> tuple[Whereabouts, Certainty]:
    """Locate messages by an id; raises `NotFoundError` and `BadRequestError`."""
    traces = await parts.store.traces.list(user.vhosts_to_search(search.vhost))
    if search.vhost is not None:
        traces = [trace for trace in traces if trace.vhost == search.vhost]
    if not traces:
        raise NotFoundError("nothing is traced here: start a trace first")
    if len(traces) > MOST_TRACES:
        raise BadRequestError(
            f"vhost: more than {MOST_TRACES} virtual hosts are traced, say in which to look"
        )
    asked_at = now()
    settled = await _settle(traces, asked_at, parts)
    async with parts.searches.turn(user.name):
        by, events = await _events(search, user, parts)
    if by is None:
        records = [await _record(trace, search, settled[trace.vhost], parts) for trace in traces]
        spans = [(each.trace.id, each.period.first or 0, each.period.last or 0) for each in records]
        gaps = [gap for each in records for gap in each.period.gaps]
        return await _absence(search, records, parts), await _certainty(gaps, spans, parts)
    shown = [await _message(event, asked_at, parts) for event in events[:MOST_MESSAGES]]
    first = {event.trace_id: event.id for event in events}
    spans = [(trace_id, event_id, _NEWEST) for trace_id, event_id in first.items()]
    gaps = [gap for span in spans for gap in await parts.store.gaps.between(*span)]
    word = strongest(each.word for each in shown)
    alike = [each for each in shown if each.word is word]
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
    return answer, await _certainty(gaps, spans, parts)


async def _settle(traces: Sequence[Trace], at: int, parts: ServiceParts) -> dict[str, int]:
    """Up to when all is stored, by virtual host (µs)."""
    moments = await asyncio.gather(
        *(parts.traces.settle(trace.vhost, at, SETTLE_SECONDS) for trace in traces)
    )
    return {trace.vhost: moment for trace, moment in zip(traces, moments, strict=True)}


async def _events(
    search: Search, user: User, parts: ServiceParts
) -> tuple[By | None, Sequence[Event]]:
    """The messages that have an id, newest first, each as an event, and as what they have it."""
    vhosts = user.vhosts_to_search(search.vhost)
    for by in KINDS if search.by is None else (search.by,):
        condition = {"q": search.id, "in_properties": True} if by == "text" else {by: search.id}
        for kind in (EventType.published, EventType.received):
            wish = EventFilter(
                vhosts=vhosts,
                vhost=search.vhost,
                type=kind,
                since=search.since,
                until=search.until,
                **condition,  # type: ignore[arg-type]  # one of its fields of text
            )
            events = await parts.store.events.find(
                wish, limit=MOST_MESSAGES + 1, large=ALL_LARGE - {"payload"}
            )
            if events.items:
                return by, events.items
    return None, []


async def _record(trace: Trace, search: Search, settled_at: int, parts: ServiceParts) -> _Record:
    status = await parts.traces.status(trace.vhost)
    period = await parts.store.periods.of(trace.id, search.since, search.until)
    is_pruned = status.events < status.counters.published + status.counters.received
    begin = (period.oldest_at if is_pruned else status.created_at) or status.created_at
    since = max(search.since or 0, begin)
    until = min(LATEST if search.until is None else search.until, settled_at)
    return _Record(trace, period, since, until, is_pruned)


async def _certainty(
    gaps: Sequence[Gap], spans: Sequence[tuple[int, int, int]], parts: ServiceParts
) -> Certainty:
    """The certainty of an answer about these spans of traces, from one event to another."""
    grounds = [await parts.store.doubts.between(*span) for span in spans]
    doubts = tuple(dict.fromkeys(doubt for ground in grounds for doubt in ground.doubts))
    return Certainty(gaps, Soundness(doubts, sum(ground.quiet for ground in grounds)))


async def _absence(search: Search, records: Sequence[_Record], parts: ServiceParts) -> Whereabouts:
    """The answer where no message has the id: never published, or unknown and why."""
    obstacles = [each for record in records for each in await _obstacles(search, record, parts)]
    since, until = max(each.since for each in records), min(each.until for each in records)
    names = join_names([repr(record.trace.vhost) for record in records])
    sought = "anything" if search.by is None else search.by.replace("_", " ")
    seen = f"no message in {names} has {search.id!r} as {sought}"
    if obstacles:
        word, sentence = WhereWord.unknown, f"unknown: {seen}, but {'; '.join(obstacles)}"
    else:
        word = WhereWord.never_published
        span = f"from {said_time(since)} to {said_time(until)}"
        sentence = f"never published: {seen}, and the record is complete {span}"
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
    vhost, obstacles = record.trace.vhost, list[str]()
    if not record.until:
        obstacles.append(f"the trace of {vhost!r} does not run, or has stored nothing yet")
    elif search.until is not None and record.until < search.until:
        obstacles.append(f"the record of {vhost!r} goes up to {said_time(record.until)}")
    if count := record.period.gap_count:
        noun = "gap" if count == 1 else "gaps"
        obstacles.append(f"the record of {vhost!r} has {count} {noun} in that time")
    if search.since is None and record.is_pruned:
        begin = said_time(record.since)
        obstacles.append(f"what was before {begin} is removed (since: ask about the time after)")
    elif search.since is not None and record.since > search.since:
        obstacles.append(f"the record of {vhost!r} begins at {said_time(record.since)}")
    if search.by in (None, "text"):
        first, last = record.period.first, record.period.last
        is_cut = first is not None and await parts.store.periods.has_cut_bodies(
            record.trace.id, first, last or first
        )
        if is_cut or not record.trace.bodies:
            obstacles.append("bodies are not stored whole (by: ask for an id or a key alone)")
    return obstacles


async def _message(event: Event, asked_at: int, parts: ServiceParts) -> MessageWhereabouts:
    """What became of a message; asks the broker about queues that it may wait in."""
    publish = f"event {event.id}, published {said_time(event.recorded_at)} by"
    if event.type is EventType.received:
        sentence = (
            f"event {event.id}: handed to {event.participant_name} from {event.queue} at "
            f"{said_time(event.recorded_at)}; its publish is not stored"
        )
        return MessageWhereabouts(
            event=event.id, vhost=event.vhost, word=WhereWord.unknown, sentence=sentence
        )
    fate = await parts.store.copies.fate_of(event.id, ALL_LARGE - {"payload"})
    queues = await _queues(event.vhost, fate, parts)
    settled_at = await parts.traces.settle(event.vhost, now(), SETTLE_SECONDS) if queues else 0
    if queues:
        fate = await parts.store.copies.fate_of(event.id, ALL_LARGE - {"payload"})
    gaps = await parts.store.gaps.between(event.trace_id, event.id, _NEWEST)
    word, reason = whereabouts(
        fate.message,
        queues,
        wait=asked_at - event.recorded_at,
        is_whole=settled_at >= asked_at and not gaps,
    )
    where = f"{event.exchange or '(default)'} ({', '.join(event.routing_keys)})"
    clauses = [f"{publish} {event.participant_name} to {where}", fate.sentence]
    sentence = "; ".join([*clauses, *([reason] if reason else [])])
    return MessageWhereabouts(event=event.id, vhost=event.vhost, word=word, sentence=sentence)


async def _queues(vhost: str, fate: Fate, parts: ServiceParts) -> Mapping[str, QueueView | None]:
    """The broker's word on queues in which a copy may wait; those it does not answer for lack."""
    names = set()
    for copy in fate.message.copies:
        if not copy.deliveries:
            names.update([copy.queue] if copy.state == "waiting" else [])
        elif (last := copy.deliveries[-1]).settlement is not None:
            names.add(last.queue or copy.queue)
    views: dict[str, QueueView | None] = {}
    for name in sorted(names)[:MOST_MESSAGES]:
        try:
            queue = await parts.broker.queue(vhost, name)
            expected = parts.traces.here.count_waiting(vhost, name, now() - STATISTICS_AGE)
            views[name] = _view(queue)._replace(expected=expected)
        except NotFoundError:
            views[name] = None
        except OutageError:
            break
    return views


def _view(queue: QueueInfo) -> QueueView:
    policy, arguments = queue.policy_definition, queue.arguments

    def setting(name: str) -> object:
        return arguments.get(f"x-{name}", policy.get(name))

    expires_after = setting("message-ttl")
    limits = ("max-length", "max-length-bytes", "max-age")
    return QueueView(
        messages=queue.messages_ready,
        keeps=queue.type in ("classic", "quorum", "stream"),
        has_dead_letters=setting("dead-letter-exchange") is not None,
        is_limited=any(setting(name) is not None for name in limits),
        expires_after=expires_after * 1_000 if isinstance(expires_after, int) else None,
    )
