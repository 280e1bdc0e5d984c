"""Where what was lost, or is not stored any more, could make an answer another one.

A gap says between which events something is missing, and around which time that was noticed. Its
messages may have waited in the broker, so the times of the events around it count as well: what
lies between these is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from model.assertions.assertion import After, Assertion, LeadsTo
from model.conversations import Conversation
from model.gaps import Gap


def widened(gap: Gap, begins: int | None, ends: int | None) -> Gap:
    """A gap with all times at which what it lacks would have been recorded.

    ``begins`` is when the last event before it was recorded (µs), None if that is not stored;
    ``ends`` when the last one that may be in it was.
    """
    since = 0 if begins is None else min(gap.since, begins)
    until = gap.until
    if gap.before_event_id is None:
        until = None
    elif until is not None and ends is not None:
        until = max(until, ends)
    return replace(gap, since=since, until=until)


def matters(assertion: Assertion, conversation: Conversation) -> tuple[int, int | None]:
    """From when and until when what is missing would matter to a conversation (µs).

    None: for ever.
    """
    what, ended_at = assertion.what, conversation.ended_at
    if isinstance(what, After):
        # What led to its first message may be lost: then it only seems to have begun there.
        return 0, ended_at
    within = what.within if isinstance(what, LeadsTo) else None
    return conversation.began_at, None if within is None else ended_at + within


def may_lack(gaps: Iterable[Gap], since: int, until: int | None) -> bool:
    """Whether something may be missing that was recorded then, both ends included (µs)."""
    return any(
        (gap.until is None or gap.until >= since) and (until is None or gap.since <= until)
        for gap in gaps
    )
