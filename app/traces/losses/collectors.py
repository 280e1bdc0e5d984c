"""Follows the collectors of the broker plugin, and tells of records that never came.

A collector counts the records that it is handed (`app.broker.bundles`), so each has an ordinal. The
next one that is expected is stored with the batch in which the last one was: a record before that
has come again, and one behind it leaves a hole of which the size is known. What a killed collector
held, nobody knows: it sends no last bundle, and the next one of its node begins a new epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from app.traces.losses.marks import Point

if TYPE_CHECKING:
    from app.broker.deliveries import Bundle

# Collectors remembered, the latest: bundles of the others were acknowledged long ago.
MOST_COLLECTORS = 32

KILLED = (
    "the broker plugin's collector on {} ended without notice: the records that it held are "
    "missing, those of some 20 ms"
)


class CollectorState(msgspec.Struct):
    """The state of a collector: the next bundle and record that are expected of it.

    Its last bundle came ``at`` (µs) after the event ``event_id`` was stored.
    """

    node: str
    epoch: int
    number: int
    ordinal: int
    event_id: int = 0
    at: int = 0
    has_ended: bool = False


class MissingRecords(NamedTuple):
    """Records that never came, in words, and where they begin to be missing."""

    reason: str
    begins: Point


class Collectors:
    """The collectors of one trace."""

    def __init__(self, collectors: Iterable[CollectorState] = ()) -> None:
        self._collectors = {(found.node, found.epoch): found for found in collectors}
        self._bundle: Bundle | None = None  # the present one, and who made it
        self.maker = CollectorState("", 0, 0, 0)
        self._missing: list[MissingRecords] = []

    def dump(self) -> list[CollectorState]:
        """The collectors, as the ledger has them."""
        return [*self._collectors.values()]

    def forget(self) -> None:
        """Begin anew: the trace queue is another."""
        self._collectors, self._bundle = {}, None

    def take_missing(self) -> list[MissingRecords]:
        """Return what is missing before the records since the last call."""
        missing, self._missing = self._missing, []
        return missing

    def take(self, bundle: Bundle, ordinal: int, event_id: int, moment: int) -> bool:
        """Take the next record, and tell whether it is new.

        An ordinal below 0 stands for a whole bundle, which is empty or cannot be read.
        ``event_id`` is the last stored event, and ``moment`` when the record came (µs).
        """
        if bundle is not self._bundle:
            point = Point(event_id, moment)
            self._bundle, self.maker = bundle, self._maker_of(bundle, point)
            self._begin(bundle, self.maker, point)
        maker = self.maker
        last = bundle.first + bundle.records - 1 if ordinal < 0 else ordinal
        if last < maker.ordinal:
            return False
        maker.ordinal = last + 1
        return True

    def _maker_of(self, bundle: Bundle, point: Point) -> CollectorState:
        key = bundle.node, bundle.epoch
        if key in self._collectors:
            return self._collectors[key]
        for former in self._collectors.values():
            if former.node == bundle.node and not former.has_ended:
                former.has_ended = True
                self._miss(KILLED.format(bundle.node), former)
        # The first bundles of one that was at work before the trace were for nobody.
        is_late = bundle.number > 0 and not self._collectors
        expected = (bundle.number, bundle.first) if is_late else (0, 0)
        maker = self._collectors[key] = CollectorState(
            *key, *expected, point.event_id, point.moment
        )
        if len(self._collectors) > MOST_COLLECTORS:
            del self._collectors[next(iter(self._collectors))]
        return maker

    def _begin(self, bundle: Bundle, maker: CollectorState, point: Point) -> None:
        if (count := bundle.first - maker.ordinal) > 0:
            lost, bundles = min(bundle.lost, count), bundle.number - maker.number
            self._miss(
                f"{count:,} records of the broker plugin on {bundle.node} never came: {lost:,} "
                f"that it could not keep, and {count - lost:,} in {bundles:,} lost bundles",
                maker,
            )
            maker.ordinal = bundle.first
        if bundle.number >= maker.number:
            maker.number, maker.has_ended = bundle.number + 1, bundle.end
            maker.event_id, maker.at = point.event_id, point.moment

    def _miss(self, reason: str, collector: CollectorState) -> None:
        self._missing.append(MissingRecords(reason, Point(collector.event_id, collector.at)))
