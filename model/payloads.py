"""Payloads as text."""

from __future__ import annotations

import base64
from typing import Literal, TypeAlias

Encoding: TypeAlias = Literal["string", "base64", "withheld"]

_LONGEST_UTF8 = 4


def payload_text(payload: bytes | None, cut: bool) -> tuple[str | None, Encoding]:
    """A payload as text, and how: "string" where it is UTF-8, else "base64".

    A payload that was cut may end in the middle of a character; that piece is left out.
    """
    if payload is None:
        return None, "string"
    for cut_bytes in range(_LONGEST_UTF8 if cut else 1):
        try:
            return payload[: len(payload) - cut_bytes].decode(), "string"
        except UnicodeDecodeError:
            continue
    return base64.b64encode(payload).decode(), "base64"
