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
    Text,
    and_,
    cast,
    exists,
    func,
    literal,
    literal_column,
    or_,
    select,
)

from app.store.capture.keys import IndexStart
from app.store.database import regex, tables
from app.store.database.engine import Dialect
from app.store.database.searched import run_in_sql, searched_keys
from app.store.database.times import clamp
from app.stored.reading import CONVERSATION, HEADER, EventFilter
from app.tracker.fingerprint import BYTES
from app.tracker.links.rules import search_key
from model.bodies import MOST_BYTES, may_be_escaped

_channels = tables.channels.c
_events = tables.events.c
_participants = tables.participants.c

GREATEST_NUMBER = 2**31 - 1

# The byte order mark of a body, or which of its first bytes is 0 if it begins in ASCII.
_UTF_16 = ((codecs.BOM_UTF16_LE, 2, "utf-16-le"), (codecs.BOM_UTF16_BE, 1, "utf-16-be"))

# The first byte of gzip, and of deflate with its usual window.
_MAY_BE_COMPRESSED = and_(
    func.substr(_events.payload, 1, 1, type_=LargeBinary).in_([b"\x1f", b"\x78"]),
    func.length(_events.payload) <= MOST_BYTES,
)

# Made once: to make it takes as long as the rest of a look-up's conditions.
_index = searched_keys.alias("held_keys").c

# Conditions on an event, by the field of the filter.
_OF_EVENT: Mapping[str, Callable[[Any], ColumnElement[bool]]] = {
    "type": lambda value: _events.type == int(value),
    "match": lambda value: _events.match == int(value),
    # As a constant, for the index of deliveries in hand.
    "settlement": lambda value: _events.settlement == literal_column(str(int(value))),
    "redelivered": _events.redelivered.is_,
    "participant": lambda value: _events.participant == clamp(value, GREATEST_NUMBER),
    "since": lambda value: _events.recorded_at >= clamp(value),
    "until": lambda value: _events.recorded_at < clamp(value),
}
# Names or regular expressions: of the event, its channel, its participant.
_NAMES = {"exchange": _events.exchange, "queue": _events.queue}
_OF_CHANNEL = {"connection": _channels.connection, "user": _channels.user}


def conditions(criteria: EventFilter, dialect: Dialect) -> list[ColumnElement[bool]]:
    """The conditions on `events`, except virtual hosts and the bounds that follow from times.

    Raises `BadRequestError` for an invalid regular expression.
    """
    values = {name: getattr(criteria, name) for name in _OF_EVENT}
    clauses = [_OF_EVENT[name](value) for name, value in values.items() if value is not None]
    clauses += _name_conditions(criteria, _NAMES)
    of_channel = _name_conditions(criteria, _OF_CHANNEL)
    if criteria.channel is not None:
        of_channel.append(_channels.channel == clamp(criteria.channel, GREATEST_NUMBER))
    if of_channel:
        clauses.append(exists().where(tables.CHANNEL_OF_EVENT, *of_channel))
    if (name := criteria.participant_name) is not None:
        is_called = _matches(_participants.name, name, criteria.use_regex)
        service = func.coalesce(_participants.client, _participants.user)
        clauses.append(exists().where(tables.PARTICIPANT_OF_EVENT, or_(is_called, service == name)))
    if criteria.routing_key is not None:
        keys = dialect.elements(_events.routing_keys)
        clauses.append(
            _has_element(keys, _matches(keys.c.value, criteria.routing_key, criteria.use_regex))
        )
    if criteria.q:
        clauses.append(or_(in_plain(criteria, dialect), *_in_odd(criteria, criteria.q, dialect)))
    return clauses


def _name_conditions(
    criteria: EventFilter, columns: Mapping[str, ColumnElement[str]]
) -> list[ColumnElement[bool]]:
    names = {name: getattr(criteria, name) for name in columns}
    return [
        _matches(columns[name], value, criteria.use_regex)
        for name, value in names.items()
        if value is not None
    ]


class Lookup(msgspec.Struct, frozen=True):
    """A value that the index has the events of.

    ``first`` is the first event that can be in it. Events before ``first`` match by ``fallback``
    instead, if it is not None. ``by_publish``: a delivery may be in the index through its publish
    alone (`app.store.capture._rows.key_rows`).
    """

    key: bytes
    first: int
    fallback: ColumnElement[bool] | None
    by_publish: bool = False


def lookups(
    criteria: EventFilter, dialect: Dialect, indexed: Mapping[str, IndexStart]
) -> tuple[list[Lookup], list[ColumnElement[bool]]]:
    """A filter's conditions on messages' own names: by the index, and by the events themselves."""
    by_index, by_event = [], []
    for field, value in criteria.message_names:
        key = search_key(field, value)
        if field == CONVERSATION:  # rules say where a message has it: only the index knows
            by_index.append(Lookup(key, 0, None))
        elif field in indexed:
            first, by_publish = indexed[field]
            fallback = _property(field, value, dialect) if first else None
            by_index.append(Lookup(key, first, fallback, by_publish))
        else:
            by_event.append(_property(field, value, dialect))
    return by_index, by_event


def has_key(lookup: Lookup) -> ColumnElement[bool]:
    indexed = has_row(lookup, _events.id)
    if lookup.by_publish:
        by_publish = and_(is_as_published(), has_row(lookup, _events.cause_id))
        indexed = or_(indexed, by_publish)
    if lookup.fallback is None:
        return indexed
    is_older = _events.id < lookup.first
    return or_(and_(~is_older, indexed), and_(is_older, lookup.fallback))


def is_as_published() -> ColumnElement[bool]:
    """The condition that a delivery has the properties of its publish.

    A delivery from a stream may not: it is read by itself, and has a fingerprint of two halves.
    """
    return func.length(_events.fingerprint) == BYTES


def has_row(lookup: Lookup, event_id: ColumnElement[int]) -> ColumnElement[bool]:
    """The condition that the index has a value under this id, of an event's trace."""
    return exists().where(
        _index.trace_id == _events.trace_id,
        _index.run == run_in_sql(event_id),
        _index.event_id == event_id,
        _index.key == lookup.key,
    )


def _property(field: str, value: str, dialect: Dialect) -> ColumnElement[bool]:
    name = field.removeprefix(HEADER)
    path = (name,) if name == field else ("headers", name)
    return dialect.property_text(_events.properties, *path) == value


def in_plain(criteria: EventFilter, dialect: Dialect) -> ColumnElement[bool]:
    """The condition that ``q`` is in an event's names, plain body or, if asked, properties."""
    part = criteria.q or ""
    keys = dialect.elements(_events.routing_keys)
    return or_(
        dialect.contains(_events.exchange, part),
        dialect.contains(_events.queue, part),
        _has_element(keys, dialect.contains(keys.c.value, part)),
        *_in_body(part, dialect),
        *([dialect.contains(_events.properties, _in_json(part))] if criteria.in_properties else ()),
    )


def _in_odd(criteria: EventFilter, part: str, dialect: Dialect) -> Iterator[ColumnElement[bool]]:
    """Conditions that a text is in what is compressed or has escapes, or may be."""
    escapes = may_be_escaped(part)
    whole: ColumnElement[Any] = cast(_events.properties, LargeBinary)
    odd = [dialect.contains(_events.payload, b"\\")] if escapes else []
    read = dialect.searchable(_events.payload, content_encoding(dialect), escapes)
    yield and_(or_(_MAY_BE_COMPRESSED, *odd), *_read(read, part, dialect))
    if escapes and criteria.in_properties:
        read = dialect.searchable(whole, literal(None, Text), True)
        yield and_(
            dialect.contains(_events.properties, _in_json("\\")), *_read(read, part, dialect)
        )


def _read(
    text: ColumnElement[bytes | None] | None, part: str, dialect: Dialect
) -> Iterator[ColumnElement[bool]]:
    """The condition that it has a part, if the database can read it."""
    if text is not None:
        yield _spelt(text, part, dialect)


def _in_json(part: str) -> str:
    """A text as it stands within a string of the properties' JSON."""
    return msgspec.json.encode(part).decode()[1:-1]


def content_encoding(dialect: Dialect) -> ColumnElement[str | None]:
    return dialect.property_text(_events.properties, "content_encoding")


def spellings(part: str) -> list[bytes]:
    """A text in UTF-8 and, if it can be, in Latin-1."""
    encoded = {part.encode(errors="surrogatepass")}
    with contextlib.suppress(UnicodeEncodeError):
        encoded.add(part.encode("latin-1"))
    return sorted(encoded)


def _spelt(body: ColumnElement[bytes | None], part: str, dialect: Dialect) -> ColumnElement[bool]:
    return or_(*(dialect.contains(body, spelling) for spelling in spellings(part)))


def _in_body(part: str, dialect: Dialect) -> Iterator[ColumnElement[bool]]:
    """In UTF-8, Latin-1 or, where the body's first two bytes say so, UTF-16."""
    payload = _events.payload
    yield _spelt(payload, part, dialect)
    for bom, nul_index, charset in _UTF_16:
        encoded = part.encode(charset, "surrogatepass")
        nul = func.substr(payload, nul_index, 1, type_=LargeBinary) == literal(b"\0", LargeBinary)
        has_bom = func.substr(payload, 1, 2, type_=LargeBinary) == literal(bom, LargeBinary)
        yield and_(or_(has_bom, nul), dialect.contains(payload, encoded))


def _matches(column: ColumnElement[str], name: str, use_regex: bool) -> ColumnElement[bool]:
    return column.regexp_match(regex.check(name)) if use_regex else column == name


def _has_element(table: TableValuedAlias, condition: ColumnElement[bool]) -> ColumnElement[bool]:
    return select(1).select_from(table).where(condition).correlate(tables.events).exists()
