"""The interpreter, set for a process that keeps much, makes few cycles, and stores in a thread.

What a trace remembers is walked again and again as batches allocate, and none of it is a cycle. Nor
is what becomes of two batches, which are all there are at a time: it is gone before it is walked.
Collecting rarely makes the clock 1.3 times as fast at 1,000 gossiping participants where it is not
compiled, and its trees are tuples (`python -m bench.clock` prints both).

A batch is stored in its connection's thread while the next is stamped. SQLite gives Python's lock
back with each statement, and by default has to wait 5 ms for it: so all of the one waited for the
other.
"""

from __future__ import annotations

import gc
import sys

YOUNG = 200_000  # more than two batches' dictionaries, lists and tuples
MIDDLE = 20
OLD = 100

TURN_SECONDS = 0.001  # of a thread, while another waits


def tune_interpreter() -> None:
    """Collect rarely and leave present objects out of it, and let threads take shorter turns.

    Once, when the service is put up.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
    sys.setswitchinterval(TURN_SECONDS)
