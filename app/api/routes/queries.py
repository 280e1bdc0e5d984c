"""Query parameters of lists of events, and the filters for the store that they become."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self, TypeVar

from fastapi import Query
from msgspec import Struct
from msgspec.structs import replace
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    GetPydanticSchema,
    ModelWrapValidatorHandler,
    PrivateAttr,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import core_schema

from app.api.events import large_of
from app.api.likely import LIKELY, LikelyQuery
from app.api.openapi import example
from app.api.parameters import LONGEST_TEXT, KnownFields, PageSize, Text, Wait, WalkLimit, Word
from app.api.signin.auth import User
from app.api.tail import TailQuery
from app.errors import BadRequestError
from app.stored.reading import HEADER, EventFilter, Sort
from model.event import EVENT_FIELDS, Large
from model.times import HOUR, Microseconds, microseconds_of, now
from model.words import BondWord, Disposition, EventType, Match, WalkWord

_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LOST_PLUS = re.compile(r"(?<=[0-9]) ([0-9]{2}:?[0-9]{2})$")


def _iso_text(value: object) -> object:
    """ISO 8601 alone: a bare number could be seconds or milliseconds.

    A ``+`` that was not encoded arrives as a space.
    """
    if isinstance(value, str):
        if not _ISO_DATE.match(value):
            raise ValueError("expected a time such as 2026-01-02T03:04:05Z")
        return _LOST_PLUS.sub(r"+\1", value)
    return value


def _split(value: object) -> object:
    """``columns=a,b`` as well as ``columns=a&columns=b``; up to the first unknown one.

    Every unknown column would be refused with the list of all columns.
    """
    names = value if isinstance(value, list) else [value]
    parts = [part for name in names for part in str(name).split(",")]
    unknown = next((n for n, part in enumerate(parts) if part not in EVENT_FIELDS), len(parts))
    return parts[: unknown + 1]


def _check_column(name: str) -> str:
    if name not in EVENT_FIELDS:
        raise ValueError(f"no such column; the columns are {', '.join(sorted(EVENT_FIELDS))}")
    return name


F = TypeVar("F", bound=Struct)
Number = Annotated[int, Field(ge=0, le=2**63 - 1)]
AfterNext = Annotated[
    Number | None,
    Field(description="Only events after this one: the `next` of the answer before."),
]
BeforeNext = Annotated[
    Number | None,
    Field(description="Only events before this one: the `next` of the answer before."),
]
Column = Annotated[
    str,
    AfterValidator(_check_column),
    WithJsonSchema({"type": "string", "enum": sorted(EVENT_FIELDS)}),
]


def _moment(*_: Any) -> core_schema.CoreSchema:
    read = core_schema.no_info_before_validator_function(_iso_text, core_schema.datetime_schema())
    return core_schema.no_info_after_validator_function(microseconds_of, read)


Moment = Annotated[
    Microseconds,
    GetPydanticSchema(_moment),
    WithJsonSchema(
        {"anyOf": [{"type": "string", "format": form} for form in ("date-time", "date")]}
    ),
]
Columns = Annotated[list[Column], BeforeValidator(_split)]
AlongVia = Annotated[
    BondWord, Query(description="Join messages by their links, or by shared keys too.")
]
OfVhost = Annotated[Text, Query(description="Of this virtual host.", openapi_examples=example("/"))]


def period_of(since: Moment | None, until: Moment | None, usual: int = HOUR) -> tuple[int, int]:
    """The period of a request (µs), by default the ``usual`` last."""
    end = now() if until is None else until
    return max(0, end - usual if since is None else since), end


def filter_of(kind: type[F], query: BaseModel, **fixed: Any) -> F:
    """A filter for the store, from the fields of the same names."""
    fields = {*kind.__struct_fields__} & query.__class__.model_fields.keys()
    return kind(**{name: getattr(query, name) for name in fields} | fixed)


def _header(parameter: str, value: str) -> tuple[str, str]:
    name = parameter.removeprefix(HEADER)
    if not name:
        raise ValueError(f"{parameter}: expected the name of a header, as in header.tenant")
    if len(value) > LONGEST_TEXT:
        raise ValueError(f"{parameter}: expected at most {LONGEST_TEXT} characters")
    return name, value


HEADERS: dict[str, Any] = {
    "parameters": [
        {
            "name": "header",
            "in": "query",
            "description": "With this value in a header of the message: `header.NAME=value`.",
            "required": False,
            "style": "form",
            "explode": True,
            "schema": {
                "type": "object",
                "propertyNames": {"pattern": r"^header\.[A-Za-z0-9_.-]+$"},
                "additionalProperties": {"type": "string", "maxLength": LONGEST_TEXT},
            },
        }
    ]
}
"""For a route's ``openapi_extra``: a `Filter` takes these besides its fields."""


class WithHeaders(KnownFields):
    """Parameters that may name headers of a message."""

    _headers: tuple[tuple[str, str], ...] = PrivateAttr(())

    @model_validator(mode="wrap")
    @classmethod
    def _with_headers(cls, parameters: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        headers = {name: value for name, value in parameters.items() if name.startswith(HEADER)}
        query = handler({name: text for name, text in parameters.items() if name not in headers})
        # In order: readers with the same request share an answer.
        query._headers = tuple(_header(name, headers[name]) for name in sorted(headers))
        return query


class Filter(WithHeaders):
    """A choice of events."""

    vhost: Text | None = Field(None, description="Of this virtual host.")
    type: Word[EventType] | None = Field(None, description="Published or received.")
    exchange: Text | None = Field(None, description="Through this exchange.")
    queue: Text | None = Field(None, description="Received from this queue.")
    connection: Text | None = Field(None, description="On this connection.")
    channel: Number | None = Field(None, description="On channels of this number.")
    user: Text | None = Field(None, description="By this user of the broker.")
    routing_key: Text | None = Field(None, description="With this routing key.")
    participant: Number | None = Field(None, description="Of this participant of its trace.")
    participant_name: Text | None = Field(
        None, description="Of the participants of this name, or of the service of this name."
    )
    match: Word[Match] | None = Field(None, description="Matched in this way.")
    settlement: Word[Disposition] | None = Field(
        None, description="Settled so, or `in_hand`: held by its consumer now."
    )
    redelivered: bool | None = Field(
        None, description="Flagged as redelivered by the broker, or not."
    )
    since: Moment | None = Field(None, description="Recorded at this time or later.")
    until: Moment | None = Field(None, description="Recorded before this time.")
    q: Text | None = Field(
        None, description="With this text in exchange, queue, a routing key or the payload."
    )
    message_id: Text | None = Field(None, description="With this message id.")
    correlation_id: Text | None = Field(None, description="With this correlation id.")
    conversation: Text | None = Field(
        None, description="Of this conversation, by what its messages share: a trace id, say."
    )
    use_regex: bool = Field(
        False,
        description="Treat exchange, queue, connection, user, participant_name and routing_key "
        "as regular expressions (RE2) that match anywhere in the name.",
    )

    def filter_for(self, user: User) -> EventFilter:
        """The filter for the store: never more than the user may see, or search."""
        criteria = filter_of(
            EventFilter, self, vhosts=user.vhosts_to_list(self.vhost), headers=self._headers
        )
        return (
            replace(criteria, vhosts=user.vhosts_to_search(self.vhost))
            if criteria.asks_content
            else criteria
        )


class Form(KnownFields):
    """The returned part of each event."""

    columns: Columns | None = Field(None, description="Only these, comma separated.")
    payload: Literal["full", "none"] = Field("full", description="`none` leaves payloads out.")

    @property
    def column_names(self) -> frozenset[str] | None:
        return None if self.columns is None else frozenset(self.columns)

    @property
    def large(self) -> Large:
        return large_of(self.column_names, self.payload == "full")


class ListForm(Form):
    """The form of each event in a list, and in the live tail."""

    links: bool = Field(
        False, description="Each event with its `links`: its causes beside its message."
    )


class FollowQuery(Filter, ListForm):
    """A choice of events that may be followed as they come, and the form of each."""

    def tail_query(self, user: User, limit: int, *, frames: bool = False) -> TailQuery:
        return TailQuery(
            self.filter_for(user),
            user.content,
            self.column_names,
            payload=self.payload == "full",
            limit=limit,
            frames=frames,
            links=self.links,
        )


class WalkQuery(Filter, Form, LikelyQuery):
    """Query for a walk: how far, and which events on the way to return."""

    limit: WalkLimit = Field(100, description="Most events in the answer; at most 1000.")
    via: WalkWord = Field(
        "any",
        description="`links`: by messages, and links to what they name as their cause, alone. "
        "`conversation`: also from what a participant received in a conversation to what it "
        "published in it later. `any`: to all that may have been influenced." + LIKELY,
    )


class CausesQuery(WalkQuery):
    """Query for a walk towards causes."""

    before: BeforeNext = None


class EffectsQuery(WalkQuery):
    """Query for a walk towards effects."""

    after: AfterNext = None


class LiveQuery(FollowQuery):
    """Query for the live tail."""

    after: Number | None = Field(None, description="Begin after this event; by default now.")


class ListQuery(FollowQuery):
    """A choice of events, their order, and how many."""

    page: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        None, description="The page's number; answers with RabbitMQ's page envelope."
    )
    page_size: PageSize | None = Field(
        None, description="Events on a page, at most 500; 100 by default."
    )
    sort: Word[Sort] | None = Field(
        None, description="Ascending by this; by default the newest first."
    )
    sort_reverse: bool = Field(False, description="Falling instead.")
    after: Number | None = Field(None, description="Only events after this one, ascending.")
    before: Number | None = Field(None, description="Only events before this one, descending.")
    wait: Wait | None = Field(
        None, description="With `after`: wait this many seconds for an event."
    )

    def check(self) -> None:
        cursor = self.after is not None or self.before is not None
        if cursor and (self.page is not None or self.sort is not None):
            raise BadRequestError("after and before cannot be combined with page or sort")
        if self.wait is not None and self.after is None:
            raise BadRequestError("wait goes with after: wait for events after which one?")
