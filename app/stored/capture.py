"""Stored values of traces, their runs, and the services that share them."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from app.tracker import Policy
from app.tracker.events import Checkpoint, ParticipantState, StampedEvent
from app.tracker.links import Origin, TraceRule
from app.tracker.redaction import Redaction
from app.tracker.taken import ALL, Selection
from model.described import INNER
from model.payloads import Encoding, payload_text
from model.times import Microseconds


class Trace(msgspec.Struct, frozen=True):
    """A stored trace, with its policy of participants, and its selection; times in µs.

    Traffic of ``quiet`` joins no clocks. ``bodies``: messages' bodies are taken, too. ``events``,
    ``participants`` and ``pending_copies`` count stored ones. ``checkpoint`` is the tracker's state
    as of ``last_event_id`` (0 before the first), ``ledger`` the run's counts. ``holder`` is the
    service that runs it, if any does. Of one that is ``pruned`` the oldest events were removed.
    """

    id: int
    vhost: str
    policy: str
    quiet: tuple[str, ...]
    wanted: bool
    created_at: Microseconds
    checkpoint: bytes | None
    ledger: bytes | None
    events: int
    last_event_id: int
    participants: int
    pending_copies: int
    holder: str | None = None
    bodies: bool = True
    taken: Selection = ALL
    pruned: bool = False


class Batch(msgspec.Struct, frozen=True):
    """One transaction of a trace.

    ``window`` holds the digests of its trace messages and ``ledger`` what its trace has seen, both
    opaque to the store; a ledger of None leaves the stored one as it is. ``link_rules`` are those
    of its events, None for those of the last batch. Without ``bodies`` no message's body is stored.
    By its ``token`` a batch that is appended again after an outage, its commit in doubt, is stored
    once.
    """

    events: list[StampedEvent]
    checkpoint: Checkpoint
    window: bytes
    token: bytes = msgspec.field(default_factory=partial(os.urandom, 16))
    ledger: bytes | None = None
    link_rules: tuple[TraceRule, ...] | None = None
    bodies: bool = True


class Service(msgspec.Struct, frozen=True):
    """A service as the others see it; times in µs, by the database's clock.

    ``idle_since`` is when it last took a trace, or started; ``snapshots`` are its traces' when it
    was last heard of, opaque to the store.
    """

    id: str
    name: str
    started_at: int
    idle_since: int
    is_alive: bool
    snapshots: bytes | None = None


class LeasedTrace(msgspec.Struct, frozen=True):
    """A trace, whether it should run, and the service that holds it, alive or dead."""

    trace_id: int
    vhost: str
    wanted: bool
    holder: str | None


class ClientConnection(msgspec.Struct, frozen=True):
    """A client's connection, with its name in trace messages; ``opened_at`` in µs, by the broker.

    ``client`` names the program, if anything does; ``process`` is its process id.
    """

    node: str
    name: str
    vhost: str
    user: str
    client: str | None
    process: str | None
    opened_at: int


class NewConnection(ClientConnection, frozen=True):
    """A reported connection.

    ``pid`` is the broker's process behind it, None where only the management API reported it.
    """

    pid: str | None = None


class ClosedConnection(msgspec.Struct, frozen=True):
    """A connection that is gone; ``closed_at`` in µs, by the broker's clock."""

    node: str
    name: str
    pid: str
    closed_at: int


class BrokerConnection(ClientConnection, frozen=True):
    """A stored connection; its ``id`` is unique, its ``name`` may be used again.

    It was closed by ``closed_at``, None while it is open.
    """

    id: int
    closed_at: int | None


class TraceRedactions(msgspec.Struct, frozen=True):
    """A trace's rules of redaction, and the sets of rules that held before, the latest first."""

    rules: tuple[Redaction, ...] = ()
    former: tuple[tuple[Redaction, ...], ...] = ()


class HeldRule(msgspec.Struct, frozen=True):
    """A rule that holds, and the first event that was read by it."""

    rule: TraceRule
    from_event_id: int


class RuleState(enum.StrEnum):
    """The state of a rule: whether messages are read by it.

    A running trace takes up changed rules after some seconds.
    """

    holds = "holds"
    set = "set"  # and does not hold yet
    removed = "removed"  # and holds still


class ListedRule(msgspec.Struct, frozen=True):
    """A rule of a virtual host."""

    of_trace: Annotated[TraceRule, INNER]
    state: Annotated[
        RuleState,
        "Whether messages are read by it: `set` is to hold, and `removed` to hold no more, once "
        "the trace has taken it up.",
    ]
    from_event_id: Annotated[
        int | None, "The first event that was read by it; `null` while it does not hold."
    ]

    @property
    def name(self) -> str:
        """The rule's name."""
        return self.of_trace.rule.name

    @property
    def origin(self) -> Origin:
        """Built in, of the file for all virtual hosts, or this one's own."""
        return self.of_trace.origin

    @property
    def rule(self) -> dict[str, Any]:
        """The rule, as in a file."""
        return self.of_trace.rule.to_json()


def list_rules(rules: Sequence[TraceRule], in_force: Sequence[HeldRule]) -> list[ListedRule]:
    """All rules of a trace in order, those that are removed last."""
    first_ids = {rule.rule: rule.from_event_id for rule in in_force}
    dropped = [rule for rule in in_force if rule.rule not in set(rules)]
    return [
        *(
            ListedRule(
                rule, RuleState.holds if rule in first_ids else RuleState.set, first_ids.get(rule)
            )
            for rule in rules
        ),
        *(ListedRule(rule.rule, RuleState.removed, rule.from_event_id) for rule in dropped),
    ]


class ParticipantSettings(msgspec.Struct, frozen=True):
    """The policy of participants, and of quiet traffic.

    By ``links`` all messages are read again; None keeps the links that are stored.
    """

    policy: str
    quiet: tuple[str, ...]
    links: tuple[TraceRule, ...] | None = None


class TraceExtent(msgspec.Struct, frozen=True):
    """A trace's first and last event (0: none), how many it has, and its checkpoint's state."""

    first_id: int
    last_id: int
    events: int
    state: bytes | None


class RestampedTrace(msgspec.Struct, frozen=True):
    """A restamped trace, and its rules."""

    vhost: str
    participant: Policy
    quiet: tuple[str, ...]


class RestampOutcome(msgspec.Struct, frozen=True):
    """The contents of a restamped trace."""

    events: int
    participants: int
    assumed: int
    edges: Annotated[int | None, "Links there are now; `null` where they were kept."] = None
    cut: Annotated[
        int | None,
        "Messages of whose bodies only a part is stored, so that what looks into bodies did not "
        "read them; `null` where none was read again.",
    ] = None


# Called with the number of events that are done.
Progress: TypeAlias = Callable[[int], None]


class PrunePlan(msgspec.Struct, frozen=True):
    """A plan to remove a trace's events before ``before_id``, recorded up to ``until`` (µs).

    ``participants`` lose all their events and give back their interval.
    """

    trace_id: int
    before_id: int
    until: int
    events: int
    participants: list[ParticipantState]


class Quarantined(msgspec.Struct, frozen=True):
    """A trace message that could not be read."""

    id: int
    vhost: str
    recorded_at: Microseconds
    reason: str
    routing_key: str
    headers: Annotated[
        str | None,
        "What could be shown of its header table, as JSON, cut. `null`, as `body`, for whom the "
        "broker would not hand every message of the virtual host.",
    ]
    kept: Annotated[bytes | None, INNER]
    body_bytes: int

    @property
    def body(self) -> str | None:
        """Its stored part, as text; see `body_encoding`."""
        return None if self.kept is None else self._text(self.kept)[0]

    @property
    def body_encoding(self) -> Encoding:
        """As an event's `payload_encoding`."""
        return "withheld" if self.kept is None else self._text(self.kept)[1]

    def _text(self, body: bytes) -> tuple[str | None, Encoding]:
        return payload_text(body, len(body) < self.body_bytes)

    def without_content(self) -> Quarantined:
        """Without content, for users who may not read it; its queue is unknown."""
        return replace(self, headers=None, kept=None)
