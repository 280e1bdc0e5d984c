"""The command line as a client of a running service."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any
from urllib.parse import quote, urlsplit, urlunsplit

import httpx2
import typer

from app.cli.exits import EXIT_OF_STATUS, CommandError, Exit

Url = Annotated[
    str | None, typer.Option("--url", envvar="ITC_URL", help="The service.", show_envvar=True)
]
User = Annotated[
    str | None,
    typer.Option(
        "--user",
        envvar="ITC_USER",
        help="A user of the broker; the password is read from ITC_PASSWORD.",
        show_envvar=True,
    ),
]

DEFAULT_URL = "http://127.0.0.1:15680"
PAGE = 500  # events in an answer
_TIMEOUT = httpx2.Timeout(30.0, connect=5.0)


def segment(name: str) -> str:
    return quote(name, safe="")


def trace_path(vhost: str) -> str:
    return f"/itc_db/{segment(vhost)}/undefined/undefined/undefined"


class ServiceClient:
    """Asks the service; every failure is a `CommandError` with the exit code for it."""

    def __init__(
        self,
        url: str,
        auth: tuple[str, str] | None,
        transport: httpx2.BaseTransport | None = None,
        on_behalf: Sequence[tuple[str, str]] | None = None,
    ) -> None:
        self._transport = transport or httpx2.HTTPTransport(trust_env=False)
        self._http = httpx2.Client(
            base_url=url,
            auth=auth,
            headers=[*(on_behalf or ())],
            timeout=_TIMEOUT,
            transport=self._transport,
            trust_env=False,
        )
        self._url = url
        self._auth = auth
        self._on_behalf = on_behalf

    @classmethod
    def from_environment(cls, url: Url = None, user: User = None) -> ServiceClient:
        """By ``ITC_URL``, ``ITC_USER`` and ``ITC_PASSWORD``; arguments override them.

        A user and password inside the URL are removed from it, so that no message shows them.
        """
        parts = urlsplit(url or os.environ.get("ITC_URL") or DEFAULT_URL)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CommandError(Exit.usage, "ITC_URL (or --url) must be http://host:port")
        name = user or parts.username or os.environ.get("ITC_USER")
        password = parts.password or os.environ.get("ITC_PASSWORD")
        bare = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        return cls(bare, (name, password or "") if name else None)

    def on_behalf(self, headers: Sequence[tuple[str, str]]) -> ServiceClient:
        """A client of another, whom these headers of a request name; the connections are shared."""
        return ServiceClient(self._url, None, self._transport, headers)

    def get(self, path: str, **parameters: Any) -> Any:
        """The decoded answer; parameters that are None are left out."""
        query = {name: value for name, value in parameters.items() if value is not None}
        return self.send("GET", path, params=query).json()

    def pages(
        self, path: str, cursor: str, limit: int, page_size: int, **parameters: Any
    ) -> dict[str, Any]:
        """One answer with up to ``limit`` items, out of as many as it takes of ``page_size`` each.

        The last one gives the certainty, and the start of the next. One without items took long: it
        is the last.
        """
        items: list[Any] = []
        position = None
        while True:
            page = min(limit - len(items), page_size)
            answer: dict[str, Any] = self.get(path, limit=page, **{cursor: position}, **parameters)
            items += answer["items"]
            position = answer["next"]
            if position is None or len(items) >= limit or not answer["items"]:
                return {**answer, "items": items}

    def send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        with self._own_errors():
            response = self._http.request(method, path, **options)
            return self._check(response)

    @contextmanager
    def stream(self, path: str) -> Generator[httpx2.Response, None, None]:
        with self._own_errors(), self._http.stream("GET", path) as response:
            if response.is_error:
                response.read()
            yield self._check(response)

    @contextmanager
    def _own_errors(self) -> Generator[None, None, None]:
        try:
            yield
        except httpx2.HTTPError as error:
            if not isinstance(error, httpx2.TimeoutException) and _speaks_amqp(self._http.base_url):
                raise _not_ours(self._url, "RabbitMQ's port for AMQP") from error
            raise CommandError(
                Exit.unavailable,
                f"no answer from {self._url} ({type(error).__name__}): is the service running, "
                "and is ITC_URL right?",
            ) from error

    def _check(self, response: httpx2.Response) -> httpx2.Response:
        if not response.is_error:
            return response
        if response.headers.get("server") == "Cowboy":  # the broker's web server
            raise _not_ours(self._url, "RabbitMQ's own management API")
        code = EXIT_OF_STATUS.get(response.status_code, Exit.failure)
        raise CommandError(code, _reason(response) + self._advice(response.status_code))

    def _advice(self, status: int) -> str:
        if status != httpx2.codes.UNAUTHORIZED:
            return ""
        if self._on_behalf is not None:
            return ": it is asked with the Authorization of your own request"
        name, password = self._auth or ("", "")
        if not name:
            return ": set ITC_USER and ITC_PASSWORD"
        return "" if password else f": there is no password for {name}, set ITC_PASSWORD"


def _not_ours(url: str, thing: str) -> CommandError:
    return CommandError(
        Exit.usage,
        f"{url} is {thing}: ITC_URL (or --url) is the address of rabbitmq-itc, such as "
        f"{DEFAULT_URL}",
    )


def _speaks_amqp(url: httpx2.URL) -> bool:
    """Tell whether a broker listens there: it answers anything else with the version it speaks."""
    try:
        with socket.create_connection((url.host, url.port or 80), timeout=1) as probe:
            probe.sendall(b"rabbitmq")
            return probe.recv(4) == b"AMQP"
    except OSError:
        return False


def _reason(response: httpx2.Response) -> str:
    try:
        return str(response.json()["reason"])
    except (ValueError, KeyError, TypeError):
        return f"the service answered {response.status_code} without saying why"
