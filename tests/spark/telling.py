"""Conversations of a history, as executors are given them, without Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from model.words import EdgeKind, Via
from spark_jobs.reports.conversations import COLUMNS, ConversationRows, conversation_of_rows
from tests.spark.histories import History


def tell(
    history: History,
    via: Via = Via.links,
    ids: Sequence[int] = (),
    names: Mapping[int, str] | None = None,
) -> ConversationRows:
    """The events, all unless some are named, as one conversation; the first is its root.

    ``names`` are of participants.
    """
    wanted = ids or [row["id"] for row in history.rows]
    rows = {each: _row(history, each, names or {}) for each in wanted}
    return conversation_of_rows(wanted[0], rows, via)


def _row(history: History, event: int, names: Mapping[int, str]) -> dict[str, Any]:
    row = history.rows[event - 1]
    named = [
        [link.cause, link.rule, int(link.kind), None, None, None, None]
        for link in history.links.get(event, ())
        if link.kind is not EdgeKind.candidate
    ]
    return {
        **{name: row.get(name) for name in COLUMNS},
        "participant_name": names.get(row["participant"], f"user{row['participant']}"),
        "links": json.dumps(named) if named else None,
        "conversations": ",".join(history.shared[event]) or None,
        "payload_bytes": row["payload_bytes"],
    }


def headers(**values: object) -> str:
    """Properties with these headers, as they are stored."""
    return json.dumps({"headers": values})
