"""Participants, which act, the channels they act through, and the ids they own.

A trace's policy says what counts as one participant; every channel belongs to exactly one. A
participant owns one interval of the trace's ITC id space, dealt when it first acts, and starts with
event component 0 (or, on a reused interval, its last owner's height there): being registered alone
orders nothing.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import TypeAlias

import msgspec

from app.tracker._steps import Actor, Actors
from app.tracker.events import ChannelState, ParticipantState, Reference
from app.tracker.identity import Identities, Identity, Policy, SharedPlaces, awareness_between
from app.tracker.lasts import LastEvents
from app.tracker.records import Channel
from itc import IdPool, Stamp, pack
from model.movers import is_mover
from model.words import Awareness

# An enum's member by its name takes three times as long as a global.
_WAY_KNOWN, _WAY_HIDDEN = Awareness.known, Awareness.hidden
# Participants that one user's clients at a shared place may be by the names that they choose: more
# than there are programs at one address. Each stands in the clocks of all its effects.
MOST_NAMES = 256
_HEARER = 0  # no participant's number
MOST_KEYS = 10_000  # of conversations that tell a user's clients at a place apart
_Crowd: TypeAlias = tuple[str | None, str | None]
_Entry: TypeAlias = "tuple[int, LiveParticipant]"  # a channel's key and owner


class LiveParticipant(Actor):
    """A participant's live state."""

    __slots__ = (
        "base",
        "explained",
        "hidden",
        "identity",
        "interval",
        "known",
        "missed",
    )

    def __init__(self, number: int, identity: Identity, interval: str, base: int) -> None:
        self.number = number
        self.identity = identity
        self.may_move = is_mover(identity.user, identity.client, "<")
        self.interval = interval
        self.base = base
        self.stamp = Stamp.of_interval(interval, base)
        self.explained = self.known = self.missed = self.hidden = 0
        self.height = base
        self.neighbours = Neighbours()

    def stand_on(self, ground: Stamp) -> None:
        """Level the clock where no owner is left whose events it could tell apart."""
        self.stamp, self.ground = self.stamp.join(ground), ground

    def explain(self, ways: Iterable[Awareness]) -> None:
        """Count a publish with causes, by the ways in which the publisher knows of each."""
        self.reactions += 1
        self.explained += 1
        for way in ways:
            if way is _WAY_KNOWN:
                self.known += 1
            elif way is _WAY_HIDDEN:
                self.hidden += 1
            else:
                self.missed += 1

    def state(self) -> ParticipantState:
        """The checkpoint's part; the stamp is stored with the last event."""
        identity = self.identity
        names = self.number, identity.key, identity.label(self.number)
        return ParticipantState(
            *names,
            identity.user,
            identity.place,
            identity.client,
            identity.assumed,
            *_state_values(self),
        )

    @classmethod
    def restored(
        cls, state: ParticipantState, stamp: Stamp, last_event_id: int, policy: Policy
    ) -> LiveParticipant:
        identity = Identity.stored(
            state.key, state.user, state.place, state.client, state.assumed, policy
        )
        self = cls(state.number, identity, state.interval, state.base)
        for name in _STATE_FIELDS:
            setattr(self, name, getattr(state, name))
        self.stamp = stamp
        self.last = Reference(pack(stamp), state.lamport, last_event_id)
        return self


# Fields of a participant that its checkpoint has under the same names, in their order.
_STATE_FIELDS = ParticipantState.__struct_fields__[
    ParticipantState.__struct_fields__.index("interval") :
]
_state_values = attrgetter(*_STATE_FIELDS)


class Neighbours:
    """The participants of a user at a place that have received, as one program may be several.

    Only at a place that several programs share do names tell programs apart (`awareness_between`).
    """

    __slots__ = ("_acquainted", "_hearers", "_only_hearers", "is_shared")

    def __init__(self, *, is_shared: bool = False) -> None:
        self.is_shared = is_shared
        self._hearers: Counter[str | None] = Counter()  # by clients' names
        self._only_hearers = 0  # that published nothing
        # By a conversation's key, who has met it: those that only publish, and `_HEARER` for any
        # that only receives.
        self._acquainted: OrderedDict[bytes, tuple[int, ...]] = OrderedDict()

    def note_heard(self, participant: LiveParticipant) -> None:
        self._hearers[participant.identity.client] += 1
        self._only_hearers += not participant.published

    def note_spoke(self, participant: LiveParticipant) -> None:
        self._only_hearers -= participant.reacts

    def leave(self, participant: LiveParticipant) -> None:
        if participant.reacts:
            self._hearers[participant.identity.client] -= 1
            self._hearers += Counter()  # drops zeros
            self._only_hearers -= not participant.published

    def echoes(self, keys: Iterable[bytes], participant: LiveParticipant) -> bool:
        """Note the keys of an event; tell whether they went in by one and come out by another.

        That is of participants that only receive, or only publish: to know such a key, the other
        is of the same program, or hears of it in another way.
        """
        if not self.is_shared or (participant.reacts and participant.published):
            return False
        is_echo = False
        number = _HEARER if participant.reacts else participant.number
        for key in keys:
            acquainted = self._acquainted.get(key, ())
            if number not in acquainted:
                is_echo |= _HEARER in acquainted
                self._acquainted[key] = (*acquainted, number)
            if len(self._acquainted) > MOST_KEYS:
                self._acquainted.popitem(last=False)
        return is_echo

    def may_have_told(self, identity: Identity) -> bool:
        """Tell whether one that received may be of the same program as one that did not."""
        hearers = self._hearers
        if not hearers or identity.place is None:
            return False
        if not self.is_shared or identity.client is None or self._only_hearers:
            return True
        return None in hearers or identity.client in hearers


def awareness_from(
    owner: LiveParticipant, publisher: LiveParticipant, places: SharedPlaces
) -> Awareness:
    """The way in which a publisher names another's event that is not in its past."""
    halves = not owner.published and not publisher.reacts
    return awareness_between(owner.identity, publisher.identity, places, halves=halves)


class ParticipantRegistry(Actors):
    """All participants of one trace, by channel. Deals numbers and intervals."""

    def __init__(
        self, policy: Policy, places: SharedPlaces, *, assumed: int, pool: IdPool | None = None
    ) -> None:
        """Have at most ``assumed`` participants for connections of which nothing is known."""
        self._policy = policy
        self._places = places
        self._identities = Identities(policy, places)
        self.is_by_name = self._identities.is_by_name
        self.is_by_connection = self._identities.is_by_connection
        self._most_assumed = assumed
        self.pool = pool or IdPool()
        # Clocks remember every owner that an interval had. Owners of a free one have no events left
        # to compare, so each participant levels it before it acts again; otherwise clocks would
        # grow with every participant there ever was.
        self._ground = self.pool.ground()
        self._by_channel, self._actors = {}, {}
        self._by_connection: defaultdict[str, list[Channel]] = defaultdict(list)
        self._by_key: dict[str, LiveParticipant] = {}
        self._neighbours: dict[tuple[str, str | None], Neighbours] = {}
        self._by_number: dict[int, LiveParticipant] = {}
        # Clients' names by connection and user, as they were introduced.
        self._clients: dict[str, dict[str, str | None]] = {}
        # Identities by connection and user, where the client's name decides.
        self._decisions: dict[str, dict[str, Identity]] = {}
        # Assumed ones whose connection has closed, by user and place, for the next nameless
        # connection from there. That may order too much, and never too little.
        self._vacant: defaultdict[tuple[str, str | None], list[Identity]] = defaultdict(list)
        # Keys by crowd: of assumed ones, and of each user's named clients at each place.
        self._keys_of: defaultdict[_Crowd, set[str]] = defaultdict(set)
        self._ended_keys: set[str] = set()  # keys that belong to connections that have closed
        self._name_counts: dict[str, int] = {}  # connections that had a key
        self.next_participant = 1
        self.next_channel_key = 1
        self._new_channels: list[ChannelState] = []
        self._lasts = LastEvents()
        # Notes a channel's last event, where that need not be its participant's.
        self.note_last = None if policy is Policy.channel else self._lasts.note

    def __len__(self) -> int:
        return len(self._by_key)

    def restore(
        self,
        participants: list[tuple[ParticipantState, Stamp, int]],
        channels: list[ChannelState],
        identities: Mapping[str, Mapping[str, Identity]],
    ) -> None:
        """Fill in from a checkpoint; participants come with their last event's stamp and id."""
        by_number = self._by_number
        for state, stamp, last_event_id in participants:
            participant = LiveParticipant.restored(state, stamp, last_event_id, self._policy)
            self._by_key[state.key] = by_number[state.number] = participant
            self._settle(participant)
            if participant.reacts:
                participant.neighbours.note_heard(participant)
        for channel in channels:
            self._know(channel.channel, channel.key, by_number[channel.participant])
            if channel.last_event_id is not None:
                self._lasts.restore(channel.key, channel.last_event_id)
        self._decisions.update((name, dict(users)) for name, users in identities.items())
        decisions = [identity for users in identities.values() for identity in users.values()]
        for identity in (*(identity.identity for identity in self._by_key.values()), *decisions):
            self._keys_of[_crowd_of(identity)].add(identity.key)

    def by_number(self, number: int) -> LiveParticipant | None:
        """A participant by its number; None after it has gone."""
        return self._by_number.get(number)

    def knows(self, channel: Channel) -> bool:
        """Tell whether a channel has acted, as far as events of it are stored."""
        return channel in self._by_channel

    def locate(self, channel: Channel) -> tuple[int, str | None]:
        """The number of the participant behind a channel (0: it did not act yet), and its place."""
        entry = self._by_channel.get(channel)
        if entry is not None:
            return entry[1].number, entry[1].identity.place
        identity = self._identity_of(channel)
        participant = self._by_key.get(identity.key)
        return participant.number if participant else 0, identity.place

    def key_of(self, channel: Channel) -> str:
        """The key of the participant behind a channel, even before it acts."""
        entry = self._by_channel.get(channel)
        return entry[1].identity.key if entry else self._identity_of(channel).key

    def strangers(self, channels: Iterable[Channel]) -> list[Channel]:
        """A channel for each connection and user whose client is shown and not known yet.

        Those that are `is_by_name` are to be introduced before their first record is applied.
        """
        if not self._policy.shows_names:
            return []
        entries = self._by_channel
        strangers = {
            (channel.connection, channel.user): channel
            for channel in channels
            if channel not in entries
            and channel.user not in self._clients.get(channel.connection, ())
            and channel.user not in self._decisions.get(channel.connection, ())
        }
        return list(strangers.values())

    def introduce(self, channel: Channel, client: str | None) -> None:
        """Learn a connection's client name, if it has one, before its first channel acts."""
        self._clients.setdefault(channel.connection, {})[channel.user] = client
        if self.is_by_name(channel):
            identity = self._identities.identify(channel, client)
            if identity.assumed:
                identity = self._take_vacant(identity)
            identity = self._one_of_few(channel, identity)
            self._decisions.setdefault(channel.connection, {})[channel.user] = identity

    def clients_on(self, connection: str) -> dict[str, str | None]:
        """The clients by user on a connection where names decide; None for an assumed one."""
        clients = {
            channel.user: self._by_channel[channel][1].identity.client
            for channel in self._by_connection.get(connection, ())
            if channel in self._by_channel and self.is_by_name(channel)
        }
        decisions = self._decisions.get(connection, {})
        return clients | {user: identity.client for user, identity in decisions.items()}

    def decisions(self, connections: Iterable[str]) -> dict[str, dict[str, Identity]]:
        """Identities by connection and user, where a client's name has decided."""
        return {name: self._decisions[name] for name in connections if name in self._decisions}

    def ends_with(self, connection: str) -> bool:
        """Tell whether somebody else may act once a known connection has closed."""
        channels = self._by_connection.get(connection)
        return channels is not None and self.is_by_connection(channels[0])

    @property
    def connections(self) -> list[str]:
        """The connections on which clients' names decide who acts."""
        return [
            name for name, channels in self._by_connection.items() if self.is_by_name(channels[0])
        ]

    def end(self, connection: str) -> None:
        """Note that a connection has closed: the next of that name is another."""
        self._forget(connection)
        for channel in self._by_connection.pop(connection, ()):
            entry = self._by_channel.pop(channel, None)
            if entry is None:
                continue
            identity = entry[1].identity
            if identity.assumed:
                vacant = self._vacant[identity.user, identity.place]
                if identity not in vacant:
                    vacant.append(identity)
            elif identity.is_one_of_many:
                self._ended_keys.add(identity.key)

    def retire_before(self, event_id: int) -> list[int]:
        """Give back the ids of participants, and forget channels, with no event from this id on.

        Nothing that is still stored can have been influenced through them: the events in their past
        have smaller ids than their own. One that acts again comes back as a new participant.

        :returns: the numbers of the participants that went.
        """
        retirees = [p for p in self._by_key.values() if _has_ended(p, event_id)]
        for participant in retirees:
            del self._by_key[participant.identity.key]
            del self._by_number[participant.number]
            participant.neighbours.leave(participant)
            self._ended_keys.discard(participant.identity.key)
            crowd = _crowd_of(participant.identity)
            self._keys_of[crowd].discard(participant.identity.key)
            if not self._keys_of[crowd]:
                del self._keys_of[crowd]
            self._name_counts.pop(participant.identity.key, None)
            self.pool.give_back(participant.interval, participant.height)
        if retirees:
            self._ground = self.pool.ground()
            participants = self._by_key.values()
            self._neighbours = {
                (p.identity.user, p.identity.place): p.neighbours for p in participants
            }
        numbers = {p.number for p in retirees}
        idle_keys = self._lasts.forget_before(event_id)
        entries = [
            (channel, entry)
            for channel, entry in self._by_channel.items()
            if entry[1].number not in numbers and entry[0] not in idle_keys
        ]
        old_connections, self._by_connection = self._by_connection, defaultdict(list)
        self._by_channel = {}
        for channel, entry in entries:
            self._know(channel, *entry)
        for connection in old_connections:
            if connection not in self._by_connection:
                self._forget(connection)
        return sorted(numbers)

    def changes(self) -> tuple[list[ChannelState], list[int], list[ParticipantState]]:
        """New channels, keys of shared ones that acted, and actors since the last call."""
        states = [p.state() for p in self._actors.values()]
        changes = self._new_channels, self._lasts.changes(), states
        self._new_channels, self._actors = [], {}
        return changes

    def _introduce(self, channel: Channel) -> _Entry:
        identity = self._identity_of(channel)
        participant = self._by_key.get(identity.key)
        if participant is None:
            interval, base = self.pool.take()
            participant = LiveParticipant(self.next_participant, identity, interval, base)
            self._by_key[identity.key] = self._by_number[participant.number] = participant
            self._settle(participant)
            self.next_participant += 1
        key, self.next_channel_key = self.next_channel_key, self.next_channel_key + 1
        self._new_channels.append(ChannelState(key, channel, participant.number))
        return self._know(channel, key, participant)

    def _settle(self, participant: LiveParticipant) -> None:
        """Put a participant among its neighbours."""
        user, place = participant.identity.user, participant.identity.place
        neighbours = self._neighbours.get((user, place))
        if neighbours is None:
            is_shared = place is not None and self._places.is_shared(place)
            neighbours = self._neighbours[user, place] = Neighbours(is_shared=is_shared)
        participant.neighbours = neighbours

    def _know(self, channel: Channel, key: int, participant: LiveParticipant) -> _Entry:
        entry = self._by_channel[channel] = (key, participant)
        self._by_connection[channel.connection].append(channel)
        return entry

    def _forget(self, connection: str) -> None:
        self._clients.pop(connection, None)
        self._decisions.pop(connection, None)

    def _identity_of(self, channel: Channel) -> Identity:
        decision = self._decisions.get(channel.connection, {}).get(channel.user)
        if decision is not None:
            return decision
        client = self._clients.get(channel.connection, {}).get(channel.user)
        identity = self._identities.identify(channel, client)
        return self._successor(identity) if identity.key in self._ended_keys else identity

    def _take_vacant(self, identity: Identity) -> Identity:
        """A vacant identity for a connection of which nothing is known, else the one given."""
        vacant = self._vacant[identity.user, identity.place]
        if identity in vacant:
            vacant.remove(identity)
            return identity
        return vacant.pop() if vacant else identity

    def _one_of_few(self, channel: Channel, identity: Identity) -> Identity:
        """The identity, or the shared one once its crowd is too large."""
        keys = self._keys_of[_crowd_of(identity)]
        limit = self._most_assumed if identity.assumed else MOST_NAMES
        if identity.key not in keys and len(keys) >= limit:
            identity = self._identities.shared_identity(channel)
            keys = self._keys_of[_crowd_of(identity)]
        keys.add(identity.key)
        return identity

    def _successor(self, identity: Identity) -> Identity:
        """The identity of the next connection of that name."""
        number = self._name_counts.get(identity.key, 2)
        while (key := f"{identity.key} ({number})") in self._ended_keys:
            number += 1
        self._name_counts[identity.key] = number
        return msgspec.structs.replace(identity, key=key)


def _crowd_of(identity: Identity) -> _Crowd:
    """The crowd whose number is bounded: all assumed ones, or a user's at a place."""
    return (None, None) if identity.assumed else (identity.user, identity.place)


def _has_ended(participant: LiveParticipant, event_id: int) -> bool:
    last = participant.last
    return last is not None and last.id is not None and last.id < event_id
