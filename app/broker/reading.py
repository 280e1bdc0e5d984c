"""Reading in a process of its own, so that one busy virtual host can use more than one core.

That process stands between us and the broker: it passes the bytes of a connection on, both ways,
and puts runs of read trace messages (`app.broker.runs`) in the place of the deliveries. All the
talking stays here. To a connection its death is a cut like any other, after which a new one starts.

It gets one end of a socket for each connection, and lines of JSON that say what to do with it, by
way of another socket, its stdin. What it answers comes on the connection's own socket: that it has
taken the order, and whether the broker was reached. One that takes no orders is killed, and another
started. It ends when its stdin does, so it never outlives the service.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import sys
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import Process
from collections.abc import Sequence
from typing import Literal

import msgspec
from aiormq.exceptions import AMQPConnectionError
from yarl import URL

from app.environment import needed

MODULE = "app.reading_process"
LEAVE_SECONDS = 2.0
# How long it may take to take an order; the first time it has to start.
TAKE_SECONDS = 8.0
TAKEN = b"\n"
ORDER_BYTES = 64 * 1024  # at most


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line to the process: what to do with connection ``number``.

    An "open" comes with a socket, and says where to: a URL without an account.
    """

    do: Literal["open", "divert"]
    number: int
    url: str = ""
    channel: int = 0


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whether a connection to the broker was opened; if not, the system's error."""

    error: str | None = None  # the name of its class
    errno: int | None = None
    strerror: str | None = None

    @classmethod
    def of(cls, error: OSError) -> Answer:
        """The answer that tells of an error."""
        kind = next(kind.__name__ for kind in type(error).__mro__ if kind.__name__ in _KINDS)
        return cls(kind, error.errno, error.strerror)

    def check(self) -> None:
        """Raise the error as the client library would."""
        if self.error is not None:
            error = _KINDS[self.error](self.errno, self.strerror)
            raise AMQPConnectionError(self.errno, self.strerror) from error


# Of which there are sentences (`app.broker.outages`).
_TOLD: tuple[type[OSError], ...] = (
    socket.gaierror,
    ssl.SSLCertVerificationError,
    ssl.SSLError,
    TimeoutError,
    *ConnectionError.__subclasses__(),
    ConnectionError,
    OSError,
)
_KINDS = {kind.__name__: kind for kind in _TOLD}

_read_answer = msgspec.json.Decoder(Answer).decode


class Opened:
    """A connection to the broker by way of the process."""

    def __init__(
        self, reader: StreamReader, writer: StreamWriter, process: _Process, number: int
    ) -> None:
        self.reader = reader
        self.writer = writer
        self._process = process
        self._number = number

    def divert(self, channel: int) -> None:
        """Have the deliveries on a channel read there from now on; a few more may come as they are.

        Without the process this does nothing, and the connection is gone.
        """
        with contextlib.suppress(_EndedError):
            self._process.tell(Order("divert", self._number, channel=channel))


class _EndedError(Exception):
    """The process has ended."""


class _Process:
    """One such process that was started."""

    def __init__(self, process: Process, orders: socket.socket) -> None:
        self._process = process
        self._orders = orders
        self._count = 0

    @classmethod
    async def start(cls, command: Sequence[str]) -> _Process:
        """Start one."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=theirs.fileno(), env=needed(os.environ), start_new_session=True
            )
        return cls(process, ours)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.returncode is None

    def tell(self, order: Order, *ends: socket.socket) -> None:
        """Give an order, with a socket if that needs one.

        Raises `_EndedError`, and `OSError` for one that is too long.
        """
        line = msgspec.json.encode(order) + b"\n"
        if len(line) > ORDER_BYTES:
            raise OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE))
        try:
            sent = socket.send_fds(self._orders, [line], [end.fileno() for end in ends])
        except OSError as error:
            self._kill()
            raise _EndedError from error
        if sent < len(line):  # it takes none; what follows could not be told from this one
            self._kill()
            raise _EndedError

    async def open(self, url: URL) -> Opened:
        """Have it connect to a broker."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        self._count += 1
        number = self._count
        try:
            with theirs:
                place = str(url.with_user(None))
                self.tell(Order("open", number, place), theirs)
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        except BaseException:  # cancelled, too: nobody else closes it
            ours.close()
            raise
        try:
            await self._taken(reader)
            _read_answer(await reader.readuntil(b"\n")).check()
        except BaseException as error:  # likewise
            writer.transport.abort()
            if isinstance(error, asyncio.IncompleteReadError):
                raise ConnectionResetError("the reading process ended") from error
            raise
        return Opened(reader, writer, self, number)

    async def _taken(self, reader: StreamReader) -> None:
        """Wait until the order is taken."""
        try:
            async with asyncio.timeout(TAKE_SECONDS):
                await reader.readexactly(len(TAKEN))
        except TimeoutError:
            self._kill()
            raise ConnectionResetError("the reading process stood still") from None

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def leave(self) -> None:
        """Have it end, and wait for that."""
        self._orders.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), LEAVE_SECONDS)
        self._kill()
        await self._process.wait()


class ReadingProcess:
    """Opens connections that are read in another process, which is started when it is needed."""

    def __init__(self, command: Sequence[str] = ()) -> None:
        self._command = command or (sys.executable, "-m", MODULE)
        self._process: _Process | None = None
        self._starting = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        """The id of the process; None before the first connection."""
        return None if self._process is None else self._process.pid

    async def open(self, url: URL) -> Opened:
        """Open a connection to the broker; raises what the client library would."""
        process = None
        for _ in range(2):  # the first may have just ended
            process = await self._running(instead_of=process)
            with contextlib.suppress(_EndedError):
                return await process.open(url)
        raise ConnectionResetError("the reading process ends at once")

    async def close(self) -> None:
        """End the process; connections that are still open are cut off."""
        if self._process is not None:
            await self._process.leave()

    async def _running(self, instead_of: _Process | None = None) -> _Process:
        async with self._starting:
            process = self._process
            if process is None or process is instead_of or not process.is_alive:
                if process is not None:
                    await process.leave()
                process = self._process = await _Process.start(self._command)
            return process
