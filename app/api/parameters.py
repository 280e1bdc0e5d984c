"""Parameters in path and query: the names and texts they may hold; each at most once."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from inspect import isclass
from typing import Annotated, TypeAlias, TypeVar

from fastapi import Request
from fastapi._compat import ModelField
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BaseModel, Field, GetCoreSchemaHandler
from pydantic_core import core_schema

from app.errors import BadRequestError


def unescape(segment: str) -> str:
    """The name in a segment of a rebuilt path."""
    return segment.replace("%2F", "/").replace("%25", "%")


class MemberName:
    """Reads a member by its name, and is described as a `Literal` of the names is."""

    def __get_pydantic_core_schema__(
        self, kind: type[Enum], handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        names = core_schema.literal_schema(list(kind.__members__))
        return core_schema.no_info_after_validator_function(lambda name: kind[name], names)


Member = TypeVar("Member", bound=Enum)
Word: TypeAlias = Annotated[Member, MemberName()]
# NUL: no name on the broker contains it, and PostgreSQL cannot store it.
WITHOUT_NUL = r"^[^\x00]*$"

Name = Annotated[str, Field(pattern=WITHOUT_NUL), AfterValidator(unescape)]
LISTS = ("columns", "events", "family", "queues", "services")
LONGEST_TEXT = 4_096
Text = Annotated[str, Field(max_length=LONGEST_TEXT, pattern=WITHOUT_NUL)]
# The longest that a long poll or `Prefer: wait` waits: many proxies wait no longer.
WAIT_SECONDS = 60.0
PAGE_SIZE, LARGEST_PAGE = 100, 500
LONGEST_WALK = 1_000


def cap_wait(seconds: float) -> float:
    return min(seconds, WAIT_SECONDS)


Wait = Annotated[float, Field(ge=0, le=3_600), AfterValidator(cap_wait)]
PageSize = Annotated[int, Field(ge=1, le=LARGEST_PAGE)]
WalkLimit = Annotated[int, Field(ge=1, le=LONGEST_WALK)]


def _query_fields(dependant: Dependant) -> list[ModelField]:
    inner = (field for part in dependant.dependencies for field in _query_fields(part))
    return [*dependant.query_params, *inner]


class KnownFields(BaseModel, extra="forbid"):
    """The fields of a query or a body: a misspelt filter would otherwise let everything pass."""


async def check_parameters(request: Request) -> None:
    """Refuse what would be ignored: parameters and bodies that a route does not have.

    A parameter that appears twice is refused too, except `LISTS`; columns and events may
    be separated by commas, too. A model's parameters are left to the model: `KnownFields`.
    """
    route: APIRoute = request.scope["route"]
    fields = {field.alias: field.field_info.annotation for field in _query_fields(route.dependant)}
    by_model = any(isclass(kind) and issubclass(kind, BaseModel) for kind in fields.values())
    unknown = [] if by_model else [name for name in request.query_params if name not in fields]
    if unknown:
        faults = [{"type": "extra_forbidden", "loc": ("query", name)} for name in unknown]
        raise RequestValidationError(faults)
    headers = request.headers
    has_body = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers
    if has_body and "requestBody" not in (route.openapi_extra or ()):
        raise BadRequestError("this route takes no body: send the request without one")
    counts = Counter(name for name, _ in request.query_params.multi_items() if name not in LISTS)
    repeated = sorted(name for name, count in counts.items() if count > 1)
    if repeated:
        raise BadRequestError(f"more than once in the query: {', '.join(repeated)}")
