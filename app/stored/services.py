"""The services on one database, and the traces that they hold."""

from __future__ import annotations

import msgspec


class Service(msgspec.Struct, frozen=True):
    """A service as the others see it; times in µs, by the database's clock.

    ``idle_since`` is when it last took a trace, or started; ``exports`` which folder its exports
    are in; ``snapshots`` how its traces were when it was last heard of, opaque to the store.
    """

    id: str
    name: str
    started_at: int
    idle_since: int
    is_alive: bool
    exports: str | None = None
    snapshots: bytes | None = None


class Held(msgspec.Struct, frozen=True):
    """A trace, whether it should run, and the service that holds it, alive or dead."""

    trace_id: int
    vhost: str
    wanted: bool
    holder: str | None
