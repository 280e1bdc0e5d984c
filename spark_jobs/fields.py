"""An event as exports show it: the fields of the API's event object, under the same names.

`event_fields` turns a batch of the store's columns into one list a field; the writers of text
forms take each value's JSON from `json_texts`, so that an export's line and the API's answer say
the same.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from json import dumps
from json.encoder import encode_basestring
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from itc import packed_text
from spark_jobs.columns import MATCHES, TYPES

Kind: TypeAlias = Literal["number", "text", "flag", "json", "time"]

# The API's event object, in its order: what each field is made of.
FIELDS: dict[str, Kind] = {
    "id": "number",
    "vhost": "text",
    "type": "text",
    "match": "text",
    "cause": "number",
    "participant": "number",
    "seq": "number",
    "lamport": "number",
    "recorded_at": "time",
    "exchange": "text",
    "queue": "text",
    "routing_keys": "json",
    "routed_queues": "json",
    "redelivered": "flag",
    "node": "text",
    "connection": "text",
    "channel": "number",
    "user": "text",
    "properties": "json",
    "payload": "text",
    "payload_encoding": "text",
    "payload_bytes": "number",
    "payload_truncated": "flag",
    "stamp": "text",
}

# What has to be read for them; the other fields are columns under their own names.
EVENT_COLUMNS = (
    *(
        name
        for name in FIELDS
        if name not in ("cause", "payload_encoding", "payload_truncated") and name != "stamp"
    ),
    "cause_id",
    "payload_stored",
    "payload_cut",
    "interval",
    "clock",
)

JSON_TEXT: dict[Kind, Callable[[Any], str]] = {
    "number": str,
    "text": encode_basestring,
    "flag": lambda value: "true" if value else "false",
    "json": str,  # stored as JSON
    "time": lambda value: f'"{iso_time(value)}"',
}


def event_fields(batch: pa.RecordBatch) -> dict[str, list[Any]]:
    """One list a field, None where an event has none; times in microseconds, JSON as text."""
    columns = batch.to_pydict()
    payloads, encodings = _payloads(columns)
    made = {
        "type": [TYPES[number] for number in columns["type"]],
        "match": [MATCHES[number] for number in columns["match"]],
        "cause": columns["cause_id"],
        "payload": payloads,
        "payload_encoding": encodings,
        "payload_truncated": columns["payload_cut"],
        "stamp": stamps(columns["interval"], columns["clock"]),
    }
    return {name: made[name] if name in made else columns[name] for name in FIELDS}


def json_texts(name: str, values: Sequence[Any]) -> list[str]:
    """A field's values as JSON."""
    encode = JSON_TEXT[FIELDS[name]]
    return ["null" if value is None else encode(value) for value in values]


def stamps(intervals: Sequence[str], clocks: Sequence[bytes]) -> list[str]:
    """Stamps in the paper's notation."""
    return [packed_text(clock, own) for own, clock in zip(intervals, clocks, strict=True)]


def _payloads(columns: dict[str, list[Any]]) -> tuple[list[str | None], list[str]]:
    decoded = [
        (None, "string") if stored < 0 else payload_text(payload)
        for payload, stored in zip(columns["payload"], columns["payload_stored"], strict=True)
    ]
    return [text for text, _ in decoded], [encoding for _, encoding in decoded]


def payload_text(payload: bytes) -> tuple[str, str]:
    """A payload as text, and how: "string" where it is UTF-8, else "base64"."""
    try:
        return payload.decode(), "string"
    except UnicodeDecodeError:
        return base64.b64encode(payload).decode(), "base64"


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def iso_time(microseconds: int) -> str:
    """ISO 8601, UTC, microseconds."""
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{_second(seconds)}.{rest:06d}Z"


def compact(value: object) -> str:
    """A small value as JSON on one line."""
    return dumps(value, ensure_ascii=False, separators=(",", ":"))
