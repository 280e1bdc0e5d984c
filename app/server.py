"""Runs the web application: sockets, signals, and regular checks of every connection.

uvicorn lets clients take as much time, space and connections as they like; `app.protocol` and
`app.connections` bound that. Signals are handled here, so that a stop ends the parts in order and
the process exits with 0.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING

import uvicorn
import uvloop

from app import protocol
from app.api.layers import bodies
from app.connections import descriptors, open_admission, raise_descriptors
from app.errors import SettingsError
from app.interpreter import tune_interpreter
from app.protocol import ConnectionPhase, GuardedProtocol
from app.round_robin import Turns
from app.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

logger = logging.getLogger(__name__)

# A closed terminal sends SIGHUP: there is no configuration to read again.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_BACKLOG = 2_048
_TICKS_A_SECOND = 10  # uvicorn's
_REQUESTS_END_WITHIN = 5.0  # seconds that a graceful stop leaves for answers under way
_LEFT_SECONDS = 3.0  # for the rest, after all parts have ended


class Server(uvicorn.Server):
    """uvicorn's server, which also checks its connections and leaves signals to others.

    uvicorn's own handling of them ends the process too early.
    """

    async def on_tick(self, counter: int) -> bool:
        """Check every connection once a second, or more often if a limit is shorter than that."""
        shortest = min(self.config.http.limits.values())  # type: ignore[union-attr]
        if counter % max(1, int(min(1.0, shortest / 4) * _TICKS_A_SECOND)) == 0:
            for connection in list(self.server_state.connections):
                connection.look()  # type: ignore[union-attr]
        return await super().on_tick(counter)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    def stop(self) -> None:
        """Stop gracefully; when called again, at once."""
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
        listener.listen(_backlog())  # clients that connect early wait until the parts are open
    except OSError as error:
        raise SettingsError(
            f"cannot listen on {settings.host}:{settings.port} (ITC_HOST, ITC_PORT): "
            f"{error.strerror or error}"
        ) from error
    return listener


async def serve(app: FastAPI, settings: Settings, listener: socket.socket) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP, then stop in order: streams, requests, parts."""
    server = Server(configuration(app, settings))
    async with app.router.lifespan_context(app):
        tune_interpreter()
        with _signals_to(server, app):
            host, port = listener.getsockname()[:2]
            logger.info("listening on http://%s:%s", f"[{host}]" if ":" in host else host, port)
            await server.serve(sockets=[listener])
    logger.info("stopped")


def _backlog() -> int:
    """The most connections that wait: all are accepted at once, before any can be refused."""
    return min(_BACKLOG, max(1, descriptors() // 8))


def configuration(app: FastAPI, settings: Settings) -> uvicorn.Config:
    attributes = {
        "limits": {
            ConnectionPhase.head: bodies.REQUEST_SECONDS,
            ConnectionPhase.body: protocol.KEEP_ALIVE_SECONDS,
            ConnectionPhase.idle: protocol.KEEP_ALIVE_SECONDS,
            ConnectionPhase.unread: protocol.SEND_SECONDS,
            ConnectionPhase.closing: protocol.KEEP_ALIVE_SECONDS,
        },
        "connected": open_admission(settings, app.state.http_metrics, descriptors()),
        "turns": Turns(),
        "larger": bodies.larger_bodies(settings.otlp),
        "unread": {},
    }
    guarded = type("Protocol", (GuardedProtocol,), attributes)
    return uvicorn.Config(
        app,
        http=guarded,
        backlog=_backlog(),
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
    # Under nohup, SIGHUP is ignored.
    numbers = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    for number in numbers:
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


def run(app: FastAPI, settings: Settings, listener: socket.socket) -> None:
    """`serve` on uvloop; the process has to end afterwards, and does so soon in any case."""
    raise_descriptors()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(app, settings, listener))
        # All parts have ended. The rest is libraries' own: a connection, for example, that waits
        # for a database that stalls. The loop would wait for that.
        cut_off = threading.Timer(_LEFT_SECONDS, os._exit, [0])
        cut_off.daemon = True
        cut_off.start()
