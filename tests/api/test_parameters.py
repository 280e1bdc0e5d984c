"""Words of the API that are names of the service's enums."""

from __future__ import annotations

import enum

import pytest
from pydantic import TypeAdapter, ValidationError

from app.api.parameters import Word


class Colour(enum.IntEnum):
    red = 0
    green = 1


class Shape(enum.StrEnum):
    round = "round"
    square = "square"


WORD: TypeAdapter[Colour] = TypeAdapter(Word[Colour])


def test_each_name_of_an_enum_is_a_word_for_its_member() -> None:
    assert [WORD.validate_python(name) for name in Colour.__members__] == [*Colour]
    assert TypeAdapter(Word[Shape]).validate_python("square") is Shape.square
    assert WORD.json_schema() == {"enum": ["red", "green"], "type": "string"}


@pytest.mark.parametrize("other", ["blue", "", 0, None])
def test_nothing_else_is_a_word(other: object) -> None:
    with pytest.raises(ValidationError, match="'red' or 'green'"):
        WORD.validate_python(other)
