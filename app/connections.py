"""How many connections of clients there are: in all, and from one address.

A connection holds a descriptor, and a process has only so many of them: the broker, the database
and the exports need theirs whatever clients do.
"""

from __future__ import annotations

import ipaddress
import logging
import resource
import time
from collections.abc import Callable
from typing import Protocol

from app.api.layers.metrics import HttpMetrics
from app.api.signin.throttle import network_of
from app.settings import Settings

logger = logging.getLogger(__name__)

MOST = 4_096  # where no setting says otherwise and there are descriptors enough
_DESCRIPTORS_MOST = 65_536  # more are not asked for: some libraries walk through all of them
_LOG_EVERY = 60.0  # seconds between two lines about refusals


class Held(Protocol):
    """A connection, as far as it can be taken from its client."""

    def give_up(self) -> None:
        """Cut the connection off."""
        ...


class Connections:
    """Admits connections within both bounds, and ends one that waits to make room for a new one.

    One with no whole request under way has nothing to lose but its place, so the longest waiting
    goes first. Whoever holds connections by saying nothing is outlived by whoever asks something,
    from the same address too. Where all have work under way the new one is refused.

    A proxy that the settings name is as many clients as it has: it is bounded by the total alone.
    """

    def __init__(
        self,
        most: int,
        most_of_one: int,
        metrics: HttpMetrics,
        *,
        proxies: tuple[str, ...] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most = most
        self.most_of_one = most_of_one
        self._metrics = metrics
        self._is_proxy = _matcher(proxies)
        self._clock = clock
        self._address: dict[Held, str] = {}
        self._of: dict[str, dict[Held, None]] = {}
        # Both in the order of their waiting.
        self._waiting: dict[Held, None] = {}
        self._waiting_of: dict[str, dict[Held, None]] = {}
        self._refused_since_log = 0
        self._logged_at = -_LOG_EVERY

    def __len__(self) -> int:
        return len(self._address)

    def admit(self, connection: Held, address: str) -> bool:
        """Take a connection in, at the cost of one that waits if need be; False to refuse it."""
        network = network_of(address)
        if not self._is_proxy(address) and not self._room(
            len(self._of.get(network, ())), self.most_of_one, self._waiting_of.get(network, {})
        ):
            self._refuse("address", f"{network} has {self.most_of_one}")
            return False
        if not self._room(len(self._address), self.most, self._waiting):
            self._refuse("total", f"there are {self.most} of all clients")
            return False
        self._address[connection] = network
        self._of.setdefault(network, {})[connection] = None
        self._metrics.connections.set(len(self._address))
        self.waits(connection)
        return True

    def waits(self, connection: Held) -> None:
        """Note that a connection has no whole request under way, from now on."""
        network = self._address.get(connection)
        if network is not None and connection not in self._waiting:
            self._waiting[connection] = None
            self._waiting_of.setdefault(network, {})[connection] = None

    def works(self, connection: Held) -> None:
        """Note that a whole request of the connection is being answered."""
        network = self._address.get(connection)
        if network is not None:
            self._waiting.pop(connection, None)
            _discard(self._waiting_of, network, connection)

    def release(self, connection: Held) -> None:
        """Forget a connection that has ended; once is enough, twice does no harm."""
        self.works(connection)
        network = self._address.pop(connection, None)
        if network is not None:
            _discard(self._of, network, connection)
            self._metrics.connections.set(len(self._address))

    def cut(self, state: str) -> None:
        """Count a connection that the service ended, by what it was doing."""
        self._metrics.cut.labels(state).inc()

    def _room(self, count: int, most: int, waiting: dict[Held, None]) -> bool:
        if count < most:
            return True
        longest = next(iter(waiting), None)
        if longest is None:
            return False
        self.release(longest)
        self.cut("replaced")
        longest.give_up()
        return True

    def _refuse(self, bound: str, sentence: str) -> None:
        self._metrics.refused.labels(bound).inc()
        self._refused_since_log += 1
        now = self._clock()
        if now - self._logged_at >= _LOG_EVERY:
            logger.warning(
                "%d connection(s) refused: %s connections, all with requests under way "
                "(ITC_CONNECTIONS, ITC_CONNECTIONS_PER_ADDRESS)",
                self._refused_since_log,
                sentence,
            )
            self._logged_at, self._refused_since_log = now, 0


def _discard(groups: dict[str, dict[Held, None]], network: str, connection: Held) -> None:
    group = groups.get(network)
    if group is not None:
        group.pop(connection, None)
        if not group:
            del groups[network]


def _matcher(proxies: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether an address is one of the proxies: addresses, networks, or ``*`` for all."""
    networks = []
    for proxy in proxies:
        try:
            networks.append(ipaddress.ip_network(proxy))
        except ValueError:
            continue  # a name, which no address of a connection is

    def is_proxy(address: str) -> bool:
        if "*" in proxies:
            return True
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in networks)

    return is_proxy


def raise_descriptors() -> None:
    """Take as many descriptors as the process may have: many systems begin with 1024 of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS_MOST if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS_MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def descriptors() -> int:
    """How many descriptors the process may open now."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _DESCRIPTORS_MOST if soft == resource.RLIM_INFINITY else soft


def bounded(settings: Settings, metrics: HttpMetrics, available: int) -> Connections:
    """The bounds that the settings and the number of descriptors make.

    Three eighths of the descriptors stay for what the service itself opens, and for those who
    have connected and are not yet refused.
    """
    room = max(1, available * 5 // 8)
    most = settings.connections or min(MOST, room)
    if most > room:
        logger.warning(
            "ITC_CONNECTIONS=%d is more than %d descriptors leave room for: %d (raise LimitNOFILE "
            "or ulimit -n)",
            most,
            available,
            room,
        )
        most = room
    most_of_one = settings.connections_per_address or max(1, most // 2)
    return Connections(most, min(most, most_of_one), metrics, proxies=settings.trusted_proxies)
