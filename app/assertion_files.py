"""Files of assertions: YAML, or JSON, which is YAML too, taken apart with lines and columns.

What is read costs no more than its size: an alias, which has a few bytes stand for any number of
values, is refused, and so is what is nested deeper than assertions are, before it is read on.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import yaml

from model.assertions.assertion import Assertion, InvalidAssertionError
from model.assertions.language import (
    DEEPEST,
    MOST_ASSERTIONS,
    MOST_BYTES,
    TOO_DEEP,
    TextPosition,
    Value,
    assertions_in,
)

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT, _NULL = "tag:yaml.org,2002:int", "tag:yaml.org,2002:null"
# Each assertion is a mapping of some five keys and values: a file with more values is none.
MOST_VALUES = 20 * MOST_ASSERTIONS
# Longer ones are texts: no number in an assertion has that many digits.
_LONGEST_NUMBER = 20
# The parser compares each directive with all before it.
_DIRECTIVE = re.compile(r"^%", re.MULTILINE)


async def read(text: bytes) -> list[Assertion]:
    """The same as `parse`, beside the event loop."""
    return await asyncio.to_thread(parse, text)


def parse(text: str | bytes) -> list[Assertion]:
    """The assertions of a file; raises `InvalidAssertionError` with line and column."""
    if len(text) > MOST_BYTES:
        raise InvalidAssertionError(f"a file of assertions has at most {MOST_BYTES:,} bytes")
    try:
        plain = text if isinstance(text, str) else text.decode("utf-8-sig")
        directive = _DIRECTIVE.search(plain)
        if directive is not None:
            line = plain.count("\n", 0, directive.start()) + 1
            raise TextPosition(line, 1).error("directives are not read")
        return assertions_in(_YamlReader(plain).file())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = TextPosition() if mark is None else _position(mark)
        raise place.error(f"this is not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, UnicodeError) as error:
        raise InvalidAssertionError(f"this is not YAML: {error}") from None


class _YamlReader:
    """Takes a file apart, event by event."""

    def __init__(self, text: str) -> None:
        self._loader = _Loader(text)
        self._count = 0

    def file(self) -> Value:
        """The one value that is in it."""
        self._next()  # the stream's start
        if self._loader.check_event(yaml.StreamEndEvent):
            raise InvalidAssertionError("there are no assertions in it", 1, 1)
        self._next()  # the document's start
        value = self._value(self._next(), 0)
        self._next()  # the document's end
        event = self._next()
        if not isinstance(event, yaml.StreamEndEvent):
            raise _position(event.start_mark).error("there is another document")
        return value

    def _next(self) -> Any:
        return self._loader.get_event()

    def _value(self, event: Any, depth: int) -> Value:
        place = _position(event.start_mark)
        self._count += 1
        if isinstance(event, yaml.AliasEvent):
            raise place.error(f"aliases are not read: write out what `*{event.anchor}` stands for")
        if depth > DEEPEST:
            raise place.error(TOO_DEEP)
        if self._count > MOST_VALUES:
            raise place.error("there is more in it than assertions can have")
        if isinstance(event, yaml.SequenceStartEvent):
            return Value(place, [self._value(element, depth + 1) for element in self._until_end()])
        if isinstance(event, yaml.MappingStartEvent):
            pairs = [
                (self._key(key, depth + 1), self._value(self._next(), depth + 1))
                for key in self._until_end()
            ]
            return Value(place, pairs)
        return Value(place, self._scalar(event))

    def _until_end(self) -> Any:
        while not isinstance(event := self._next(), yaml.CollectionEndEvent):
            yield event

    def _key(self, event: Any, depth: int) -> Value:
        key = self._value(event, depth)
        if isinstance(key.value, list):
            raise key.position.error("expected a key, not something nested")
        return key

    def _scalar(self, event: Any) -> str | int | None:
        text = str(event.value)
        tag = event.tag or self._loader.resolve(yaml.ScalarNode, text, event.implicit)
        if tag == _INT and len(text) <= _LONGEST_NUMBER:
            try:
                return int(text.replace("_", ""), 0)
            except ValueError:
                return text
        # Names are texts, whatever else YAML takes them for: `yes`, `1.0`, `2026-01-01`.
        return None if tag == _NULL else text


def _position(mark: Any) -> TextPosition:
    return TextPosition(mark.line + 1, mark.column + 1)
