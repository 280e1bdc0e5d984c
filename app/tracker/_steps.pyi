"""The types of `_steps.pyx`."""

from collections.abc import Sequence

from app.tracker._memories import KeyedFifo
from app.tracker.events import Edge, Influence, NamedEvent, Reference
from app.tracker.links.linker import Linker
from app.tracker.links.names import Key, Names
from app.tracker.participants import LiveParticipant, Neighbours, ParticipantRegistry
from app.tracker.records import Channel, Record
from itc import Stamp
from model.words import Awareness

class Actor:
    number: int
    seq: int
    published: int
    lamport: int
    reactions: int
    stamp: Stamp
    height: int
    last: Reference | None
    ground: Stamp | None
    neighbours: Neighbours
    may_move: bool
    @property
    def reacts(self) -> bool: ...

class Actors:
    _by_channel: dict[Channel, tuple[int, LiveParticipant]]
    _actors: dict[int, LiveParticipant]
    _ground: Stamp
    def actor(self, channel: Channel) -> tuple[int, LiveParticipant]: ...

class NamedEvents:
    _events: KeyedFifo[Key, NamedEvent]
    _pending: list[NamedEvent]
    _limit: int
    _at_once: int
    _look_back: int
    def note(self, event: NamedEvent) -> None: ...
    def _take_in(self) -> None: ...

class Steps:
    def __init__(self, participants: ParticipantRegistry, linker: Linker) -> None: ...
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
    ) -> tuple[Reference, Names, tuple[Edge, ...]]: ...
