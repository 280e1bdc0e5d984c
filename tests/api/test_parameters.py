"""Words of the API that are names of the service's enums."""

from __future__ import annotations

import enum
from typing import Annotated

import pytest
from pydantic import TypeAdapter, ValidationError

from app.api.parameters import word_of


class Colour(enum.IntEnum):
    red = 0
    green = 1


class Shape(enum.StrEnum):
    round = "round"
    square = "square"


WORD: TypeAdapter[Colour] = TypeAdapter(Annotated[Colour, word_of(Colour)])


def test_each_name_of_an_enum_is_a_word_for_its_member() -> None:
    assert [WORD.validate_python(name) for name in Colour.__members__] == [*Colour]
    assert TypeAdapter(Annotated[Shape, word_of(Shape)]).validate_python("square") is Shape.square
    assert WORD.json_schema() == {"enum": ["red", "green"], "type": "string"}


@pytest.mark.parametrize("other", ["blue", "", 0, None])
def test_nothing_else_is_a_word(other: object) -> None:
    with pytest.raises(ValidationError, match="'red' or 'green'"):
        WORD.validate_python(other)
