"""Users and their rights: the broker decides, this module remembers briefly.

Credentials are passed on to the management API as they came. Only a keyed hash of them and the
broker's answer are remembered, never the credentials.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Container
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import msgspec
from fastapi import Depends, Request

from app.api.parameters import unescape
from app.api.signin.audit import decision_of
from app.api.signin.permissions import EVERYTHING_READ, ReadRights
from app.api.signin.throttle import SignInAttempt, SignInThrottle
from app.api.signin.tokens import token_rights, token_subject
from app.errors import (
    NotAuthenticatedError,
    NotAuthorisedError,
    NotFoundError,
    OutageError,
    RefusedError,
    UnseenError,
)
from app.settings import Settings, is_loopback

if TYPE_CHECKING:
    from app.broker.management import BrokerUser, ManagementApi
    from app.broker.provider import IdentityProvider, ProviderClient

logger = logging.getLogger(__name__)

READING_TAGS = frozenset({"monitoring", "administrator"})
WRITING_TAG = "administrator"

_LONGEST_AUTHORIZATION = 16_384  # a signed token with many scopes takes some kilobytes
_LONGEST_BASIC = 2_048  # base64 of a name (255 bytes at most) and a password of a kilobyte
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/-]+=*")  # RFC 6750's b64token
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_NOBODY_SIGNS_IN = "the broker's management API is away: nobody can sign in now"
_CODES = "codes"  # the name under which the throttle counts codes of the identity provider
_NO_CREDENTIALS = "no credentials"  # the name under which the throttle counts invalid credentials
_LOOK_AGAIN_SECONDS = 1.0  # between queries about a virtual host that a user may just have got
_LOG_EVERY = 60.0  # seconds between two lines about an outage
_SET_BY_PROXIES = ("forwarded", "via", "x-forwarded-for", "x-real-ip")
CACHED_USERS = 1_000  # users whose rights are remembered; the others are asked about again
FREE_FAILURES = 5  # of a user from an address, before the next has to wait
_CONCURRENT_QUESTIONS = 16  # to the management API


class User(msgspec.Struct, frozen=True):
    """A signed-in user.

    ``vhosts`` None means all of them. A tag gives names, numbers and metadata; only permissions
    give messages' content: ``content``.
    """

    name: str
    tags: frozenset[str]
    vhosts: frozenset[str] | None
    content: ReadRights

    @property
    def may_read(self) -> bool:
        return bool(self.tags & READING_TAGS)

    @property
    def may_write(self) -> bool:
        return WRITING_TAG in self.tags

    def sees(self, vhost: str) -> bool:
        return self.vhosts is None or vhost in self.vhosts

    def must_see(self, vhost: str, thing: str = "virtual host") -> None:
        """Raise `UnseenError` about ``thing`` unless the user sees the virtual host."""
        if not self.sees(vhost):
            raise UnseenError(f"no such {thing}")

    def vhosts_to_list(self, vhost: str | None) -> frozenset[str] | None:
        """The virtual hosts of a list of one alone, or of all; raises `NotFoundError`."""
        if vhost is None:
            return self.vhosts
        self.must_see(vhost)
        return frozenset({vhost})

    def must_read(self, vhost: str) -> None:
        """Raise `NotAuthorisedError` unless the user may read all messages of the virtual host."""
        if not self.content.cover(vhost):
            raise self.content.refusal(self.name, vhost)

    def vhosts_to_search(self, vhost: str | None) -> frozenset[str] | None:
        """The virtual hosts in which the user may search messages' content; None for all.

        A search reveals content even if its answer shows none. Raises `NotAuthorisedError` if
        ``vhost`` is none of them, or if there are none.
        """
        if vhost is not None:
            self.must_see(vhost)
            self.must_read(vhost)
        if self.vhosts is None or vhost is not None:
            return self.vhosts
        vhosts = frozenset(filter(self.content.cover, self.vhosts))
        if self.vhosts and not vhosts:
            raise self.content.refusal(self.name, min(self.vhosts))
        return vhosts


class OpenAccess:
    """``ITC_AUTH=none``: anybody who can reach the loopback address is an administrator."""

    async def user(
        self, authorization: bytes | None, address: str, vhost: str | None = None
    ) -> User:
        return User("anonymous", frozenset({WRITING_TAG}), None, EVERYTHING_READ)

    async def oauth(self) -> ProviderClient | None:
        return None

    async def redeem(self, code: str, verifier: str, redirect_uri: str, address: str) -> str:
        raise NotAuthenticatedError("nobody signs in here")


@dataclass(eq=False)
class BrokerAuthenticator:
    """Asks the broker, believes its answer for some seconds, and slows guessing down.

    If a remembered user does not have a virtual host, the broker is asked again.
    """

    broker: ManagementApi
    _: KW_ONLY
    cache_seconds: float
    cache_users: int = CACHED_USERS
    failures: int = FREE_FAILURES
    loopback_users: tuple[str, ...] = ("guest",)
    clock: Callable[[], float] = time.monotonic
    provider: IdentityProvider | None = None

    def __post_init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._logins: OrderedDict[bytes, _Login] = OrderedDict()
        self._questions: dict[bytes, asyncio.Task[User]] = {}
        self._slots = asyncio.Semaphore(_CONCURRENT_QUESTIONS)
        self._throttle = SignInThrottle(self.failures, self.clock)
        self._logged_at = -_LOG_EVERY

    async def user(
        self, authorization: bytes | None, address: str, vhost: str | None = None
    ) -> User:
        if not authorization:
            raise NotAuthenticatedError("sign in with the name and password of a broker's user")
        name = self._user_name(authorization, address)
        digest = hmac.digest(self._key, authorization, hashlib.sha256)
        user = self._recall(digest, vhost)
        if user is None:
            user = await self._ask_once(digest, authorization, name, address)
        if self._is_too_far(user.name, address):  # a token, whose user is known only now
            raise NotAuthenticatedError(_from_this_machine_only(user.name))
        return user

    async def oauth(self) -> ProviderClient | None:
        """The client that a page is at the broker's identity provider; None without one."""
        return None if self.provider is None else await self.provider.client()

    async def redeem(self, code: str, verifier: str, redirect_uri: str, address: str) -> str:
        """The token for a code of the provider; guessing is slowed down as with passwords."""
        if self.provider is None:
            raise NotAuthenticatedError("nobody signs in through a provider here")
        attempt = self._throttle.admit(_CODES, address)
        try:
            token = await self.provider.redeem(code, verifier, redirect_uri)
        except NotAuthenticatedError:
            raise
        except BaseException:
            self._throttle.take_back(attempt)
            raise
        self._throttle.forgive(attempt)
        return token

    def _user_name(self, authorization: bytes, address: str) -> str:
        """The user that a header names, if the broker may be asked about it.

        A refusal here counts as a failed sign-in. A user who may not sign in from this address is
        refused whatever the password, so that nobody can find it out by trying.
        """
        try:
            name = parse_user(authorization)
        except NotAuthenticatedError:
            self._throttle.admit(_NO_CREDENTIALS, address)
            raise
        if self._is_too_far(name, address):
            self._throttle.admit(name, address)
            raise NotAuthenticatedError(_from_this_machine_only(name))
        return name

    def _is_too_far(self, name: str, address: str) -> bool:
        return name in self.loopback_users and not is_loopback(address)

    def _recall(self, digest: bytes, vhost: str | None) -> User | None:
        """The user as the broker described it, if recently enough to answer for ``vhost``.

        A virtual host created a moment ago must not stay missing for as long as the rest is
        believed; nor may guessed names turn into a stream of queries.
        """
        login, moment = self._logins.get(digest), self.clock()
        if login is None or login.expires_at < moment:
            return None
        self._logins.move_to_end(digest)
        if vhost is None or login.user.sees(vhost) or moment < login.look_again:
            return login.user
        login.look_again = moment + _LOOK_AGAIN_SECONDS
        return None

    async def _ask_once(self, digest: bytes, authorization: bytes, name: str, address: str) -> User:
        task = self._questions.get(digest)
        if task is None:
            # Credentials that the broker accepted before are no guess: nobody's guesses delay them.
            attempt = None if digest in self._logins else self._throttle.admit(name, address)
            task = asyncio.create_task(self._ask(digest, authorization, attempt))
            self._questions[digest] = task
            task.add_done_callback(lambda task: self._end_question(digest, task))
        # Shielded: a client that goes away must not cancel the others' query.
        return await asyncio.shield(task)

    def _end_question(self, digest: bytes, task: asyncio.Task[User]) -> None:
        del self._questions[digest]
        if not task.cancelled():
            task.exception()  # retrieved here, in case every client has gone away

    async def _ask(
        self, digest: bytes, authorization: bytes, attempt: SignInAttempt | None
    ) -> User:
        try:
            async with self._slots:
                broker_user = await self.broker.whoami(authorization)
                vhosts = await self.broker.visible_vhosts(authorization)
                content = await self._read_rights(authorization, broker_user, vhosts)
        except (NotAuthenticatedError, NotAuthorisedError) as error:
            self._logins.pop(digest, None)
            if attempt and isinstance(error, NotAuthorisedError):  # the right password
                self._throttle.forgive(attempt)
            raise
        except BaseException as error:
            if attempt:
                self._throttle.take_back(attempt)
            if not isinstance(error, OutageError):
                raise
            # The client is not signed in yet, and the error says where the management API is.
            self._log_outage(error)
            raise OutageError(_NOBODY_SIGNS_IN) from error
        if attempt:
            self._throttle.forgive(attempt)
        user = User(broker_user.name, broker_user.tags, vhosts, content)
        self._remember(digest, user)
        return user

    async def _read_rights(
        self, authorization: bytes, user: BrokerUser, vhosts: frozenset[str]
    ) -> ReadRights:
        """Rights by the broker's own database; a token brings its own.

        A user that only LDAP knows has no permissions there.
        """
        name = user.name
        if authorization[:6].lower() == b"bearer":
            resources = None if self.provider is None else await self.provider.resources()
            return token_rights(authorization[6:].strip(), user.tags, vhosts, resources)
        try:
            return ReadRights(await self.broker.read_patterns(name))
        except NotFoundError:
            return ReadRights(unknown=f"the broker's own database knows no user {name}")
        except RefusedError:
            return ReadRights(unknown="the broker does not tell the service's account permissions")

    def _log_outage(self, error: OutageError) -> None:
        moment = self.clock()
        if moment - self._logged_at >= _LOG_EVERY:
            logger.warning("nobody can sign in: %s", error)
            self._logged_at = moment

    def _remember(self, digest: bytes, user: User) -> None:
        expiry = self.clock() + self.cache_seconds
        login = self._logins.get(digest)
        self._logins[digest] = _Login(user, expiry, login.look_again if login else 0.0)
        self._logins.move_to_end(digest)
        while len(self._logins) > self.cache_users:
            self._logins.popitem(last=False)


class _Login(msgspec.Struct):
    """The broker's word about some credentials, and until when it is believed."""

    user: User
    expires_at: float
    look_again: float  # when a missing virtual host may be asked about again


Authenticator: TypeAlias = OpenAccess | BrokerAuthenticator


def authenticator(
    settings: Settings, management: ManagementApi, provider: IdentityProvider | None = None
) -> Authenticator:
    if settings.auth == "none":
        return OpenAccess()
    return BrokerAuthenticator(
        management,
        provider=provider,
        cache_seconds=settings.auth_cache_seconds,
        loopback_users=settings.loopback_users,
    )


def parse_user(authorization: bytes) -> str:
    """The user that a header names; raises `NotAuthenticatedError`.

    Only Basic and Bearer are passed on, and only if they are valid (RFC 7617, RFC 6750). A token
    names nobody, so its hash takes the name's place.
    """
    if len(authorization) > _LONGEST_AUTHORIZATION:
        raise NotAuthenticatedError("these credentials are too long")
    scheme, _, rest = authorization.partition(b" ")
    if scheme.lower() == b"bearer" and _TOKEN.fullmatch(rest.strip(b" ")):
        return hashlib.sha256(rest).hexdigest()
    if scheme.lower() == b"basic" and len(rest) <= _LONGEST_BASIC:
        try:
            pair = base64.b64decode(rest.strip(b" "), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            pair = ""
        name, colon, _ = pair.partition(":")
        if colon and not _CONTROL.search(pair):
            return name
    raise NotAuthenticatedError("credentials are Basic (name and password) or Bearer (a token)")


def _from_this_machine_only(name: str) -> str:
    return f"user {name} can only sign in from this machine"


async def sign_in(request: Request, vhost: str | None = None) -> User:
    authenticator: Authenticator = request.app.state.services.authenticator
    decision = decision_of(request.scope)
    decision.is_asked, decision.vhost = True, decision.vhost or vhost
    headers = [value for name, value in request.scope["headers"] if name == b"authorization"]
    if len(headers) > 1:  # one of them may be right
        raise NotAuthenticatedError("one Authorization header, please")
    authorization = headers[0] if headers else None
    decision.named = _name_in(authorization)
    user = await authenticator.user(authorization, client_of(request), vhost)
    decision.user = user.name
    return user


def _name_in(authorization: bytes | None) -> str | None:
    """The name that a caller, or its token, claims; None without one."""
    if authorization is None:
        return None
    if authorization[:6].lower() == b"bearer":
        return token_subject(authorization[6:].strip())
    try:
        return parse_user(authorization)
    except NotAuthenticatedError:
        return None


def client_of(request: Request) -> str:
    """The client's address; behind a proxy that is not in the settings, a word instead.

    Otherwise a proxy on this machine would make everybody look local, and let ``guest`` in.
    """
    address = request.client.host if request.client else ""
    if not is_loopback(address) or not was_forwarded(request.headers):
        return address
    proxies = request.app.state.services.settings.trusted_proxies
    return address if any(map(is_loopback, proxies)) else f"behind {address}"


def was_forwarded(headers: Container[str]) -> bool:
    return any(name in headers for name in _SET_BY_PROXIES)


def _vhost_of(request: Request) -> str | None:
    name = request.path_params.get("vhost")
    return request.query_params.get("vhost") if name is None else unescape(name)


async def reader_of(request: Request) -> User:
    user = await sign_in(request, _vhost_of(request))
    if not user.may_read:
        raise NotAuthorisedError("reading needs the tag monitoring or administrator")
    return user


async def writer_of(request: Request) -> User:
    user = await sign_in(request, _vhost_of(request))
    if not user.may_write:
        raise NotAuthorisedError("starting, stopping, exporting and deleting needs administrator")
    return user


Reader = Annotated[User, Depends(reader_of)]
Writer = Annotated[User, Depends(writer_of)]
