"""Rights that are taken away while a request goes on."""

from __future__ import annotations

from fastapi import Request

from app.api.signin.auth import User, signed_in
from app.errors import ItcError, NotAuthorisedError


async def check_rights(user: User, request: Request) -> None:
    """Raise an `ItcError` unless the broker still says of a user what it said at the beginning.

    It is believed for as long as with any request.
    """
    if await signed_in(request) != user:
        raise NotAuthorisedError("your rights have changed: sign in again")


async def reason_to_drop(user: User, request: Request) -> str | None:
    """Why a stream that goes on may not; None where it may."""
    try:
        await check_rights(user, request)
    except ItcError as error:
        return str(error)
    return None
