"""What the fakes at a run's two ends have in common: a broker where nothing happens."""

from __future__ import annotations

from collections.abc import Sequence

from app.broker.trace_queue import Bookmark, QueueState
from app.tracker.taken import Selection


class QuietStream:
    """A queue that was there, holds nothing, and of which nothing is to be said."""

    queue_is_new = False
    was_bound = True
    remark = None
    waits = is_over = False
    buffered = taken = unacknowledged = 0
    is_cluster = False
    traces_replies = True
    sentinel = None
    is_sentinel_gone = False
    bookmarks: Sequence[Bookmark] = ()
    account = "itc"
    former: Sequence[str] = ()

    def know_accounts(self, former: Sequence[str]) -> None:
        self.former = former

    async def mark_place(self, epoch: int, event_id: int) -> None:
        self.bookmarks = [Bookmark(epoch, event_id)]

    def take_largest(self) -> int:
        return 0

    async def ask_channels(self) -> None:
        pass

    async def ready_messages(self) -> int:
        return 0

    async def queued(self) -> int:
        return 0


class QuietSource:
    """A broker of one node, on which tracing is on."""

    async def switch_on(self, vhost: str) -> list[str]:
        return []

    async def nodes(self) -> frozenset[str]:
        return frozenset({"rabbit@one"})

    async def look(self, vhost: str, taken: Selection) -> QueueState:
        return QueueState()
