"""Holds what was traced against what the broker itself counted in the virtual host.

The broker counts every publish and every delivery of a virtual host, and shows the sums some
seconds late. The trace counts the trace messages of each direction. If none is lost, the
**difference** between the two numbers never changes: it was counted before the trace began.

It is known only **at rest**: for LATE_SECONDS the counters stood still, nothing came, and the trace
queue was empty. If it has grown since the last rest, as many messages are **missing**; if it has
shrunk, as many were traced in **excess** of the broker's count.

While there is traffic a look only bounds it, and neither bound proves anything: counters are late,
and a trace message may wait inside the broker where no queue shows it yet, 38,000 of them in a
flood of publishes. A shortage in two looks in a row is **suspected** until the next rest, which
decides (`verdict_on`):

- from below: counted messages were traced, so they have been seen or are queued:
  ``difference >= counted - (seen + queued)``;
- from above, before the first rest: messages seen some time ago are counted by now:
  ``difference <= counted - seen LATE_SECONDS ago``.

An excess is reported, and is no sign of a loss: the broker does not count the publishes of a rolled
back transaction, and loses some of the counters of channels that live for a moment. It can hide a
loss of as many. Or their counters come after the rest: a shortage at the next one is proven as far
as it exceeds this excess, and suspected below that.

Counters belong to the nodes and begin again with them. Then the audit begins anew too, and its
suspicions stay.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from app.traces.losses.collectors import CollectorState
from app.tracker.taken import Selection
from model.times import Microseconds

# The broker collects every channel's counters every 5 s (4.9 s at most were seen from a publish to
# its count); after this time a number includes all that happened.
LATE_SECONDS = 8.0
# The precision of a node's start time.
START_SECONDS = 10
# Looks at counters that went back before they count as begun anew: a node that does not answer in
# time is missing from the sum.
BACKWARDS = 3


_encode = msgspec.msgpack.Encoder().encode


class Tally(msgspec.Struct, frozen=True):
    """A number of publishes, and of deliveries: every hand-over, redeliveries among them."""

    publishes: int = 0
    deliveries: int = 0

    @property
    def sum(self) -> int:
        return self.publishes + self.deliveries

    def __add__(self, tally: Tally) -> Tally:
        return Tally(self.publishes + tally.publishes, self.deliveries + tally.deliveries)

    def __sub__(self, tally: Tally) -> Tally:
        return Tally(self.publishes - tally.publishes, self.deliveries - tally.deliveries)

    def minimum(self, tally: Tally) -> Tally:
        """The smaller number of each direction."""
        return Tally(min(self.publishes, tally.publishes), min(self.deliveries, tally.deliveries))

    @property
    def positive(self) -> Tally:
        """The tally with zeros for negative numbers."""
        return Tally(max(0, self.publishes), max(0, self.deliveries))


class CountRange(msgspec.Struct, frozen=True):
    """The broker's count of a virtual host: at least ``low``, at most ``high``.

    ``starts`` has the nodes whose counters these are, and about when each started (s since the
    epoch).
    """

    low: Tally
    high: Tally
    starts: dict[str, int]


class AuditVerdict(Enum):
    """The verdict of a look on the trace, since the last rest."""

    open = auto()  # nothing, yet
    suspected = auto()  # something may be missing
    loss = auto()  # something is missing
    balanced = auto()  # all came: a suspicion is taken back


class AuditState(msgspec.Struct, frozen=True):
    """An audit's knowledge; it is stored with the trace. Times in µs.

    ``difference`` is the part of the counters that is not this trace's, at most: known since
    ``even_at``, the last rest, after the event ``even_event_id``, when ``traced`` were seen; None
    before the first. ``last`` are the counters as of ``at``. ``missing`` and ``excess`` are totals,
    ``new_excess`` is that of the last rest, and ``late`` the part that seems to have been counted
    after it. ``suspected`` may be missing since the last rest. ``began_at`` is when it last began
    anew, after the event ``even_event_id`` until the next rest.
    """

    started: dict[str, int] | None = None
    difference: Tally | None = None
    last: Tally | None = None
    backwards: int = 0
    even_event_id: int = 0
    even_at: Microseconds | None = None
    traced: Tally = Tally()
    at: Microseconds | None = None
    missing: Tally = Tally()
    excess: Tally = Tally()
    new_excess: Tally = Tally()
    late: Tally = Tally()
    suspected: Tally = Tally()
    began_at: int | None = None

    @property
    def broker_count(self) -> Tally | None:
        """The broker's count since the trace began, at the last rest; None without one."""
        if self.even_at is None:
            return None
        return self.traced + self.missing + self.late - self.excess

    @property
    def begins_at(self) -> int:
        """The time from which something may be missing (µs)."""
        return self.even_at or self.began_at or 0

    @property
    def news(self) -> tuple[object, ...]:
        """The part that is worth storing as soon as it changes."""
        return self.difference, self.even_event_id, self.missing, self.excess, self.suspected


class AuditChange(msgspec.Struct, frozen=True):
    """The changes since the last look: all 0 where all is well."""

    verdict: AuditVerdict = AuditVerdict.open
    loss: Tally = Tally()
    excess: Tally = Tally()
    suspected: Tally = Tally()


class Look(msgspec.Struct, frozen=True):
    """One look: ``tally`` and ``queued`` were read after ``count``; ``moment`` in µs.

    ``tally`` counts the trace messages seen; ``queued`` may be on their way to us, of both
    directions together. ``last_event_id`` is the last stored event.
    """

    count: CountRange
    tally: Tally
    queued: int
    last_event_id: int
    moment: Microseconds


class Compares(NamedTuple):
    """Directions that can be held against the counters: the broker counts what is left out too."""

    publishes: bool
    deliveries: bool

    def select(self, tally: Tally) -> Tally:
        return Tally(tally.publishes * self.publishes, tally.deliveries * self.deliveries)


BOTH_DIRECTIONS = Compares(True, True)


def directions_of(selection: Selection) -> Compares:
    """The directions that a trace of this selection can hold against the counters."""
    return Compares(selection.exchanges is None, selection.queues is None)


class Audit:
    """The audit of one run; it goes on from the stored one."""

    def __init__(
        self,
        state: AuditState | None,
        tally: Tally,
        moment: float,
        compares: Compares = BOTH_DIRECTIONS,
    ) -> None:
        """``tally`` counts the trace messages seen so far, ``moment`` is a monotonic clock's."""
        self.state = state or AuditState()
        # (moment, tally, count), newest last: they reach back to LATE_SECONDS.
        self._past: deque[tuple[float, Tally, Tally | None]] = deque([(moment, tally, None)])
        self._lowest: Tally | None = None  # the difference's lower bound at the last look
        self.compares = compares

    def restart(self, last_event_id: int, moment: int) -> None:
        """Begin anew: from here on something else is traced, and the difference is another."""
        self.state = self._new_state(last_event_id, moment)

    def begin(self, tally: Tally, moment: float) -> None:
        """Note that from ``moment`` on all is traced, and this many were seen before."""
        self._past = deque([(moment, tally, None)])

    def look(self, look: Look, moment: float) -> AuditChange:
        state, count = self.state, look.count.low
        earlier = self._earlier(moment)
        self._past.append((moment, look.tally, count))
        if state.started is not None and not _are_same(state.started, look.count.starts):
            return self._begin_anew(look)
        if state.last is not None and _is_behind(count, state.last):
            self._lowest = None
            if state.backwards + 1 < BACKWARDS:
                self.state = msgspec.structs.replace(state, backwards=state.backwards + 1)
                return AuditChange()
            return self._begin_anew(look)
        self.state = msgspec.structs.replace(
            state, started=look.count.starts, last=count, backwards=0, at=look.moment
        )
        is_exact = count == look.count.high and not look.queued
        if is_exact and earlier == (look.tally, count):
            return self._decide(look)
        return self._suspect(look, earlier[0] if earlier else None)

    def _decide(self, look: Look) -> AuditChange:
        """Decide at rest on messages missing since the last decision."""
        state, difference = self.state, self.compares.select(look.count.low - look.tally)
        change = difference - state.difference if state.difference else Tally()
        shortage = change.positive
        # Counters of channels that have closed may come after a rest: it looked like an excess.
        late = shortage.minimum(state.new_excess)
        verdict = verdict_on(state, shortage, at_rest=True)
        loss = Tally()
        if verdict is AuditVerdict.loss:
            loss = shortage - late
            verdict = verdict if loss.sum else AuditVerdict.suspected
        # Before the first rest the difference was an upper bound, and less is no news.
        excess = Tally() if state.even_at is None else (Tally() - change).positive
        self._lowest = None
        self.state = msgspec.structs.replace(
            state,
            difference=difference,
            even_event_id=look.last_event_id,
            even_at=look.moment,
            traced=look.tally,
            missing=state.missing + loss,
            excess=state.excess + excess,
            new_excess=excess,
            late=state.late + late,
            suspected=Tally(),
        )
        suspected = shortage if verdict is AuditVerdict.suspected else Tally()
        return AuditChange(verdict, loss, excess, suspected)

    def _suspect(self, look: Look, earlier: Tally | None) -> AuditChange:
        """Suspect a shortage at this look and the last one.

        The sums of the virtual host and of a queue may change at different moments, for example
        when a consumer was killed.
        """
        state, difference = self.state, self.state.difference
        lowest = look.count.low - look.tally - Tally(look.queued, look.queued)
        lower_bound = lowest.minimum(self._lowest) if self._lowest else None
        self._lowest = lowest
        if state.even_at is None and earlier is not None:
            highest = self.compares.select(look.count.high - earlier)
            difference = difference.minimum(highest) if difference else highest
        shortage = Tally()
        if state.difference is not None and lower_bound is not None:
            # An older suspicion is no news, but stays until the next rest.
            shortage = (
                self.compares.select(lower_bound) - state.difference - state.suspected
            ).positive
        suspected = state.suspected + shortage
        self.state = msgspec.structs.replace(state, difference=difference, suspected=suspected)
        return AuditChange(verdict_on(state, shortage, at_rest=False), suspected=shortage)

    def _begin_anew(self, look: Look) -> AuditChange:
        self._lowest = None
        self.state = msgspec.structs.replace(
            self._new_state(look.last_event_id, look.moment),
            started=look.count.starts,
            last=look.count.low,
            at=look.moment,
        )
        return AuditChange()

    def _new_state(self, last_event_id: int, moment: int) -> AuditState:
        return AuditState(
            even_event_id=last_event_id,
            began_at=moment,
            missing=self.state.missing,
            excess=self.state.excess,
            late=self.state.late,
        )

    def _earlier(self, moment: float) -> tuple[Tally, Tally | None] | None:
        """The look of LATE_SECONDS ago or before; None if this run is younger."""
        past, look = self._past, None
        while past and past[0][0] <= moment - LATE_SECONDS:
            look = past.popleft()
        if look is None:
            return None
        past.appendleft(look)
        return look[1:]


def verdict_on(state: AuditState, shortage: Tally, *, at_rest: bool) -> AuditVerdict:
    """The verdict on a shortage.

    Without an earlier rest the difference was only bounded, so even a rest can't prove anything.
    """
    if not shortage.sum:
        return AuditVerdict.balanced if at_rest else AuditVerdict.open
    return AuditVerdict.loss if at_rest and state.even_at is not None else AuditVerdict.suspected


def _are_same(old: dict[str, int], new: dict[str, int]) -> bool:
    """Tell whether the same nodes have counted since the same time."""
    return old.keys() == new.keys() and all(
        abs(new[node] - start) <= START_SECONDS for node, start in old.items()
    )


def _is_behind(new: Tally, old: Tally) -> bool:
    return new.publishes < old.publishes or new.deliveries < old.deliveries


class Ledger(msgspec.Struct, frozen=True):
    """The ledger of a trace, stored with each batch: the trace messages seen, and the audit.

    ``sentinel`` is the token of the sentinel in the trace queue (`app.broker.sentinel`),
    ``accounts`` are those under which we captured last. ``quarantined`` is the part of ``seen``
    that cannot be read, ``own`` the part that is the service's own: neither are events.
    ``collectors`` are the broker plugin's, the latest last.
    """

    seen: Tally = Tally()
    audit: AuditState | None = None
    sentinel: str | None = None
    accounts: tuple[str, ...] = ()
    quarantined: Tally = Tally()
    own: Tally = Tally()
    collectors: list[CollectorState] = []

    def dump(self) -> bytes:
        return _encode(self)

    @classmethod
    def load(cls, stored: bytes | None) -> Ledger | None:
        """The ledger that `dump` gave; None where none was stored."""
        return _decode(stored) if stored else None


_decode = msgspec.msgpack.Decoder(Ledger).decode
