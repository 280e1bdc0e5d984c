"""The broker's management API, as far as the service needs it.

It is called under two identities: the service's own (to switch tracing, to see queues and nodes),
and its users': their ``Authorization`` header is passed on unchanged, so the broker decides what
they may do. Credentials never appear in a log line or an error. Every failure on the way to the
broker is an `OutageError` with a sentence: the service waits, and an operator can fix it without a
restart.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, TypeVar
from urllib.parse import quote, urlsplit

import httpx2
import msgspec

from app.broker.announced import connection_of
from app.broker.provider import OAuthSettings, read_settings
from app.errors import (
    BadRequestError,
    NotAuthenticatedError,
    NotAuthorisedError,
    NotFoundError,
    OutageError,
    RefusedError,
    UnreachableError,
)
from app.stored.capture import NewConnection

T = TypeVar("T")

# Answers to a request whose credentials are too long for the broker.
TIMEOUT_SECONDS = 5.0  # for one request: a broker that takes longer is as good as away
_TOO_LONG = frozenset({413, 414, 431})

_OF_CONNECTIONS = (
    *("name", "node", "vhost", "user", "connected_at", "user_provided_name"),
    *("client_properties", "variable_map", "container_id"),
)

# A listener's protocol, and the scheme of its address.
_AMQP_SCHEMES = {"amqp": "amqp", "amqp/ssl": "amqps"}

# PUT /api/vhosts/NAME clears these unless they are sent back.
_KEPT_ON_PUT = ("description", "tags", "default_queue_type", "metadata")


# Names in one answer: the API gives no more.
PAGE = 500

# The client property by which a connection of ours gives the id of its service.
SERVICE_PROPERTY = "itc_service"


class BrokerUser(msgspec.Struct, frozen=True):
    """The user to whom the broker says that some credentials belong."""

    name: str
    tags: frozenset[str]


# The first version whose shovels can move messages within the broker, which is not traced.
LOCAL_SHOVELS = [4, 2]
# The first version whose management plugin has no script `rabbitmqadmin`.
NO_SCRIPT = [4, 3]


class Node(msgspec.Struct, frozen=True):
    """A node of the cluster; ``uptime`` in ms, None for one that is down."""

    name: str
    running: bool = False
    uptime: int | None = None
    enabled_plugins: tuple[str, ...] | None = None  # not yet known


class Permissions(msgspec.Struct, frozen=True):
    """A user's rights in one virtual host, as regular expressions over resource names."""

    configure: str
    write: str
    read: str


STORING_TYPES = frozenset({"classic", "quorum", "stream"})


class QueueInfo(msgspec.Struct, frozen=True):
    """A queue. Its numbers are the broker's statistics: some seconds old, absent at first."""

    name: str
    type: str = "classic"
    messages: int | None = None
    messages_ready: int | None = None
    message_bytes: int | None = None
    durable: bool = True
    auto_delete: bool = False
    exclusive: bool = False
    arguments: dict[str, Any] = {}
    effective_policy_definition: dict[str, Any] | list[Any] | None = None  # a list where empty
    policy: str | None = None
    operator_policy: str | None = None
    consumers: int | None = None
    message_stats: dict[str, Any] | None = None

    @property
    def policy_definition(self) -> dict[str, Any]:
        """The broker's policies for it, with operators' ones."""
        definition = self.effective_policy_definition
        return definition if isinstance(definition, dict) else {}

    def setting(self, name: str) -> Any:
        """An argument that it was declared with, or else a policy's; None without either."""
        return self.arguments.get(f"x-{name}", self.policy_definition.get(name))

    @property
    def has_dead_letters(self) -> bool:
        """Tell whether messages that die in it go elsewhere."""
        return self.setting("dead-letter-exchange") is not None

    @property
    def keeps_messages(self) -> bool:
        """Tell whether messages wait in it; other types stand for clients who get them at once."""
        return self.type in STORING_TYPES


class _OfChannel(msgspec.Struct):
    connection_name: str = ""


class _Consumer(msgspec.Struct):
    channel_details: _OfChannel


class _QueueConsumers(msgspec.Struct):
    consumer_details: list[_Consumer] = []


class _ConnectionDetails(msgspec.Struct):
    client_properties: dict[str, Any] = {}


class _Whoami(msgspec.Struct):
    name: str
    tags: list[str] | str  # before 3.9 one string with commas


class _Permission(msgspec.Struct):
    vhost: str
    read: str


class Binding(msgspec.Struct, frozen=True):
    """A binding of an exchange to a queue or another exchange."""

    destination: str
    destination_type: str = "queue"
    routing_key: str = ""


class _Resource(msgspec.Struct):
    name: str
    vhost: str = ""  # of a virtual host itself


class _Page(msgspec.Struct):
    items: list[_Resource]
    page_count: int = 1


class VhostCounts(msgspec.Struct, frozen=True):
    """Counts of a virtual host's channels, as far as the statistics have them."""

    message_stats: dict[str, Any] | None = None


class _Listener(msgspec.Struct):
    node: str
    protocol: str
    port: int


class _Overview(msgspec.Struct):
    node: str
    rabbitmq_version: str = ""
    lavinmq_version: str | None = None
    listeners: list[_Listener] = []


class ManagementApi:
    """A client of one broker's management API, under the service's own account.

    ``base_url`` is ``http://host:port`` without credentials. What the broker does not know is a
    `NotFoundError`.
    """

    def __init__(
        self,
        base_url: str,
        user: str,
        password: str,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        self._user = user
        # trust_env: neither a proxy for the outside world nor a .netrc applies here. Whom to trust
        # over TLS does (SSL_CERT_FILE, SSL_CERT_DIR).
        is_tls = base_url.startswith("https:") and transport is None
        self._http = httpx2.AsyncClient(
            verify=httpx2.create_ssl_context() if is_tls else False,
            timeout=timeout_seconds,
            transport=transport,
            auth=(user, password),
            trust_env=False,
            follow_redirects=False,
        )

    async def close(self) -> None:
        await self._http.aclose()

    # As the service's users

    async def whoami(self, authorization: bytes) -> BrokerUser:
        """Ask whose credentials these are.

        Raises `NotAuthenticatedError` if the broker refuses them, `NotAuthorisedError` if the user
        may not use the management API at all.
        """
        return _user(await self._as_user(authorization, "/api/whoami", _Whoami))

    async def visible_vhosts(self, authorization: bytes) -> frozenset[str]:
        vhosts = await self._as_user(authorization, "/api/vhosts?columns=name", list[_Resource])
        return frozenset(vhost.name for vhost in vhosts)

    async def oauth_settings(self) -> OAuthSettings | None:
        """The identity provider that the broker tells its own page; None without one."""
        for path in ("/api/auth", "/js/oidc-oauth/bootstrap.js"):
            response = await self._send("GET", path, auth=None)
            if response.is_success:
                return read_settings(response.text)
        return None

    # As the service

    async def own_user(self) -> BrokerUser:
        return _user(await self._get("/api/whoami", _Whoami))

    async def vhosts(self) -> frozenset[str]:
        vhosts = await self._get("/api/vhosts?columns=name", list[_Resource])
        return frozenset(vhost.name for vhost in vhosts)

    async def version(self) -> str:
        """RabbitMQ's version; raises `BadRequestError` for a broker that has no firehose."""
        overview = await self._get("/api/overview", _Overview)
        if overview.lavinmq_version is not None:
            raise BadRequestError(
                f"this broker is LavinMQ {overview.lavinmq_version}, which has no firehose: it "
                "traces no messages, so there is nothing to capture"
            )
        return overview.rabbitmq_version

    async def nodes(self) -> list[Node]:
        path = f"/api/nodes?columns={','.join(Node.__struct_fields__)}"
        return await self._get(path, list[Node])

    async def may_move_unseen(self) -> bool:
        """Tell whether the broker may move messages that it does not trace: by a local shovel."""
        version = await self._version_numbers()
        if version and version < LOCAL_SHOVELS:
            return False
        try:
            plugins = [node.enabled_plugins for node in await self.nodes() if node.running]
        except NotAuthorisedError:
            return True
        return any(names is None or "rabbitmq_shovel" in names for names in plugins)

    async def has_admin_script(self) -> bool:
        """Tell whether the management plugin has the script `rabbitmqadmin`."""
        return await self._version_numbers() < NO_SCRIPT

    async def _version_numbers(self) -> list[int]:
        return [int(number) for number in re.findall(r"\d+", await self.version())]

    async def vhost_counts(self, vhost: str) -> VhostCounts:
        return await self._get(_path("vhosts", vhost), VhostCounts)

    async def amqp_listeners(self) -> dict[str, tuple[str, str, int]]:
        """Scheme, host and port for AMQP of each running node, by name: its first listener."""
        overview = await self._get("/api/overview", _Overview)
        listeners: dict[str, tuple[str, str, int]] = {}
        for listener in overview.listeners:
            scheme = _AMQP_SCHEMES.get(listener.protocol)
            if scheme is not None and listener.node not in listeners:
                listeners[listener.node] = (scheme, listener.node.partition("@")[2], listener.port)
        return listeners

    async def queue(self, vhost: str, name: str) -> QueueInfo:
        return await self._get(_path("queues", vhost, name), QueueInfo)

    async def consumers(self, vhost: str, name: str) -> dict[str, str | None]:
        """The connections that consume a queue, each with its service if it is one of ours."""
        queue = await self._get(_path("queues", vhost, name), _QueueConsumers)
        services: dict[str, str | None] = {}
        for consumer in queue.consumer_details:
            connection = consumer.channel_details.connection_name
            with contextlib.suppress(NotFoundError):
                details = await self._get(_path("connections", connection), _ConnectionDetails)
                service = details.client_properties.get(SERVICE_PROPERTY)
                services[connection] = service if isinstance(service, str) else None
        return services

    async def close_connection(self, name: str, reason: str) -> None:
        with contextlib.suppress(NotFoundError):  # it is gone
            await self._request("DELETE", _path("connections", name), headers={"X-Reason": reason})

    async def get(
        self, vhost: str, name: str, count: int, *, remove: bool, body: int, seconds: float
    ) -> bytes:
        """Get the first messages of a queue, and give them back or not; returns the API's own JSON.

        The API can show messages that no AMQP frame can hold. ``body`` is the shown part of a body,
        ``seconds`` the broker's time.
        """
        path = _path("queues", vhost, name, "get")
        mode = "ack_requeue_false" if remove else "ack_requeue_true"
        request = {"count": count, "ackmode": mode, "encoding": "base64", "truncate": body}
        return (await self._request("POST", path, json=request, timeout=seconds)).content

    async def set_policy(self, vhost: str, name: str, policy: Mapping[str, Any]) -> None:
        await self._request("PUT", _path("policies", vhost, name), json=dict(policy))

    async def delete_policy(self, vhost: str, name: str) -> None:
        with contextlib.suppress(NotFoundError):
            await self._request("DELETE", _path("policies", vhost, name))

    async def bindings(self, vhost: str, exchange: str = "amq.rabbitmq.trace") -> list[Binding]:
        """The bindings of an exchange, by default the trace exchange's, to our queue and others'.

        Raises `NotFoundError`.
        """
        path = _path("exchanges", vhost, exchange, "bindings", "source")
        return await self._get(path, list[Binding])

    async def names(
        self, vhost: str, kind: Literal["exchanges", "queues"]
    ) -> AsyncIterator[list[str]]:
        """The names of a virtual host's exchanges or queues, some at a time.

        The default exchange has the empty name. Raises `NotFoundError`.
        """
        page, pages = 0, 1
        while page < pages:
            page += 1
            query = f"columns=name,vhost&page={page}&page_size={PAGE}"
            answer = await self._get(f"{_path(kind, vhost)}?{query}", _Page)
            pages = answer.page_count
            yield [resource.name for resource in answer.items]

    async def event_exchange(self) -> str | None:
        """The virtual host of the event exchange; None if its plugin is off.

        Nobody else can have made it: names that begin with ``amq.`` are the broker's.
        """
        name = "amq.rabbitmq.event"
        path = f"/api/exchanges?columns=name,vhost&page=1&page_size=100&name={name}"
        page = await self._get(path, _Page)
        return next((exchange.vhost for exchange in page.items if exchange.name == name), None)

    async def connections(self) -> list[NewConnection]:
        """The connections to the broker, of all virtual hosts and nodes.

        A new one appears only with its first statistics, after the broker's interval of 5 s.
        """
        path = f"/api/connections?columns={','.join(_OF_CONNECTIONS)}"
        answer = await self._get(path, list[dict[str, Any]])
        return [entry for entry in map(connection_of, answer) if entry is not None]

    async def permissions(self, vhost: str, user: str | None = None) -> Permissions:
        """A user's rights in a virtual host, by default the service's own.

        Raises `NotFoundError` if it has none.
        """
        return await self._get(_path("permissions", vhost, user or self._user), Permissions)

    async def read_patterns(self, user: str) -> frozenset[tuple[str, str]]:
        """Virtual hosts in which a user has any rights, each with what it may read there.

        Raises `NotFoundError` if the broker's own database does not know the user.
        """
        permissions = await self._get(_path("users", user, "permissions"), list[_Permission])
        return frozenset((permitted.vhost, permitted.read) for permitted in permissions)

    async def tracing(self, vhost: str) -> dict[str, bool]:
        """Tell whether tracing is on, for each running node by name.

        Each node has its own setting, and answers for itself alone. Raises `NotFoundError` for
        an unknown virtual host.
        """
        path = _path("vhosts", vhost)
        states = {}
        for node, base_url in (await self.endpoints()).items():
            answer = await self._get(path, dict[str, Any], base_url)
            states[node] = _read_tracing(answer, base_url)
        return states

    async def set_tracing(self, vhost: str, on: bool) -> list[str]:
        """Switch tracing on every running node; returns the nodes where that changed something.

        A PUT clears what it does not name, so the virtual host's settings are read first and sent
        back. Raises `NotFoundError` for an unknown virtual host. Not for several virtual hosts at
        once: before 4.3.3 the broker loses all but one of concurrent changes.
        """
        path = _path("vhosts", vhost)
        switched = []
        for node, base_url in (await self.endpoints()).items():
            present = await self._get(path, dict[str, Any], base_url)
            if _read_tracing(present, base_url) == on:
                continue
            await self._request("PUT", path, base_url, json=_vhost_with_tracing(present, on))
            switched.append(node)
        return switched

    async def endpoints(self) -> dict[str, str]:
        """The addresses of running nodes' management APIs, by which each switches its tracing.

        The configured one comes first.
        """
        overview = await self._get("/api/overview", _Overview)
        endpoints = {overview.node: self._base_url}
        scheme = urlsplit(self._base_url).scheme
        for listener in overview.listeners:
            if listener.protocol == scheme and listener.node not in endpoints:
                host = listener.node.partition("@")[2]
                endpoints[listener.node] = f"{scheme}://{host}:{listener.port}"
        return endpoints

    async def _as_user(self, authorization: bytes, path: str, kind: type[T]) -> T:
        headers = {b"authorization": authorization}
        response = await self._send("GET", path, headers=headers, auth=None)
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            if _reason(response) == "Not management user":
                raise NotAuthorisedError("this user has no tag that lets it use the management API")
            raise NotAuthenticatedError("the broker refuses these credentials")
        if response.status_code in _TOO_LONG:
            raise NotAuthenticatedError("these credentials are too long for the broker")
        return self._decode(response, kind)

    async def _get(self, path: str, kind: type[T], base_url: str | None = None) -> T:
        return self._decode(await self._request("GET", path, base_url), kind)

    async def _request(
        self, method: str, path: str, base_url: str | None = None, **options: Any
    ) -> httpx2.Response:
        response = await self._send(method, path, base_url, **options)
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            raise RefusedError(
                f"the broker's management API refuses the service's own account {self._user!r} "
                f"({_reason(response)}): check its password, and that it is tagged administrator"
            )
        if response.status_code == httpx2.codes.NOT_FOUND:
            raise NotFoundError("the broker knows no such virtual host, queue or permission")
        if response.is_error:
            self._refuse(response)
        return response

    async def _send(
        self, method: str, path: str, base_url: str | None = None, **options: Any
    ) -> httpx2.Response:
        url = (base_url or self._base_url) + path
        try:
            return await self._http.request(method, url, **options)
        except httpx2.TimeoutException as error:
            raise UnreachableError(
                f"the broker's management API at {_host(url)} is too slow"
            ) from error
        except httpx2.HTTPError as error:
            sentence = f"the broker's management API at {_host(url)} does not answer"
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                sentence = (
                    f"the certificate of the broker's management API at {_host(url)} is not "
                    "trusted: is its authority known here (SSL_CERT_FILE), and is the host name "
                    "right?"
                )
            raise UnreachableError(sentence) from error

    def _decode(self, response: httpx2.Response, kind: type[T]) -> T:
        if not response.is_success:
            self._refuse(response)
        try:
            return msgspec.json.decode(response.content, type=kind)
        except msgspec.MsgspecError as error:
            raise OutageError(
                f"{_host(str(response.url))} answers, but not as RabbitMQ's management API does: "
                "check ITC_MANAGEMENT_URL"
            ) from error

    def _refuse(self, response: httpx2.Response) -> None:
        raise OutageError(
            f"the broker's management API at {_host(str(response.url))} answers "
            f"{response.status_code}: {_reason(response)}"
        )


def _user(answer: _Whoami) -> BrokerUser:
    tags = answer.tags.split(",") if isinstance(answer.tags, str) else answer.tags
    return BrokerUser(answer.name, frozenset(tag.strip() for tag in tags if tag.strip()))


def _read_tracing(vhost: dict[str, Any], base_url: str) -> bool:
    """Tell whether it is traced; raises if the value is missing, or each check would note a gap."""
    tracing = vhost.get("tracing")
    if not isinstance(tracing, bool):
        raise OutageError(
            f"the broker's management API at {_host(base_url)} does not say whether the virtual "
            "host is traced: is that node still starting?"
        )
    return tracing


def _vhost_with_tracing(present: dict[str, Any], on: bool) -> dict[str, Any]:
    settings = {key: present[key] for key in _KEPT_ON_PUT if key in present}
    if settings.get("default_queue_type") == "undefined":
        del settings["default_queue_type"]  # its word for unset, which it refuses
    return {**settings, "tracing": on}


def _path(*names: str) -> str:
    return "/".join(("/api", *(quote(name, safe="") for name in names)))


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _reason(response: httpx2.Response) -> str:
    """The broker's own sentence, on one line."""
    try:
        reason = msgspec.json.decode(response.content, type=dict[str, Any]).get("reason", "")
    except msgspec.MsgspecError:
        reason = ""
    return re.sub(r"\s+", " ", str(reason))[:200] or "no reason given"
