"""An event's causes beside its message, as the column ``links`` holds them: JSON, or nothing."""

from __future__ import annotations

import json
from typing import NamedTuple, TypeAlias

from model.words import BY_BROKER, EdgeKind

Row: TypeAlias = tuple[int, str | None, int, int | None, int | None, int | None, int | None]


class NamedCause(NamedTuple):
    """A cause, and the rule and the kind of the edge from it; what the broker did has no rule.

    Its position is None once the store has it no more. ``recorded_at`` in µs.
    """

    cause: int
    rule: str | None
    kind: EdgeKind
    participant: int | None = None
    height: int | None = None
    seq: int | None = None
    recorded_at: int | None = None

    @property
    def is_located(self) -> bool:
        """Tell whether its position is known."""
        return self.participant is not None

    @property
    def words(self) -> tuple[str, ...]:
        """The words for the step: its kind, and a link's rule."""
        return (self.kind.name,) if self.rule is None else (self.kind.name, self.rule)

    def to_json(self) -> dict[str, int | str | None]:
        """The edge as exports show it."""
        return {"cause": self.cause, "rule": self.rule, "kind": self.kind.name}

    def __str__(self) -> str:
        return f"{self.cause} ({', named by '.join(self.words)})"


def causes_in(text: str | None, *, candidates: bool = False) -> list[NamedCause]:
    """The causes by id, and then by rule; ``candidates`` includes merely possible ones."""
    rows = link_rows(text) if text else []
    causes = (
        NamedCause(row[0], None if row[2] in BY_BROKER else row[1], EdgeKind(row[2]), *row[3:])
        for row in rows
        if candidates or row[2] != EdgeKind.candidate
    )
    return sorted(causes, key=lambda cause: (cause.cause, cause.words[::-1]))


def text_of_causes(causes: list[NamedCause]) -> str | None:
    """The column's text."""
    return json.dumps(causes) if causes else None


def link_rows(text: str) -> list[Row]:
    """The rows as they stand, in no order."""
    rows: list[Row] = json.loads(text)
    return rows
