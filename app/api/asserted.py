"""Assertions as people send them: a file of several, or one of them."""

from __future__ import annotations

from typing import Any

import msgspec

from app.assertion_files import parse
from app.errors import BadRequestError
from model.assertions import Assertion, InvalidAssertionError, from_json, to_json


def assertions_in(body: bytes) -> dict[str, str]:
    """The assertions of a file, texts by name in their order; raises `BadRequestError`."""
    return {each.name: _text(each) for each in _parsed(body)}


def assertion_in(name: str, body: bytes) -> str:
    """The text of one assertion of this name, an object of JSON; raises `BadRequestError`."""
    try:
        given = msgspec.json.decode(body, type=dict[str, Any])
        found = from_json({"name": name, **given})
    except (msgspec.MsgspecError, InvalidAssertionError) as error:
        raise BadRequestError(f"this is no assertion: {error}") from error
    if found.name != name:
        raise BadRequestError(f"the assertion is called {found.name!r}, and the path's is not")
    return _text(found)


def _parsed(body: bytes) -> list[Assertion]:
    try:
        return parse(body)
    except InvalidAssertionError as error:
        raise BadRequestError(str(error)) from error


def _text(assertion: Assertion) -> str:
    return msgspec.json.encode(to_json(assertion)).decode()
