"""Holds what was traced against what the broker itself counted in the virtual host.

The broker counts every publish and every delivery of a virtual host, and shows the sums some
seconds late. Of each direction the trace knows how many trace messages it has seen. If none is
lost, the **difference** between the two numbers never changes: it is what was counted before the
trace began.

Only **at rest** is it known: for LATE_SECONDS the counters stood still, nothing came, and the trace
queue was empty. Where it is greater than at the rest before, as many are **missing**; where it is
less, as many were traced in **excess** of what the broker counted.

While there is traffic a look only bounds it, and neither bound is proof of anything: counters are
late, and a trace message may wait inside the broker where no queue shows it yet, 38,000 of them in
a flood of publishes. What two looks in a row find short is **suspected** until the next rest, which
decides (`verdict_on`):

- from below: what was counted was traced, so it has been seen or is queued:
  ``difference >= counted - (seen + queued)``;
- from above, for the time before the first rest: what was seen some time ago is counted by now:
  ``difference <= counted - seen LATE_SECONDS ago``.

What was traced in excess is said, and is no sign of a loss: the broker does not count what a rolled
back transaction published, and loses some of the counters of channels that live for a moment. It
can hide a loss of as many. Or their counters come after the rest: what is short at the next one is
proven as far as it is more than the excess at this one, and suspected beyond that.

Counters belong to the nodes: they begin again with each. Then the audit begins anew too, and what
was suspected stays so.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from typing import NamedTuple

import msgspec

from app.tracker.taken import Selection
from model.times import Microseconds

# The broker collects every channel's counters every 5 s (4.9 s at most were seen from a publish to
# its count); this is what may go by until a number includes all that happened.
LATE_SECONDS = 8.0
# A node's time of start is known about as well as this.
START_SECONDS = 10
# Counters that went back are looked at this often before they count as begun anew: a node that
# does not answer in time is missing from the sum.
BACKWARDS = 3


_encode = msgspec.msgpack.Encoder().encode


class Tally(msgspec.Struct, frozen=True):
    """A number of publishes, and of deliveries: every hand-over, redeliveries among them."""

    publishes: int = 0
    deliveries: int = 0

    @property
    def sum(self) -> int:
        """Both together."""
        return self.publishes + self.deliveries

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.publishes + other.publishes, self.deliveries + other.deliveries)

    def __sub__(self, other: Tally) -> Tally:
        return Tally(self.publishes - other.publishes, self.deliveries - other.deliveries)

    def least(self, other: Tally) -> Tally:
        """Of each direction the smaller number."""
        return Tally(min(self.publishes, other.publishes), min(self.deliveries, other.deliveries))

    @property
    def positive(self) -> Tally:
        """It without what is below zero."""
        return Tally(max(0, self.publishes), max(0, self.deliveries))


class CountRange(msgspec.Struct, frozen=True):
    """The broker's count of a virtual host: at least ``low``, at most ``high``.

    ``started`` is about when each node did whose counters these are (s since the epoch).
    """

    low: Tally
    high: Tally
    started: dict[str, int]


class AuditVerdict(Enum):
    """The verdict of a look on the trace, since the last rest."""

    open = auto()  # nothing, yet
    suspected = auto()  # something may be missing
    missing = auto()  # something is
    even = auto()  # all came: what was suspected is taken back


class AuditState(msgspec.Struct, frozen=True):
    """An audit's knowledge; it is stored with the trace. Times in µs.

    ``difference`` is what these counters counted of other things than this trace's, at most: known
    since ``even_at``, the last rest, after the event ``even_event_id``, when ``traced`` were seen;
    None if there was none yet. ``last`` is what the counters said ``at``. ``missing`` and
    ``excess`` are how many were found in all, ``new_excess`` those at the last rest, and ``late``
    those that seem to have been counted after it. ``suspected`` is how many may be missing since
    the last rest.
    ``began_at`` is when it last began anew, after the event ``even_event_id`` while it was not even
    since.
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
    def counted(self) -> Tally | None:
        """The broker's count since the trace began, at the last rest; None without one."""
        if self.even_at is None:
            return None
        return self.traced + self.missing + self.late - self.excess

    @property
    def began(self) -> int:
        """The time from which something may be missing (µs)."""
        return self.even_at or self.began_at or 0

    @property
    def news(self) -> tuple[object, ...]:
        """The part that is worth storing as soon as it changes."""
        return self.difference, self.even_event_id, self.missing, self.excess, self.suspected


class AuditChange(msgspec.Struct, frozen=True):
    """The changes that a look has found, beyond the last one: all 0 where all is well."""

    verdict: AuditVerdict = AuditVerdict.open
    missing: Tally = Tally()
    excess: Tally = Tally()
    suspected: Tally = Tally()


class Look(msgspec.Struct, frozen=True):
    """One look. ``seen`` and ``queued`` are as of after ``counted``; ``at`` in µs.

    ``queued`` is how many trace messages may be on their way to us, of both directions together.
    ``last_event_id`` is the last stored event.
    """

    counted: CountRange
    seen: Tally
    queued: int
    last_event_id: int
    at: Microseconds


class Compares(NamedTuple):
    """Directions that can be held against the counters: the broker counts what is left out too."""

    publishes: bool
    deliveries: bool

    def of(self, tally: Tally) -> Tally:
        """It without what cannot be held against the counters."""
        return Tally(tally.publishes * self.publishes, tally.deliveries * self.deliveries)


BOTH = Compares(True, True)


def comparing(taken: Selection) -> Compares:
    """The sides of a trace that takes this on which the counters can tell something."""
    return Compares(taken.exchanges is None, taken.queues is None)


class Audit:
    """The audit of one run, going on from what was stored."""

    def __init__(
        self,
        state: AuditState | None,
        seen: Tally,
        now: float,
        compares: Compares = BOTH,
    ) -> None:
        """``seen`` is what the trace has seen so far, ``now`` a monotonic clock's time."""
        self.state = state or AuditState()
        # What was seen and counted when, newest last: no more than reaches back to LATE_SECONDS.
        self._past: deque[tuple[float, Tally, Tally | None]] = deque([(now, seen, None)])
        self._lowest: Tally | None = None  # the difference's lower bound at the last look
        self.compares = compares

    def restart(self, last_event_id: int, at: int) -> None:
        """Begin anew: from here on something else is traced, and the difference is another."""
        self.state = self._anew(last_event_id, at)

    def traced_since(self, seen: Tally, now: float) -> None:
        """Note that from ``now`` on all is traced, of which this many were seen."""
        self._past = deque([(now, seen, None)])

    def look(self, look: Look, now: float) -> AuditChange:
        """Take in a look; returns what it finds."""
        was, counted = self.state, look.counted.low
        earlier = self._earlier(now)
        self._past.append((now, look.seen, counted))
        if was.started is not None and not _are_same(was.started, look.counted.started):
            return self._begin_anew(look)
        if was.last is not None and _is_behind(counted, was.last):
            self._lowest = None
            if was.backwards + 1 < BACKWARDS:
                self.state = msgspec.structs.replace(was, backwards=was.backwards + 1)
                return AuditChange()
            return self._begin_anew(look)
        self.state = msgspec.structs.replace(
            was, started=look.counted.started, last=counted, backwards=0, at=look.at
        )
        is_exact = counted == look.counted.high and not look.queued
        if is_exact and earlier == (look.seen, counted):
            return self._at_rest(look)
        return self._moving(look, earlier[0] if earlier else None)

    def _at_rest(self, look: Look) -> AuditChange:
        """Decide what is missing since the last rest."""
        was, difference = self.state, self.compares.of(look.counted.low - look.seen)
        change = difference - was.difference if was.difference else Tally()
        short = change.positive
        # Counters of channels that have closed may come after a rest: it looked like an excess.
        late = short.least(was.new_excess)
        verdict = verdict_on(was, short, at_rest=True)
        missing = Tally()
        if verdict is AuditVerdict.missing:
            missing = short - late
            verdict = verdict if missing.sum else AuditVerdict.suspected
        # Before the first rest the difference was an upper bound, and less is no news.
        excess = Tally() if was.even_at is None else (Tally() - change).positive
        self._lowest = None
        self.state = msgspec.structs.replace(
            was,
            difference=difference,
            even_event_id=look.last_event_id,
            even_at=look.at,
            traced=look.seen,
            missing=was.missing + missing,
            excess=was.excess + excess,
            new_excess=excess,
            late=was.late + late,
            suspected=Tally(),
        )
        suspected = short if verdict is AuditVerdict.suspected else Tally()
        return AuditChange(verdict, missing, excess, suspected)

    def _moving(self, look: Look, earlier: Tally | None) -> AuditChange:
        """Suspect what is short at this look and was at the last one.

        The sums of the virtual host and of a queue may change at different moments, for example
        when a consumer was killed.
        """
        was, known = self.state, self.state.difference
        lowest = look.counted.low - look.seen - Tally(look.queued, look.queued)
        both = lowest.least(self._lowest) if self._lowest else None
        self._lowest = lowest
        if was.even_at is None and earlier is not None:
            highest = self.compares.of(look.counted.high - earlier)
            known = known.least(highest) if known else highest
        short = Tally()
        if was.difference is not None and both is not None:
            # What is suspected already is no news, but stays suspected until the next rest.
            short = (self.compares.of(both) - was.difference - was.suspected).positive
        self.state = msgspec.structs.replace(was, difference=known, suspected=was.suspected + short)
        return AuditChange(verdict_on(was, short, at_rest=False), suspected=short)

    def _begin_anew(self, look: Look) -> AuditChange:
        self._lowest = None
        self.state = msgspec.structs.replace(
            self._anew(look.last_event_id, look.at),
            started=look.counted.started,
            last=look.counted.low,
            at=look.at,
        )
        return AuditChange()

    def _anew(self, last_event_id: int, at: int) -> AuditState:
        return AuditState(
            even_event_id=last_event_id,
            began_at=at,
            missing=self.state.missing,
            excess=self.state.excess,
            late=self.state.late,
        )

    def _earlier(self, now: float) -> tuple[Tally, Tally | None] | None:
        """The look of LATE_SECONDS ago or before; None if this run is younger."""
        past, found = self._past, None
        while past and past[0][0] <= now - LATE_SECONDS:
            found = past.popleft()
        if found is None:
            return None
        past.appendleft(found)
        return found[1:]


def verdict_on(was: AuditState, short: Tally, *, at_rest: bool) -> AuditVerdict:
    """The verdict on what is short.

    Without an earlier rest the difference was only bounded, so even a rest can't prove anything.
    """
    if not short.sum:
        return AuditVerdict.even if at_rest else AuditVerdict.open
    return AuditVerdict.missing if at_rest and was.even_at is not None else AuditVerdict.suspected


def _are_same(was: dict[str, int], now: dict[str, int]) -> bool:
    """Tell whether the same nodes have counted since the same time."""
    return was.keys() == now.keys() and all(
        abs(now[node] - started) <= START_SECONDS for node, started in was.items()
    )


def _is_behind(now: Tally, before: Tally) -> bool:
    return now.publishes < before.publishes or now.deliveries < before.deliveries


class Ledger(msgspec.Struct, frozen=True):
    """The ledger of a trace, stored with each batch: what it has seen with it, and the audit.

    ``sentinel`` is the token of the sentinel in the trace queue (`app.broker.sentinel`),
    ``accounts`` are those under which we captured last. ``quarantined`` is the part of what it has
    seen that cannot be read, and is no event.
    """

    seen: Tally = Tally()
    audit: AuditState | None = None
    sentinel: str | None = None
    accounts: tuple[str, ...] = ()
    quarantined: Tally = Tally()

    def dump(self) -> bytes:
        """The ledger as the store keeps it."""
        return _encode(self)

    @classmethod
    def load(cls, stored: bytes | None) -> Ledger | None:
        """The ledger that `dump` gave; None where none was stored."""
        return _decode(stored) if stored else None


_decode = msgspec.msgpack.Decoder(Ledger).decode
