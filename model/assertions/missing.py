"""Times at which lost or removed events could change an answer. Gaps are `model.gaps.widened`."""

from __future__ import annotations

from collections.abc import Iterable

from model.assertions.assertion import Acknowledged, Assertion, LeadsTo, Precedence
from model.conversations.conversation import Conversation
from model.gaps import Gap


def matters(assertion: Assertion, conversation: Conversation) -> tuple[int, int | None]:
    """The first and last time at which a missing event would matter (µs); None: for ever."""
    condition, ended_at = assertion.requirement, conversation.ended_at
    if isinstance(condition, Precedence):
        # Its first message may have a cause that was lost.
        return 0, ended_at
    limit = condition.limit if isinstance(condition, LeadsTo | Acknowledged) else None
    return conversation.began_at, None if limit is None else ended_at + limit


def may_lack(gaps: Iterable[Gap], begin: int, end: int | None) -> bool:
    """Tell whether an event of this time may be missing, both ends included (µs)."""
    return any(
        (gap.until is None or gap.until >= begin) and (end is None or gap.since <= end)
        for gap in gaps
    )
