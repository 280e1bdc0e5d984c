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
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Annotated, Protocol

import msgspec
from fastapi import Depends, Request

from app.api.headers import was_forwarded
from app.api.parameters import unescape
from app.api.ports import BrokerUsers
from app.api.signin.throttle import Attempt, SignInThrottle
from app.errors import NotAuthenticatedError, NotAuthorisedError, NotFoundError
from app.settings import is_loopback

READING_TAGS = frozenset({"monitoring", "administrator"})
WRITING_TAG = "administrator"

_LONGEST_AUTHORIZATION = 16_384  # a signed token with many scopes has some kilobytes
_LOOK_AGAIN_SECONDS = 1.0  # between questions about a virtual host that a user may have got since
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

    async def user(
        self, authorization: bytes | None, address: str, vhost: str | None = None
    ) -> User:
        """The user, or `NotAuthenticatedError`, `NotAuthorisedError`, `OutageError`.

        Where what is remembered of the user knows nothing of ``vhost``, the broker is asked again.
        """
        ...


class NobodyAsked:
    """``ITC_AUTH=none``: whoever can reach the loopback address is an administrator."""

    async def user(
        self, authorization: bytes | None, address: str, vhost: str | None = None
    ) -> User:
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
        self._known: OrderedDict[bytes, _Known] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[User]] = {}
        self._slots = asyncio.Semaphore(_CONCURRENT_QUESTIONS)
        self._throttle = SignInThrottle(failures, clock)

    async def user(
        self, authorization: bytes | None, address: str, vhost: str | None = None
    ) -> User:
        """The user behind an ``Authorization`` header's value."""
        if not authorization:
            raise NotAuthenticatedError("sign in with the name and password of a broker's user")
        if len(authorization) > _LONGEST_AUTHORIZATION:
            raise NotAuthenticatedError("these credentials are too long to be any")
        digest = hmac.digest(self._key, authorization, hashlib.sha256)
        user = self._remembered(digest, vhost)
        if user is None:
            user = await self._ask_once(digest, authorization, address)
        if user.name in self._loopback_users and not is_loopback(address):
            raise NotAuthenticatedError(f"user {user.name} can only sign in from this machine")
        return user

    def _remembered(self, digest: bytes, vhost: str | None) -> User | None:
        """The user as the broker said, if that was lately enough for a question about ``vhost``.

        A virtual host that was made a moment ago is not to be missing for as long as the rest is
        believed; names that are guessed at are not to become a stream of questions either.
        """
        known, now = self._known.get(digest), self._clock()
        if known is None or known.until < now:
            return None
        self._known.move_to_end(digest)
        if vhost is None or known.user.sees(vhost) or now < known.look_again:
            return known.user
        known.look_again = now + _LOOK_AGAIN_SECONDS
        return None

    async def _ask_once(self, digest: bytes, authorization: bytes, address: str) -> User:
        """A page sends many requests at once; all of them wait for one answer."""
        task = self._asking.get(digest)
        if task is None:
            claimed = claimed_user(authorization)
            # What the broker has taken before is no guess, and need not wait for those of others.
            attempt = None if digest in self._known else self._throttle.admit(claimed, address)
            task = asyncio.create_task(self._ask(digest, authorization, attempt))
            self._asking[digest] = task
            task.add_done_callback(lambda done: self._answered(digest, done))
        # Shielded: one client that goes away must not cancel the question of the others.
        return await asyncio.shield(task)

    def _answered(self, digest: bytes, task: asyncio.Task[User]) -> None:
        del self._asking[digest]
        if not task.cancelled():
            task.exception()  # seen here too, for when every asker has gone away

    async def _ask(self, digest: bytes, authorization: bytes, attempt: Attempt | None) -> User:
        try:
            async with self._slots:
                broker_user = await self._broker.whoami(authorization)
                vhosts = await self._broker.visible_vhosts(authorization)
        except NotAuthenticatedError:
            self._known.pop(digest, None)
            raise
        except NotAuthorisedError:
            self._known.pop(digest, None)
            if attempt:  # the right password
                self._throttle.succeeded(attempt)
            raise
        except BaseException:
            if attempt:
                self._throttle.unanswered(attempt)
            raise
        if attempt:
            self._throttle.succeeded(attempt)
        user = User(broker_user.name, broker_user.tags, vhosts)
        self._remember(digest, user)
        return user

    def _remember(self, digest: bytes, user: User) -> None:
        until = self._clock() + self._cache_seconds
        known = self._known.get(digest)
        self._known[digest] = _Known(user, until, known.look_again if known else 0.0)
        self._known.move_to_end(digest)
        while len(self._known) > self._cache_users:
            self._known.popitem(last=False)


class _Known:
    """What the broker said of some credentials, and till when it is believed."""

    __slots__ = ("look_again", "until", "user")

    def __init__(self, user: User, until: float, look_again: float) -> None:
        self.user = user
        self.until = until
        self.look_again = look_again  # from then on a missing virtual host is asked about


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


async def signed_in(request: Request, vhost: str | None = None) -> User:
    """The user of a request; raises what the authenticator raises."""
    authenticator: Authenticator = request.app.state.services.authenticator
    headers = [value for name, value in request.scope["headers"] if name == b"authorization"]
    if len(headers) > 1:
        raise NotAuthenticatedError("one Authorization header, please")
    return await authenticator.user(headers[0] if headers else None, client_of(request), vhost)


def client_of(request: Request) -> str:
    """The client's address; of one behind a proxy that nobody told us of, a word that is none.

    A proxy on this machine would make everybody look like a local user, ``guest`` among them.
    """
    address = request.client.host if request.client else ""
    if not is_loopback(address) or not was_forwarded(request.headers):
        return address
    proxies = request.app.state.services.settings.trusted_proxies
    return address if any(map(is_loopback, proxies)) else f"behind {address}"


def _asked_for(request: Request) -> str | None:
    """The virtual host that a request names, in its path or in its query."""
    name = request.path_params.get("vhost")
    return request.query_params.get("vhost") if name is None else unescape(name)


async def reader_of(request: Request) -> User:
    """The user of a request who may read; raises `NotAuthorisedError` for another."""
    user = await signed_in(request, _asked_for(request))
    if not user.may_read:
        raise NotAuthorisedError("reading needs the tag monitoring or administrator")
    return user


async def writer_of(request: Request) -> User:
    """The user of a request who may write; raises `NotAuthorisedError` for another."""
    user = await signed_in(request, _asked_for(request))
    if not user.may_write:
        raise NotAuthorisedError("starting, stopping, exporting and deleting needs administrator")
    return user


Reader = Annotated[User, Depends(reader_of)]
Writer = Annotated[User, Depends(writer_of)]
