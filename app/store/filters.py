"""Which events are asked for, and the conditions that say so in SQL."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from sqlalchemy import ColumnElement, TableValuedAlias, and_, exists, or_, select

from app.store import regex
from app.store.engine import Dialect
from app.store.events import MAX_ID
from app.store.tables import channels, events
from model.words import EventType, Match

GREATEST_NUMBER = 2**31 - 1


class EventFilter(msgspec.Struct, frozen=True, kw_only=True):
    """All that an event must be; what is None asks for nothing.

    ``vhosts`` are those that the asker may see. ``channel`` is the AMQP channel's number,
    ``participant`` the number within its trace. Times in µs: from ``since`` on, before ``until``.
    ``routing_key`` asks for one of the event's keys, ``q`` for a part of the exchange's or the
    queue's name, of a routing key or of the stored payload. With ``use_regex`` exchange, queue,
    connection, user and routing_key are regular expressions (RE2's), found anywhere in the name.
    """

    vhosts: frozenset[str] | None = None
    vhost: str | None = None
    type: EventType | None = None
    match: Match | None = None
    exchange: str | None = None
    queue: str | None = None
    connection: str | None = None
    channel: int | None = None
    user: str | None = None
    routing_key: str | None = None
    participant: int | None = None
    redelivered: bool | None = None
    since: int | None = None
    until: int | None = None
    q: str | None = None
    use_regex: bool = False

    @property
    def names_traces_alone(self) -> bool:
        """Whether every event of the virtual hosts it names is asked for."""
        return self == EventFilter(vhosts=self.vhosts, vhost=self.vhost, use_regex=self.use_regex)

    @property
    def visible(self) -> frozenset[str] | None:
        """The virtual hosts that it leaves; None for all."""
        if self.vhost is None:
            return self.vhosts
        only = frozenset({self.vhost})
        return only if self.vhosts is None else only & self.vhosts


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
