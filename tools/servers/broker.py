"""A RabbitMQ broker as its clients see it: addresses, and what the management API can change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self
from urllib.parse import quote, unquote, urlsplit
from uuid import uuid4

import httpx2

from tools.servers.processes import ServerError
from tools.servers.server import Server

DEFAULT_AMQP_PORT = 5672
DEFAULT_MANAGEMENT_PORT = 15672


class Broker(Server):
    """An existing broker, reached as an administrator.

    `RabbitNode` and `RabbitCluster` are brokers too: whatever takes a Broker takes those.
    """

    def __init__(
        self, amqp_address: str, management_url: str, user: str, password: str, scheme: str = "amqp"
    ) -> None:
        self.user = user
        self.password = password
        self.management_url = management_url.rstrip("/")
        self._scheme = scheme
        self._amqp_address = amqp_address  # host:port

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Broker | None:
        """Return the broker that ``AMQP_URL`` and ``MANAGEMENT_URL`` name, or None without them.

        Without ``MANAGEMENT_URL`` the management API is looked for on the same host, at its
        default port, with the same credentials. The virtual host of ``AMQP_URL`` is not looked at.
        """
        amqp, management = environment.get("AMQP_URL"), environment.get("MANAGEMENT_URL")
        if not amqp:
            if management:
                raise ServerError("MANAGEMENT_URL is set but AMQP_URL is not: set both")
            return None
        parts = urlsplit(amqp)
        if parts.scheme not in ("amqp", "amqps") or not parts.hostname:
            raise ServerError("AMQP_URL must look like amqp://user:password@host:5672")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return cls(
            f"{host}:{parts.port or (5671 if parts.scheme == 'amqps' else DEFAULT_AMQP_PORT)}",
            _without_credentials(management or f"http://{host}:{DEFAULT_MANAGEMENT_PORT}"),
            unquote(parts.username or "guest"),
            unquote(parts.password or "guest"),
            parts.scheme,
        )

    def amqp_url(
        self, vhost: str = "/", user: str | None = None, password: str | None = None
    ) -> str:
        """Return the AMQP address of a virtual host, for the administrator or another user."""
        name = quote(user or self.user, safe="")
        secret = quote(password or self.password, safe="")
        return f"{self._scheme}://{name}:{secret}@{self._amqp_address}/{quote(vhost, safe='')}"

    def api(self, method: str, *path: str, json: object = None) -> Any:
        """Call the management API; return the decoded answer, or None if there is no body.

        ``path`` is the parts after ``/api/``, not yet percent-encoded. Raises `ServerError` on
        any status of 400 and above, and when the API does not answer.
        """
        where = "/".join(quote(part, safe="") for part in path)
        try:
            answer = httpx2.request(
                method,
                f"{self.management_url}/api/{where}",
                auth=(self.user, self.password),
                json=json,
                timeout=30,
            )
        except httpx2.HTTPError as error:
            raise ServerError(f"{method} /api/{where}: {error}") from error
        if answer.status_code >= 400:
            raise ServerError(f"{method} /api/{where}: {answer.status_code} {answer.text[:300]}")
        return answer.json() if answer.content else None

    def add_vhost(self, name: str) -> None:
        """Create a virtual host and let the administrator do everything in it."""
        self.api("PUT", "vhosts", name, json={})
        self.permit(self.user, name)

    def delete_vhost(self, name: str) -> None:
        """Remove a virtual host and everything in it."""
        self.api("DELETE", "vhosts", name)

    def add_user(self, name: str, password: str, tags: Sequence[str] = ()) -> None:
        """Create a user, or change its password and tags."""
        self.api("PUT", "users", name, json={"password": password, "tags": ",".join(tags)})

    def delete_user(self, name: str) -> None:
        """Remove a user."""
        self.api("DELETE", "users", name)

    def permit(
        self, user: str, vhost: str, configure: str = ".*", write: str = ".*", read: str = ".*"
    ) -> None:
        """Set a user's permissions in a virtual host: regular expressions over names."""
        rights = {"configure": configure, "write": write, "read": read}
        self.api("PUT", "permissions", vhost, user, json=rights)

    @contextmanager
    def fresh_vhost(self, prefix: str = "test") -> Iterator[str]:
        """Create a virtual host with a new name; remove it after the block."""
        name = f"{prefix}-{uuid4().hex[:12]}"
        self.add_vhost(name)
        try:
            yield name
        finally:
            self.delete_vhost(name)

    def start(self) -> Self:
        """Make sure that it answers; raises `ServerError` if not."""
        self.api("GET", "whoami")
        return self

    def stop(self) -> None:
        """Leave it alone: it is not ours."""


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
