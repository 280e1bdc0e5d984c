"""One table from errors to answers, and the one shape that an error has on the wire.

``{"error": "<word>", "reason": "<sentence>"}``, as RabbitMQ's management API writes it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Match

from app.api.signin.audit import decision_of
from app.errors import (
    BadRequestError,
    ConflictError,
    ItcError,
    NotAuthenticatedError,
    NotAuthorisedError,
    NotFoundError,
    NotInstalledError,
    OutageError,
    QuotaError,
    TooLargeError,
    TooManyRequestsError,
    UnseenError,
    WrongTypeError,
)

logger = logging.getLogger(__name__)


FRAMED_BY_NOBODY = "frame-ancestors 'none'"
CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "worker-src 'self'",
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        FRAMED_BY_NOBODY,
    ]
)

SECURITY_HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
"""Every answer carries them."""


class SlowDownError(TooManyRequestsError):
    """Too many requests, with the seconds after which another may succeed."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.retry_after = max(1, math.ceil(seconds))


class FailedJobError(ItcError):
    """The job that the caller waited for failed; the text is the job's own reason."""


STATUS_OF: dict[type[ItcError], tuple[int, str]] = {
    TooLargeError: (413, "too_large"),
    WrongTypeError: (415, "unsupported_media_type"),
    BadRequestError: (400, "bad_request"),
    NotAuthenticatedError: (401, "not_authorised"),
    NotAuthorisedError: (401, "not_authorised"),  # as the management API has it, not 403
    NotFoundError: (404, "Object Not Found"),
    ConflictError: (409, "conflict"),
    TooManyRequestsError: (429, "too_many_requests"),
    NotInstalledError: (501, "not_installed"),
    OutageError: (503, "unavailable"),
    QuotaError: (507, "insufficient_storage"),
    FailedJobError: (500, "job_failed"),
}

# 403 and 405 come from the framework itself.
WORD_OF = dict(STATUS_OF.values()) | {403: "cross_origin", 405: "method_not_allowed"}

# Errors that deny a request for its caller, not for its words.
_DENIALS = (NotAuthenticatedError, NotAuthorisedError, UnseenError)
REALM = "rabbitmq-itc"

# An error is never much longer than what it is about: how many faults of a request it names, how
# many characters it takes for each, and for a name that the client made up.
_MOST_FAULTS = 10
_LONGEST_FAULT = 1_000
_LONGEST_NAME = 100


def problem(
    status: int, word: str, reason: str, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """An error's answer, which no cache may keep."""
    return JSONResponse(
        {"error": word, "reason": reason},
        status,
        headers={"cache-control": "no-store", **(headers or {})},
    )


def install(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Make every error of the application leave through this module.

    ``routes`` are the API's: a refusal of a method names the other methods.
    """
    app.state.api_routes = routes
    app.add_exception_handler(ItcError, _own_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _framework_error)
    app.add_exception_handler(Exception, _bug)


def _own_error(request: Request, error: Exception) -> Response:
    status, word = _row_of(error)
    note_denial(request, error)
    return problem(status, word, str(error), _headers_for(request, error))


def note_denial(request: Request, error: Exception) -> None:
    """Note in the audit log's line that a request is denied, if this error says so."""
    decision = decision_of(request.scope)
    is_throttled = isinstance(error, SlowDownError) and decision.user is None
    if is_throttled or isinstance(error, _DENIALS):
        decision.denied = str(error)


def _row_of(error: Exception) -> tuple[int, str]:
    for kind, row in STATUS_OF.items():
        if isinstance(error, kind):
            return row
    raise error  # an error without a row is a bug, and is answered as one


def status_of(request: Request, error: ItcError | HTTPException) -> tuple[int, str, dict[str, str]]:
    """Status, sentence and headers of an error, for an answer of another form."""
    if isinstance(error, HTTPException):
        return error.status_code, error.detail, dict(error.headers or {})
    note_denial(request, error)
    return _row_of(error)[0], str(error), _headers_for(request, error)


def _headers_for(request: Request, error: Exception) -> dict[str, str]:
    if isinstance(error, NotAuthenticatedError):
        return {"www-authenticate": _challenge(request)}
    if isinstance(error, SlowDownError):
        return {"retry-after": str(error.retry_after)}
    return {}


def _challenge(request: Request) -> str:
    """Basic makes a browser open its own password box, which a page's script does not want."""
    if "x-requested-with" in request.headers:
        return f'Bearer realm="{REALM}"'
    return f'Basic realm="{REALM}", charset="UTF-8"'


def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101  what it is registered for
    faults = error.errors()
    reasons = [_explain(fault) for fault in faults[:_MOST_FAULTS]]
    rest = [f"and {len(faults) - _MOST_FAULTS} more"] if len(faults) > _MOST_FAULTS else []
    return problem(400, "bad_request", "; ".join(reasons + rest))


def _explain(fault: Mapping[str, Any]) -> str:
    """``page_size: expected at most 500``; never the input itself."""
    source, *names = (str(part) for part in fault["loc"])
    path = ".".join([source, *names] if source == "body" else names)
    path = path if len(path) <= _LONGEST_NAME else f"{path[:_LONGEST_NAME]}…"
    message = _in_words(source, fault)
    text = f"{path}: {message}" if path else message
    return text if len(text) <= _LONGEST_FAULT else text[:_LONGEST_FAULT] + "…"


# For people, about parameters; a fault in a body is for the author of the program.
_WORDS = {
    "missing": "it is required",
    "extra_forbidden": "no such parameter",
    "int_parsing": "expected a whole number",
    "int_parsing_size": "expected a smaller number",
    "float_parsing": "expected a number",
    "bool_parsing": "expected true or false",
    "greater_than": "expected more than {gt}",
    "greater_than_equal": "expected at least {ge}",
    "less_than": "expected less than {lt}",
    "less_than_equal": "expected at most {le}",
    "literal_error": "expected {expected}",
    "string_too_long": "expected at most {max_length} characters",
}


def _in_words(source: str, fault: Mapping[str, Any]) -> str:
    words = _WORDS.get(str(fault["type"])) if source != "body" else None
    if words is not None:
        return words.format(**fault.get("ctx", {}))
    return str(fault["msg"]).removeprefix("Value error, ")


def _framework_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  what it is registered for
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    status, reason = error.status_code, error.detail
    if status in (404, 405):  # by the dashboard's files, which match any other path
        methods = _methods_at(request)
        if not methods and not request.scope["path"].startswith("/itc_db"):
            methods = ["GET", "HEAD"] if status == 405 else []  # a file of the dashboard
        status, reason = (405, "Method Not Allowed") if methods else (404, "Not Found")
        headers = {"allow": ", ".join(methods)} if methods else {}
    return problem(status, WORD_OF.get(status, "bad_request"), reason, headers)


def _methods_at(request: Request) -> list[str]:
    """Every method of an API's path: the router itself names only the first route's."""
    methods: set[str] = set()
    for route in request.app.state.api_routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            methods |= route.methods
    if "GET" in methods:
        methods.add("HEAD")
    return sorted(methods)


def _bug(request: Request, error: Exception) -> Response:
    # Quoted again: the client chose any name in it.
    logger.error("%s %s failed", request.method, quote(request.scope["path"]), exc_info=error)
    # This answer leaves outside all layers, so it brings its headers along.
    return problem(500, "internal_error", "the service failed; its log says how", SECURITY_HEADERS)
