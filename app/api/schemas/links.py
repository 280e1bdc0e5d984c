"""Rules of links, as somebody writes one down."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, RootModel, WithJsonSchema
from pydantic.config import JsonDict

from app.api.parameters import LinkKindWord
from app.tracker.links.rule import MOST_CONDITIONS, MOST_PARTS
from app.tracker.links.takes import TAKES

_PLACE = {"type": "string", "pattern": r"^\$message\.(header|payload|property)#/"}
_PLACES = {"anyOf": [_PLACE, {"type": "array", "items": _PLACE, "minItems": 1}]}
_CONDITION = {
    "type": "object",
    "properties": {"has": _PLACES, "lacks": _PLACES, "begins": {"type": "string"}},
    "additionalProperties": False,
}

# What they say is for clients to know beforehand; what is at fault is named by `Rule.from_json`.
Places = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [
                _PLACE,
                {"type": "array", "items": _PLACE, "minItems": 1, "maxItems": MOST_PARTS},
            ]
        }
    ),
]
Conditions = Annotated[
    Any, WithJsonSchema({"type": "array", "items": _CONDITION, "maxItems": MOST_CONDITIONS})
]
Take = Annotated[Any, WithJsonSchema({"type": "string", "enum": sorted(TAKES)})]
RuleName = Annotated[
    str, WithJsonSchema({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"})
]


EXAMPLE: JsonDict = {
    "name": "shipped-for",
    "kind": "parent",
    "child": "$message.payload#/caused_by",
    "parent": "$message.payload#/event/id",
}


class LinkRule(BaseModel):
    """A rule: the places in a message that names another, and those in the one that is named."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [EXAMPLE]})

    name: RuleName = Field(default_factory=str)  # no default to be shown: it is left out
    kind: LinkKindWord
    child: Places
    parent: Places = Field(default_factory=list)
    where: Conditions = Field(default_factory=list)
    parent_where: Conditions = Field(default_factory=list)
    take: Take = Field(default_factory=str)
    space: RuleName = Field(default_factory=str)
    same_body: bool = False
    body_begins: str = ""
    sure: bool = True
    alone: bool = False


class NamedLinkRule(LinkRule):
    """A rule among others."""

    name: RuleName


class JsonObject(RootModel[dict[str, Any]]):
    """Any object of JSON, to be read by whoever knows what is wrong with it."""


class JsonList(RootModel[list[Any]]):
    """Any array of JSON, to be read by whoever knows what is wrong with it."""
