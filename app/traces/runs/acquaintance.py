"""Acquaints a run's tracker with who is behind connections, before it stamps what they did.

A connection's name is used again: the broker says when one closed and when the next opened, but has
no order between that and the firehose. So the run keeps a **horizon**: every message that it stamps
from now on was traced then or later. It follows the clock as closely as the trace queue is empty.

- A connection that closed before the horizon has ended: its name now belongs to the next one.
- Where programs of different names had one since the horizon, a message may be either's. Until the
  horizon has passed that, the participant is assumed, and answers about it say so.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
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
# Most that the broker's clock is off ours, and the age of an empty queue's last message (µs).
SKEW = 2_000_000
HEAR_SECONDS = 0.25
REVIEW_SECONDS = 10.0


class _Measure(msgspec.Struct, frozen=True):
    """All that was traced before ``moment`` (µs) was among the first ``due`` messages."""

    moment: int
    due: int


@dataclass(eq=False)
class Acquaintance:
    """One run's knowledge of connections.

    The trace queue's messages were all traced at ``recorded_at`` (µs) or later.
    """

    vhost: str
    tracker: Tracker
    introductions: Introductions
    stream: TraceStream
    _: KW_ONLY
    recorded_at: int
    clock: Callable[[], float] = time.time

    def __post_init__(self) -> None:
        self._processed = 0  # trace messages that are stamped
        self._received = 0  # including the present ones
        moment = self._moment()
        self._horizon = moment if self.stream.queue_is_new else min(self.recorded_at, moment)
        self._measure: _Measure | None = None
        self._next_hearing = self._next_review = 0
        self._hear_from = 0
        self._noted_ids: set[int] = set()  # closed connections that OVERLAP brings again
        # When connections closed whose names the tracker still knows (µs).
        self._closings: dict[str, int] = {}

    async def meet(self, messages: Sequence[Arrival], *, held_back: bool = False) -> None:
        """Introduce the participants behind the messages that are stamped next.

        ``held_back`` says that some before them are not stamped yet. Raises `OutageError`.
        """
        moment = self._moment()
        count = sum(message.is_last for message in messages)  # of records of a bundle one
        self._processed, self._received = self._received, self._received + count
        if not messages:
            # An empty portion does not mean an empty queue: a slow broker pauses too.
            if self.stream.remark is None and not held_back:
                self._advance()
                self._measure = None  # it may count arrivals of that time twice
            return
        self._advance()
        if moment >= self._next_hearing:
            self._next_hearing = moment + int(HEAR_SECONDS * 1_000_000)
            await self._hear(moment)
        if not held_back:
            self._end()
        await self._introduce(messages)

    def note_measure(self, moment: int, ready: int) -> None:
        """Note how many messages the queue held for us when it was asked at a time (µs).

        What was sent to us meanwhile is no longer ready, but in the buffer or taken: also while the
        store is asked who is behind it, which may take longer than the queue's answer.
        """
        if self._measure is None:
            self._measure = _Measure(moment, self._received + self.stream.buffer_size + ready)

    def _moment(self) -> int:
        return int(self.clock() * 1_000_000)

    def _advance(self) -> None:
        if self._measure is not None and self._measure.due <= self._processed:
            self._horizon, self._measure = max(self._horizon, self._measure.moment), None

    async def _hear(self, moment: int) -> None:
        """Ask which connections closed, and look at those on which somebody else may act."""
        if moment >= self._next_review:  # the first time, and for late announcements
            self._next_review = moment + int(REVIEW_SECONDS * 1_000_000)
            self._hear_from = self._hear_from or moment - OVERLAP
            suspects: Collection[str] = {
                *self.tracker.participants.connections,
                *self._closings,
            }
        else:
            connections = await self.introductions.connections.list_closed(
                self.vhost, self._hear_from
            )
            self._hear_from = moment - OVERLAP
            for connection in connections:
                is_new = connection.id not in self._noted_ids
                if is_new and self.tracker.ends_with(connection.name):
                    self._note_end(connection)
            self._noted_ids = {connection.id for connection in connections}
            suspects = self._closings
        if not suspects:
            return
        for name, owners in (await self._owners(suspects)).items():
            for owner in owners:
                self._note_end(owner)
            for user, client in self.tracker.participants.clients_on(name).items():
                owners_of_user = [owner for owner in owners if owner.user == user]
                if owners_of_user and _common_client(owners_of_user) != client:
                    self.tracker.end(name)  # and introduced again, as it may be now
                    break

    def _note_end(self, connection: BrokerConnection) -> None:
        if connection.closed_at is not None:
            name = connection.name
            self._closings[name] = max(self._closings.get(name, 0), connection.closed_at)

    def _end(self) -> None:
        for name, moment in [*self._closings.items()]:
            if moment + SKEW < self._horizon and self.tracker.end(name):
                del self._closings[name]

    async def _owners(self, names: Collection[str]) -> Mapping[str, list[BrokerConnection]]:
        """Connections by name that messages still to be stamped may belong to."""
        owners: defaultdict[str, list[BrokerConnection]] = defaultdict(list)
        start = self._horizon - SKEW
        for connection in await self.introductions.connections.owners(names, start):
            owners[connection.name].append(connection)
        return owners

    async def _introduce(self, messages: Sequence[Arrival]) -> None:
        participants = self.tracker.participants
        strangers = participants.strangers(
            [arrival.message.channel for arrival in messages if arrival.message.is_event]
        )
        if not strangers:
            return
        by_client = {
            channel.connection for channel in strangers if participants.is_by_name(channel)
        }
        by_user = {channel.connection for channel in strangers} - by_client
        newest_by_name = await self.introductions.look_up(sorted(by_client))
        if by_user:
            newest_by_name |= await self.introductions.connections.find(by_user)
        owners = await self._owners(by_client) if by_client else {}
        for channel in strangers:
            newest = newest_by_name.get(channel.connection)
            possible = owners.get(channel.connection) or ([newest] if newest else [])
            if participants.is_by_connection(channel):
                for connection in possible:
                    self._note_end(connection)
            owners_of_user = [owner for owner in possible if owner.user == channel.user]
            participants.introduce(channel, _common_client(owners_of_user))


def _common_client(owners: Sequence[BrokerConnection]) -> str | None:
    """The client behind a connection that may be any of these; None if that is not clear."""
    clients = {owner.client for owner in owners}
    return clients.pop() if len(clients) == 1 else None
