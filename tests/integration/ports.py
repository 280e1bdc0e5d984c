"""Clients' connections from a port that is chosen, which know the broker's name for them."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from aiormq.connection import TransportFactory
from yarl import URL

from app.broker.connection import VhostConnection


class FromPort(TransportFactory):
    """Connects from a port, 0 for any, which it goes on using."""

    def __init__(self, port: int = 0) -> None:
        self.port = port
        self.name = ""

    async def create(
        self, url: URL, **kwargs: Any
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        ours = socket.socket()
        ours.setblocking(False)
        try:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            ours.bind(("127.0.0.1", self.port))
            await asyncio.get_running_loop().sock_connect(ours, (url.host, url.port))
        except OSError:
            ours.close()
            raise
        here, there = ours.getsockname(), ours.getpeername()
        self.port = here[1]
        self.name = f"{here[0]}:{here[1]} -> {there[0]}:{there[1]}"
        return await asyncio.open_connection(sock=ours)


class ClientConnection(VhostConnection):
    """A client's connection."""

    def __init__(self, url: URL, vhost: str, *, port: int = 0, **kwargs: Any) -> None:
        super().__init__(url, vhost, **kwargs)
        self.sockets = FromPort(port)
        self.kwargs["transport_factory"] = self.sockets

    @property
    def broker_name(self) -> str:
        """What the broker calls it."""
        return self.sockets.name
