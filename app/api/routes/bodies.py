"""Request bodies of the routes, read as JSON whatever their content type says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    StrictBool,
    ValidationError,
    WithJsonSchema,
)
from pydantic.config import JsonDict

from app.api.openapi import json_body_of
from app.api.parameters import KnownFields, Word, unescape
from app.errors import BadRequestError
from app.stored.jobs import Json
from app.stored.reading import LONGEST_ALIAS, check_alias
from app.tracker import Policy
from app.tracker.links import Rule, RuleError
from app.tracker.links.rule import MOST_CONDITIONS, MOST_PARTS
from app.tracker.links.takes import TAKES
from app.tracker.quiet import MOST_PATTERNS
from app.tracker.redaction import Redaction, RedactionError
from app.tracker.taken import LONGEST
from app.tracker.taken import MOST_PATTERNS as MOST_TAKEN
from model.words import LinkKind

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R", Redaction, Rule)


async def json_body(request: Request, model: type[M]) -> M | None:
    """The body as ``model``, None if it is empty.

    The content type is ignored, as in the management API: ``curl -d`` names a wrong one.
    """
    body = await request.body()
    if not body.strip():
        return None
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        raise RequestValidationError(
            [{**fault, "loc": ("body", *fault["loc"])} for fault in faults]
        ) from None


async def named_rule(request: Request, name: str, read: Callable[[Json], R], reason: str) -> R:
    """The rule of this name in a body; raises `BadRequestError`, for none by ``reason``."""
    body = await json_body(request, RootModel[Json])
    if body is None:
        raise BadRequestError(reason)
    try:
        rule = read({"name": name, **body.root})
    except (RedactionError, RuleError) as error:
        raise BadRequestError(str(error)) from error
    if rule.name != name:
        raise BadRequestError(f"the body's rule is called {rule.name!r}, and the path's is not")
    return rule


def body_of(model: type[BaseModel], *, required: bool = True) -> dict[str, Any]:
    return json_body_of(model.model_json_schema(), required=required)


# The schema tells clients beforehand; `Quiet` checks, and names an invalid pattern.
QuietPattern = Annotated[
    str, WithJsonSchema({"type": "string", "pattern": r"^(exchange|queue):[^\u0000]{1,300}$"})
]
# As with quiet traffic, `app.tracker.taken` names the fault.
TakenPattern = Annotated[
    str, WithJsonSchema({"type": "string", "pattern": r"^[^\u0000]*$", "maxLength": LONGEST})
]
TakenPatterns = Annotated[
    list[TakenPattern], Field(json_schema_extra={"minItems": 1, "maxItems": MOST_TAKEN})
]


class PathWords(KnownFields):
    """The four parts of the path once more, as clients of the management plugin send them."""

    vhost: str | None = None
    from_: int | str | None = Field(default=None, alias="from")
    to: int | str | None = None
    file: str | None = None


def check_words(body: PathWords | None, request: Request) -> None:
    """Raise `BadRequestError` if a body contradicts the path."""
    words = (body or PathWords()).model_dump(by_alias=True, include={*PathWords.model_fields})
    for name, word in words.items():
        segment = unescape(request.path_params.get(name, "undefined"))
        if word is not None and str(word) != segment:
            raise BadRequestError(f"body.{name}: the path says {segment!r}")


class TraceRequest(PathWords):
    """A request to start a trace."""

    participant: Word[Policy] | None = Field(
        default=None, description="Who counts as a participant; `client` for a new trace."
    )
    quiet: Annotated[list[QuietPattern], Field(max_length=MOST_PATTERNS)] | None = Field(
        default=None,
        description="Traffic that joins no clocks, as `exchange:NAME` and `queue:NAME` with `*` "
        "for any characters; Celery's and kombu's control traffic for a new trace.",
    )
    bodies: StrictBool | None = Field(
        default=None,
        description="Whether messages' bodies are stored, and read for links; yes for a new trace. "
        "May be changed while it runs, for what comes from then on.",
    )
    exchanges: TakenPatterns | None = Field(
        default=None,
        description="The exchanges whose publishes are taken: names, or patterns as topics "
        'have them (`*` for one word, `#` for any number, parted by dots). `""` is the default '
        'exchange, `["#"]` all. All too if only `queues` are given; as before without either. '
        "May be changed while it runs.",
    )
    queues: TakenPatterns | None = Field(
        default=None, description="The queues whose deliveries are taken, in the same way."
    )
    later: StrictBool = Field(
        default=False,
        description="Whether exchanges and queues may be named that there are not yet.",
    )
    reset: StrictBool = Field(
        default=False,
        description="Make the checkpoint of a trace that fails anew instead, from the stored "
        "events. A gap says what is lost.",
    )


class RestampRequest(KnownFields):
    """A request to restamp a trace by these rules; one that is left out stays as it is."""

    participant: Word[Policy] | None = Field(
        default=None, description="Who counts as a participant."
    )
    quiet: Annotated[list[QuietPattern], Field(max_length=MOST_PATTERNS)] | None = Field(
        default=None,
        description="Traffic that joins no clocks, as `exchange:NAME` and `queue:NAME` with `*` "
        "for any characters; an empty list for none.",
    )
    links: StrictBool = Field(
        default=False,
        description="Read the messages again, too, by the rules of links that hold now.",
    )


class AliasRequest(KnownFields):
    """A name for a participant."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"alias": "Orders"}]})

    alias: Annotated[str, AfterValidator(check_alias)] = Field(
        description=f"At most {LONGEST_ALIAS} characters, none of them a control character."
    )


_PATH = {"type": "string", "pattern": r"^\$message\.(header|payload|property)#/"}


def _paths(**limits: int) -> dict[str, Any]:
    return {"anyOf": [_PATH, {"type": "array", "items": _PATH, "minItems": 1, **limits}]}


_CONDITION = {
    "type": "object",
    "properties": {"has": _paths(), "lacks": _paths(), "begins": {"type": "string"}},
    "additionalProperties": False,
}

# The schema tells clients beforehand; `Rule.from_json` checks, and names the fault.
Places = Annotated[Any, WithJsonSchema(_paths(maxItems=MOST_PARTS))]
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


class LinkRule(KnownFields):
    """A rule: the fields of a message that names another, and those of the named one."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    name: RuleName = Field(default_factory=str)  # no default to show: it is left out
    kind: Word[LinkKind]
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
    joint: bool = False
