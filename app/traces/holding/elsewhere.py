"""The other services on the same database, and the traces that they run."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec

from app.errors import ConflictError
from app.stored.capture import LeasedTrace, Service, Trace
from app.traces.life import Standing, TraceState
from app.traces.status import Snapshot

if TYPE_CHECKING:
    from app.store.holding.services import Services

log = logging.getLogger(__name__)

# Pause between looks whether another service has fulfilled a request.
LOOK_SECONDS = 0.1


class Ability(msgspec.Struct, frozen=True):
    """A service's reach: the broker or not, and the traces that it can take over at once."""

    reaches: bool = True
    prepared: Collection[int] = ()


class _Account(Ability, frozen=True):
    traces: Mapping[int, Snapshot] = {}


Account = TypeVar("Account", bound=Ability)


class Elsewhere:
    """The services beside this one."""

    def __init__(self, store: Services, service: str) -> None:
        self._store = store
        self.service = service  # this one

    async def peers(self) -> Peers:
        return Peers(self.service, await self._store.all())

    async def check(self, trace: Trace) -> None:
        """Raise `ConflictError` if a trace runs in another service."""
        peers = await self.peers()
        if trace.holder != self.service and (name := peers.name_of(trace.holder)):
            raise ConflictError(
                f"the trace of {trace.vhost!r} runs in the service {name}: ask that one"
            )

    async def wait(
        self, vhost: str, seconds: float, is_done: Callable[[LeasedTrace], object]
    ) -> bool:
        """Wait until ``is_done`` holds for a trace; False if it does not within ``seconds``."""
        deadline = time.monotonic() + seconds
        while True:
            for trace in await self._store.leased_traces():
                if trace.vhost == vhost and is_done(trace):
                    return True
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(LOOK_SECONDS)


class Peers:
    """The services at one moment, as one of them sees the others."""

    def __init__(self, service: str, services: Sequence[Service]) -> None:
        self._service = service
        self._services = {peer.id: peer for peer in services}
        self._snapshots: dict[str, Mapping[int, Snapshot]] = {}

    @property
    def are_there(self) -> bool:
        return any(peer.is_alive and peer.id != self._service for peer in self._services.values())

    def name_of(self, holder: str | None) -> str | None:
        """The name of the service that holds a trace; None if no living one does."""
        peer = self._services.get(holder or "")
        return peer.name if peer is not None and peer.is_alive else None

    def snapshot(self, trace_id: int, wanted: bool, holder: str | None) -> Snapshot | None:
        """The status of a trace that does not run here; None if it rightly runs nowhere."""
        if holder == self._service or not self.are_there:
            return None
        if self.name_of(holder) is not None:
            return self._snapshots_of(holder or "").get(trace_id, Snapshot(Standing()))
        if wanted:
            return Snapshot(Standing(TraceState.waiting, "a service to run it"))
        return None

    def _snapshots_of(self, holder: str) -> Mapping[int, Snapshot]:
        if holder not in self._snapshots:
            self._snapshots[holder] = _decode(self._services[holder], _Account).traces
        return self._snapshots[holder]


def encode_snapshots(
    snapshots: Mapping[int, Snapshot], reaches: bool = True, prepared: Collection[int] = ()
) -> bytes:
    """Snapshots of traces by their ids, and this service's ability, as the others read them."""
    return msgspec.json.encode(_Account(reaches, [*prepared], snapshots))


def ability(service: Service) -> Ability:
    """The ability of a service, as of its last renewal."""
    return _decode(service, Ability)


def _decode(service: Service, account: type[Account]) -> Account:
    try:
        return msgspec.json.decode(service.snapshots or b"{}", type=account)
    except msgspec.MsgspecError as error:  # of another version, while they are being replaced
        log.debug("what another service says of its traces cannot be read: %s", error)
        return account()
