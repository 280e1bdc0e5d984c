"""Rights that are taken away while a request is running."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from app.api.problems import note_denial
from app.api.services import Parts
from app.api.signin.auth import User, sign_in
from app.errors import ItcError, NotAuthorisedError

T = TypeVar("T")


async def check_rights(user: User, request: Request) -> None:
    """Raise an `ItcError` unless the user still has the rights it started with.

    The broker's answer is remembered as long as for any other request.
    """
    if await sign_in(request) != user:
        raise NotAuthorisedError("your rights have changed: sign in again")


async def reason_to_drop(user: User, request: Request) -> str | None:
    """The reason why a running stream has to end; None if it may go on."""
    try:
        await check_rights(user, request)
    except ItcError as error:
        note_denial(request, error)
        return str(error)
    return None


async def while_allowed(
    work: Coroutine[Any, Any, T],
    seconds: float,
    parts: Parts,
    user: User,
    request: Request,
    look_seconds: float,
) -> T | None:
    """The result of some work; None if the time is up or the service stops first.

    Every ``look_seconds`` it raises an `ItcError` if the user has lost its rights.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    working = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(parts.stopping.wait())
    tasks = {working, stopping}
    try:
        while not any(task.done() for task in tasks) and (remaining := deadline - loop.time()) > 0:
            pause = min(remaining, look_seconds)
            await asyncio.wait(tasks, timeout=pause, return_when="FIRST_COMPLETED")
            await check_rights(user, request)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        stopping.cancel()
