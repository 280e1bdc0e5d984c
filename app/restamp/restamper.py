"""New stamps for stored events, by other rules of participants and quiet traffic.

Nothing is matched again: causes, matches and types stay as stored. So do links, unless the messages
are read again by other rules; only the links' ways are found anew. Ids are a linear extension of
happens-before, so events are taken in the order of their ids; a received event whose cause is no
longer stored joins nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from app.stored.restamps import Incarnation, NewStamp, RestampResult, StoredEvent, StoredLink
from app.tracker.events import ChannelState, Influence, ParticipantState, Reference
from app.tracker.identity import Policy, SharedPlaces
from app.tracker.links.linker import Linker
from app.tracker.links.names import NO_NAMES, Names
from app.tracker.links.rule import SPANS_RULE
from app.tracker.links.rules import Rules
from app.tracker.participants import LiveParticipant, ParticipantRegistry, awareness_from
from app.tracker.quiet import Quiet
from app.tracker.records import Channel, Deliver, Publish, Record
from app.tracker.step import Steps
from app.tracker.tracker import encode_state, read_state
from model.times import CLOCKS_DIFFER
from model.words import ACTS, LAST_BEFORE_RETURN, Awareness, EdgeKind

_ACTS = {name: kind for kind, name in ACTS.items()}


class Restamper:
    """Stamps the stored events of one trace."""

    def __init__(
        self,
        policy: Policy,
        quiet: Quiet,
        places: SharedPlaces,
        *,
        assumed: int,
        rules: Rules | None = None,
        most_named: int = 0,
    ) -> None:
        """Have at most ``assumed`` participants for connections without known properties.

        With ``rules`` of links each message is read again, and the last ``most_named`` events that
        others may name are remembered, as a tracker does.
        """
        self._policy = policy
        self._quiet = quiet
        self._places = places
        self._participants = ParticipantRegistry(policy, places, assumed=assumed)
        self._channels: dict[int, Channel] = {}
        self._clients: dict[str, Sequence[Incarnation]] = {}
        # By the channel's stored key: the key here, and who acts.
        self._acting: dict[int, tuple[int, LiveParticipant]] = {}
        self._owner: dict[Channel, int] = {}  # the stored key of its last act
        self._last: dict[int, int] = {}  # a stored channel's last event
        self._first: dict[int, int] = {}  # a participant's first event
        # Events of this chunk; those of the previous one, and others whose clocks are to be joined.
        self._recent: dict[int, Reference] = {}
        self._previous: dict[int, Reference] = {}
        self._quiet_before = self._quiet_now = 0
        self._reads_again = rules is not None
        rules = rules or Rules(())
        self._read_cut = rules.for_cut_bodies().read
        self._linker = Linker(rules, most_named, self._participants.by_number, int, places)
        self._steps = Steps(self._participants, self._linker)
        self.cut = 0  # messages read again with a part of their bodies
        # By rule: causes that became known, and that came by hidden ways, since they were stored.
        self._more_known: Counter[str] = Counter()
        self._more_hidden: Counter[str] = Counter()

    def meet(self, channels: Iterable[tuple[int, Channel]]) -> list[str]:
        """Take in channels by their stored keys; returns connections to `introduce` next."""
        new = dict(channels)
        self._channels |= new
        connections = {channel.connection: None for channel in new.values()}
        return [name for name in connections if name not in self._clients]

    def held_connections(self, state: bytes | None) -> list[str]:
        """Connections of the records that a checkpoint holds, to `introduce` before the end.

        Raises `UnreadableCheckpointError`.
        """
        records = read_state(state).held if state else []
        names = {record.record.channel.connection for record in records}
        return sorted(names - self._clients.keys())

    def introduce(self, clients: Mapping[str, Sequence[Incarnation]]) -> None:
        """Learn the incarnations of connections, by name, the oldest first."""
        self._clients.update(clients)

    def has_met(self, events: Iterable[StoredEvent]) -> bool:
        """Tell whether all channels of these events are known."""
        return all(event.channel_key in self._channels for event in events)

    def missing_causes(self, events: Sequence[StoredEvent]) -> list[int]:
        """The ids of causes whose new clocks are not at hand."""
        ids = {event.id for event in events}
        # Named causes, read again, are remembered with their clocks.
        causes = {cause for event in events for cause in event.joins}
        return sorted(causes - ids - self._recent.keys())

    def stamp(
        self, events: Sequence[StoredEvent], clocks: Mapping[int, Reference]
    ) -> list[NewStamp]:
        """Stamp the next events; ``clocks`` are those of their `missing_causes`."""
        self._previous, self._recent = {**self._recent, **clocks}, {}
        stamps = [self._stamp(event) for event in events]
        self._participants.changes()  # which would grow
        return stamps

    def end(self, state: bytes | None, first_id: int) -> RestampResult:
        """The replacement of the old stamps, once the last stored event is stamped.

        ``state`` is that of the trace's checkpoint; retention may meanwhile have removed events
        before ``first_id``. Raises `UnreadableCheckpointError`.
        """
        participants = self._participants
        participants.retire_before(first_id)
        if state is None:
            return RestampResult(0, None, [], [])
        old = read_state(state)
        offset = old.next_participant - 1
        alive = {
            participant.number: participant
            for _, participant in self._acting.values()
            if _last_id(participant) >= first_id
        }
        for held in old.held:
            self._introduce(held.record.channel, held.at)
        old.totals.counters.quiet += self._quiet_now - self._quiet_before
        if self._reads_again:
            old = msgspec.structs.replace(
                old,
                totals=msgspec.structs.replace(old.totals, links=self._linker.counts),
                # A cut message's id and body cannot both be checked.
                forgot_named=self._linker.has_forgotten or self.cut > 0,
                young_rules={},
            )
        else:
            for rule, count in old.totals.links.items():
                count.known += self._more_known[rule]
                count.hidden += self._more_hidden[rule]
        new = msgspec.structs.replace(
            old,
            pool=participants.pool.dump(),
            next_participant=participants.next_participant + offset,
            totals=msgspec.structs.replace(old.totals, participants=len(alive)),
            decided=participants.decisions({held.record.channel.connection for held in old.held}),
        )
        return RestampResult(
            offset=offset,
            state=encode_state(new),
            participants=[
                (_renumber(participant, offset), self._first[number], _last_id(participant))
                for number, participant in sorted(alive.items())
            ],
            channels=[
                ChannelState(
                    key,
                    self._channels[key],
                    participant.number + offset,
                    None if self._policy is Policy.channel else self._last[key],
                )
                for key, (_, participant) in self._acting.items()
                if self._last[key] >= first_id
            ],
        )

    def _stamp(self, event: StoredEvent) -> NewStamp:
        key, participant = self._actor(event)
        record = _record(event, self._channels[event.channel_key])
        message_names = self._names_of(event, record)
        if event.is_cut:  # so that nothing is told by a part of a body
            record = msgspec.structs.replace(record, body=b"")
        quiet = self._quiet.covers(record)
        self._quiet_before += event.quiet
        self._quiet_now += quiet
        acts = [link for link in event.named if link.is_act]
        stored_links = tuple(link for link in event.named if not link.is_act)
        causes = [self._reference(link.cause) for link in stored_links]
        message = None if event.cause is None else self._reference(event.cause)
        links = () if quiet else self._links(stored_links, participant)
        reference, names, edges = self._steps.take(
            key,
            participant,
            record,
            message_names,
            [reference for reference in (message, *causes) if reference is not None],
            message or event.cause,
            quiet,
            # Links of spans are no evidence of messages' names, here as in capture.
            [
                Awareness(link.way)
                for link in links
                if link.rule != SPANS_RULE and link.kind != EdgeKind.candidate
            ],
            [*self._influences(acts)],
        )
        reference.id = event.id
        self._recent[event.id] = reference
        self._last[event.channel_key] = event.id
        self._first.setdefault(participant.number, event.id)
        return NewStamp(
            event.id,
            participant.number,
            participant.seq,
            participant.lamport,
            participant.height,
            reference.packed,
            quiet,
            names,
            edges,
            self._count_changes(stored_links, links),
        )

    def _names_of(self, event: StoredEvent, record: Record) -> Names:
        """The names in an event's message by the new rules; none if it is not read again."""
        if not self._reads_again:
            return NO_NAMES
        self.cut += event.is_cut
        return (self._read_cut if event.is_cut else self._linker.read)(record)

    def _influences(self, acts: Sequence[StoredLink]) -> Iterator[Influence]:
        """Yield the broker's acts, with the new participants behind them.

        Acts between events are found anew; they stay only if retention has removed their
        deliveries.
        """
        causes = [act for act in acts if act.rule != LAST_BEFORE_RETURN]
        meanwhile = [act for act in acts if act.rule == LAST_BEFORE_RETURN]
        for act in causes if len(meanwhile) <= len(causes) else acts:
            cause = self._reference(act.cause)
            acting = self._acting.get(act.channel_key)
            if cause is not None and acting is not None:
                kind = _ACTS.get(act.rule, EdgeKind.returned)
                is_certain = act.kind != EdgeKind.candidate
                yield Influence(kind, cause, acting[1].number, is_certain)

    def _links(
        self, stored: tuple[StoredLink, ...], publisher: LiveParticipant
    ) -> tuple[StoredLink, ...]:
        """The links of the next event, each with its present `Awareness`."""
        ways = [self._awareness(link, publisher) for link in stored]
        pairs = [*zip(stored, ways, strict=True)]
        # A candidate that may have reached the publisher's program counts as having done so.
        missed_rules = {
            link.rule
            for link, way in pairs
            if link.kind == EdgeKind.candidate and way is Awareness.missed
        }
        return tuple(
            link
            if link.kind == EdgeKind.candidate
            else msgspec.structs.replace(
                link,
                way=int(
                    Awareness.missed
                    if way is Awareness.hidden and link.rule in missed_rules
                    else way
                ),
            )
            for link, way in pairs
        )

    def _awareness(self, link: StoredLink, publisher: LiveParticipant) -> Awareness:
        cause = self._reference(link.cause)
        acting = self._acting.get(link.channel_key)
        if cause is None or acting is None:
            return Awareness(link.way)
        if acting[1] is publisher or cause.clock.leq(publisher.stamp):
            return Awareness.known
        return awareness_from(acting[1], publisher, self._places)

    def _count_changes(
        self, stored: tuple[StoredLink, ...], links: tuple[StoredLink, ...]
    ) -> tuple[StoredLink, ...]:
        """Count and return the links whose way changed, and all links of spans.

        More links of spans may come until the swap; these replace the stored ones.
        """
        pairs = [*zip(stored, links, strict=True)] if links else ()
        for old, new in pairs:
            self._more_known[new.rule] += (new.way == Awareness.known) - (
                old.way == Awareness.known
            )
            self._more_hidden[new.rule] += (new.way == Awareness.hidden) - (
                old.way == Awareness.hidden
            )
        return tuple(new for old, new in pairs if old.way != new.way or new.rule == SPANS_RULE)

    def _reference(self, event_id: int) -> Reference | None:
        return self._recent.get(event_id) or self._previous.get(event_id)

    def _actor(self, event: StoredEvent) -> tuple[int, LiveParticipant]:
        """The channel's key here and its participant; its first event decides."""
        acting = self._acting.get(event.channel_key)
        if acting is None:
            channel = self._channels[event.channel_key]
            if channel in self._owner:  # that channel had ended, and so had its connection
                self._end(channel.connection)
            self._introduce(channel, event.recorded_at)
            self._owner[channel] = event.channel_key
            acting = self._acting[event.channel_key] = self._participants.actor(channel)
        return acting

    def _end(self, connection: str) -> None:
        self._participants.end(connection)
        for channel in [channel for channel in self._owner if channel.connection == connection]:
            del self._owner[channel]

    def _introduce(self, channel: Channel, moment: int) -> None:
        if self._participants.strangers([channel]):
            self._participants.introduce(channel, self._client(channel, moment))

    def _client(self, channel: Channel, moment: int) -> str | None:
        """The name of the client that had a channel's connection at a time (µs).

        None, so that it is assumed, if several had it: stored events of one channel may be of more
        than one of them, as under policies without the end of connections.
        """
        clients = self._clients.get(channel.connection, ())
        incarnations = [client for client in clients if client.user == channel.user]
        if not incarnations or incarnations[0].opened_at > moment + CLOCKS_DIFFER:
            return None
        names = {incarnation.client for incarnation in incarnations}
        return names.pop() if len(names) == 1 else None


def _record(event: StoredEvent, channel: Channel) -> Record:
    """The fields of an event's record that quiet patterns and rules of links read."""
    path = event.exchange, event.routing_keys
    if event.queue is None:
        return Publish(channel, *path, event.routed_queues, event.properties, event.body)
    return Deliver(channel, *path, event.queue, False, event.properties, event.body)


def _last_id(participant: LiveParticipant) -> int:
    last = participant.last
    return (last.id if last else None) or 0


def _renumber(participant: LiveParticipant, offset: int) -> ParticipantState:
    number = participant.number + offset
    name = participant.identity.label(number)
    return msgspec.structs.replace(participant.state(), number=number, name=name)
