"""Results of the tracker: the stamped event and the checkpoint that goes with it.

These values cross from the tracker to the store. All times are microseconds since the epoch,
UTC, taken when the trace message reached us (the firehose carries no time of its own).
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
from model.words import Disposition, EdgeKind, Match, Way


class Reference(msgspec.Struct, eq=False, gc=False):
    """A stored event as others refer to it: its clock, packed, its Lamport time, its id.

    The id is None until the store has given one: ids are dealt out inside the transaction that
    stores the batch, so that over all virtual hosts id order is commit order and a reader that
    has seen id n never finds a smaller one later. The store fills it in; nobody else does.
    ``names`` are what its message says to whoever is handed it, None where they are to read it
    themselves.
    """

    packed: bytes
    lamport: int
    id: int | None = None
    names: Names | None = None

    @property
    def identity(self) -> int:
        """A number of the event: restored references of one are separate objects."""
        return self.id or -id(self)

    @property
    def clock(self) -> Stamp:
        """The clock that whoever is handed this event's message learns."""
        return Stamp(None, self.packed)  # compiled, it is joined as it is


class Edge(msgspec.Struct, frozen=True, gc=False):
    """Another event that led to one, beside the message that was received.

    From a publish to what it names as its cause by a ``rule``, and ``way`` is how the publisher
    knew of it. Or from what the broker did (`EdgeKind`), of which the rule is the act's name.
    """

    cause: Reference
    rule: str
    kind: EdgeKind
    way: Way = Way.known


class Influence(msgspec.Struct, frozen=True, gc=False):
    """An influence on a delivery beside its message, as the matching found it.

    ``kind`` is `candidate` for one of several equal messages, and otherwise the broker's act: of a
    copy that was returned or rejected, ``cause`` is its delivery to ``participant``, who may have
    done so at any time until now; of a copy that was pushed out, ``cause`` is a publish to the same
    queue, None where it is not known which of the participant's. ``certain``: nothing else can
    have led to it.
    """

    kind: EdgeKind
    cause: Reference | None
    participant: int
    certain: bool


class DeliveryOrigin(msgspec.Struct, frozen=True, gc=False):
    """The origin of a delivery, as far as it is known.

    ``cause`` is its publish, None where it is not certain which that is. ``guess`` is the one whose
    copy was taken, which is the oldest of equal ones; ``candidates`` is how many there are.
    ``is_doubtful``: something else may have led to it, and nobody knows what.
    """

    match: Match
    cause: Reference | None = None
    guess: Reference | None = None
    influences: tuple[Influence, ...] = ()
    candidates: int | None = None
    is_doubtful: bool = False


class StampedEvent(msgspec.Struct, frozen=True, gc=False):
    """One record with its place in causality.

    ``participant`` and ``channel_key`` are this trace's own numbers for who acted and on which
    channel; the AMQP channel number is the record's. ``seq`` counts the participant's events from
    1. ``quiet`` traffic is matched, and joins no clocks. ``height`` is what the stamp raised the
    participant's interval to: with the interval itself it is the event's dot, and an event f is at
    or after this one exactly when ``f.stamp.height_at(interval) >= height``. ``names`` are what the
    message says of causes, ``edges`` what led to it beside its cause. ``candidates`` is how many
    equal messages it may be, None where it is certain; ``is_doubtful`` as of `DeliveryOrigin`.
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
    """A channel seen in this trace, under the key that its events name it by.

    ``last_event_id`` is read back where channels may share a participant: the id of its last event.
    The store finds it out for itself, for the checkpoint's ``channel_keys_acted``. ``replies_to``
    is the name under which replies reach it without a queue (direct reply-to), if it asked for any.
    """

    key: int
    channel: Channel
    participant: int
    last_event_id: int | None = None
    replies_to: str | None = None


class ParticipantState(msgspec.Struct, frozen=True):
    """A participant as the checkpoint holds it.

    ``interval`` is the id as a path of left (0) and right (1) from the seed, "" for the whole.
    ``key`` is what the policy takes as its identity, ``name`` what people read (for the store to
    keep when the participant is new); the four after it are those of `app.tracker.identity`.
    ``published`` of its ``seq`` events are publishes. The last five are those of
    `model.sound.Evidence`.
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

    ``recorded_at`` is in the tracker's own time (`app.tracker.progress`), which is behind the clock
    by as long as the service was away, and so is when it ``expires`` if the message says so (else
    0, as after a restart). ``participant`` is the number of who published it.
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
    at: int
    reason: LossWord


# What became of a delivery, and when (µs); both None where that is not known. And of one in hand 8
# times its delivery tag, and what a transaction that may still be rolled back makes of it; of one
# that is settled the last event before that.
Disposed: TypeAlias = tuple[Disposition | None, int | None, "int | Reference | None"]


NEVER = 2**63 - 1  # the id of no event


class SettledChanges(msgspec.Struct):
    """What became of deliveries, and the channels that changed, by pid; None for those gone.

    Channels are opaque bytes, as `Checkpoint.state` is. ``unknown_after``: before that nothing is
    known of all that was in hand, and of what was handed over after this event.
    """

    unknown_after: int | None = None
    settled: dict[Reference, Disposed] = {}
    channels: dict[str, bytes | None] = {}

    def forgotten(self, event_id: int) -> SettledChanges:
        """The changes in their place if nothing is known, of what came after an event either."""
        earlier = NEVER if self.unknown_after is None else self.unknown_after
        return SettledChanges(min(event_id, earlier))


class Omission(msgspec.Struct, frozen=True):
    """A record that came and is no event, as it cannot be read: there is a gap behind ``after``.

    ``reason`` says so in words.
    """

    record: Unreadable
    after: Reference
    reason: str


class Checkpoint(msgspec.Struct):
    """The changes since the last checkpoint; stored in one transaction with its events.

    ``state`` is the small rest (counters, id pool, next numbers) as opaque bytes that only the
    tracker reads. ``channel_keys_acted`` are the channels with new events, known ones
    and new ones; empty where each is a participant of its own, whose last event is theirs.
    """

    state: bytes
    channels: list[ChannelState]
    channel_keys_acted: list[int]
    participants: list[ParticipantState]
    copies_added: list[PendingCopy]
    copies_removed: list[int]
    copies_lost: list[LostCopy] = []
    replies: list[tuple[int, str]] = []  # channel's key, and where it gets replies from now on
    settlements: SettledChanges = msgspec.field(default_factory=SettledChanges)
    omissions: list[Omission] = []


class Handover(msgspec.Struct, frozen=True):
    """A past delivery that a redelivery or a dead letter may refer back to.

    ``participant`` is the number of who was handed it. Where there were several ``candidates``, or
    no publish is known (0), it stands for that itself as the ``cause``. ``has_brought``: its
    publish has brought deaths along.
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

    ``participant`` is the number of whoever acted, on a channel of a ``connection``, and was handed
    it out of a ``queue``; ``height`` is
    the event's own. ``message`` is the publish that it is or that it received, or its id where the
    publish is not stored any more; None where that was not seen. ``led_to``, of a delivery, are
    the replies to it and copies of it that were published: a bit for each `LinkKind`. ``again``, of
    a publish, is what it certainly publishes again (or the id of that).
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
    again: Reference | int | None = None


class RestorePoint(msgspec.Struct):
    """Everything a tracker needs to go on exactly where the last checkpoint left it.

    ``participants`` come with stamp and id of their last event, which the store looks up;
    ``handovers`` are the last matched deliveries, ``named`` the last events that have keys, oldest
    first, as many as the tracker asked for; ``kept`` are the last publishes that an exchange
    may keep, each with its mark, oldest first.
    The rest is for whoever feeds the tracker: the ``window`` and the ``ledger`` that came with the
    last batch, the last event's id (0 before the first) and when it was recorded (before the
    first, when the trace was made); the ``link_rules`` in force, and those that its virtual host
    is to have as its ``own_rules`` from now on. ``lost`` are the copies that are gone, by queue and
    mark, those of the oldest publishes first. ``in_hand`` are the deliveries that the
    ``open_channels`` hold: each one's channel, how it is held (`Disposed`), and its id. All this
    holds for a trace that ``begins`` in this epoch with this event.
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
    named: list[NamedEvent] = []
    link_rules: tuple[TraceRule, ...] = ()
    own_rules: tuple[Rule, ...] = ()
    kept: list[tuple[bytes, Reference]] = []
    lost: list[tuple[str, bytes, Reference]] = []
    open_channels: list[bytes] = []
    in_hand: list[tuple[Channel, int, int]] = []
    begins: tuple[int, int | None] = (0, None)
