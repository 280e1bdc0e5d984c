"""What watching needs of the store, the traces and the network, as protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from app.stored.assertions import Delivery, Violation


class ViolationStore(Protocol):
    """What did not hold (`app.store.violations`)."""

    async def claim(self, now: int, until: int, limit: int) -> Sequence[Violation]: ...
    async def told(
        self,
        violation_id: int,
        *,
        at: int,
        error: str | None = None,
        next_at: int | None = None,
    ) -> None: ...
    async def deliveries(self) -> Mapping[Delivery, int]: ...


class Post(Protocol):
    """Sends something to the one address that the setting names (`app.watch.post`)."""

    async def send(self, body: bytes, headers: Mapping[str, str]) -> None: ...
    async def close(self) -> None: ...
