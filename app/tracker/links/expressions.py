"""Expressions for places in a message, as AsyncAPI's runtime expressions, and their values.

``$message.header#/order/id`` and ``$message.payload#/lines/0/id`` hold a JSON pointer (RFC 6901)
into the table of headers or the JSON body; ``$message.property#/correlation_id`` is ours, and names
an AMQP property, or the ``exchange`` or ``routing_key`` of the publish. Also ours: a negative index
counts from the end of an array, so ``/stack/-1`` is its last element, and a pointer into a body
leads through a text that is JSON itself: ``$message.payload#/oslo.message/_msg_id``.

A value is text, a whole number (which equals its decimal text, so that 17 in a body is ``17`` in a
header) or an AMQP byte array (which equals the text that it spells). Booleans, fractions, tables
and empty values, such as the UUID of zeros, are no values: they would link unrelated messages. A
list gives the values of its elements.
"""

from __future__ import annotations

import binascii
import enum
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

LONGEST_EXPRESSION = 512
MOST_TOKENS = 16
LONGEST_VALUE = 2_048  # bytes: a `sw8` header may have two kilobytes
SHORT = LONGEST_VALUE // 4  # characters, of at most four bytes each
MOST_VALUES = 64  # that one expression may give

TOO_LONG, TOO_MANY = "value too long", "too many values"

_START = "$message."


class ExpressionError(ValueError):
    """A text that is no expression; ``column`` counts its characters from 1."""

    def __init__(self, reason: str, column: int) -> None:
        super().__init__(f"{reason} (column {column})")
        self.reason, self.column = reason, column


class Source(enum.StrEnum):
    """The parts of a message."""

    header = "header"
    payload = "payload"
    property = "property"


# Fields of the broker's record rather than of the message.
ENVELOPE = frozenset({"exchange", "routing_key"})
# Values that say where something went or what kind it is: never which message it was.
KINDS = ENVELOPE | {
    "reply_to",
    "type",
    "app_id",
    "user_id",
    "cluster_id",
    "content_type",
    "content_encoding",
}
PROPERTIES = KINDS | {"message_id", "correlation_id"}


class Expression(msgspec.Struct, frozen=True):
    """One place in a message; ``tokens`` are the pointer's, unescaped."""

    source: Source
    tokens: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Expression:
        """Read a text; raises `ExpressionError`."""
        if len(text) > LONGEST_EXPRESSION:
            raise ExpressionError(
                f"an expression has at most {LONGEST_EXPRESSION} characters, not {len(text)}",
                LONGEST_EXPRESSION + 1,
            )
        if not text.startswith(_START):
            raise ExpressionError(f"an expression begins with {_START!r}", _differs(text, _START))
        name, hash_sign, pointer = text[len(_START) :].partition("#")
        if name not in Source.__members__:
            raise ExpressionError(
                f"{name!r} is no part of a message: write header, payload or property",
                len(_START) + 1,
            )
        column = len(_START) + len(name) + 1
        if not hash_sign:
            raise ExpressionError("'#' and a JSON pointer are missing", column)
        tokens = _tokens(pointer, column + 1)
        if name == Source.property:
            _check_property(tokens, column + 2)
        return cls(Source(name), tokens)

    def __str__(self) -> str:
        escaped = (token.replace("~", "~0").replace("/", "~1") for token in self.tokens)
        return f"{_START}{self.source}#/{'/'.join(escaped)}"

    @property
    def says_which(self) -> bool:
        """Tell whether its value can tell one message from another of its kind."""
        return self.source is not Source.property or self.tokens[0] not in KINDS

    def find(self, tree: Any, unfold: Callable[[str], Any] | None = None) -> Any:
        """The value at this place of a table or a JSON document; None if there is none.

        ``unfold`` reads the texts on the way there, which may be JSON themselves.
        """
        for token in self.tokens:
            if unfold is not None and type(tree) is str:
                tree = unfold(tree)
            if type(tree) is dict:
                tree = tree.get(token)
            elif type(tree) is list and _INDEX(token):
                index = int(token)
                tree = tree[index] if -len(tree) <= index < len(tree) else None
            else:
                return None
        return tree


_INDEX = re.compile(r"0|-?[1-9][0-9]{0,8}").fullmatch


def _tokens(pointer: str, column: int) -> tuple[str, ...]:
    if pointer in ("", "/"):
        raise ExpressionError("an empty pointer stands for everything: name a field", column)
    if pointer[0] != "/":
        raise ExpressionError("a JSON pointer begins with '/'", column)
    tokens = []
    column += 1
    for token in pointer[1:].split("/"):
        if not token:
            raise ExpressionError("a pointer's token is empty", column)
        wrong = re.search("~(?![01])", token)
        if wrong:
            raise ExpressionError(
                "'~' is written '~0', and '/' in a name '~1'", column + wrong.start()
            )
        tokens.append(token.replace("~1", "/").replace("~0", "~"))
        if len(tokens) > MOST_TOKENS:
            raise ExpressionError(f"a pointer has at most {MOST_TOKENS} tokens", column)
        column += len(token) + 1
    return tuple(tokens)


def _check_property(tokens: tuple[str, ...], column: int) -> None:
    name = tokens[0]
    if name == "headers":
        raise ExpressionError("for a header write $message.header#/NAME", column)
    if name not in PROPERTIES:
        raise ExpressionError(
            f"{name!r} cannot be compared: write one of {', '.join(sorted(PROPERTIES))}", column
        )
    if len(tokens) > 1:
        raise ExpressionError("a property has no fields", column + len(name))


def _differs(text: str, start: str) -> int:
    length = 0
    while length < min(len(text), len(start)) and text[length] == start[length]:
        length += 1
    return length + 1


# Values of libraries that have nothing to say.
_EMPTY_VALUES = frozenset(
    {b"", b"00000000-0000-0000-0000-000000000000", b"null", b"None", b"nil", b"undefined", b"NaN"}
)

EMPTY_TEXTS = frozenset(value.decode() for value in _EMPTY_VALUES)


def values(raw: Any, refused: Counter[str], *, of_table: bool = True) -> list[bytes]:
    """The values at a place, as bytes; none if there are too many, which is counted.

    ``of_table``: in an AMQP table ``{"base64": …}`` is a byte array.
    """
    if type(raw) is str and len(raw) <= SHORT:  # nearly always
        text = raw.encode("utf-8", "surrogatepass")
        return [] if text in _EMPTY_VALUES else [text]
    if type(raw) is not list:
        value = _value(raw, refused, of_table)
        return [] if value is None else [value]
    if len(raw) > MOST_VALUES:
        refused[TOO_MANY] += 1
        return []
    converted = (_value(element, refused, of_table) for element in raw)
    return [value for value in converted if value is not None]


def _value(raw: Any, refused: Counter[str], of_table: bool) -> bytes | None:
    if type(raw) is str:
        value = raw.encode("utf-8", "surrogatepass")
    elif type(raw) is int:
        # A JSON document's may have thousands of digits, which take their time.
        value = b"%d" % raw if raw.bit_length() <= 64 else b""
    elif of_table and type(raw) is dict and len(raw) == 1 and type(raw.get("base64")) is str:
        try:
            value = binascii.a2b_base64(raw["base64"])
        except ValueError:
            return None
    else:
        return None
    if len(value) > LONGEST_VALUE:
        refused[TOO_LONG] += 1
        return None
    return None if value in _EMPTY_VALUES else value
