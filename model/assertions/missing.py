"""Places where what was lost, or is not stored any more, could make an answer another one.

Gaps are those of `model.gaps.widened`: with all times at which what they lack would have been
recorded.
"""

from __future__ import annotations

from collections.abc import Iterable

from model.assertions.assertion import Acknowledged, After, Assertion, LeadsTo
from model.conversations import Conversation
from model.gaps import Gap


def matters(assertion: Assertion, conversation: Conversation) -> tuple[int, int | None]:
    """Return from when and until when what is missing would matter to a conversation (µs).

    None: for ever.
    """
    what, ended_at = assertion.what, conversation.ended_at
    if isinstance(what, After):
        # What led to its first message may be lost: then it only seems to have begun there.
        return 0, ended_at
    within = what.within if isinstance(what, LeadsTo | Acknowledged) else None
    return conversation.began_at, None if within is None else ended_at + within


def may_lack(gaps: Iterable[Gap], since: int, until: int | None) -> bool:
    """Tell whether something may be missing that was recorded then, both ends included (µs)."""
    return any(
        (gap.until is None or gap.until >= since) and (until is None or gap.since <= until)
        for gap in gaps
    )
