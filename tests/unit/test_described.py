"""Answers that are described once: what they show, and what OpenAPI says of them."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pytest

from app.api.described import components, returns, schema_of
from model.described import INNER, json_as, json_of, members
from model.times import Duration, Microseconds

AT = Microseconds(1_767_323_045_000_001)


class Shade(enum.IntEnum):
    light = 0
    dark = 1


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf.

    More of it, for programmers.
    """

    fell_at: Microseconds | None
    shade: Shade


@dataclass(frozen=True)
class Letter:
    """A letter."""

    sender: str = field(metadata={"shown_as": "from"})


@dataclass(frozen=True)
class Reply(Letter):
    """An answer to a letter."""

    of: int


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """A tree."""

    leaves: Annotated[list[Leaf], "Those that fell."]
    by_name: Mapping[str, Leaf]
    age: Duration
    kind: Literal["oak", "elm"]
    origin: str = msgspec.field(name="from")
    secret: Annotated[int, INNER] = 0
    more: dict[str, Any] | None = None
    path: Sequence[tuple[int, ...]] = ()

    @property
    def bare(self) -> bool:
        """Whether no leaf
        is left.
        """
        return not self.leaves

    @property
    def _inside(self) -> int:
        return 1


LEAF = Leaf(AT, Shade.dark)
TREE = Tree(
    leaves=[LEAF],
    by_name={"a": Leaf(None, Shade.light)},
    age=Duration(1_500_000),
    kind="oak",
    origin="x",
)


def test_an_answer_shows_fields_and_properties_as_their_types_say() -> None:
    assert json_of(TREE) == {
        "leaves": [{"fell_at": "2026-01-02T03:04:05.000001Z", "shade": "dark"}],
        "by_name": {"a": {"fell_at": None, "shade": "light"}},
        "age": 1.5,
        "kind": "oak",
        "from": "x",
        "more": None,
        "path": (),
        "bare": False,
    }


def test_lists_of_answers_are_shown_and_json_stays() -> None:
    assert json_of([LEAF, {"a": 1}]) == [json_of(LEAF), {"a": 1}]


def test_a_dataclass_shows_a_field_by_another_name() -> None:
    reply = Reply("ann", 1)
    assert json_of(reply) == {"from": "ann", "of": 1}
    assert [*components(schema_of(Reply))["Reply"]["properties"]] == ["from", "of"]


def test_an_answer_is_shown_as_one_of_its_base_classes() -> None:
    assert json_as(Letter, Reply("ann", 1)) == {"from": "ann"}


def test_a_schema_says_what_each_member_means() -> None:
    assert schema_of(Tree) == {"$ref": "#/components/schemas/Tree"}
    leaf, tree = components(schema_of(Tree)).values()
    assert tree["title"] == "Tree"
    assert tree["required"] == [*tree["properties"]] == [*json_of(TREE)]
    assert tree["properties"]["leaves"] == {
        "type": "array",
        "items": {"$ref": "#/components/schemas/Leaf"},
        "description": "Those that fell.",
    }
    assert tree["properties"]["kind"] == {"type": "string", "enum": ["oak", "elm"]}
    assert tree["properties"]["bare"] == {
        "type": "boolean",
        "description": "Whether no leaf is left.",
    }
    assert schema_of(Literal["oak"]) == {"type": "string", "const": "oak"}
    assert leaf["description"] == "A leaf."
    assert leaf["properties"]["shade"] == {"type": "string", "enum": ["light", "dark"]}
    assert leaf["properties"]["fell_at"] == {
        "anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]
    }


def test_a_route_answers_with_one_kind_with_several_together_or_with_one_of_some() -> None:
    def schema(kind: Any) -> Any:
        return returns(kind, {})["responses"][200]["content"]["application/json"]["schema"]

    tree, leaf = schema_of(Tree), schema_of(Leaf)
    assert schema(list[Tree]) == {"type": "array", "items": tree}
    assert schema((Tree, Leaf)) == {"allOf": [tree, leaf]}
    assert schema([Tree, (Tree, Leaf)]) == {"anyOf": [tree, {"allOf": [tree, leaf]}]}
    assert returns(list[Leaf], {})["responses"][200]["description"] == "Each: A leaf."


def test_two_answers_of_one_name_are_a_mistake() -> None:
    other = dataclass(type("Leaf", (), {"__annotations__": {}}))
    schema_of(Leaf)
    with pytest.raises(TypeError, match="two answers are called Leaf"):
        schema_of(other)


def test_what_is_kept_for_the_program_is_no_member() -> None:
    assert {each.name for each in members(Tree)}.isdisjoint({"secret", "_inside"})


class Nest(NamedTuple):
    """A nest."""

    eggs: int
    built_at: Microseconds


class Bird(TypedDict, total=False):
    """A bird."""

    name: Annotated[str, "What it is called."]


class Wood(msgspec.Struct, frozen=True):
    """A wood."""

    nests: list[Nest]
    birds: list[Bird]


def test_a_named_tuple_is_shown_and_a_typed_dictionary_is_json_already() -> None:
    wood = Wood([Nest(2, AT)], [{"name": "Kes"}])
    assert json_of(wood) == {
        "nests": [{"eggs": 2, "built_at": "2026-01-02T03:04:05.000001Z"}],
        "birds": [{"name": "Kes"}],
    }
    bird = components(schema_of(Wood))["Bird"]
    assert bird["properties"] == {"name": {"type": "string", "description": "What it is called."}}
    assert bird["required"] == []
