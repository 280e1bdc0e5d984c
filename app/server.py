"""Runs the web application: sockets, signals, and bounds that the HTTP server does not have.

uvicorn takes a request's head in any size, and lets it come and its answer be read at any pace;
`GuardedProtocol` bounds that. Signals are taken here, so that a stop goes through the parts in
order and exits with 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, ClassVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from app.errors import SettingsError
from app.garbage import tune_garbage_collection
from app.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

logger = logging.getLogger(__name__)

_BACKLOG = 2_048
_LONGEST_HEAD = 65_536
LEAST_TAKEN = 16_384  # bytes; less than what is left when the transport asks for more
_REQUESTS_END_WITHIN = 5.0  # seconds of a graceful stop that answers under way may take


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 with bounds on a request's head and on how slowly an answer is read.

    An answer that its client does not read lies in memory for as long as the client likes: asyncio
    closes a connection only when all is sent. So a client that takes less than `LEAST_TAKEN` in
    ``send_seconds`` is cut off. That is long, because the system takes more from us only when a
    third of its own buffer is free, and that may be a megabyte. Where all together leave more than
    ``unread_bytes`` unread, whoever has waited longest is cut off at once.
    """

    head_seconds: ClassVar[float] = 15.0
    send_seconds: ClassVar[float] = 60.0
    unread_bytes: ClassVar[int] = 256 * 1024 * 1024
    unread: ClassVar[dict[GuardedProtocol, None]] = {}  # in the order of their waiting
    _deadline: asyncio.TimerHandle | None = None
    _slow: asyncio.TimerHandle | None = None
    _unsent = 0
    _head_bytes = 0
    _in_head = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock with the connection: a client may also send nothing at all."""
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_clock()
        self._stop_watching()
        self.unread.pop(self, None)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Look from now on whether the client takes what is sent."""
        super().pause_writing()
        self._watch_sending()
        self.unread[self] = None
        self._bound_unread()

    def resume_writing(self) -> None:
        """Look no more: nearly all is taken."""
        self._stop_watching()
        self.unread.pop(self, None)
        super().resume_writing()

    def on_message_begin(self) -> None:
        """Start the clock with the first byte of a further request."""
        self._expect_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stop the clock: a body has bounds of its own."""
        self._in_head = False
        self._stop_clock()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Refuse a head that does not end."""
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head_bytes += len(data)
            if self._head_bytes > _LONGEST_HEAD:
                self.send_400_response("The request's head is too large.")

    def _expect_head(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.head_seconds, self.transport.abort)

    def _watch_sending(self) -> None:
        self._stop_watching()
        self._unsent = self.transport.get_write_buffer_size()
        self._slow = self.loop.call_later(self.send_seconds, self._look_at_sending)

    def _look_at_sending(self) -> None:
        # What was added meanwhile hides what was taken; whoever adds waits for room first.
        if self.transport.get_write_buffer_size() > self._unsent - LEAST_TAKEN:
            self.transport.abort()
        else:
            self._watch_sending()

    def _bound_unread(self) -> None:
        sizes = {each: each.transport.get_write_buffer_size() for each in self.unread}
        too_much = sum(sizes.values()) - self.unread_bytes
        for each, size in sizes.items():
            if too_much <= 0 or each is self:  # one alone may be as large as its page is
                return
            too_much -= size
            del self.unread[each]
            each.transport.abort()

    def _stop_watching(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None

    def _stop_clock(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class Server(uvicorn.Server):
    """uvicorn's server without its handling of signals, which ends the process too early."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Take none."""
        yield

    def stop(self) -> None:
        """Stop gracefully; a second time, at once."""
        self.force_exit = self.should_exit
        self.should_exit = True


def bind(settings: Settings) -> socket.socket:
    """Take the port before anything is opened. Raises `SettingsError` in one line."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)  # who comes while the parts are being opened waits for them
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {settings.host}:{settings.port} (ITC_HOST, ITC_PORT): "
            f"{error.strerror or error}"
        ) from error
    return listener


async def serve(app: FastAPI, settings: Settings, listener: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT, then stop in order: streams, requests, parts."""
    server = Server(configuration(app, settings))
    async with app.router.lifespan_context(app):
        tune_garbage_collection()
        with _signals_to(server, app):
            host, port = listener.getsockname()[:2]
            logger.info("listening on http://%s:%s", f"[{host}]" if ":" in host else host, port)
            await server.serve(sockets=[listener])
    logger.info("stopped")


def configuration(app: FastAPI, settings: Settings) -> uvicorn.Config:
    """How uvicorn is to serve, with `GuardedProtocol`."""
    own = {"head_seconds": settings.request_seconds, "unread": {}}
    protocol = type("Protocol", (GuardedProtocol,), own)
    return uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",  # entered by serve(), so that its errors reach our caller
        log_config=None,
        access_log=settings.access_log,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_graceful_shutdown=int(min(_REQUESTS_END_WITHIN, settings.shutdown_seconds)),
    )


@contextlib.contextmanager
def _signals_to(server: Server, app: FastAPI) -> Generator[None, None, None]:
    def stop() -> None:
        logger.info("stopping")
        app.state.services.stopping.set()
        server.stop()

    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for number in signals:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)


def run(app: FastAPI, settings: Settings, listener: socket.socket) -> None:
    """`serve` on uvloop."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve(app, settings, listener))


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:  # not made for every platform
        return None
    return uvloop.new_event_loop
