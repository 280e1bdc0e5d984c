"""Quantiles of numbers in bounded memory, which parts found apart can be put together.

Numbers fall into buckets that each are 2 % wider than the one before, so a quantile is within 1 %
of a number that has this rank (the idea of DDSketch: Masson, Rim and Lee, VLDB 2019). From a
microsecond to a year there are fewer than 1,600 buckets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias

RELATIVE_ERROR = 0.01
_GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_LOG = math.log(_GAMMA)
# Numbers below 1 fall together; they are told as 0.
_SMALL = -1

Buckets: TypeAlias = dict[int, int]


class Sketch:
    """Numbers from 0 on, by how many there are in each bucket."""

    __slots__ = ("buckets", "count")

    def __init__(self, buckets: Buckets | None = None) -> None:
        self.buckets: Buckets = {} if buckets is None else buckets
        self.count = sum(self.buckets.values())

    def add(self, value: float, times: int = 1) -> None:
        """Count a number; one below 0 counts as 0."""
        bucket = bucket_of(value)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + times
        self.count += times

    def merge(self, other: Sketch) -> None:
        """Count all that another one did."""
        for bucket, times in other.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + times
        self.count += other.count

    def quantile(self, share: float) -> float | None:
        """A number that this share is at or below, within `RELATIVE_ERROR`; None of nothing."""
        if not self.count:
            return None
        rank, seen = share * (self.count - 1), 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen > rank:
                return _middle(bucket)
        return _middle(max(self.buckets))

    def above(self, value: float) -> int:
        """The number in buckets above the one that a number is in."""
        bucket = bucket_of(value)
        return sum(times for each, times in self.buckets.items() if each > bucket)

    def to_json(self) -> dict[str, int]:
        """Its buckets; `of_json` reads them."""
        return {str(bucket): times for bucket, times in self.buckets.items()}

    @classmethod
    def of_json(cls, buckets: Mapping[str, int]) -> Sketch:
        """The value that `to_json` gave."""
        return cls({int(bucket): times for bucket, times in buckets.items()})

    @classmethod
    def of(cls, values: Iterable[float]) -> Sketch:
        """A sketch of some numbers."""
        made = cls()
        for value in values:
            made.add(value)
        return made


def bucket_of(value: float) -> int:
    """The bucket that a number falls into."""
    return _SMALL if value < 1 else math.ceil(math.log(value) / _LOG)


def limit_of(bucket: int) -> float:
    """The greatest number that falls into a bucket."""
    return 0.0 if bucket == _SMALL else float(_GAMMA**bucket)


def _middle(bucket: int) -> float:
    """The number that is nearest to all of a bucket, by its relative distance."""
    return 0.0 if bucket == _SMALL else float(2 * _GAMMA**bucket / (_GAMMA + 1))
