"""Status of a trace at any moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

import msgspec

from app.traces.life import Standing, TraceState
from app.traces.losses.audit import BOTH_DIRECTIONS, AuditState, Compares, Ledger, directions_of
from app.tracker import Counters, Policy, Totals
from app.tracker.events import Disposed
from app.tracker.links.memory import LinkCount
from app.tracker.taken import ALL, Selection
from itc import Stamp, pack
from model.described import INNER
from model.gaps import Gap
from model.sound import Evidence
from model.times import Microseconds, said_time
from model.words import Disposition


class CaptureCost(msgspec.Struct):
    """The cost of capture since its run began, in numbers and seconds, for `/metrics`.

    ``stamp_bytes`` and ``id_depth`` are the newest event's: the size of its stored clock, and how
    often the seed was halved for its participant; ``settled`` are deliveries by `Disposition`.
    """

    batches: int = 0
    batch_seconds: float = 0.0
    stamped: int = 0
    stamp_seconds: float = 0.0
    stamp_bytes: int = 0
    id_depth: int = 0
    settled: dict[str, int] = {}

    def count_stored(
        self, newest: Stamp | None, seconds: float, settled: Iterable[Disposed] = ()
    ) -> None:
        """Count a batch that was committed, and the settlements in it."""
        self.batches += 1
        for disposition, *_ in settled:
            if disposition is not None and disposition is not Disposition.in_hand:
                self.settled[disposition.name] = self.settled.get(disposition.name, 0) + 1
        self.batch_seconds += seconds
        if newest is not None:
            self.stamp_bytes = len(pack(newest))
            self.id_depth = len(newest.interval or "")


class Snapshot(msgspec.Struct, frozen=True):
    """A running trace's status. ``rate`` in events/s; ``totals`` is None before its restore.

    All that was traced before ``settled_at`` (µs) is stored, up to the event ``settled_id``; 0 as
    long as that is not known.
    """

    standing: Standing
    totals: Totals | None = None
    last_event_id: int = 0
    rate: float = 0.0
    lag: int | None = None
    work: CaptureCost = msgspec.field(default_factory=CaptureCost)
    ledger: Ledger | None = None
    remarks: tuple[str, ...] = ()
    settled_at: int = 0
    settled_id: int = 0


class AuditSide(msgspec.Struct, frozen=True):
    """Trace messages in one direction, and the broker's count since the trace began.

    Both are of the same moment, when everything was at rest.
    """

    traced: Annotated[int, "Trace messages seen by then, the service's own marks among them."]
    counted: Annotated[
        int | None, "`null` while it is unknown, and where it counts what the trace leaves out."
    ]
    seen: Annotated[int, "All until now: each is an event, or one of the next two."] = 0
    quarantined: Annotated[int, "Those of them that cannot be read."] = 0
    own: Annotated[int, "Those that are left out: the service's own marks, and its queue's."] = 0

    @property
    def events(self) -> int:
        """The number of them that are events, removed ones too."""
        return self.seen - self.quarantined - self.own

    def __str__(self) -> str:
        return f"{self.traced:,} of {'?' if self.counted is None else f'{self.counted:,}'}"


class AuditStatus(msgspec.Struct, frozen=True):
    """The trace held against the broker's own counters."""

    publishes: AuditSide
    deliveries: AuditSide
    as_of: Annotated[
        Microseconds | None,
        "When they were compared: the counters stood still, and the trace queue was empty. `null` "
        "before, and what was traced is of now then.",
    ]
    read_at: Annotated[Microseconds | None, "When the counters were last read."]
    missing: Annotated[
        int,
        "Proven to be missing in all; gaps say where. `0` says nothing about uncompared messages.",
    ]
    suspected: Annotated[
        int,
        "How many more were counted since `as_of` than have come: lost, or still inside the "
        "broker. The next comparison decides.",
    ]
    excess: Annotated[
        int,
        "How many more came in all than were counted; they can hide a loss of as many.",
    ]
    compares: Annotated[Compares, INNER] = BOTH_DIRECTIONS

    @property
    def sentence(self) -> str:
        if not all(self.compares):
            return self._of_part
        if self.as_of is None:
            traced = f"{self.publishes.traced:,} publishes, {self.deliveries.traced:,} deliveries"
            if self.read_at is None:
                return f"{traced} traced; the broker's counters are not known"
            return f"{traced} traced; compared once the virtual host is quiet for some seconds"
        traced = f"{self.publishes} publishes, {self.deliveries} deliveries"
        return f"{traced} traced, as of {said_time(self.as_of)}"

    def remarks(self) -> list[str]:
        """Sentences for an operator."""
        sentences = []
        if self.suspected:
            sentences.append(
                f"the broker counted {self.suspected:,} trace messages that have not come yet: "
                "whether they are lost shows once the virtual host is quiet for some seconds"
            )
        if count := self.publishes.quarantined + self.deliveries.quarantined:
            sentences.append(
                f"{count:,} trace messages cannot be read: they are in quarantine, not among the "
                "events; gaps say where"
            )
        if self.excess:
            sentences.append(
                f"{self.excess:,} more trace messages came than the broker counted, as after "
                "channel churn or rollbacks: this can hide a loss of as many"
            )
        return sentences

    @property
    def _of_part(self) -> str:
        """The sentence where the counters include more than the trace takes."""
        publishes, deliveries = f"{self.publishes.traced:,}", f"{self.deliveries.traced:,}"
        names = [
            name for name, is_comparable in self.compares._asdict().items() if not is_comparable
        ]
        if self.compares.publishes:
            publishes = str(self.publishes)
        elif self.compares.deliveries:
            deliveries = str(self.deliveries)
        return (
            f"{publishes} publishes, {deliveries} deliveries traced; {' and '.join(names)} cannot "
            "be compared: the broker counts those too that are left out"
        )


def audit_status(ledger: Ledger, selection: Selection = ALL) -> AuditStatus:
    audit, compares = ledger.audit or AuditState(), directions_of(selection)
    count = audit.broker_count if any(compares) else None
    traced = ledger.seen if count is None else audit.traced
    tallies = map(msgspec.structs.astuple, (traced, ledger.seen, ledger.quarantined, ledger.own))
    counts = (None, None) if count is None else msgspec.structs.astuple(count)
    publishes, deliveries = (
        AuditSide(side_traced, number if is_comparable else None, *others)
        for is_comparable, number, (side_traced, *others) in zip(
            compares, counts, zip(*tallies, strict=True), strict=True
        )
    )
    return AuditStatus(
        publishes=publishes,
        deliveries=deliveries,
        as_of=audit.even_at if any(compares) else None,
        read_at=audit.at if any(compares) else None,
        missing=audit.missing.sum,
        suspected=audit.suspected.sum,
        excess=audit.excess.sum,
        compares=compares,
    )


class TraceStatus(msgspec.Struct, frozen=True):
    """The capture of one virtual host."""

    vhost: str
    state: TraceState
    policy: Annotated[Policy, "What counts as a participant."] = msgspec.field(name="participant")
    quiet: Annotated[tuple[str, ...], "Patterns of traffic that joins no clocks."]
    wanted: bool
    created_at: Microseconds
    waiting_for: str | None
    last_error: str | None
    restarts: int
    counters: Counters
    links: Annotated[Mapping[str, LinkCount], "By rule; only those that messages used."]
    unread: Annotated[
        Mapping[str, int],
        "By reason, how often a rule asked for what is not read: bodies and values beyond the "
        "bounds, broken or in unknown encodings, and messages that name themselves.",
    ]
    events: Annotated[int, "How many are stored now."]
    participants: int
    pending_copies: int
    last_event_id: Annotated[int, "0 before the first."]
    rate: Annotated[float, "Events a second."]
    lag: int | None
    gaps: list[Gap]
    holder: Annotated[
        str | None, "The service that runs it, where several may; null where none does."
    ] = None
    bodies: Annotated[bool, "Whether messages' bodies are stored, and read for links."] = True
    taken: Annotated[Selection, INNER] = ALL
    doubts: Annotated[list[str], "Why it is not sound, a sentence each."] = []
    evidence: Annotated[
        Evidence,
        "What its messages say of their causes, of all participants that have events.",
    ] = Evidence()
    remarks: Annotated[
        tuple[str, ...],
        "What an operator should know of the trace queue and of the audit, a sentence each.",
    ] = ()
    ledger: Annotated[Ledger | None, INNER] = None
    work: Annotated[CaptureCost, INNER] = msgspec.field(default_factory=CaptureCost)

    @property
    def audit(self) -> AuditStatus | None:
        """`null` before the trace first runs."""
        return None if self.ledger is None else audit_status(self.ledger, self.taken)

    @property
    def exchanges(self) -> tuple[str, ...] | None:
        """The exchanges whose publishes are taken, as names and patterns; `null`: all."""
        return self.taken.exchanges

    @property
    def queues(self) -> tuple[str, ...] | None:
        """The queues whose deliveries are taken, as names and patterns; `null`: all."""
        return self.taken.queues

    @property
    def sound(self) -> bool:
        """Tell whether participants are those who act, as far as is seen."""
        return not self.doubts

    def losses(self) -> list[Gap]:
        """The gaps that are not there by choice."""
        return [gap for gap in self.gaps if not gap.is_chosen()]
