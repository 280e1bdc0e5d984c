"""One step of causality: an event's stamp, the edges that end in it, and the evidence they are.

Taken for each record, and again for each stored event that is restamped.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import astuple

from app.tracker import _steps
from app.tracker.events import Edge, Influence
from app.tracker.links.linker import Linker
from app.tracker.links.names import Names
from app.tracker.participants import LiveParticipant, ParticipantRegistry
from app.tracker.records import Record
from model.movers import is_mover
from model.words import ACTS, LAST_BEFORE_RETURN, EdgeKind

_ANY_TIME = (EdgeKind.returned, EdgeKind.rejected)
_PUSHED, _CANDIDATE = EdgeKind.overflow, EdgeKind.candidate


class Steps(_steps.Steps):
    """The steps of a trace's participants, with links by its rules."""

    def __init__(self, participants: ParticipantRegistry, linker: Linker) -> None:
        self._linker = linker
        self._numbered = participants.by_number

    def _read_move(self, participant: LiveParticipant, record: Record, names: Names) -> Names:
        """The names in a record of a participant that may move others' messages."""
        client, channel = participant.identity.client, record.channel
        if is_mover(channel.user, client, channel.connection):
            return self._linker.with_moved(record, names, client)
        return names

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
