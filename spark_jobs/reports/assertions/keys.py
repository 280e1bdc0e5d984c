"""The key that messages share whose order is asserted, as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from model.texts import storable
from spark_jobs.reports.message_fields import bytes_in
from spark_jobs.reports.report_request import Json

HEADER, FIELD = "header.", "body."


def columns_of(key: str | None) -> tuple[str, ...]:
    """The columns that a key is read from."""
    if key is None:
        return ()
    if key == "routing_key":
        return ("routing_keys",)
    return ("payload",) if key.startswith(FIELD) else ("properties",)


def key_of(event: Mapping[str, Any], key: str) -> str | None:
    """The text of an event's message under a key; None for nothing or for a list or table.

    A byte array of an AMQP table is the text that it spells.
    """
    if key == "routing_key":
        keys = json.loads(event["routing_keys"])
        return keys[0] if keys else None
    table: Any = _table_of(event["payload"] if key.startswith(FIELD) else event["properties"])
    if key.startswith(HEADER):
        table = table.get("headers")
    name = key.removeprefix(FIELD).removeprefix(HEADER)
    value = table.get(name) if isinstance(table, dict) else None
    if not key.startswith(FIELD) and (octets := bytes_in(value)) is not None:
        value = octets
    if value is None or isinstance(value, (dict, list)) or value in ("", b""):
        return None
    return storable(value) if isinstance(value, (str, bytes)) else json.dumps(value)


def _table_of(text: str | bytes | None) -> Json:
    try:
        value = json.loads(text or b"null")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
