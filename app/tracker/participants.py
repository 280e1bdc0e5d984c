"""Who acts: participants, the channels they act through, and the ids they own.

A trace is started with a policy that says what counts as one participant; every channel belongs to
exactly one. A participant owns one interval of the trace's ITC id space, dealt when it first acts,
and starts with event component 0 (or, on a reused interval, its last owner's height there): being
registered alone orders nothing.
"""

from __future__ import annotations

import enum

from app.tracker.events import ChannelState, ParticipantState, Reference
from app.tracker.lasts import LastEvents
from app.tracker.records import Channel
from itc import IdPool, Stamp, pack


class Policy(enum.StrEnum):
    """What counts as one participant."""

    channel = "channel"
    connection = "connection"
    user = "user"

    def name_of(self, channel: Channel) -> str:
        """Return the identity of the participant behind a channel, unique within the trace."""
        if self is Policy.user:
            return channel.user
        if self is Policy.connection:
            return f"{channel.user} {channel.connection} {channel.node}"
        return f"{channel.user} {channel.connection} ({channel.number}) {channel.node}"


class Participant:
    """One participant's live state; `stamp` is that of its last event."""

    __slots__ = (
        "base",
        "ground",
        "height",
        "interval",
        "lamport",
        "last",
        "name",
        "number",
        "seq",
        "stamp",
    )

    def __init__(self, number: int, name: str, interval: str, base: int) -> None:
        self.number = number
        self.name = name
        self.interval = interval
        self.base = base
        self.stamp = Stamp.of_interval(interval, base)
        self.seq = 0
        self.lamport = 0
        self.height = base
        self.last: Reference | None = None
        self.ground: Stamp | None = None

    def stand_on(self, ground: Stamp) -> None:
        """Level the clock wherever no owner is left whose events it could tell apart."""
        if self.ground is not ground:
            self.stamp, self.ground = self.stamp.join(ground), ground

    def advance(self, cause: Reference | None) -> Reference:
        """Stamp the participant's next event, and return the reference to it."""
        before = self.stamp if cause is None else self.stamp.join(cause.clock)
        self.stamp = before.event()
        self.seq += 1
        self.lamport = 1 + (self.lamport if cause is None else max(self.lamport, cause.lamport))
        self.height = self.stamp.height_at(self.interval)
        # Packed here, while the tree is in the processor's cache.
        self.last = Reference(self.stamp.peek(), pack(self.stamp), self.lamport)
        return self.last

    def state(self) -> ParticipantState:
        """Return what the checkpoint keeps; the stamp is kept with its last event."""
        return ParticipantState(
            number=self.number,
            name=self.name,
            interval=self.interval,
            seq=self.seq,
            lamport=self.lamport,
            height=self.height,
            base=self.base,
        )

    @classmethod
    def restored(cls, state: ParticipantState, stamp: Stamp, last_event_id: int) -> Participant:
        """Rebuild from a checkpoint."""
        self = cls(state.number, state.name, state.interval, state.base)
        self.stamp, self.seq = stamp, state.seq
        self.lamport, self.height = state.lamport, state.height
        self.last = Reference(stamp.peek(), pack(stamp), state.lamport, last_event_id)
        return self


class Participants:
    """All participants of one trace, by channel; deals numbers and intervals."""

    def __init__(self, policy: Policy, pool: IdPool | None = None) -> None:
        self._policy = policy
        self._pool = pool or IdPool()
        # Clocks remember every owner that an interval had. The owners of a free one have no events
        # left to compare, so each participant levels it before it acts again; otherwise clocks
        # would grow with every participant there ever was.
        self._ground = self._pool.ground()
        self._by_channel: dict[Channel, tuple[int, Participant]] = {}  # a channel's key and owner
        self._by_name: dict[str, Participant] = {}
        self.next_participant = 1
        self.next_channel_key = 1
        self._new_channels: list[ChannelState] = []
        self._touched: dict[int, Participant] = {}
        self._shares = policy is not Policy.channel
        self._lasts = LastEvents()

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def channels(self) -> int:
        """How many channels are known."""
        return len(self._by_channel)

    @property
    def pool(self) -> IdPool:
        """The intervals that nobody owns."""
        return self._pool

    def restore(
        self, participants: list[tuple[ParticipantState, Stamp, int]], channels: list[ChannelState]
    ) -> None:
        """Fill in from a checkpoint: (state, stamp and id of the last event) and channels."""
        by_number = {}
        for state, stamp, last_event_id in participants:
            participant = Participant.restored(state, stamp, last_event_id)
            self._by_name[state.name] = by_number[state.number] = participant
        for known in channels:
            self._by_channel[known.channel] = (known.key, by_number[known.participant])
            if known.last_event_id is not None:
                self._lasts.restore(known.key, known.last_event_id)

    def name_of(self, channel: Channel) -> str:
        """Return the name of the participant behind a channel, whether or not it acted yet."""
        known = self._by_channel.get(channel)
        return known[1].name if known else self._policy.name_of(channel)

    def acting(self, channel: Channel) -> tuple[int, Participant]:
        """Return the channel's key and its participant, both made when it is first seen."""
        known = self._by_channel.get(channel)
        if known is None:
            known = self._by_channel[channel] = self._introduce(channel)
        participant = known[1]
        participant.stand_on(self._ground)
        self._touched[participant.number] = participant
        return known

    def advance(
        self, channel_key: int, participant: Participant, cause: Reference | None
    ) -> Reference:
        """Stamp a participant's next event, on one of its channels; return the reference to it."""
        reference = participant.advance(cause)
        if self._shares:
            self._lasts.note(channel_key, reference)
        return reference

    def retire_before(self, event_id: int) -> list[int]:
        """Give back the ids of participants whose every event has a smaller id.

        Those that go on lose the channels of which that is true.
        Nothing that is still stored can have been influenced through them: what they knew has
        smaller ids than their own events. One that acts again comes back as a new participant.

        :returns: the numbers of those that went.
        """
        gone = [p for p in self._by_name.values() if _ended_before(p, event_id)]
        for participant in gone:
            del self._by_name[participant.name]
            self._pool.give_back(participant.interval, participant.height)
        if gone:
            self._ground = self._pool.ground()
        numbers = {p.number for p in gone}
        ended = self._lasts.ended_before(event_id)
        self._by_channel = {
            channel: known
            for channel, known in self._by_channel.items()
            if known[1].number not in numbers and known[0] not in ended
        }
        return sorted(numbers)

    def changes(self) -> tuple[list[ChannelState], list[int], list[ParticipantState]]:
        """Return, since the last call: new channels, shared ones that acted, who acted."""
        touched = [p.state() for p in self._touched.values()]
        changes = self._new_channels, self._lasts.changes(), touched
        self._new_channels, self._touched = [], {}
        return changes

    def _introduce(self, channel: Channel) -> tuple[int, Participant]:
        name = self._policy.name_of(channel)
        participant = self._by_name.get(name)
        if participant is None:
            interval, base = self._pool.take()
            participant = Participant(self.next_participant, name, interval, base)
            self._by_name[name] = participant
            self.next_participant += 1
        key, self.next_channel_key = self.next_channel_key, self.next_channel_key + 1
        self._new_channels.append(ChannelState(key, channel, participant.number))
        return key, participant


def _ended_before(participant: Participant, event_id: int) -> bool:
    last = participant.last
    return last is not None and last.id is not None and last.id < event_id
