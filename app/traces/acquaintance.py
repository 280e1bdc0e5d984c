"""Acquaints a run's tracker with who is behind connections, before it stamps what they did.

The broker says when a connection closed, and has no order between that and the firehose. What was
queued when we heard of it may still be the closed connection's, so it ends only once all of that is
stamped. Too late is harmless: two connections of one name are then one participant, which orders
more than there may be, and never less.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from app.traces.ports import Introducer, Stream, TraceMessage
from app.tracker import Tracker, Unreadable

# Announcements of connections that closed at about the same time may be stored in any order (µs).
OVERLAP = 60 * 1_000_000
HEAR_SECONDS = 0.25


class Acquaintance:
    """What one run knows of connections."""

    def __init__(
        self,
        vhost: str,
        tracker: Tracker,
        introductions: Introducer,
        stream: Stream,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._vhost = vhost
        self._tracker = tracker
        self._introductions = introductions
        self._stream = stream
        self._processed = 0  # trace messages that were handed out before the present ones
        self._heard: dict[int, int] = {}  # closed connections: id, and when (µs)
        self._introduced: dict[str, int] = {}  # the id of the connection that has a name now
        self._since: int | None = None
        self._next_hearing = float("-inf")
        # Names of closed connections, each with how many messages come before its end.
        self._ending: deque[tuple[int, str, int]] = deque()

    async def meet(self, messages: Sequence[TraceMessage], *, held_back: bool = False) -> None:
        """Say who is behind the messages that are stamped next.

        ``held_back`` says that some before them are not stamped yet. Raises `OutageError` if the
        store or the broker is away.
        """
        if not messages:
            return
        if self._clock() >= self._next_hearing:
            self._next_hearing = self._clock() + HEAR_SECONDS
            await self._hear(len(messages))
        if not held_back:
            self._end()
        await self._introduce(messages)
        self._processed += len(messages)

    async def _hear(self, at_hand: int) -> None:
        """Ask what was closed since."""
        if self._since is None:
            # What a tracker has known since before a restart may have closed meanwhile.
            known = await self._introductions.known(self._tracker.connections)
            closed = [each for each in known.values() if each.closed_at is not None]
            newest = await self._introductions.newest_closed(self._vhost)
            self._since = max(newest - OVERLAP, 0)
        else:
            closed = list(await self._introductions.closed_since(self._vhost, self._since))
        new = [each for each in closed if each.id not in self._heard]
        for each in closed:
            self._heard[each.id] = each.closed_at or 0
        if new:
            self._since = max(self._since, max(self._heard.values()) - OVERLAP)
            since = self._since
            self._heard = {one: at for one, at in self._heard.items() if at >= since}
        ending = [each for each in new if self._tracker.ends_with(each.name)]
        if ending:
            queued = self._stream.buffered + await self._stream.ready_messages()
            due = self._processed + at_hand + queued
            self._ending.extend((due, each.name, each.id) for each in ending)

    def _end(self) -> None:
        while self._ending and self._ending[0][0] <= self._processed:
            _, name, connection = self._ending.popleft()
            if self._introduced.get(name, connection) <= connection:
                self._tracker.end(name)
                self._introduced.pop(name, None)

    async def _introduce(self, messages: Sequence[TraceMessage]) -> None:
        tracker = self._tracker
        strangers = tracker.strangers(
            each.message.channel for each in messages if not isinstance(each.message, Unreadable)
        )
        if not strangers:
            return
        decided = [name for name, where in strangers.items() if tracker.is_by_name(where)]
        shown = strangers.keys() - set(decided)
        found = {
            **await self._introductions.look_up(decided),
            **await self._introductions.known(sorted(shown)),
        }
        for name, where in strangers.items():
            connection = found.get(name)
            if connection is not None and connection.user == where.user:
                tracker.introduce(where, connection.client)
                self._introduced[name] = connection.id
            else:
                tracker.introduce(where, None)
