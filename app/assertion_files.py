"""Files of assertions: YAML, or JSON, which is YAML too, taken apart with lines and columns."""

from __future__ import annotations

import yaml

from model.assertions import Assertion, InvalidAssertionError
from model.assertions.language import (
    DEEPEST,
    MOST_BYTES,
    TOO_DEEP,
    Place,
    Value,
    assertions_in,
)

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT, _NULL = "tag:yaml.org,2002:int", "tag:yaml.org,2002:null"


def parse(text: str | bytes) -> list[Assertion]:
    """The assertions of a file; raises `InvalidAssertionError` with line and column."""
    if len(text) > MOST_BYTES:
        raise InvalidAssertionError(f"a file of assertions has at most {MOST_BYTES:,} bytes")
    try:
        node = yaml.compose(text, Loader=_Loader)  # type: ignore[no-untyped-call]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Place() if mark is None else Place(mark.line + 1, mark.column + 1)
        raise place.error(f"this is not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidAssertionError(f"this is not YAML: {error}") from None
    if node is None:
        raise InvalidAssertionError("there are no assertions in it", 1, 1)
    return assertions_in(_value_of(node, 0))


def _value_of(node: yaml.Node, depth: int) -> Value:
    at = Place(node.start_mark.line + 1, node.start_mark.column + 1)
    if depth > DEEPEST:
        raise at.error(TOO_DEEP)
    if isinstance(node, yaml.SequenceNode):
        return Value(at, [_value_of(each, depth + 1) for each in node.value])
    if isinstance(node, yaml.MappingNode):
        pairs = node.value
        return Value(at, [(_value_of(k, depth + 1), _value_of(v, depth + 1)) for k, v in pairs])
    if node.tag == _INT:
        try:
            return Value(at, int(node.value.replace("_", ""), 0))
        except ValueError:
            return Value(at, str(node.value))
    # Names are texts, whatever else YAML takes them for: `yes`, `1.0`, `2026-01-01`.
    return Value(at, None if node.tag == _NULL else str(node.value))
