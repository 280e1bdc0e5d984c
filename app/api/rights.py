"""Rights that are taken away while a request is running."""

from __future__ import annotations

from fastapi import Request

from app.api.signin.auth import User, signed_in
from app.errors import ItcError, NotAuthorisedError


async def check_rights(user: User, request: Request) -> None:
    """Raise an `ItcError` unless the user still has the rights it started with.

    The broker's answer is remembered as long as for any other request.
    """
    if await signed_in(request) != user:
        raise NotAuthorisedError("your rights have changed: sign in again")


async def reason_to_drop(user: User, request: Request) -> str | None:
    """Why a running stream has to end; None if it may go on."""
    try:
        await check_rights(user, request)
    except ItcError as error:
        return str(error)
    return None
