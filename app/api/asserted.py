"""Assertions as people send them: a file of several, or one of them."""

from __future__ import annotations

from typing import Any

import msgspec

from app.assertion_files import read
from app.errors import BadRequestError
from model.assertions import Assertion, InvalidAssertionError, from_json, to_json


async def assertions_in(body: bytes) -> list[Assertion]:
    """The assertions of a file, in their order; raises `BadRequestError`."""
    try:
        return await read(body)
    except InvalidAssertionError as error:
        raise BadRequestError(str(error)) from None


def assertion_in(name: str, body: bytes) -> str:
    """The text of one assertion of this name, an object of JSON; raises `BadRequestError`."""
    try:
        given = msgspec.json.decode(body, type=dict[str, Any])
        found = from_json({"name": name, **given})
    except (msgspec.MsgspecError, InvalidAssertionError, RecursionError) as error:
        raise BadRequestError(f"this is no assertion: {error}") from error
    if found.name != name:
        raise BadRequestError(f"the assertion is called {found.name!r}, and the path's is not")
    return text_of(found)


def text_of(assertion: Assertion) -> str:
    """The text of an assertion, as the store has it."""
    return msgspec.json.encode(to_json(assertion)).decode()
