"""Holds what was traced against what the broker itself counted in the virtual host.

The broker counts every publish and every delivery of a virtual host, and shows the sums some
seconds late. Of each direction the trace knows how many trace messages it has seen. If none is
lost, the **difference** between the two numbers never changes: it is what was counted before the
trace began. Each look bounds it from both sides, without any assumption about the load:

- from below: everything counted was traced, so it has been seen or is still queued:
  ``difference ≥ counted - (seen + queued)``;
- from above: what was seen some time ago has been counted by now:
  ``difference ≤ counted - seen LATE_SECONDS ago``.

In a quiet moment the two bounds meet. Two later looks in a row whose lower bound is above what was
the upper bound prove a loss, of at least this many; one whose upper bound is below the lower bound
proves that more was traced than the broker counted. Where the load never pauses, a loss smaller
than what the broker counts late stays within the bounds until it does.

What was traced beyond what was counted is said, and is no sign of a loss: the broker does not count
what a rolled back transaction published, and loses some of the counters of channels that live for a
moment. It can hide a loss of as many.

Counters belong to the nodes: they begin again with each. Then the audit begins anew too.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec

from app.tracker.taken import Taken

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
    """How many publishes and deliveries; a delivery is every hand-over, redeliveries among them."""

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


class Counted(msgspec.Struct, frozen=True):
    """What the broker counted in a virtual host: at least ``low``, at most ``high``.

    ``started`` is about when each node did whose counters these are (s since the epoch).
    """

    low: Tally
    high: Tally
    started: dict[str, int]


class Bounds(msgspec.Struct, frozen=True):
    """What is known of the difference in one direction; None where nothing is.

    Those ``since_loss`` are of the greater difference after one: the loss was at least what proved
    it, and by whatever the lower bound rises it was greater, for the broker counts late.
    """

    low: int | None = None
    high: int | None = None
    since_loss: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether the difference is known."""
        return self.low is not None and self.low == self.high

    def after(self, new: Bounds) -> Bounds:
        """What is known after a look: both together, or the new ones alone if they contradict."""
        if self.excess(new):
            return new
        if self.high is not None and new.low is not None and new.low > self.high:
            return Bounds(new.low, new.high, since_loss=True)
        lows = [low for low in (self.low, new.low) if low is not None]
        highs = [high for high in (self.high, new.high) if high is not None]
        return Bounds(max(lows, default=None), min(highs, default=None), self.since_loss)

    def missing(self, new: Bounds) -> int:
        """How many more are certainly missing if ``new`` was found later."""
        known = self.low if self.since_loss else self.high
        if known is None or new.low is None:
            return 0
        return max(0, new.low - known)

    def excess(self, new: Bounds) -> int:
        """How many more were certainly traced than counted if ``new`` was found later."""
        if self.low is None or new.high is None:
            return 0
        return max(0, self.low - new.high)


class AuditState(msgspec.Struct, frozen=True):
    """What an audit knows; it is stored with the trace. Times in µs.

    ``even_event_id`` is the last event at the last moment when both numbers were known to agree,
    ``even_at`` when that was, None if never. ``before`` is what these counters counted of other
    things than this trace's, None while that is unknown; ``last`` what they said ``at``.
    ``missing`` and ``excess`` are how many were proven in all. ``began_at`` is when it last began
    anew, after the event ``even_event_id`` while it was not even since.
    """

    started: dict[str, int] | None = None
    publishes: Bounds = Bounds()
    deliveries: Bounds = Bounds()
    before: Tally | None = None
    last: Tally | None = None
    backwards: int = 0
    even_event_id: int = 0
    even_at: int | None = None
    at: int | None = None
    missing: Tally = Tally()
    excess: Tally = Tally()
    began_at: int | None = None

    @property
    def counted(self) -> Tally | None:
        """What the broker counted since the trace began; None while that is unknown."""
        return self.last - self.before if self.last and self.before else None


class Found(msgspec.Struct, frozen=True):
    """What a look has proven since the last one: both 0 where all is well."""

    missing: Tally = Tally()
    excess: Tally = Tally()
    began_anew: bool = False


class Look(msgspec.Struct, frozen=True):
    """One look. ``seen`` and ``queued`` are as of after ``counted``; ``at`` in µs.

    ``queued`` is how many trace messages may be on their way to us, of both directions together.
    ``last_event_id`` is the last stored event.
    """

    counted: Counted
    seen: Tally
    queued: int
    last_event_id: int
    at: int


class Compares(NamedTuple):
    """Which directions can be held against the counters: the broker counts what is left out too."""

    publishes: bool
    deliveries: bool


BOTH = Compares(True, True)


def comparing(taken: Taken) -> Compares:
    """What the counters can tell of a trace that takes this."""
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
        # What was seen when, newest last: never more than reaches back to LATE_SECONDS.
        self._past: deque[tuple[float, Tally]] = deque([(now, seen)])
        self._is_confirmed = False
        self.compares = compares

    def restart(self, last_event_id: int, at: int) -> None:
        """Begin anew: from here on something else is traced, and the difference is another."""
        self.state = AuditState(
            even_event_id=last_event_id,
            began_at=at,
            missing=self.state.missing,
            excess=self.state.excess,
        )

    def traced_since(self, seen: Tally, now: float) -> None:
        """Note that from ``now`` on all is traced, of which this many were seen."""
        self._past = deque([(now, seen)])

    def look(self, look: Look, now: float) -> Found:
        """Take in a look; returns what it proves."""
        was = self.state
        counted = look.counted.low
        earlier = self._earlier(now)
        self._past.append((now, look.seen))
        if was.started is not None and not _are_same(was.started, look.counted.started):
            return self._begin_anew(look, counted)
        if was.last is not None and _is_behind(counted, was.last):
            if was.backwards + 1 < BACKWARDS:
                self.state = msgspec.structs.replace(was, backwards=was.backwards + 1)
                return Found()
            return self._begin_anew(look, counted)
        lowest = counted - look.seen - Tally(look.queued, look.queued)
        highest = look.counted.high - earlier if earlier else None
        publishes = deliveries = Bounds()
        if self.compares.publishes:
            publishes = Bounds(lowest.publishes, highest.publishes if highest else None)
        if self.compares.deliveries:
            deliveries = Bounds(lowest.deliveries, highest.deliveries if highest else None)
        found = Found(
            Tally(was.publishes.missing(publishes), was.deliveries.missing(deliveries)),
            Tally(was.publishes.excess(publishes), was.deliveries.excess(deliveries)),
        )
        # The sums of the virtual host and of a queue may change at different moments, for example
        # when a consumer was killed: what is missing at one look has to be so at the next.
        self._is_confirmed, was_confirmed = bool(found.missing.sum), self._is_confirmed
        if found.missing.sum and not was_confirmed:
            return Found()
        missing, excess = was.missing + found.missing, was.excess + found.excess
        is_even = (publishes.is_exact or not self.compares.publishes) and (
            deliveries.is_exact or not self.compares.deliveries
        )
        before = was.before
        if before is None and is_even:
            before = counted - look.seen - missing + excess
        self.state = AuditState(
            started=look.counted.started,
            publishes=was.publishes.after(publishes),
            deliveries=was.deliveries.after(deliveries),
            before=before,
            last=counted,
            even_event_id=look.last_event_id if is_even else was.even_event_id,
            even_at=look.at if is_even else was.even_at,
            at=look.at,
            began_at=was.began_at,
            missing=missing,
            excess=excess,
        )
        return found

    def _begin_anew(self, look: Look, counted: Tally) -> Found:
        was = self.state
        self.state = AuditState(
            started=look.counted.started,
            last=counted,
            even_event_id=look.last_event_id,
            at=look.at,
            began_at=look.at,
            missing=was.missing,
            excess=was.excess,
        )
        return Found(began_anew=True)

    def _earlier(self, now: float) -> Tally | None:
        """What was seen at least LATE_SECONDS ago; None if this run is younger."""
        past, found = self._past, None
        while past and past[0][0] <= now - LATE_SECONDS:
            found = past.popleft()
        if found is None:
            return None
        past.appendleft(found)
        return found[1]


def _are_same(was: dict[str, int], now: dict[str, int]) -> bool:
    """Whether the same nodes have counted since the same time."""
    return was.keys() == now.keys() and all(
        abs(now[node] - started) <= START_SECONDS for node, started in was.items()
    )


def _is_behind(now: Tally, before: Tally) -> bool:
    return now.publishes < before.publishes or now.deliveries < before.deliveries


class Ledger(msgspec.Struct, frozen=True):
    """What is stored with each batch: what the trace has seen with it, and the audit.

    ``sentinel`` is the token of the sentinel in the trace queue (`app.broker.sentinel`).
    """

    seen: Tally = Tally()
    audit: AuditState | None = None
    sentinel: str | None = None

    def dump(self) -> bytes:
        """The ledger as the store keeps it."""
        return _encode(self)

    @classmethod
    def load(cls, stored: bytes | None) -> Ledger | None:
        """What `dump` gave; None where none was stored, by an earlier version."""
        return _decode(stored) if stored else None


_decode = msgspec.msgpack.Decoder(Ledger).decode
