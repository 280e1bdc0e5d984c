"""Assertions as values."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias


class InvalidAssertionError(ValueError):
    """An assertion that cannot be read; ``line`` and ``column`` count from 1, where known."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        position = "" if line is None else f"line {line}, column {column}: "
        super().__init__(f"{position}{message}")
        self.reason, self.line, self.column = message, line, column


class Basis(enum.StrEnum):
    """The evidence of a past: messages and links, or whatever clocks do not rule out."""

    caused = "caused"
    may_have = "may_have"


@dataclass(frozen=True, slots=True)
class TypePattern:
    """A pattern of message types: a name, in which ``*`` stands for any text."""

    text: str

    def fits(self, message_type: str) -> bool:
        """Tell whether a message type matches the pattern."""
        first, *rest = self.text.split("*")
        if not rest or not message_type.startswith(first):
            return message_type == first
        *middle, last = rest
        start = len(first)
        for part in middle:  # the first match leaves the most text
            index = message_type.find(part, start)
            if index < 0:
                return False
            start = index + len(part)
        return message_type.endswith(last) and start + len(last) <= len(message_type)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class LeadsTo:
    """Every message of a type leads to one of another, within a ``limit`` (µs) if one is set."""

    subject: TypePattern
    leads_to: TypePattern
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Precedence:
    """Every delivery of a type has a message of another in its past."""

    subject: TypePattern
    precursor: TypePattern
    evidence: Basis = Basis.caused


@dataclass(frozen=True, slots=True)
class NeverConcurrent:
    """No message of the one type is concurrent with one of the other.

    Compared are messages of one conversation, or those that share the ``key`` of reports on
    order (``correlation_id``, ``header.NAME``, ``body.NAME`` …).
    """

    types: tuple[TypePattern, TypePattern]
    key: str = "conversation"


@dataclass(frozen=True, slots=True)
class AtMost:
    """No message of a type causes more than this many others, directly or not."""

    subject: TypePattern
    causes_more_than: int


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """Every message of a type is acknowledged from all its queues, within a ``limit`` (µs)."""

    subject: TypePattern
    limit: int


Requirement: TypeAlias = LeadsTo | Precedence | NeverConcurrent | AtMost | Acknowledged


@dataclass(frozen=True, slots=True)
class Assertion:
    """An assertion, under the name that people gave it."""

    name: str
    requirement: Requirement
