"""Slows down password guessing; nobody can use it to lock somebody else out."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import msgspec

from app.api.problems import SlowDownError

Key = TypeVar("Key")

LONGEST_WAIT = 60.0  # seconds between sign-ins, however many have failed
FORGOTTEN_AFTER = 900.0  # seconds
_LONGEST_NAME = 64  # characters of an invalid address
ADDRESS_FACTOR = 10  # many users may share an address (a proxy's), so it is allowed more


class SignInAttempt(NamedTuple):
    """A sign-in that was let through and whose outcome is not known yet."""

    user: str
    network: str
    wait: float  # when the network's next attempt may come, because of this one


class SignInThrottle:
    """Makes sign-ins wait longer after each failure, per user and address, and per address.

    An attempt counts as failed until it is known to have succeeded, so that sending many guesses at
    once does not help. Guesses from elsewhere never slow a user down: that would be a way to lock
    somebody out.

    Users and addresses are counted separately, ``capacity`` of each. Beyond that, the one whose
    last failure is longest ago is forgotten: refusing newcomers would be another way to lock people
    out, and somebody with enough addresses to be forgotten has as many first guesses anyway.
    """

    def __init__(
        self, failures: int, clock: Callable[[], float] = time.monotonic, capacity: int = 10_000
    ) -> None:
        self._clock = clock
        self._users = _Failures[tuple[str, str]](failures, capacity)
        self._networks = _Failures[str](failures * ADDRESS_FACTOR, capacity)

    def admit(self, user: str, address: str) -> SignInAttempt:
        """Count an attempt; raises `SlowDownError` where it comes too early."""
        network, moment = network_of(address), self._clock()
        key = (network, user)
        wait = max(self._users.waits_until(key), self._networks.waits_until(network)) - moment
        if wait > 0:
            raise SlowDownError("too many failed sign-ins: wait before the next", wait)
        self._users.count(key, moment)
        return SignInAttempt(user, network, self._networks.count(network, moment))

    def forgive(self, attempt: SignInAttempt) -> None:
        """Forgive the user's failures from this address: their author knows the password.

        Failures with other users' names stay, and so does the wait they cause.
        """
        failures = self._users.forget((attempt.network, attempt.user))
        self._networks.take_back(attempt.network, failures, attempt.wait)

    def take_back(self, attempt: SignInAttempt) -> None:
        """Take one attempt back: the broker did not say whether it was right."""
        self._users.take_back((attempt.network, attempt.user), 1)
        self._networks.take_back(attempt.network, 1, attempt.wait)


class _Entry(msgspec.Struct):
    failures: int = 0
    last: float = 0.0
    waits_until: float = 0.0


class _Failures(Generic[Key]):
    """Failures by key; after ``allowed`` of them each further one doubles the wait."""

    def __init__(self, free: int, capacity: int) -> None:
        self._free = free
        self._capacity = capacity
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()

    def waits_until(self, key: Key) -> float:
        entry = self._entries.get(key)
        return entry.waits_until if entry else 0.0

    def count(self, key: Key, moment: float) -> float:
        entry = self._entries.setdefault(key, _Entry())
        if moment - entry.last > FORGOTTEN_AFTER:
            entry.failures = 0
        entry.failures += 1
        entry.last = moment
        excess = entry.failures - self._free
        if excess >= 0:
            entry.waits_until = moment + min(2.0 ** min(excess, 16), LONGEST_WAIT)
        self._entries.move_to_end(key)
        while len(self._entries) > self._capacity:
            self._entries.popitem(last=False)
        return entry.waits_until

    def forget(self, key: Key) -> int:
        """Forget all failures of a key; returns how many there were."""
        entry = self._entries.pop(key, None)
        return entry.failures if entry else 0

    def take_back(self, key: Key, number: int, wait: float | None = None) -> None:
        """Take some back, with the wait that the last of them caused: ``wait`` says which.

        A client that was let in had already waited for the earlier ones.
        """
        entry = self._entries.get(key)
        if entry is None:
            return
        entry.failures = max(0, entry.failures - number)
        if wait is None or entry.waits_until == wait:
            entry.waits_until = 0.0


def network_of(address: str) -> str:
    """A network that a single attacker can own: an IPv4 address, or an IPv6 /64 network."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:_LONGEST_NAME]  # a proxy's invalid address; kept as it is
    if parsed.version == 6 and parsed.ipv4_mapped:  # from one socket that listens for both versions
        parsed = parsed.ipv4_mapped
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, 64), strict=False))
