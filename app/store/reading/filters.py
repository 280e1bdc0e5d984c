"""An event filter as conditions in SQL."""

from __future__ import annotations

import codecs
import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    LargeBinary,
    TableValuedAlias,
    and_,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
    true,
)

from app.store.capture.keys import IndexStart
from app.store.database import regex, tables
from app.store.database.engine import Dialect
from app.store.database.searched import run_in_sql, searched_keys
from app.store.reading.times import within
from app.stored.reading import CONVERSATION, HEADER, EventFilter
from app.tracker.fingerprint import BYTES
from app.tracker.links.rules import search_key
from model.bodies import MOST_BYTES, may_be_escaped

_channels = tables.channels.c
_events = tables.events.c
_who = tables.participants.c

GREATEST_NUMBER = 2**31 - 1

# The mark that a body may begin with, or which of its first bytes is 0 if it begins in ASCII.
_UTF_16 = ((codecs.BOM_UTF16_LE, 2, "utf-16-le"), (codecs.BOM_UTF16_BE, 1, "utf-16-be"))

# The first byte of gzip, and of deflate with its usual window.
_MAY_BE_COMPRESSED = and_(
    func.substr(_events.payload, 1, 1, type_=LargeBinary).in_([b"\x1f", b"\x78"]),
    func.length(_events.payload) <= MOST_BYTES,
)

# Made once: to make it takes as long as the rest of a look-up's conditions.
_held = searched_keys.alias("held_keys")


# Conditions on an event, by the field of the filter.
_OF_EVENT: Mapping[str, Callable[[Any], ColumnElement[bool]]] = {
    "type": lambda value: _events.type == int(value),
    "match": lambda value: _events.match == int(value),
    # As a constant, for the index of what is in hand.
    "settlement": lambda value: _events.settlement == literal_column(str(int(value))),
    "redelivered": _events.redelivered.is_,
    "participant": lambda value: _events.participant == within(value, GREATEST_NUMBER),
    "since": lambda value: _events.recorded_at >= within(value),
    "until": lambda value: _events.recorded_at < within(value),
}
# Names that are asked for, or regular expressions: of the event, its channel, its participant.
_NAMES = {"exchange": _events.exchange, "queue": _events.queue}
_OF_CHANNEL = {"connection": _channels.connection, "user": _channels.user}
_OF_PARTICIPANT = {"participant_name": _who.name}


def conditions(asked: EventFilter, dialect: Dialect) -> list[ColumnElement[bool]]:
    """The conditions on `events`, except virtual hosts and the bounds that follow from times.

    Raises `BadRequestError` for an invalid regular expression.
    """
    values = {name: getattr(asked, name) for name in _OF_EVENT}
    met = [_OF_EVENT[name](value) for name, value in values.items() if value is not None]
    met += _named(asked, _NAMES)
    of_channel = _named(asked, _OF_CHANNEL)
    if asked.channel is not None:
        of_channel.append(_channels.channel == within(asked.channel, GREATEST_NUMBER))
    if of_channel:
        met.append(exists().where(tables.CHANNEL_OF_EVENT, *of_channel))
    if of_participant := _named(asked, _OF_PARTICIPANT):
        met.append(exists().where(tables.PARTICIPANT_OF_EVENT, *of_participant))
    if asked.routing_key is not None:
        keys = dialect.elements(_events.routing_keys)
        met.append(_any(keys, _is(keys.c.value, asked.routing_key, asked.use_regex)))
    if asked.q:
        escapes = may_be_escaped(asked.q)
        read = dialect.searchable(_events.payload, encoding_of(dialect), escapes)
        found = true() if read is None else _spelt(read, asked.q, dialect)
        odd = [dialect.contains(_events.payload, b"\\")] if escapes else []
        met.append(
            or_(in_plain(asked, asked.q, dialect), and_(or_(_MAY_BE_COMPRESSED, *odd), found))
        )
    return met


def _named(
    asked: EventFilter, columns: Mapping[str, ColumnElement[str]]
) -> list[ColumnElement[bool]]:
    names = {name: getattr(asked, name) for name in columns}
    return [
        _is(columns[name], value, asked.use_regex)
        for name, value in names.items()
        if value is not None
    ]


class Lookup(msgspec.Struct, frozen=True):
    """A value that the index has the events of.

    ``first`` is the first event that can be in it; of those before, the ones are meant that
    ``otherwise`` holds for, if it is not None. ``by_publish``: a delivery may be in the index
    through its publish alone (`app.store.capture.rows.key_rows`).
    """

    key: bytes
    first: int
    otherwise: ColumnElement[bool] | None
    by_publish: bool = False


def lookups(
    asked: EventFilter, dialect: Dialect, indexed: Mapping[str, IndexStart]
) -> tuple[list[Lookup], list[ColumnElement[bool]]]:
    """A filter's conditions on messages' own names: by the index, and by the events themselves.

    ``indexed`` says of fields from which event on they are in the index, and whose events.
    """
    by_index, by_event = [], []
    for field, value in asked.named:
        key = search_key(field, value)
        if field == CONVERSATION:  # rules say where a message has it: only the index knows
            by_index.append(Lookup(key, 0, None))
        elif field in indexed:
            first, by_publish = indexed[field]
            otherwise = _property(field, value, dialect) if first else None
            by_index.append(Lookup(key, first, otherwise, by_publish))
        else:
            by_event.append(_property(field, value, dialect))
    return by_index, by_event


def has_key(lookup: Lookup) -> ColumnElement[bool]:
    indexed = has_row(lookup, _events.id)
    if lookup.by_publish:
        by_publish = and_(is_as_published(), has_row(lookup, _events.cause_id))
        indexed = or_(indexed, by_publish)
    if lookup.otherwise is None:
        return indexed
    before = _events.id < lookup.first
    return or_(and_(~before, indexed), and_(before, lookup.otherwise))


def is_as_published() -> ColumnElement[bool]:
    """Tell whether a delivery says what its publish has said.

    What comes out of a stream may not, is read by itself, and has a mark of two halves.
    """
    return func.length(_events.fingerprint) == BYTES


def has_row(lookup: Lookup, event_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Tell whether the index has a value under this id, of an event's trace."""
    its = _held.c
    return exists().where(
        its.trace_id == _events.trace_id,
        its.run == run_in_sql(event_id),
        its.event_id == event_id,
        its.key == lookup.key,
    )


def _property(field: str, value: str, dialect: Dialect) -> ColumnElement[bool]:
    name = field.removeprefix(HEADER)
    path = (name,) if name == field else ("headers", name)
    return dialect.property_text(_events.properties, *path) == value


def in_plain(asked: EventFilter, part: str, dialect: Dialect) -> ColumnElement[bool]:
    """Match events with a text in their names, in a body as it is or, if asked for, properties."""
    keys = dialect.elements(_events.routing_keys)
    return or_(
        dialect.contains(_events.exchange, part),
        dialect.contains(_events.queue, part),
        _any(keys, dialect.contains(keys.c.value, part)),
        *_in_body(part, dialect),
        *([dialect.contains(_events.properties, _in_json(part))] if asked.in_properties else ()),
    )


def _in_json(part: str) -> str:
    """A text as it stands within a string of the properties' JSON."""
    return msgspec.json.encode(part).decode()[1:-1]


def encoding_of(dialect: Dialect) -> ColumnElement[str | None]:
    return dialect.property_text(_events.properties, "content_encoding")


def spellings(part: str) -> list[bytes]:
    """A text in UTF-8 and, if it can be, in Latin-1."""
    found = {part.encode(errors="surrogatepass")}
    with contextlib.suppress(UnicodeEncodeError):
        found.add(part.encode("latin-1"))
    return sorted(found)


def _spelt(body: ColumnElement[bytes | None], part: str, dialect: Dialect) -> ColumnElement[bool]:
    return or_(*(dialect.contains(body, each) for each in spellings(part)))


def _in_body(part: str, dialect: Dialect) -> Iterator[ColumnElement[bool]]:
    """In UTF-8, Latin-1 or, where the body's first two bytes say so, UTF-16."""
    payload = _events.payload
    yield _spelt(payload, part, dialect)
    for mark, nul_at, charset in _UTF_16:
        spelt = part.encode(charset, "surrogatepass")
        nul = func.substr(payload, nul_at, 1, type_=LargeBinary) == literal(b"\0", LargeBinary)
        marked = func.substr(payload, 1, 2, type_=LargeBinary) == literal(mark, LargeBinary)
        yield and_(or_(marked, nul), dialect.contains(payload, spelt))


def _is(column: ColumnElement[str], name: str, use_regex: bool) -> ColumnElement[bool]:
    return column.regexp_match(regex.check(name)) if use_regex else column == name


def _any(table: TableValuedAlias, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return select(1).select_from(table).where(condition).correlate(tables.events).exists()
