"""Quantiles of numbers in bounded memory, which can be merged.

Each bucket is 2 % wider than the one before, so a quantile is within 1 % of a number of this rank
(DDSketch: Masson, Rim and Lee, VLDB 2019). From a microsecond to a year there are fewer than 1,600.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

RELATIVE_ERROR = 0.01
_GAMMA = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_LOG = math.log(_GAMMA)
_SMALL = -1  # numbers below 1, shown as 0

Buckets: TypeAlias = dict[int, int]


class Sketch:
    """Numbers from 0 on, by how many there are in each bucket."""

    __slots__ = ("buckets", "count")

    def __init__(self, buckets: Buckets | None = None) -> None:
        self.buckets: Buckets = {} if buckets is None else buckets
        self.count = sum(self.buckets.values())

    def add(self, value: float, times: int = 1) -> None:
        bucket = bucket_of(value)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + times
        self.count += times

    def merge(self, addend: Sketch) -> None:
        """Add another sketch's counts."""
        for bucket, times in addend.buckets.items():
            self.buckets[bucket] = self.buckets.get(bucket, 0) + times
        self.count += addend.count

    def quantile(self, share: float) -> float | None:
        """A number that this share does not exceed, within `RELATIVE_ERROR`; None of nothing."""
        if not self.count:
            return None
        rank, count = share * (self.count - 1), 0
        for bucket in sorted(self.buckets):
            count += self.buckets[bucket]
            if count > rank:
                return _middle(bucket)
        return _middle(max(self.buckets))

    def count_above(self, value: float) -> int:
        """The count of numbers in greater buckets."""
        bucket = bucket_of(value)
        return sum(times for index, times in self.buckets.items() if index > bucket)

    def to_json(self) -> dict[str, int]:
        """Its buckets; `of_json` reads them."""
        return {str(bucket): times for bucket, times in self.buckets.items()}

    @classmethod
    def of_json(cls, buckets: Mapping[str, int]) -> Sketch:
        """The value that `to_json` gave."""
        return cls({int(bucket): times for bucket, times in buckets.items()})


def bucket_of(value: float) -> int:
    return _SMALL if value < 1 else math.ceil(math.log(value) / _LOG)


def limit_of(bucket: int) -> float:
    """The greatest number of a bucket."""
    return 0.0 if bucket == _SMALL else float(_GAMMA**bucket)


def _middle(bucket: int) -> float:
    """The number that is nearest to all of a bucket, by its relative distance."""
    return 0.0 if bucket == _SMALL else float(2 * _GAMMA**bucket / (_GAMMA + 1))
