"""Trace messages that could not be read."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec.structs import replace

from model.described import INNER
from model.payloads import Encoding, payload_text
from model.times import Microseconds


class Quarantined(msgspec.Struct, frozen=True):
    """A trace message that could not be read."""

    id: int
    vhost: str
    recorded_at: Microseconds
    reason: str
    routing_key: str
    headers: Annotated[
        str | None,
        "What could be shown of its header table, as JSON, cut. `null`, as `body`, for whom the "
        "broker would not hand every message of the virtual host.",
    ]
    kept: Annotated[bytes | None, INNER]
    body_bytes: int

    @property
    def body(self) -> str | None:
        """What is kept of it, as text; see `body_encoding`."""
        return None if self.kept is None else self._text(self.kept)[0]

    @property
    def body_encoding(self) -> Encoding:
        """As an event's `payload_encoding`."""
        return "withheld" if self.kept is None else self._text(self.kept)[1]

    def _text(self, kept: bytes) -> tuple[str | None, Encoding]:
        return payload_text(kept, len(kept) < self.body_bytes)

    def without_content(self) -> Quarantined:
        """For whom the broker would not hand it; of which queue it is, nobody can tell."""
        return replace(self, headers=None, kept=None)
