"""How to get past a trace message that the broker cannot hand to a consumer.

The broker breaks the connection when it tries, and what it had sent just before is lost in its
buffers. So nothing queued before that message would ever be acknowledged. But how many there are
is easily found: reading that many messages and no more works for every smaller number.
"""

from __future__ import annotations

from app.errors import UndeliverableError
from app.traces.ports import Source

# How many such messages in a row are passed before the normal way is tried again.
MOST_IN_A_ROW = 1_000
SILENCE_SECONDS = 0.2


async def deliverable(source: Source, vhost: str, most: int) -> int | None:
    """Count the messages before the one that cannot be handed over.

    ``most`` is how far to look. None if all of those can be handed over.
    """
    good, bad = 0, 1
    while await _arrive(source, vhost, bad):
        if bad == most:
            return None
        good, bad = bad, min(2 * bad, most)
    while bad - good > 1:
        middle = (good + bad) // 2
        if await _arrive(source, vhost, middle):
            good = middle
        else:
            bad = middle
    return good


async def _arrive(source: Source, vhost: str, count: int) -> bool:
    """Whether the first `count` messages of the queue can be handed over, or all it holds."""
    arrived = 0
    try:
        async with source.open(vhost, count) as stream:
            while arrived < count:
                batch = await stream.batch(count, SILENCE_SECONDS)
                arrived += len(batch)
                if not batch and await stream.ready_messages() == 0:
                    return True
    except UndeliverableError:
        return False
    return True
