"""Files as answers: whole, in ranges, or not at all if the client already has them."""

from __future__ import annotations

import asyncio
import os
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from pydantic import WithJsonSchema
from starlette.datastructures import Headers
from starlette.responses import FileResponse, Response
from starlette.types import Message, Receive, Scope, Send

from app.api.openapi import READING_ONE, answers
from app.api.problems import problem
from app.errors import NotFoundError

_REFUSALS = {
    400: ("bad_request", "invalid Range header: expected one such as bytes=0-99"),
    416: ("range_not_satisfiable", "the range starts after the end of the file"),
}

_ANY_CONTENT: dict[str, Any] = {"content": {"*/*": {}}}


def download_route(description: str) -> dict[str, Any]:
    contents: dict[int | str, dict[str, Any]] = {
        200: {"description": description, **_ANY_CONTENT},
        206: {"description": "The part of it that the header `Range` asks for.", **_ANY_CONTENT},
        304: {"description": "The client has it already, by its `If-None-Match` or so."},
    }
    responses = {**READING_ONE, **answers(409, 412, 416), **contents}
    return {"response_class": Download, "responses": responses}


def name_schema(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "minLength": 1, "maxLength": 200})


_ENTITY_TAG = re.compile(r'(?:W/)?"[^"]*"')


class Download(FileResponse):
    """A file. An invalid range is refused in the same format as all errors."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.stat_result is None:
            await self._look_at_file()
        if answer := self._conditional_answer(Headers(scope=scope)):
            await answer(scope, receive, send)
            return
        refused = False

        async def send_own_refusal(message: Message) -> None:
            # The framework itself would refuse a range in plain text.
            nonlocal refused
            if message["type"] == "http.response.start" and message["status"] in _REFUSALS:
                refused = True
                headers = Headers(raw=message["headers"])
                size = {name: headers[name] for name in ("content-range",) if name in headers}
                answer = problem(message["status"], *_REFUSALS[message["status"]], size)
                await answer(scope, receive, send)
            elif not refused:
                await send(message)

        await super().__call__(_with_known_range(scope), receive, send_own_refusal)

    async def _look_at_file(self) -> None:
        try:
            self.stat_result = await asyncio.to_thread(os.stat, self.path)
        except FileNotFoundError:
            raise NotFoundError("this file was removed a moment ago") from None
        self.set_stat_headers(self.stat_result)

    def _conditional_answer(self, conditions: Headers) -> Response | None:
        """412 or 304 if the request's conditions call for it (RFC 9110, 13.2.2)."""
        if self._is_another(conditions):
            reason = "the file is another than the request speaks of"
            return problem(412, "precondition_failed", reason)
        if self._is_known(conditions):
            headers = {name: self.headers[name] for name in ("etag", "last-modified")}
            return Response(status_code=304, headers=headers)
        return None

    def _is_another(self, conditions: Headers) -> bool:
        if "if-match" in conditions:
            return not _matches(conditions["if-match"], self.headers["etag"], weakly=False)
        moment = _time_of(conditions.get("if-unmodified-since"))
        return moment is not None and self._last_modified > moment

    def _is_known(self, conditions: Headers) -> bool:
        if "if-none-match" in conditions:
            return _matches(conditions["if-none-match"], self.headers["etag"], weakly=True)
        moment = _time_of(conditions.get("if-modified-since"))
        return moment is not None and self._last_modified <= moment

    @property
    def _last_modified(self) -> datetime:
        return parsedate_to_datetime(self.headers["last-modified"])


def _matches(header: str, tag: str, *, weakly: bool) -> bool:
    """Tell whether a list of entity tags, or ``*``, includes the file's own, which is strong."""
    if header.strip() == "*":
        return True
    tags = _ENTITY_TAG.findall(header)
    return tag in tags or (weakly and f"W/{tag}" in tags)


def _time_of(date: str | None) -> datetime | None:
    """A time in a header; None if it is invalid, which then sets no condition."""
    try:
        time = parsedate_to_datetime(date or "")
    except (ValueError, OverflowError):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _with_known_range(scope: Scope) -> Scope:
    """The request without a range in an unknown unit, which has to be ignored."""
    ranges = [value for name, value in scope["headers"] if name == b"range"]
    if not ranges or ranges[0].partition(b"=")[0].strip().lower() == b"bytes":
        return scope
    return {**scope, "headers": [pair for pair in scope["headers"] if pair[0] != b"range"]}
