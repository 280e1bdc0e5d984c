"""An event in exports: the fields of `model.event.EVENT_FIELDS`, and its causes beside a message.

`event_fields` turns a batch of the store's columns into one list per field; the writers of text
formats take each value's JSON from `json_texts`. The API makes the same fields from one event at a
time; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from json import dumps
from json.encoder import encode_basestring
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from itc import packed_text
from model.event import EVENT_FIELDS, Kind
from model.payloads import payload_text
from model.times import iso_time
from spark_jobs.events.causes import causes_in

Columns = dict[str, list[Any]]

TEXTS = "payload and how it is shown"  # made once for both fields


class ExportedField(NamedTuple):
    """A field of an export's events."""

    name: str
    kind: Kind | Literal["links"]
    label: str


EXPORTED: dict[str, ExportedField] = {
    **{
        field.name: ExportedField(field.name, field.kind, field.display.label)
        for field in EVENT_FIELDS.values()
    },
    "links": ExportedField("links", "links", "Links"),
}
"""The fields of an export's events, by name and in their order."""

JSON_TEXT: dict[Kind | Literal["links"], Callable[[Any], str]] = {
    "number": str,
    "text": encode_basestring,
    "flag": lambda value: "true" if value else "false",
    "word": encode_basestring,
    "words": str,  # stored as JSON
    "table": str,
    "links": str,
    "time": lambda value: f'"{iso_time(value)}"',
}


def stamps(intervals: Sequence[str], clocks: Sequence[bytes]) -> list[str]:
    """Stamps in the paper's notation."""
    return [packed_text(clock, interval) for interval, clock in zip(intervals, clocks, strict=True)]


def _texts(columns: Columns) -> Iterator[tuple[str | None, str]]:
    rows = zip(columns["payload"], columns["payload_stored"], columns["payload_cut"], strict=True)
    for payload, stored, cut in rows:
        yield payload_text(None if stored < 0 else payload, cut)


# Fields that are not simply a column: the columns that they are made of, and how.
DERIVED: dict[str, tuple[tuple[str, ...], Callable[[Columns], list[Any]]]] = {
    "settled_by": (
        ("settled_at", "participant"),
        lambda columns: [
            None if settled_at is None else participant
            for settled_at, participant in zip(
                columns["settled_at"], columns["participant"], strict=True
            )
        ],
    ),
    "cause": (("cause_id",), lambda columns: columns["cause_id"]),
    "payload": (
        ("payload", "payload_stored", "payload_cut"),
        lambda columns: [text for text, _ in columns[TEXTS]],
    ),
    "payload_encoding": (
        ("payload", "payload_stored", "payload_cut"),
        lambda columns: [encoding for _, encoding in columns[TEXTS]],
    ),
    "payload_truncated": (("payload_cut",), lambda columns: columns["payload_cut"]),
    "stamp": (
        ("interval", "clock"),
        lambda columns: stamps(columns["interval"], columns["clock"]),
    ),
    "links": (("links",), lambda columns: [_links(text) for text in columns["links"]]),
}


def _columns(names: Iterable[str]) -> tuple[str, ...]:
    """The columns that fields are made of."""
    columns = (DERIVED[name][0] if name in DERIVED else (name,) for name in names)
    return tuple(dict.fromkeys(chain.from_iterable(columns)))


EVENT_COLUMNS = _columns(EXPORTED)
"""The columns that `event_fields` needs."""


def event_fields(batch: pa.RecordBatch, names: Iterable[str] = EXPORTED) -> Columns:
    """One list per named field, None if an event has no value; times in µs, JSON as text."""
    fields = tuple(names)
    columns: Columns = batch.select(_columns(fields)).to_pydict()
    if "payload" in columns:
        columns[TEXTS] = list(_texts(columns))
    return {name: _values(name, columns) for name in fields}


def _values(name: str, columns: Columns) -> list[Any]:
    if name in DERIVED:
        return DERIVED[name][1](columns)
    field, values = EVENT_FIELDS[name], columns[name]
    if field.kind != "word":
        return values
    words = {value: value if value is None else field.type(value).name for value in set(values)}
    return [words[value] for value in values]


def _links(text: str | None) -> str:
    return compact([cause.to_json() for cause in causes_in(text)]) if text else "[]"


def json_texts(name: str, values: Sequence[Any]) -> list[str]:
    """A field's values as JSON."""
    encode = JSON_TEXT[EXPORTED[name].kind]
    return ["null" if value is None else encode(value) for value in values]


def compact(value: object) -> str:
    """A small value as JSON on one line."""
    return dumps(value, ensure_ascii=False, separators=(",", ":"))
