"""Bodies of AMQP 1.0 as text. The bytes are what Qpid Proton 0.40 made of the values."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from app.tracker.values import as_text


@given(st.binary(max_size=60), st.sampled_from([b"", b"\0Sw", b"\0Sv", b"\0Sw\xc1", b"\0Sw\xe0"]))
def test_any_bytes_are_read_or_left(body: bytes, before: bytes) -> None:
    text = as_text(before + body)
    if text is not None and text[:1] in (b"{", b"["):
        try:
            json.loads(text)
        except ValueError:
            assert text in body  # a value that is text, and begins as JSON does
