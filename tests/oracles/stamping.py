"""The pass of a record to its stamped event (`app/tracker/_pass.pyx`), in Python."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from app.tracker import Tracker
from app.tracker._names import has_broker_headers
from app.tracker._pass import SETTLED, QueueTally
from app.tracker.events import (
    DeliveryOrigin,
    Edge,
    Influence,
    NamedEvent,
    Reference,
    StampedEvent,
)
from app.tracker.fingerprint import BYTES
from app.tracker.links.names import Names
from app.tracker.participants import LiveParticipant
from app.tracker.records import Deliver, Publish, Record
from itc import receive
from model.movers import is_mover
from model.texts import is_reply
from model.words import Awareness, EdgeKind, Match

_NO_MATCH, _ROUTED = Match.none, Match.routed
_UNRECEIVED = DeliveryOrigin(_NO_MATCH)
_WAY_KNOWN = Awareness.known
_FORWARD, _CANDIDATE = EdgeKind.forward, EdgeKind.candidate


def advance(participant: LiveParticipant, causes: Sequence[Reference]) -> Reference:
    """Stamp the participant's next event, after all its causes; return its reference."""
    packed = [cause.packed for cause in causes]
    participant.stamp, participant.height, clock = receive(participant.stamp, *packed)
    participant.seq += 1
    participant.lamport = 1 + max([participant.lamport, *[cause.lamport for cause in causes]])
    participant.last = Reference(clock, participant.lamport)
    return participant.last


class PlainTracker(Tracker):
    """A tracker whose every delivery goes through all searches."""

    def _stamp(self, record: Record, moment: int, mark: bytes, names: Names | None) -> StampedEvent:
        channel_key, participant = self.participants.actor(record.channel)
        origin = _UNRECEIVED
        quiet = self._quiet.covers(record)
        match, cause, is_doubtful, is_explained = _NO_MATCH, None, False, True
        if type(record) is Deliver:
            origin = self._matcher.cause_of(record, mark, self._time.time)
            is_explained = origin.match is not Match.unmatched or bool(origin.influences)
            if not is_explained:
                origin, mark = self._origin_elsewhere(record, mark, origin)
            match, cause = origin.match, origin.cause
            if match is _ROUTED and self._replies.are_awaited and is_reply(record.queue):
                match = Match.untraced
            is_doubtful = origin.is_doubtful
        if names is None:
            if cause is None or not is_explained or has_broker_headers(record):
                names = self._linker.read(record)  # the headers may have changed on the way
            else:
                names = cause.names or self._linker.read(record)
        message_names = names
        if quiet:
            self.counters.quiet += 1
        joins = () if cause is None else (cause,)
        reference, names, edges = self._take(
            channel_key, participant, record, names, joins, cause, quiet, origin.influences
        )
        self.settlements.last = reference
        if type(record) is Publish:
            self.counters.published += 1
            if not has_broker_headers(record):
                reference.names = replace(message_names, causes=())
            if record.exchange or not record.routed_queues:
                self._matcher.kept.note(mark[:BYTES], reference)
            copies = self._matcher.copies
            copies.add(record, mark, reference, participant.number, self._time.time)
            if "reply_to" in record.properties:
                self._replies.note(channel_key, record)
            self._note_lost_reply(record, reference, moment)
        elif type(record) is Deliver:
            self.counters.received += 1
            if match is not _ROUTED and (match is not Match.unmatched or self._is_missed(record)):
                self._count(match)
            self._matcher.handovers.note(record.queue, mark, reference, participant.number)
            if self.settlements.channels:
                self.settlements.count_delivery(record, reference, moment)
            if origin.guess is not None:
                if match is _ROUTED and is_explained:
                    self._note_match(record.queue, origin.guess, moment)
            elif match is Match.unmatched and self._is_missed(record):
                has_forgotten = self._matcher.copies.has_forgotten(record.queue)
                self._suspicion.note_unmatched(record, moment, has_forgotten=has_forgotten)
        return StampedEvent(
            record,
            moment,
            participant.number,
            channel_key,
            participant.seq,
            participant.lamport,
            participant.height,
            participant.stamp,
            match,
            cause,
            mark,
            reference,
            quiet,
            names,
            edges,
            origin.candidates,
            is_doubtful,
        )

    def _note_match(self, name: str, cause: Reference, moment: int) -> None:
        suspicion = self._suspicion
        if suspicion.start is None or (cause.id is not None and cause.id <= suspicion.start):
            return
        queue = suspicion._queues.get(name)
        if queue is None:
            suspicion._begin(name, QueueTally(moment, cause))
            return
        queue.matched += 1
        if moment - queue.matched_at >= SETTLED or queue.settled is None:
            queue.settled_at, queue.settled = queue.matched_at, queue.cause
            queue.matched_at, queue.cause = moment, cause

    def _take(
        self,
        channel_key: int,
        participant: LiveParticipant,
        record: Record,
        names: Names,
        joins: Sequence[Reference],
        message: Reference | int | None,
        quiet: bool,
        influences: Sequence[Influence],
    ) -> tuple[Reference, Names, tuple[Edge, ...]]:
        edges: tuple[Edge, ...] = ()
        ways: Sequence[Awareness] = ()
        forwarded = None
        if participant.may_move:
            client, channel = participant.identity.client, record.channel
            if is_mover(channel.user, client, channel.connection):
                names = self._linker.with_moved(record, names, client)
        if quiet:
            names, joins = Names(found_by=names.found_by, called=names.called), ()
        elif names.causes:
            connection = record.channel.connection
            edges = self._linker.edges(names, participant, channel_key, connection)
            for edge in edges:
                if edge.way is not _WAY_KNOWN:
                    joins = (*joins, edge.cause)
                if edge.kind is _FORWARD:
                    forwarded = edge.cause
        if influences:
            acts = self._steps._acts(influences)
            edges = (*edges, *acts)  # of quiet traffic too, which may be restamped as other
            if not quiet:
                joins = (*joins, *[act.cause for act in acts])
        reference = advance(participant, joins)
        if self.participants.note_last is not None:
            self.participants.note_last(channel_key, reference)
        if names.ids:
            is_delivery = type(record) is Deliver
            if not is_delivery:
                message = reference
            self._linker.memory.note(
                NamedEvent(
                    names.ids,
                    is_delivery,
                    participant.number,
                    channel_key,
                    record.channel.connection,
                    participant.height,
                    reference,
                    message,
                    record.queue,
                    0,
                    forwarded,
                )
            )
        neighbours = participant.neighbours
        if type(record) is Publish:
            participant.published += 1
            if participant.published == 1:
                neighbours.note_spoke(participant)
            if edges:
                ways = [*ways, *[edge.way for edge in edges if edge.kind is not _CANDIDATE]]
            if ways:
                participant.explain(ways)
            elif not quiet and (
                participant.reacts
                or neighbours.may_have_told(participant.identity)
                or (names.causes and self._linker.sure_keys(names))
            ):
                participant.reactions += 1
            if neighbours.echoes(names.conversations, participant) and not ways:
                participant.missed += 1
        else:
            neighbours.echoes(names.conversations, participant)
            if participant.seq - participant.published == 1:
                neighbours.note_heard(participant)
        return reference, names, edges
