"""Who asks, and what they may: the broker decides, this module remembers briefly.

Credentials are passed on to the management API as they came. What is remembered is a keyed hash
of them and the broker's answer, never the credentials.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated, Protocol

import msgspec
from fastapi import Depends, Request

from app.api.ports import BrokerUsers
from app.api.problems import SlowDownError
from app.errors import NotAuthenticatedError, NotAuthorisedError, NotFoundError
from app.settings import is_loopback

READING_TAGS = frozenset({"monitoring", "administrator"})
WRITING_TAG = "administrator"

_LONGEST_AUTHORIZATION = 16_384  # a signed token with many scopes has some kilobytes
_LONGEST_WAIT = 60.0  # seconds between sign-ins, however many have failed
_FAILURES_FORGOTTEN_AFTER = 900.0  # seconds
_ADDRESS_FACTOR = 10  # an address may be many users' (a proxy's), so it is allowed more
_CONCURRENT_QUESTIONS = 16  # to the management API


class User(msgspec.Struct, frozen=True):
    """Somebody who is signed in. ``vhosts`` None means all of them."""

    name: str
    tags: frozenset[str]
    vhosts: frozenset[str] | None

    @property
    def may_read(self) -> bool:
        """Whether the user may look."""
        return bool(self.tags & READING_TAGS)

    @property
    def may_write(self) -> bool:
        """Whether the user may start, stop, export and delete."""
        return WRITING_TAG in self.tags

    def sees(self, vhost: str) -> bool:
        """Whether the broker shows this virtual host to the user."""
        return self.vhosts is None or vhost in self.vhosts

    def must_see(self, vhost: str, what: str) -> None:
        """Raise `NotFoundError` about ``what`` unless the user sees the virtual host."""
        if not self.sees(vhost):
            raise NotFoundError(f"no such {what}")


class Authenticator(Protocol):
    """Turns what a request brought into a user."""

    async def user(self, authorization: bytes | None, address: str) -> User:
        """The user, or `NotAuthenticatedError`, `NotAuthorisedError`, `OutageError`."""
        ...


class NobodyAsked:
    """``ITC_AUTH=none``: whoever can reach the loopback address is an administrator."""

    async def user(self, authorization: bytes | None, address: str) -> User:
        """The same user for everybody."""
        return User("anonymous", frozenset({WRITING_TAG}), None)


class BrokerAuthenticator:
    """Asks the broker, believes its answer for some seconds, slows guessing down."""

    def __init__(
        self,
        broker: BrokerUsers,
        *,
        cache_seconds: float,
        cache_users: int,
        failures: int,
        loopback_users: tuple[str, ...] = ("guest",),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._broker = broker
        self._cache_seconds = cache_seconds
        self._cache_users = cache_users
        self._loopback_users = frozenset(loopback_users)
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, tuple[float, User]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[User]] = {}
        self._slots = asyncio.Semaphore(_CONCURRENT_QUESTIONS)
        self._throttle = SignInThrottle(failures, clock)

    async def user(self, authorization: bytes | None, address: str) -> User:
        """The user behind an ``Authorization`` header's value."""
        if not authorization:
            raise NotAuthenticatedError("sign in with the name and password of a broker's user")
        if len(authorization) > _LONGEST_AUTHORIZATION:
            raise NotAuthenticatedError("these credentials are too long to be any")
        digest = hmac.digest(self._key, authorization, hashlib.sha256)
        user = self._remembered(digest)
        if user is None:
            claimed = claimed_user(authorization)
            user = await self._ask_once(digest, authorization, claimed, address)
        if user.name in self._loopback_users and not is_loopback(address):
            raise NotAuthenticatedError(f"user {user.name} can only sign in from this machine")
        return user

    def _remembered(self, digest: bytes) -> User | None:
        known = self._known.get(digest)
        if known is None or known[0] < self._clock():
            return None
        self._known.move_to_end(digest)
        return known[1]

    async def _ask_once(
        self, digest: bytes, authorization: bytes, claimed: str, address: str
    ) -> User:
        """A page sends many requests at once; all of them wait for one answer."""
        task = self._asking.get(digest)
        if task is None:
            self._throttle.admit(claimed, address)
            task = asyncio.create_task(self._ask(digest, authorization, claimed, address))
            self._asking[digest] = task
            task.add_done_callback(lambda done: self._answered(digest, done))
        # Shielded: one client that goes away must not cancel the question of the others.
        return await asyncio.shield(task)

    def _answered(self, digest: bytes, task: asyncio.Task[User]) -> None:
        del self._asking[digest]
        if not task.cancelled():
            task.exception()  # seen here too, for when every asker has gone away

    async def _ask(self, digest: bytes, authorization: bytes, claimed: str, address: str) -> User:
        try:
            async with self._slots:
                broker_user = await self._broker.whoami(authorization)
                vhosts = await self._broker.visible_vhosts(authorization)
        except NotAuthenticatedError:
            raise
        except Exception:
            self._throttle.forgive(claimed, address)  # no failure of the user's
            raise
        self._throttle.forgive(claimed, address)
        user = User(broker_user.name, broker_user.tags, vhosts)
        self._known[digest] = (self._clock() + self._cache_seconds, user)
        self._known.move_to_end(digest)
        while len(self._known) > self._cache_users:
            self._known.popitem(last=False)
        return user


class SignInThrottle:
    """Makes each further failed sign-in wait, for a user from an address and for an address.

    An attempt counts as failed until it is forgiven, so that a burst of guesses sent at once is
    no way round. A user is never slowed by guesses from elsewhere, which would be a way to lock
    somebody out. Holds at most ``capacity`` entries.
    """

    def __init__(
        self, failures: int, clock: Callable[[], float] = time.monotonic, capacity: int = 10_000
    ) -> None:
        self._failures = failures
        self._clock = clock
        self._capacity = capacity
        self._entries: OrderedDict[tuple[str, str], _Failures] = OrderedDict()

    def admit(self, user: str, address: str) -> None:
        """Count an attempt; raises `SlowDownError` where it comes too early."""
        keys = self._keys(user, address)
        now = self._clock()
        wait = max((self._entries[k].until - now for k, _ in keys if k in self._entries), default=0)
        if wait > 0:
            raise SlowDownError("too many failed sign-ins: wait before the next", wait)
        for key, allowed in keys:
            self._count(key, allowed, now)

    def forgive(self, user: str, address: str) -> None:
        """Take an attempt back: it was no failure."""
        (own, _), (shared, _) = self._keys(user, address)
        self._entries.pop(own, None)
        if shared in self._entries:
            self._entries[shared].count -= 1
            self._entries[shared].until = 0.0

    def _keys(self, user: str, address: str) -> list[tuple[tuple[str, str], int]]:
        network = _network(address)
        return [
            ((network, user), self._failures),
            ((network, ""), self._failures * _ADDRESS_FACTOR),
        ]

    def _count(self, key: tuple[str, str], allowed: int, now: float) -> None:
        entry = self._entries.setdefault(key, _Failures())
        if now - entry.last > _FAILURES_FORGOTTEN_AFTER:
            entry.count = 0
        entry.count += 1
        entry.last = now
        if entry.count >= allowed:
            entry.until = now + min(2.0 ** min(entry.count - allowed, 16), _LONGEST_WAIT)
        self._entries.move_to_end(key)
        while len(self._entries) > self._capacity:
            self._entries.popitem(last=False)


class _Failures:
    __slots__ = ("count", "last", "until")

    def __init__(self) -> None:
        self.count = 0
        self.last = 0.0
        self.until = 0.0


def _network(address: str) -> str:
    """What one attacker has to himself: an IPv4 address, or an IPv6 network of 64 bits."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, 64), strict=False))


def claimed_user(authorization: bytes) -> str:
    """The user that a header speaks of, as far as it says; raises `NotAuthenticatedError`.

    Only Basic and Bearer are passed on. A token names nobody, so it stands for itself as a hash.
    """
    scheme, _, rest = authorization.partition(b" ")
    if scheme.lower() == b"bearer" and rest.strip():
        return hashlib.sha256(rest).hexdigest()
    if scheme.lower() == b"basic":
        try:
            name, colon, _ = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            name, colon = "", ""
        if colon:
            return name
    raise NotAuthenticatedError("credentials are Basic (name and password) or Bearer (a token)")


async def signed_in(request: Request) -> User:
    """The user of a request; raises what the authenticator raises."""
    authenticator: Authenticator = request.app.state.services.authenticator
    headers = [value for name, value in request.scope["headers"] if name == b"authorization"]
    if len(headers) > 1:
        raise NotAuthenticatedError("one Authorization header, please")
    address = request.client.host if request.client else ""
    return await authenticator.user(headers[0] if headers else None, address)


async def reader_of(request: Request) -> User:
    """The user of a request who may read; raises `NotAuthorisedError` for another."""
    user = await signed_in(request)
    if not user.may_read:
        raise NotAuthorisedError("reading needs the tag monitoring or administrator")
    return user


async def writer_of(request: Request) -> User:
    """The user of a request who may write; raises `NotAuthorisedError` for another."""
    user = await signed_in(request)
    if not user.may_write:
        raise NotAuthorisedError("starting, stopping, exporting and deleting needs administrator")
    return user


Reader = Annotated[User, Depends(reader_of)]
Writer = Annotated[User, Depends(writer_of)]
