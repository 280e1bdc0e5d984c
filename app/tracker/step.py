"""One step of causality: an event's stamp, the edges that end in it, and the evidence they are.

Taken for each record, and again for each stored event that is restamped.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from app.tracker.events import Edge, Influence, NamedEvent, Reference
from app.tracker.links.linker import Linker
from app.tracker.links.names import NO_NAMES, Names
from app.tracker.participants import LiveParticipant, ParticipantRegistry
from app.tracker.records import Deliver, Publish, Record
from model.movers import is_mover
from model.words import ACTS, LAST_BEFORE_RETURN, Awareness, EdgeKind

# An enum's member by its name takes three times as long as a global.
_WAY_KNOWN = Awareness.known
_ANY_TIME = (EdgeKind.returned, EdgeKind.rejected)
_PUSHED, _FORWARD, _CANDIDATE = EdgeKind.overflow, EdgeKind.forward, EdgeKind.candidate


class Steps:
    """The steps of a trace's participants, with links by its rules."""

    __slots__ = ("_linker", "_note_last", "_numbered")

    def __init__(self, participants: ParticipantRegistry, linker: Linker) -> None:
        self._linker = linker
        self._note_last = participants.note_last
        self._numbered = participants.by_number

    def take(
        self,
        channel_key: int,
        participant: LiveParticipant,
        record: Record,
        names: Names,
        joins: Sequence[Reference],
        message: Reference | int | None,
        quiet: bool,
        ways: Sequence[Awareness] = (),
        influences: Sequence[Influence] = (),
    ) -> tuple[Reference, Names, tuple[Edge, ...]]:
        """Stamp a participant's next event; return its reference, its names, and its edges.

        The clock joins all that may have led to it: ``joins``, the events that its ``names`` name,
        and the ``influences`` of the broker's acts. ``message`` is the publish that was received,
        where that is certain. Edges that are known already are evidence by their ``ways``. A
        ``quiet`` event joins nothing, and neither names nor is named.
        """
        edges: tuple[Edge, ...] = ()
        forwarded = None
        if participant.may_move:
            client, channel = participant.identity.client, record.channel
            if is_mover(channel.user, client, channel.connection):
                names = self._linker.with_moved(record, names, client)
        if quiet:
            names, joins = _without_links(names), ()
        elif names.causes:
            connection = record.channel.connection
            edges = self._linker.edges(names, participant, channel_key, connection)
            for edge in edges:
                if edge.way is not _WAY_KNOWN:
                    joins = (*joins, edge.cause)
                if edge.kind is _FORWARD:
                    forwarded = edge.cause
        if influences:
            acts = self._acts(influences)
            edges = (*edges, *acts)  # of quiet traffic too, which may be restamped as other
            if not quiet:
                joins = (*joins, *[act.cause for act in acts])
        reference = participant.advance(joins)
        if self._note_last is not None:
            self._note_last(channel_key, reference)
        if names.ids:
            is_delivery = type(record) is Deliver
            if not is_delivery:
                message = reference
            self._linker.note(
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

    def _acts(self, influences: Sequence[Influence]) -> list[Edge]:
        """Edges for the broker's acts, and for equal messages: the clock joins their causes.

        When a copy was given back or rejected is not known: its holder may have done so after
        everything that it has done until now. So may one of several who pushed a copy out of a
        queue.
        """
        edges: dict[tuple[int, str], Edge] = {}  # restored, one event is several references
        for kind, cause, number, certain in map(astuple, influences):
            rule = ACTS[kind]
            # If several edges come from one event, the certain one is kept, which comes first.
            if cause is not None:
                edge = Edge(cause, rule, kind if certain else _CANDIDATE)
                edges.setdefault((cause.identity, rule), edge)
            if kind in _ANY_TIME or (kind is _PUSHED and not certain):
                holder = self._numbered(number)
                last = None if holder is None else holder.last
                if last is not None and (cause is None or last.identity != cause.identity):
                    if cause is not None:
                        rule = LAST_BEFORE_RETURN
                    edges.setdefault((last.identity, rule), Edge(last, rule, _CANDIDATE))
        return [*edges.values()]


def _without_links(names: Names) -> Names:
    """The names by which quiet traffic is searched for: no link leads to it or from it."""
    if names.found_by or names.called:
        return Names(found_by=names.found_by, called=names.called)
    return NO_NAMES
