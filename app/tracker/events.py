"""Results of the tracker: the stamped event and its checkpoint, which the store takes.

All times are microseconds since the epoch, UTC, taken when the trace message reached us (the
firehose carries no time of its own).
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from app.tracker.links.names import NO_NAMES, Key, Names
from app.tracker.links.origins import TraceRule
from app.tracker.links.rule import Rule
from app.tracker.records import Channel, Record, Unreadable
from itc import Stamp
from model.deaths import LossWord
from model.words import Awareness, Disposition, EdgeKind, Match


class Reference(msgspec.Struct, eq=False, gc=False):
    """A stored event as others refer to it: its clock, packed, its Lamport time, its id.

    The id is None until the store fills it in: ids are dealt out inside the transaction that
    stores the batch, so that over all virtual hosts id order is commit order and a reader that
    has seen id n never finds a smaller one later. ``names`` are those in its message, for its
    deliveries; None where these are to read them anew.
    """

    packed: bytes
    lamport: int
    id: int | None = None
    names: Names | None = None

    @property
    def identity(self) -> int:
        """A number of the event, equal for all references to it."""
        return self.id or -id(self)

    @property
    def clock(self) -> Stamp:
        """The clock that receivers of this event's message learn."""
        return Stamp(None, self.packed)  # compiled, it is joined as it is


class Edge(msgspec.Struct, frozen=True, gc=False):
    """A cause of an event beside the message that was received.

    A publish names it by a ``rule``, and ``way`` is how the publisher knew of it. Or it comes of an
    act of the broker (`EdgeKind`), whose name is the rule.
    """

    cause: Reference
    rule: str
    kind: EdgeKind
    way: Awareness = Awareness.known


class Influence(msgspec.Struct, frozen=True, gc=False):
    """An influence on a delivery beside its message, as the matching found it.

    ``kind`` is `candidate` for one of several equal messages, and otherwise the broker's act: of a
    copy that was returned or rejected, ``cause`` is its delivery to ``participant``, who may have
    done so at any time until now; of a copy that was pushed out, ``cause`` is a publish to the same
    queue, None where the participant has several. ``certain``: nothing else can have led to it.
    """

    kind: EdgeKind
    cause: Reference | None
    participant: int
    certain: bool


class DeliveryOrigin(msgspec.Struct, frozen=True, gc=False):
    """The origin of a delivery, as far as it is known.

    ``cause`` is its publish, None where that is uncertain. ``guess`` is the one whose copy was
    taken, the oldest of equal ones; ``candidates`` is their number. ``is_doubtful``: it may have
    unknown causes.
    """

    match: Match
    cause: Reference | None = None
    guess: Reference | None = None
    influences: tuple[Influence, ...] = ()
    candidates: int | None = None
    is_doubtful: bool = False


class StampedEvent(msgspec.Struct, frozen=True, gc=False):
    """One record with its place in causality.

    ``participant`` and ``channel_key`` are this trace's own numbers; the AMQP channel number is the
    record's. ``seq`` counts the participant's events from 1. ``quiet`` traffic is matched, and
    joins no clocks. ``height`` is what the stamp raised the participant's interval to: with the
    interval itself it is the event's dot, and an event f is at or after this one exactly when
    ``f.stamp.height_at(interval) >= height``. ``edges`` are its causes beside ``cause``;
    ``candidates`` and ``is_doubtful`` are those of its `DeliveryOrigin`.
    """

    record: Record
    recorded_at: int
    participant: int
    channel_key: int
    seq: int
    lamport: int
    height: int
    stamp: Stamp
    match: Match
    cause: Reference | None
    fingerprint: bytes
    reference: Reference
    quiet: bool = False
    names: Names = NO_NAMES
    edges: tuple[Edge, ...] = ()
    candidates: int | None = None
    is_doubtful: bool = False


class ChannelState(msgspec.Struct, frozen=True):
    """A channel seen in this trace, under its events' ``channel_key``.

    ``last_event_id`` is read back where channels may share a participant; the store finds it out
    for itself, for the checkpoint's ``channel_keys_acted``. ``replies_to`` is the name under which
    direct replies reach it, if it asked for any.
    """

    key: int
    channel: Channel
    participant: int
    last_event_id: int | None = None
    replies_to: str | None = None


class ParticipantState(msgspec.Struct, frozen=True):
    """A participant as the checkpoint holds it.

    ``interval`` is the id as a path of left (0) and right (1) from the seed, "" for the whole.
    ``name`` is the label that people read; ``key`` and the four after the name are those of
    `app.tracker.identity.Identity`. ``published`` of its ``seq`` events are publishes. The last
    five are those of `model.sound.Evidence`.
    """

    number: int
    key: str
    name: str
    user: str
    place: str | None
    client: str | None
    assumed: bool
    interval: str
    seq: int
    published: int
    lamport: int
    height: int
    base: int  # height the interval was handed out at; 0 unless reused
    reactions: int = 0
    explained: int = 0
    known: int = 0
    missed: int = 0
    hidden: int = 0


class PendingCopy(msgspec.Struct, frozen=True, gc=False):
    """One routed copy that was not handed over yet; ``number`` counts the trace's copies.

    ``recorded_at`` is in the tracker's time (`app.tracker._pass.SteadyTime`), as is ``expires``,
    which is 0 without an expiration and after a restart. ``participant`` is the publisher's number.
    """

    number: int
    queue: str
    fingerprint: bytes
    cause: Reference
    recorded_at: int
    participant: int
    expires: int = 0


class LostCopy(msgspec.Struct, frozen=True, gc=False):
    """A copy that is gone from its queue, and nobody is known to have been handed it there.

    That is known ``at`` a time of the clock (µs).
    """

    cause: Reference
    queue: str
    lost_at: int
    reason: LossWord


# A delivery's disposition and its time (µs); both None where unknown. And of one in hand 8 times
# its delivery tag plus the disposition by a transaction that may still be rolled back; of a settled
# one the last event before that.
Disposed: TypeAlias = tuple[Disposition | None, int | None, "int | Reference | None"]


NO_EVENT_ID = 2**63 - 1  # the id of no event


class SettledChanges(msgspec.Struct):
    """New dispositions of deliveries, and changed channels as opaque bytes by pid; None if gone.

    ``unknown_after``: before these changes all that was in hand became unknown, and all deliveries
    after this event.
    """

    unknown_after: int | None = None
    settled: dict[Reference, Disposed] = {}
    channels: dict[str, bytes | None] = {}

    def forget(self, event_id: int) -> SettledChanges:
        """The changes to take their place if everything after an event is unknown."""
        earlier = NO_EVENT_ID if self.unknown_after is None else self.unknown_after
        return SettledChanges(min(event_id, earlier))


class Omission(msgspec.Struct, frozen=True):
    """A record that came and is no event, as it cannot be read: there is a gap behind ``previous``.

    ``reason`` is a sentence. One that ``is_untraced`` never came: it is in no quarantine.
    """

    record: Unreadable
    previous: Reference
    reason: str
    is_untraced: bool = False


class Checkpoint(msgspec.Struct):
    """The changes since the last checkpoint; stored in one transaction with its events.

    ``state`` is the small rest (counters, id pool, next numbers) as opaque bytes that only the
    tracker reads. ``channel_keys_acted`` are the channels with new events; empty where each is a
    participant of its own, with the same last event.
    """

    state: bytes
    channels: list[ChannelState]
    channel_keys_acted: list[int]
    participants: list[ParticipantState]
    copies_added: list[PendingCopy]
    copies_removed: list[int]
    copies_lost: list[LostCopy] = []
    replies: list[tuple[int, str]] = []  # (channel's key, its `replies_to` from now on)
    settlements: SettledChanges = msgspec.field(default_factory=SettledChanges)
    omissions: list[Omission] = []


class Handover(msgspec.Struct, frozen=True):
    """A past delivery that a redelivery or a dead letter may refer back to.

    ``participant`` is its receiver's number. With several ``candidates``, or without a known
    publish (0), it is its own ``cause``. ``has_brought``: its publish has brought deaths along.
    """

    queue: str
    fingerprint: bytes
    cause: Reference
    delivery: Reference
    participant: int
    candidates: int | None = None
    has_brought: bool = False


class NamedEvent(msgspec.Struct, gc=False):
    """A past event that carries keys by which later messages may name it.

    ``message`` is the publish that it is or that it received, or its id where the publish is not
    stored any more; None where that was not seen. ``led_to``, of a delivery, are the replies to it
    and copies of it that were published: a bit for each `LinkKind`. ``original``, of a publish, is
    the message that it certainly publishes again, or its id.
    """

    keys: tuple[Key, ...]
    is_delivery: bool
    participant: int
    channel_key: int
    connection: str
    height: int
    reference: Reference
    message: Reference | int | None
    queue: str | None = None
    led_to: int = 0
    original: Reference | int | None = None


class RestorePoint(msgspec.Struct):
    """Everything a tracker needs to go on exactly where the last checkpoint left it.

    ``participants`` come with their last event's stamp and id; ``handovers`` are the last matched
    deliveries, ``named_events`` the last events with keys, ``publishes`` the last that an exchange
    may keep, each with its mark, ``lost_copies`` are by queue and mark: all oldest first.
    ``in_hand`` are the deliveries that the ``open_channels`` hold: channel, `Disposed`, and id.

    The rest is for the run that feeds the tracker: the last batch's ``window`` and ``ledger``, the
    last event's id (0 before the first) and time (before the first, the trace's); the
    ``link_rules`` in force, and the virtual host's ``own_rules`` from now on. All this holds for a
    trace that ``begins`` in this epoch with this event.
    """

    state: bytes
    channels: list[ChannelState]
    participants: list[tuple[ParticipantState, Stamp, int]]
    copies: list[PendingCopy]
    handovers: list[Handover]
    window: bytes = b""
    ledger: bytes | None = None
    last_event_id: int = 0
    recorded_at: int = 0
    named_events: list[NamedEvent] = []
    link_rules: tuple[TraceRule, ...] = ()
    own_rules: tuple[Rule, ...] = ()
    publishes: list[tuple[bytes, Reference]] = []
    lost_copies: list[tuple[str, bytes, Reference]] = []
    open_channels: list[bytes] = []
    in_hand: list[tuple[Channel, int, int]] = []
    begins: tuple[int, int | None] = (0, None)
