"""Messages as the management API shows them: read whatever their body, as they are taken out."""

from __future__ import annotations

import msgspec
import pytest

from app.broker.undeliverable import read_messages


@pytest.mark.parametrize(
    ("payload", "body"), [("/wA=", b"\xff\0"), ("/w\nA=", b"\xff\0"), ("/wA", b""), ("é", b"")]
)
def test_base64_is_read_leniently_and_counts_as_empty_where_it_is_damaged(
    payload: str, body: bytes
) -> None:
    shown = {"routing_key": "key", "payload": payload, "payload_encoding": "base64"}
    assert [each.body for each in read_messages(msgspec.json.encode([shown]))] == [body]
