"""Readiness: everything that the service depends on answers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from app.errors import ItcError, NotInstalledError

Condition: TypeAlias = Literal["ok", "unavailable"]

logger = logging.getLogger(__name__)

_PATIENCE_SECONDS = 5.0
_BELIEVED_SECONDS = 1.0


class Health(msgspec.Struct, frozen=True):
    """A probe's answer."""

    status: Condition
    checks: Annotated[
        dict[str, str], "`ok`, `unavailable` or, of what the service does without, what to install."
    ]


class Readiness:
    """Asks each dependency, and believes the answers for a second.

    Anybody may ask, as often as they like, without any load on the broker and the database.
    """

    def __init__(self, **questions: Callable[[], Awaitable[Any]]) -> None:
        """``questions`` by name: each returns if all is well, otherwise raises an `ItcError`."""
        self._questions = questions
        self._checks: dict[str, str] = {}
        self._expires_at = 0.0
        self._turn = asyncio.Lock()
        self._unanswered: dict[str, asyncio.Future[Any]] = {}

    async def checks(self) -> dict[str, str]:
        async with self._turn:
            if time.monotonic() >= self._expires_at:
                conditions = (self._condition(name) for name in self._questions)
                self._checks = dict(
                    zip(self._questions, await asyncio.gather(*conditions), strict=True)
                )
                self._expires_at = time.monotonic() + _BELIEVED_SECONDS
            return self._checks

    async def _condition(self, name: str) -> str:
        """A dependency's condition; one that has not answered yet is not asked again."""
        question = self._unanswered.pop(name, None)
        if question is None:
            question = asyncio.ensure_future(self._questions[name]())
        # Not a timeout around it: a transaction comes to its end before it lets its caller go.
        await asyncio.wait({question}, timeout=_PATIENCE_SECONDS)
        if not question.done():
            self._unanswered[name] = question
            logger.warning("not ready: %s: no answer in time", name)
            return "unavailable"
        try:
            question.result()
        except NotInstalledError as error:
            return str(error)
        except (ItcError, TimeoutError) as error:
            logger.warning("not ready: %s: %s", name, error or "no answer in time")
            return "unavailable"
        return "ok"
