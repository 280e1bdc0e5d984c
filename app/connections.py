"""Bounds on client connections: in all, and from one address.

Each connection takes a descriptor, of which a process has a limited number: the broker, the
database and the exports need theirs whatever clients do.
"""

from __future__ import annotations

import logging
import resource
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Protocol

from uvicorn.middleware.proxy_headers import _TrustedHosts

from app.api.layers.metrics import HttpMetrics
from app.api.signin.throttle import network_of
from app.settings import Settings

logger = logging.getLogger(__name__)

CAPACITY = 4_096  # unless a setting says otherwise or there are too few descriptors
_DESCRIPTORS_MOST = 65_536  # no more: some libraries loop over all of them
_LOG_EVERY = 60.0  # seconds between two lines about refusals


class HeldConnection(Protocol):
    """A connection that can be taken from its client."""

    def give_up(self) -> None: ...


@dataclass(eq=False)
class Admission:
    """Admits connections within both bounds, and ends a waiting one to make room for a new one.

    A connection without a complete request under way has nothing to lose but its place, so the one
    that has waited longest goes first: a silent client loses to one with a request, even from the
    same address. If all are at work, the new one is refused. A proxy named in the settings stands
    for many clients, so only the total bounds it.
    """

    capacity: int
    capacity_of_one: int
    metrics: HttpMetrics
    _: KW_ONLY
    proxies: tuple[str, ...] = ()
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._proxies = _TrustedHosts(list(self.proxies))
        self._network: dict[HeldConnection, str] = {}
        self._held_by: Counter[str] = Counter()
        self._idle: dict[HeldConnection, None] = {}  # longest waiting first
        self._refused_since_log = 0
        self._logged_at = -_LOG_EVERY

    def __len__(self) -> int:
        return len(self._network)

    def admit(self, connection: HeldConnection, address: str) -> bool:
        """Admit a connection, if need be in place of a waiting one; False to refuse it."""
        network = network_of(address)
        is_full = self._held_by[network] >= self.capacity_of_one and address not in self._proxies
        if is_full and not self._make_room(network):
            self._refuse("address", f"{network} has {self.capacity_of_one}")
            return False
        if len(self) >= self.capacity and not self._make_room():
            self._refuse("total", f"there are {self.capacity} of all clients")
            return False
        self._network[connection] = network
        self._held_by[network] += 1
        self.metrics.connections.set(len(self))
        self.waits(connection)
        return True

    def waits(self, connection: HeldConnection) -> None:
        """Note that a connection no longer has a complete request under way."""
        if connection in self._network:
            self._idle.setdefault(connection)

    def works(self, connection: HeldConnection) -> None:
        """Note that a complete request on the connection is being answered."""
        self._idle.pop(connection, None)

    def release(self, connection: HeldConnection) -> None:
        """Forget a connection that has ended; a second call does no harm."""
        self.works(connection)
        network = self._network.pop(connection, None)
        if network is not None:
            self._held_by[network] -= 1
            if not self._held_by[network]:
                del self._held_by[network]
            self.metrics.connections.set(len(self))

    def cut(self, state: str) -> None:
        self.metrics.cut.labels(state).inc()

    def _make_room(self, network: str | None = None) -> bool:
        """End the connection that has waited longest, of all or of a network; False if none has."""
        for longest in self._idle:
            if network is None or self._network[longest] == network:
                self.release(longest)
                self.cut("replaced")
                longest.give_up()
                return True
        return False

    def _refuse(self, limit: str, sentence: str) -> None:
        self.metrics.refused.labels(limit).inc()
        self._refused_since_log += 1
        moment = self.clock()
        if moment - self._logged_at >= _LOG_EVERY:
            logger.warning(
                "%d connection(s) refused: %s connections, all with requests under way "
                "(ITC_CONNECTIONS)",
                self._refused_since_log,
                sentence,
            )
            self._logged_at, self._refused_since_log = moment, 0


def raise_descriptors() -> None:
    """Raise the limit of descriptors as far as allowed: many systems start with 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _DESCRIPTORS_MOST if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS_MOST)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


def descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _DESCRIPTORS_MOST if soft == resource.RLIM_INFINITY else soft


def open_admission(settings: Settings, metrics: HttpMetrics, available: int) -> Admission:
    """The bounds that follow from the settings and the number of descriptors.

    Three eighths of the descriptors are kept for the service's own files and connections, and for
    clients that have connected and are about to be refused.
    """
    room = max(1, available * 5 // 8)
    capacity = settings.connections or min(CAPACITY, room)
    if capacity > room:
        logger.warning(
            "ITC_CONNECTIONS=%d is more than %d descriptors leave room for: %d (raise LimitNOFILE "
            "or ulimit -n)",
            capacity,
            available,
            room,
        )
        capacity = room
    return Admission(capacity, max(1, capacity // 2), metrics, proxies=settings.trusted_proxies)
