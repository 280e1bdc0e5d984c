"""Acquaints a run's tracker with who is behind connections, before it stamps what they did.

A connection's name is used again: the broker says when one closed and when the next opened, but has
no order between that and the firehose. So the run keeps a **horizon**: every message that it stamps
from now on was traced then or later. It follows the clock as closely as the trace queue is empty.

- A connection that closed before the horizon has ended; whoever acts under its name is the next.
- Where programs of different names had one since the horizon, a message may be either's. Until the
  horizon has passed that, what acts there is assumed, and answers about it say so.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from app.stored.capture import BrokerConnection
from app.tracker import Tracker

if TYPE_CHECKING:
    from app.broker.consumer import TraceStream
    from app.broker.deliveries import Arrival
    from app.traces.runs.introductions import Introductions

# Announcements of connections that closed at about the same time may be stored in any order (µs).
OVERLAP = 10_000_000
# How far the broker's clock may be off ours, and how old an empty queue's last message (µs).
SKEW = 2_000_000
HEAR_SECONDS = 0.25
REVIEW_SECONDS = 10.0


class _Measure(msgspec.Struct, frozen=True):
    """At ``at`` (µs), all that was traced before was among the first ``due`` messages."""

    at: int
    due: int


class Acquaintance:
    """One run's knowledge of connections."""

    def __init__(
        self,
        vhost: str,
        tracker: Tracker,
        introductions: Introductions,
        stream: TraceStream,
        *,
        recorded_at: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Begin with what the trace queue holds, all traced at ``recorded_at`` (µs) or later."""
        self._vhost = vhost
        self._tracker = tracker
        self._introductions = introductions
        self._stream = stream
        self._clock = clock
        self._processed = 0  # trace messages that are stamped
        self._taken = 0  # those, and the present ones
        now = self._now()
        self._horizon = now if stream.queue_is_new else min(recorded_at, now)
        self._measure: _Measure | None = None
        self._next_hearing = self._next_review = 0
        self._since = 0
        self._heard: set[int] = set()  # ids of closed connections that are told again
        # When connections closed under whose names the tracker still knows somebody (µs).
        self._closed: dict[str, int] = {}

    async def meet(self, messages: Sequence[Arrival], *, held_back: bool = False) -> None:
        """Say who is behind the messages that are stamped next.

        ``held_back`` says that some before them are not stamped yet. Raises `OutageError` if the
        store is away.
        """
        now = self._now()
        self._processed, self._taken = self._taken, self._taken + len(messages)
        if not messages:
            # That none came says nothing of the queue: a slow broker pauses too.
            if self._stream.remark is None and not held_back:
                self._advance()
                self._measure = None  # what arrived while it was taken may be counted twice in it
            return
        self._advance()
        if now >= self._next_hearing:
            self._next_hearing = now + int(HEAR_SECONDS * 1_000_000)
            await self._hear(now)
        if not held_back:
            self._end()
        await self._introduce(messages)

    def measured(self, at: int, ready: int) -> None:
        """Note how many messages the queue held for us, of which it was asked at a time (µs).

        What was sent to us meanwhile is not ready any more, and is in the buffer or taken: also
        while the store is asked who is behind it, which may take longer than the queue's answer.
        """
        if self._measure is None:
            self._measure = _Measure(at, self._taken + self._stream.buffered + ready)

    def _now(self) -> int:
        return int(self._clock() * 1_000_000)

    def _advance(self) -> None:
        """Move the horizon on, where what was queued at a time is stamped."""
        if self._measure is not None and self._measure.due <= self._processed:
            self._horizon, self._measure = max(self._horizon, self._measure.at), None

    async def _hear(self, now: int) -> None:
        """Ask which connections closed, and look at those on which somebody else may act."""
        if now >= self._next_review:  # the first time, and for what is announced late
            self._next_review = now + int(REVIEW_SECONDS * 1_000_000)
            self._since = self._since or now - OVERLAP
            suspects: Collection[str] = {*self._tracker.participants.connections, *self._closed}
        else:
            closed = await self._introductions.connections.closed_since(self._vhost, self._since)
            self._since = now - OVERLAP
            for each in closed:
                if each.id not in self._heard and self._tracker.ends_with(each.name):
                    self._note_end(each)
            self._heard = {each.id for each in closed}
            suspects = self._closed
        if not suspects:
            return
        for name, owners in (await self._owners(suspects)).items():
            for each in owners:
                self._note_end(each)
            for user, client in self._tracker.participants.clients_on(name).items():
                theirs = [each for each in owners if each.user == user]
                if theirs and _client_of(theirs) != client:
                    self._tracker.end(name)  # and introduced again, as what it may be
                    break

    def _note_end(self, connection: BrokerConnection) -> None:
        if connection.closed_at is not None:
            name = connection.name
            self._closed[name] = max(self._closed.get(name, 0), connection.closed_at)

    def _end(self) -> None:
        over = [name for name, at in self._closed.items() if at + SKEW < self._horizon]
        for name in over:
            if self._tracker.end(name):
                del self._closed[name]

    async def _owners(self, names: Collection[str]) -> Mapping[str, list[BrokerConnection]]:
        """The connections of each name that messages to be stamped may be of."""
        owners: defaultdict[str, list[BrokerConnection]] = defaultdict(list)
        since = self._horizon - SKEW
        for each in await self._introductions.connections.owners(names, since):
            owners[each.name].append(each)
        return owners

    async def _introduce(self, messages: Sequence[Arrival]) -> None:
        participants = self._tracker.participants
        strangers = participants.strangers(
            [each.message.channel for each in messages if each.message.is_event]
        )
        if not strangers:
            return
        decided = {where.connection for where in strangers if participants.is_by_name(where)}
        shown = {where.connection for where in strangers} - decided
        found = await self._introductions.look_up(sorted(decided))
        if shown:
            found |= await self._introductions.connections.find(shown)
        owners = await self._owners(decided) if decided else {}
        for where in strangers:
            newest = found.get(where.connection)
            possible = owners.get(where.connection) or ([newest] if newest else [])
            if participants.is_by_connection(where):
                for each in possible:
                    self._note_end(each)
            theirs = [each for each in possible if each.user == where.user]
            participants.introduce(where, _client_of(theirs))


def _client_of(owners: Sequence[BrokerConnection]) -> str | None:
    """The client behind a connection that may be any of these; None if that is not clear."""
    clients = {each.client for each in owners}
    return clients.pop() if len(clients) == 1 else None
