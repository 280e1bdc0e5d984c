"""Assertions as people send them: a file of several, or one of them."""

from __future__ import annotations

from typing import Any

import msgspec

from app.errors import BadRequestError
from app.watch.subjects import subject_of


def assertions_in(body: bytes) -> dict[str, str]:
    """The assertions of a file, texts by name in their order; raises `BadRequestError`."""
    given = _decoded(body)
    if not isinstance(given, dict) or not isinstance(given.get("assertions"), list):
        raise BadRequestError("the body is a file of assertions: an object with a list of them")
    texts: dict[str, str] = {}
    for at, each in enumerate(given["assertions"]):
        name = each.get("name") if isinstance(each, dict) else None
        if not isinstance(name, str) or name in texts:
            raise BadRequestError(f"assertions.{at}: an assertion has a name of its own")
        texts[name] = _text(each)
    return texts


def assertion_in(name: str, body: bytes) -> str:
    """The text of one assertion of this name; raises `BadRequestError`."""
    given = _decoded(body)
    if not isinstance(given, dict):
        raise BadRequestError("the body is an assertion")
    said = {"name": name, **given}
    if said["name"] != name:
        raise BadRequestError(f"the assertion is called {said['name']!r}, and the path's is not")
    return _text(said)


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise BadRequestError(f"the assertions cannot be read: {error}") from error


def _text(said: dict[str, Any]) -> str:
    text = msgspec.json.encode(said).decode()
    try:
        subject_of(text)
    except ValueError as error:
        raise BadRequestError(str(error)) from error
    return text
