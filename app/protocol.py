"""uvicorn's HTTP/1.1, with bounds on what clients send and on how long they may pause.

uvicorn has settings for none of that, so this overrides methods that are uvicorn's to change:
pyproject.toml pins the release exactly.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from app.api.layers.bodies import BODY_BYTES
from app.api.problems import SECURITY_HEADERS, problem
from app.api.signin.throttle import network_of
from app.connections import Admission
from app.round_robin import Turns

_LONGEST_HEAD = 65_536  # bytes
_MOST_HEADERS = 100
_MOST_PIPELINED = 16  # requests that wait for an earlier one to be answered
KEEP_ALIVE_SECONDS = 5.0  # for the next request; a client that comes later connects again
SEND_SECONDS = 60.0  # for `LEAST_TAKEN` of an answer, or for its end
LEAST_TAKEN = 16_384  # bytes; less than what is left when the transport asks for more


class ConnectionPhase(StrEnum):
    """The phase of a connection. All but `answer` wait for the client, and have a deadline."""

    head = "head"  # a request's head: its first byte, or the rest of it
    body = "body"  # the rest of a body whose request is answered already
    idle = "idle"  # the next request
    answer = "answer"  # our own answer; the application bounds it, and any body that it reads
    unread = "unread"  # the client, to read what was sent
    closing = "closing"  # the client, to close after we have


class _FaultError(Exception):
    """The refusal of a request's head."""


class GuardedProtocol(HttpToolsProtocol):
    """One client's connection, in which no state lasts as long as the client likes.

    The server checks each connection at least once a second (`look`), and ends one that has been in
    the same state of the same request for longer than ``limits`` allows. What a client sends in
    the meantime gains it no time unless it leads to another state.

    An answer that the client does not read stays in memory until the connection ends. So a client
    that takes less than `LEAST_TAKEN` in `SEND_SECONDS` is cut off. That time is long, because
    the system takes more from us only when a third of its own buffer is free, which may be a
    megabyte. When all clients together leave more than ``unread_bytes`` unread, the one that has
    waited longest is cut off at once.
    """

    limits: ClassVar[dict[ConnectionPhase, float]]  # seconds
    connected: ClassVar[Admission]
    turns: ClassVar[Turns]
    larger: ClassVar[Mapping[str, int]] = {}  # paths where bodies may be larger than elsewhere
    unread_bytes: ClassVar[int] = 256 * 1024 * 1024
    unread: ClassVar[dict[GuardedProtocol, None]] = {}  # longest waiting first
    _last_phase: tuple[ConnectionPhase, int] = (ConnectionPhase.head, 0)
    _phase_since = 0.0
    _unsent = 0  # when the client last took enough, which was at
    _taken_at = 0.0
    _requests = 0
    _head_bytes = 0
    _head_rest = 0  # bytes received since the parser last reported a part of the head
    _headers = 0
    _in_head = True
    _in_body = False
    _fault = ""
    _refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._phase_since = self.loop.time()
        if not self.connected.admit(self, self.client[0] if self.client else ""):
            self._say(503, "unavailable", "there are too many connections: try again later")
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.unread.pop(self, None)
        self.connected.release(self)
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    # Time

    @property
    def state(self) -> ConnectionPhase:
        """The party that the connection waits for."""
        if self._refused or (self.transport.is_closing() and not self._unsent_bytes()):
            return ConnectionPhase.closing
        if self._is_answering() and not self.transport.is_closing():
            # While we are not reading, an unfinished head is not the client's fault.
            return (
                ConnectionPhase.head
                if self._in_head and not self.flow.read_paused
                else ConnectionPhase.answer
            )
        if self._unsent_bytes():
            return ConnectionPhase.unread
        if self._in_head:
            return ConnectionPhase.head
        return ConnectionPhase.body if self._in_body else ConnectionPhase.idle

    def look(self) -> None:
        moment, phase = self.loop.time(), (self.state, self._requests)
        if self in self.unread:
            self._look_at_sending(moment)
        elif phase != self._last_phase:
            self._last_phase, self._phase_since = phase, moment
        elif (
            phase[0] is not ConnectionPhase.answer
            and moment - self._phase_since >= self.limits[phase[0]]
        ):
            self._cut(phase[0])

    def _look_at_sending(self, moment: float) -> None:
        # Bytes added meanwhile hide those taken, but a writer waits for room first.
        if self._unsent_bytes() <= self._unsent - LEAST_TAKEN:
            self._unsent, self._taken_at = self._unsent_bytes(), moment
        elif moment - self._taken_at >= self.limits[ConnectionPhase.unread]:
            self._cut(ConnectionPhase.unread)

    def _cut(self, state: ConnectionPhase) -> None:
        self.connected.cut(state)
        self.transport.abort()

    def timeout_keep_alive_handler(self) -> None:
        """Do nothing: any byte stops uvicorn's own timer, and only an answer starts it."""

    def give_up(self) -> None:
        self.transport.abort()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _unsent_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    # Receiving

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._head_rest += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            # Answered like any other request; the parser reads nothing after it.
            self.cycle.keep_alive = False
        except httptools.HttpParserError:
            self._refuse(self._fault or "this is no request of HTTP/1.1")
        else:
            if self._in_head and self._head_bytes + self._head_rest > _LONGEST_HEAD:
                self._refuse("the request's head is too large")

    def on_message_begin(self) -> None:
        if self.cycle is not None:  # the first one's time started with the connection
            self._requests += 1
        self._in_head = True
        self._head_bytes = self._headers = 0
        self._measure(0)
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        self._measure(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. Those after a body are counted, and otherwise ignored."""
        self._headers += 1
        self._measure(len(name) + len(value) + len(b": \r\n"))
        if self._headers > _MOST_HEADERS:
            self._find_fault(f"a request has at most {_MOST_HEADERS} headers")
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= _MOST_PIPELINED:
            self._find_fault("too many requests before the answer to the first")
        super().on_headers_complete()
        self._in_head = False
        self._in_body = True

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body, and nothing more once it is too large."""
        if not self.cycle.response_complete:
            limit = self.larger.get(self.cycle.scope["path"], BODY_BYTES)
            super().on_body(body[: max(0, limit + 1 - len(self.cycle.body))])

    def on_message_complete(self) -> None:
        self._in_body = False
        if self._is_answering():
            self.connected.works(self)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request if it has arrived, else wait for it."""
        super().on_response_complete()
        if self.pipeline:  # enough has arrived for now: each answer would let more in
            self.flow.pause_reading()
        if not self._is_answering():
            self.connected.waits(self)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        def begin() -> None:
            if not cycle.disconnected:
                super(GuardedProtocol, self)._start_asgi_task(cycle, app)

        self.turns.ask(network_of(self.client[0] if self.client else ""), begin)

    def _measure(self, length: int) -> None:
        """Add to the head's length, which does not depend on how its bytes were split."""
        self._head_rest = 0
        self._head_bytes += length
        if self._head_bytes > _LONGEST_HEAD:
            self._find_fault("the request's head is too large")

    def _find_fault(self, fault: str) -> None:
        self._fault = fault
        raise _FaultError  # out of the parser, which stops

    def _refuse(self, reason: str) -> None:
        """Answer 400 and read no more.

        If answers to earlier requests are still under way, they go out and nothing follows: this
        answer would be taken for one of them.
        """
        if self._is_answering() and (self.cycle.response_started or not self.cycle.more_body):
            self.cycle.keep_alive = False
            self.flow.pause_reading()
            return
        if self._is_answering():  # its own body cannot be read
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._refused = True
        self._say(400, "bad_request", reason)
        # Not closed yet: further bytes would reset the connection before the answer is read.
        self.transport.write_eof()

    def _say(self, status: int, word: str, reason: str) -> None:
        answer = problem(status, word, reason, {**SECURITY_HEADERS, "connection": "close"})
        headers = [*self.server_state.default_headers, *answer.raw_headers]
        lines = [b"%b: %b\r\n" % header for header in headers]
        start = b"HTTP/1.1 %d \r\n" % status
        self.transport.write(b"".join([start, *lines, b"\r\n", bytes(answer.body)]))

    # Sending

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unsent, self._taken_at = self._unsent_bytes(), self.loop.time()
        self.unread[self] = None
        self._bound_unread()

    def resume_writing(self) -> None:
        self.unread.pop(self, None)
        super().resume_writing()

    def _bound_unread(self) -> None:
        sizes = {connection: connection._unsent_bytes() for connection in self.unread}
        too_much = sum(sizes.values()) - self.unread_bytes
        for connection, size in sizes.items():
            if too_much <= 0 or connection is self:  # a single one may be as large as its page
                return
            too_much -= size
            del self.unread[connection]
            connection._cut(ConnectionPhase.unread)
