"""The target of a request: its bounds, and names in paths, where ``%2F`` stays in its segment.

A server decodes the whole path before routing, and the virtual host ``/``, sent as ``%2F``, would
look like two more slashes. This layer rebuilds the path from the raw bytes: it decodes every
segment, and encodes only ``/`` and ``%`` in it again. Routes match the result;
`app.api.parameters.Name` turns a matched segment into the name that it stands for.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.problems import problem

_LONGEST_PATH = 8_192  # bytes; four broker names take some 3,000 with every byte escaped
_LONGEST_QUERY = 40_960  # bytes; one text of 4,096 characters takes up to 36,864
_MOST_PARAMETERS = 100  # a list of events has some thirty, and as many columns

_BROKEN_PERCENT = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class PathSegments:
    """ASGI layer that rebuilds ``scope["path"]``, and refuses invalid names.

    A target that is too long is refused before it is decoded: anybody may send it. Invalid
    percent-encoding, bytes that are not UTF-8 and NUL get 400, NUL in the query too: PostgreSQL
    cannot store it, and no name on the broker contains it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                _check_size(scope["raw_path"], scope["query_string"])
                scope = {**scope, "path": rebuilt_path(scope["raw_path"])}
                _check_query(scope["query_string"])
            except ValueError as error:
                return await problem(400, "bad_request", str(error))(scope, receive, send)
        return await self._app(scope, receive, send)


def _check_size(raw_path: bytes, query: bytes) -> None:
    if len(raw_path) > _LONGEST_PATH:
        raise ValueError(f"the path has more than {_LONGEST_PATH} bytes")
    if len(query) > _LONGEST_QUERY:
        raise ValueError(f"the query has more than {_LONGEST_QUERY} bytes")
    if query.count(b"&") >= _MOST_PARAMETERS:
        raise ValueError(f"the query has more than {_MOST_PARAMETERS} parameters")


def rebuilt_path(raw_path: bytes) -> str:
    """Decode each segment by itself; raises `ValueError` with a sentence."""
    if _BROKEN_PERCENT.search(raw_path):
        raise ValueError("the path holds a % that two hexadecimal digits do not follow")
    try:
        segments = [unquote_to_bytes(part).decode() for part in raw_path.split(b"/")]
    except UnicodeDecodeError:
        raise ValueError("the path is not UTF-8") from None
    if any("\0" in segment for segment in segments):
        raise ValueError("the path holds a NUL")
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in segments)


def _check_query(query: bytes) -> None:
    decoded = unquote_to_bytes(query)
    if b"\0" in decoded:
        raise ValueError("the query holds a NUL")
    try:
        decoded.decode()
    except UnicodeDecodeError:
        raise ValueError("the query is not UTF-8") from None
