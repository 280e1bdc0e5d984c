"""JSON bodies: parsed where a rule asks, within bounds of size and depth."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from itertools import accumulate
from typing import Any

import msgspec

MOST_BYTES = 256 * 1024
MOST_DEPTH = 500  # a body nested deeper is refused, wherever on Python's stack we are

TOO_LARGE, TOO_DEEP, NOT_JSON = "body too large", "body nested too deep", "body not JSON"

_decode = msgspec.json.Decoder().decode
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_OTHERS = bytes(sorted(set(range(256)) - set(b"[]{}")))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")


def parse(body: bytes, refused: Counter[str], *, most_bytes: int = MOST_BYTES) -> Any:
    """A body as JSON values; None where it is none, or none that is read, which is counted.

    A body that does not begin like an object or an array is not JSON, and nobody said so.
    """
    if body[:1] not in (b"{", b"[") and body[:64].lstrip()[:1] not in (b"{", b"["):
        return None
    if len(body) > most_bytes:
        refused[TOO_LARGE] += 1
    elif _is_too_deep(body):
        refused[TOO_DEEP] += 1
    else:
        try:
            return _decode(body)
        except (ValueError, RecursionError):  # `msgspec.DecodeError` is a `ValueError`
            refused[NOT_JSON] += 1
    return None


def _is_too_deep(body: bytes) -> bool:
    if body.count(b"[") + body.count(b"{") <= MOST_DEPTH:  # nearly always
        return False
    steps = array("b", _STRINGS.sub(b"", body).translate(_STEPS, _OTHERS))
    return max(accumulate(steps), default=0) > MOST_DEPTH
