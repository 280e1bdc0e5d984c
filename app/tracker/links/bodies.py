"""JSON bodies: parsed where a rule asks, within bounds of size and depth.

They are read as their senders meant them, where that is not plain JSON: behind a byte order mark,
in UTF-16, in Latin-1, with NaN as Python and JavaScript's relatives write it, or compressed.
"""

from __future__ import annotations

import codecs
import json
import re
import zlib
from array import array
from collections import Counter
from itertools import accumulate
from typing import Any

import msgspec

MOST_BYTES = 256 * 1024
MOST_DEPTH = 500  # a body nested deeper is refused, wherever on Python's stack we are

TOO_LARGE, TOO_DEEP, NOT_JSON = "body too large", "body nested too deep", "body not JSON"
BROKEN, UNKNOWN = "body not decompressed", "body in an unknown encoding"

_COMPRESSED = {"gzip": 31, "x-gzip": 31, "deflate": 15, "zlib": 15}  # and the window for `zlib`
# What says nothing of compression: character sets, and the encodings of mail.
_PLAIN = re.compile(
    r"|utf-?(8|16|32)([bl]e)?|(us-)?ascii|iso-?8859.*|latin-?1|windows-.*|binary"
    r"|identity|none|7bit|8bit|base64|quoted-printable",
    re.IGNORECASE,
).fullmatch
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b"\x1f\x8b")
MARKED = frozenset(mark[0] for mark in _MARKS)
"""First bytes of bodies that may be `decoded`."""


def decoded(body: bytes, encoding: Any, refused: Counter[str]) -> bytes:
    """A body as plain UTF-8, as its first bytes or its ``content_encoding`` say what it is.

    As it is given if that fails, which is counted.
    """
    given = body
    named = encoding.strip().lower() if type(encoding) is str else ""
    window = _COMPRESSED.get(named) or (31 if body.startswith(_MARKS[3]) else None)
    if window is not None:
        reader = zlib.decompressobj(window)
        try:
            body = reader.decompress(body, MOST_BYTES)
        except zlib.error:
            refused[BROKEN] += 1
            return given
        if not reader.eof:
            refused[TOO_LARGE if reader.unconsumed_tail else BROKEN] += 1
            return given
    elif not _PLAIN(named):
        refused[UNKNOWN] += 1
        return given
    if body.startswith(codecs.BOM_UTF8):
        return body[3:]
    if body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return body.decode("utf-16", "replace").encode()
    return body


def decompressed(body: bytes, encoding: str | None) -> bytes | None:
    """A compressed body as `decoded`; None if it is not compressed, or cannot be read."""
    read = decoded(body, encoding, Counter())
    return None if read is body else read


_decode = msgspec.json.Decoder().decode
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_OTHERS = bytes(sorted(set(range(256)) - set(b"[]{}")))
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")


def parse(body: bytes, refused: Counter[str]) -> Any:
    """A body as JSON values; None where it is none, or none that is read, which is counted.

    A body that does not begin like an object or an array is not JSON, and nobody said so.
    """
    if body[:1] not in (b"{", b"[") and body[:64].lstrip()[:1] not in (b"{", b"["):
        return None
    if len(body) > MOST_BYTES:
        refused[TOO_LARGE] += 1
    elif _is_too_deep(body):
        refused[TOO_DEEP] += 1
    else:
        try:
            return _decode(body)
        except (ValueError, RecursionError):  # `msgspec.DecodeError` is a `ValueError`
            return _parse_oddly(body, refused)
    return None


def _parse_oddly(body: bytes, refused: Counter[str]) -> Any:
    """A body that is not JSON by the book: of UTF-16 without a mark, of Latin-1, or with NaN."""
    charset = "utf-8"
    if body[1:2] == b"\0" or body[:1] == b"\0":
        charset = "utf-16-le" if body[1:2] == b"\0" else "utf-16-be"
    for each in (charset, "latin-1"):
        try:
            return json.loads(body.decode(each))
        except UnicodeDecodeError:
            continue
        except (ValueError, RecursionError):
            break
    refused[NOT_JSON] += 1
    return None


def _is_too_deep(body: bytes) -> bool:
    if body.count(b"[") + body.count(b"{") <= MOST_DEPTH:  # nearly always
        return False
    steps = array("b", _STRINGS.sub(b"", body).translate(_STEPS, _OTHERS))
    return max(accumulate(steps), default=0) > MOST_DEPTH
