"""Shapes of JSON values, merged over samples, as a JSON Schema.

Merging gives the same whatever the order, so executors look at their own samples and the driver
puts them together. A schema says what was seen and no more: never an enumeration, and a format only
where every sample has it.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from typing import Any, TypeAlias
from uuid import UUID

from model.texts import storable

Json: TypeAlias = dict[str, Any]

MOST_FIELDS = 100
"""Of an object with more names than this, the names are taken for data, such as ids."""
MOST_DEPTH = 8
MOST_ITEMS = 50  # of an array, looked at
LONGEST_NAME = 200
LONGEST_FORMATTED = 64

_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_UUID = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_FORMATS = ("date", "date-time", "uuid")


class Shape:
    """The shape of the values at one path.

    Attributes:
        count: how many values there were.
        types: JSON Schema's words for them.
        formats: what all strings among them are.
        fields: of objects, by name; None once there were more names than `MOST_FIELDS`.
        unnamed: of objects with that many names, what their values look like.
        items: of arrays.
    """

    __slots__ = ("count", "fields", "formats", "items", "types", "unnamed")

    def __init__(self) -> None:
        self.count = 0
        self.types: set[str] = set()
        self.formats: set[str] | None = None
        self.fields: dict[str, Shape] | None = {}
        self.unnamed: Shape | None = None
        self.items: Shape | None = None

    def add(self, value: Any, depth: int = 0) -> None:
        """Look at one more value."""
        self.count += 1
        self.types.add(_type_of(value))
        if isinstance(value, str):
            self._meet(formats_of(value))
        elif isinstance(value, dict) and depth < MOST_DEPTH:
            self._add_fields(value, depth)
        elif isinstance(value, list) and depth < MOST_DEPTH:
            for item in value[:MOST_ITEMS]:
                self.items = self.items or Shape()
                self.items.add(item, depth + 1)

    def merge(self, sample: Shape) -> None:
        """Add the values of another sample."""
        self.count += sample.count
        self.types |= sample.types
        if sample.formats is not None:
            self._meet(sample.formats)
        if sample.items is not None:
            self.items = self.items or Shape()
            self.items.merge(sample.items)
        if sample.fields is None:
            self._forget_names()
        for name, shape in (sample.fields or {}).items():
            self._field(name).merge(shape)
        if sample.unnamed is not None:
            self.unnamed = self.unnamed or Shape()
            self.unnamed.merge(sample.unnamed)

    def holds(self, tokens: tuple[str, ...]) -> bool:
        """Tell whether every value has something at a path of names."""
        if not tokens:
            return True
        field = (self.fields or {}).get(tokens[0])
        return field is not None and field.count == self.count and field.holds(tokens[1:])

    def schema(self) -> Json:
        """As JSON Schema (draft 7)."""
        types = sorted(self.types - ({"integer"} if "number" in self.types else set()))
        schema: Json = {}
        if types:
            schema["type"] = types[0] if len(types) == 1 else types
        if self.formats:
            schema["format"] = min(self.formats)
        if "object" in types:
            schema |= self._object_schema()
        if self.items is not None:
            schema["items"] = self.items.schema()
        return schema

    def to_json(self) -> Json:
        """For `from_json`."""
        fields = self.fields
        return {
            "count": self.count,
            "types": sorted(self.types),
            "formats": None if self.formats is None else sorted(self.formats),
            "fields": None if fields is None else {k: v.to_json() for k, v in fields.items()},
            "unnamed": self.unnamed and self.unnamed.to_json(),
            "items": self.items and self.items.to_json(),
        }

    @classmethod
    def from_json(cls, document: Json) -> Shape:
        """The value that `to_json` wrote."""
        shape = cls()
        shape.count, shape.types = document["count"], set(document["types"])
        shape.formats = None if document["formats"] is None else set(document["formats"])
        fields = document["fields"]
        shape.fields = None if fields is None else {k: cls.from_json(v) for k, v in fields.items()}
        shape.unnamed = document["unnamed"] and cls.from_json(document["unnamed"])
        shape.items = document["items"] and cls.from_json(document["items"])
        return shape

    def _meet(self, formats: set[str]) -> None:
        self.formats = set(formats) if self.formats is None else self.formats & formats

    def _add_fields(self, value: Json, depth: int) -> None:
        if len(value) > MOST_FIELDS:
            self._forget_names()
        for name, member in value.items():
            self._field(name).add(member, depth + 1)

    def _field(self, name: str) -> Shape:
        """The shape of the values under a name."""
        name = storable(name)
        if self.fields is not None and (len(name) > LONGEST_NAME):
            self._forget_names()
        if self.fields is not None and name not in self.fields and len(self.fields) == MOST_FIELDS:
            self._forget_names()
        if self.fields is not None:
            return self.fields.setdefault(name, Shape())
        self.unnamed = self.unnamed or Shape()
        return self.unnamed

    def _forget_names(self) -> None:
        fields, self.fields = self.fields or {}, None
        for shape in fields.values():
            self.unnamed = self.unnamed or Shape()
            self.unnamed.merge(shape)

    def _object_schema(self) -> Json:
        if self.fields is None:
            return {"additionalProperties": self.unnamed.schema() if self.unnamed else True}
        schema: Json = {}
        for name, shape in sorted(self.fields.items()):
            if _means_something(name):
                pattern = f"^{re.escape(name)}$"
                schema.setdefault("patternProperties", {})[pattern] = shape.schema()
            else:
                schema.setdefault("properties", {})[name] = shape.schema()
        # No field is in all values if some of these are no objects.
        in_all = [name for name, shape in sorted(self.fields.items()) if shape.count == self.count]
        if in_all:
            schema["required"] = in_all
        return schema


JAVASCRIPT_NAMES = frozenset(
    {
        "__defineGetter__",
        "__defineSetter__",
        "__lookupGetter__",
        "__lookupSetter__",
        "__proto__",
        "constructor",
        "hasOwnProperty",
        "isPrototypeOf",
        "propertyIsEnumerable",
        "prototype",
        "toLocaleString",
        "toString",
        "valueOf",
    }
)
"""Names that every object of JavaScript has: as a key of ours it would hide the object's own."""


def _means_something(name: str) -> bool:
    """Tell whether readers of JSON take a field of this name for more than a field.

    ``$ref`` is replaced by its target, wherever it stands, and ``<<`` merges into its object where
    JSON is read as YAML. A pattern describes such a field without a field of that name.
    """
    return name.startswith("$") or name == "<<" or name in JAVASCRIPT_NAMES


def formats_of(text: str) -> set[str]:
    """The known formats of a text."""
    if len(text) > LONGEST_FORMATTED:
        return set()
    return {name for name in _FORMATS if _is_format(name, text)}


def _is_format(name: str, text: str) -> bool:
    try:
        if name == "uuid":
            return _UUID.fullmatch(text) is not None and bool(UUID(text).hex)
        if name == "date":
            return _DATE.fullmatch(text) is not None and bool(date.fromisoformat(text))
        return _DATE_TIME.fullmatch(text) is not None and bool(datetime.fromisoformat(text.upper()))
    except ValueError:
        return False


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for kind, word in _TYPES:
        if isinstance(value, kind):
            return word
    return "string"


_TYPES: tuple[tuple[type, str], ...] = (
    (int, "integer"),
    (float, "number"),
    (dict, "object"),
    (list, "array"),
)
