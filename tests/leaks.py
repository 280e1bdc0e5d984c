"""What compiled code keeps of the memory that it took."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from itertools import pairwise


def growth(work: Callable[[], object], rounds: int) -> int:
    """The bytes more that are held after so many rounds of some work, at the least of three times.

    What leaks, leaks each time; what other threads of the process take meanwhile does not.
    """

    def held() -> int:
        for _ in range(rounds):
            work()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        return min(after - before for before, after in pairwise([held() for _ in range(4)]))
    finally:
        tracemalloc.stop()
