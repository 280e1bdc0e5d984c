"""Bodies in MessagePack and CBOR, as JSON: read by msgspec and cbor2, by their content type.

What they hold beyond JSON's values is not read, tags of CBOR among it: such a body stays as it is,
which is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn

import cbor2
import msgspec

from model.bodies import TOO_LARGE

MOST_BYTES: Final = 64 * 1024  # each may be a value: 7 ms to read and to write as JSON
NOT_PACKED: Final = "body not MessagePack"
NOT_CBOR: Final = "body not CBOR"
_DEEPEST, _TAGS = 256, 1 << 16
_SELF_DESCRIBED = b"\xd9\xd9\xf7"


def _refuse_tag(*_: Any) -> NoReturn:
    # Dates, patterns, numbers to any power, references: none is JSON's, and many are work.
    raise ValueError("a tag")


class _Format(NamedTuple):
    first_bytes: frozenset[int]  # of maps and arrays, which are no text's in UTF-8
    decode: Callable[[bytes], Any]
    not_readable: str


_to_json = msgspec.json.Encoder().encode
_from_cbor = partial(
    cbor2.loads,
    tag_hook=_refuse_tag,
    semantic_decoders=dict.fromkeys(range(_TAGS), _refuse_tag),
    max_depth=_DEEPEST,
    strict_hashable_types=True,
)
_FORMATS = {
    "msgpack": _Format(
        frozenset({*range(0x80, 0xA0), *range(0xDC, 0xE0)}),
        msgspec.msgpack.Decoder().decode,
        NOT_PACKED,
    ),
    "cbor": _Format(
        frozenset({*range(0x80, 0xC0), _SELF_DESCRIBED[0]}),
        lambda body: _from_cbor(body.removeprefix(_SELF_DESCRIBED)),
        NOT_CBOR,
    ),
}
_FAULTS = (
    *(msgspec.MsgspecError, cbor2.CBORError),
    *(ValueError, TypeError, OverflowError, RecursionError),
)
FIRST_BYTES: Final = frozenset[int]().union(*(each.first_bytes for each in _FORMATS.values()))


def json_body(body: bytes, content_type: Any, refused: Counter[str]) -> bytes:
    """A map or an array in one of these formats as JSON; any other body as it is."""
    kind = content_type.lower() if type(content_type) is str else ""
    form = next((form for name, form in _FORMATS.items() if name in kind), None)
    if form is None or body[0] not in form.first_bytes:
        return body
    if len(body) > MOST_BYTES:
        refused[TOO_LARGE] += 1
        return body
    try:
        return _to_json(form.decode(body))
    except _FAULTS:
        refused[form.not_readable] += 1
        return body
