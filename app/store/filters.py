"""Which events are asked for, and the conditions that say so in SQL."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import ColumnElement, TableValuedAlias, and_, exists, or_, select

from app.store import regex
from app.store.engine import Dialect
from app.store.events import MAX_ID
from app.store.tables import channels, events
from app.stored.filters import EventFilter

GREATEST_NUMBER = 2**31 - 1


def conditions(wanted: EventFilter, dialect: Dialect) -> list[ColumnElement[bool]]:
    """The conditions on `events`, but for virtual hosts and for the bounds that times give.

    Raises `BadRequestError` for a regular expression that is none.
    """
    return [
        *_plain(wanted),
        *_names(wanted),
        *_channel(wanted),
        *_routing_key(wanted, dialect),
        *_anywhere(wanted, dialect),
    ]


def _plain(wanted: EventFilter) -> Iterator[ColumnElement[bool]]:
    if wanted.type is not None:
        yield events.c.type == int(wanted.type)
    if wanted.match is not None:
        yield events.c.match == int(wanted.match)
    if wanted.redelivered is not None:
        yield events.c.redelivered.is_(wanted.redelivered)
    if wanted.participant is not None:
        yield events.c.participant == within(wanted.participant, GREATEST_NUMBER)
    if wanted.since is not None:
        yield events.c.recorded_at >= within(wanted.since)
    if wanted.until is not None:
        yield events.c.recorded_at < within(wanted.until)


def _names(wanted: EventFilter) -> Iterator[ColumnElement[bool]]:
    if wanted.exchange is not None:
        yield _is(events.c.exchange, wanted.exchange, wanted.use_regex)
    if wanted.queue is not None:
        yield _is(events.c.queue, wanted.queue, wanted.use_regex)


def _channel(wanted: EventFilter) -> Iterator[ColumnElement[bool]]:
    asked = []
    if wanted.connection is not None:
        asked.append(_is(channels.c.connection, wanted.connection, wanted.use_regex))
    if wanted.user is not None:
        asked.append(_is(channels.c.user, wanted.user, wanted.use_regex))
    if wanted.channel is not None:
        asked.append(channels.c.channel == within(wanted.channel, GREATEST_NUMBER))
    if asked:
        its_own = and_(
            channels.c.trace_id == events.c.trace_id, channels.c.number == events.c.channel
        )
        yield exists().where(its_own, *asked)


def _routing_key(wanted: EventFilter, dialect: Dialect) -> Iterator[ColumnElement[bool]]:
    if wanted.routing_key is not None:
        keys = dialect.elements(events.c.routing_keys)
        yield _any(keys, _is(keys.c.value, wanted.routing_key, wanted.use_regex))


def _anywhere(wanted: EventFilter, dialect: Dialect) -> Iterator[ColumnElement[bool]]:
    part = wanted.q
    if part:
        keys = dialect.elements(events.c.routing_keys)
        yield or_(
            dialect.contains_text(events.c.exchange, part),
            dialect.contains_text(events.c.queue, part),
            _any(keys, dialect.contains_text(keys.c.value, part)),
            dialect.contains_bytes(events.c.payload, part.encode()),
        )


def _is(column: ColumnElement[str], name: str, use_regex: bool) -> ColumnElement[bool]:
    return column.regexp_match(regex.check(name)) if use_regex else column == name


def _any(table: TableValuedAlias, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return select(1).select_from(table).where(condition).correlate(events).exists()


def within(number: int, greatest: int = MAX_ID) -> int:
    """The nearest number that a column takes; none of the database's own is as great or as small.

    A driver refuses what its type cannot hold, and a caller may ask for anything.
    """
    return max(-1, min(number, greatest))
