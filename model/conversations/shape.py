"""The shape of a conversation: its keys, loops, and how many messages one led to."""

from __future__ import annotations

from collections import Counter, defaultdict

from model.conversations.conversation import Amplification, Loop
from model.conversations.members import ACTS, Members
from model.words import EdgeKind

MOST_KEYS = 5
_REPEATS = ACTS | {EdgeKind.forward.name}


def keys_of(members: Members) -> tuple[str, ...]:
    """Values that messages share, those of most messages first."""
    counts = Counter(key for head in members.heads for key in head.keys)
    threshold = 2 if len(members.heads) > 1 else 1
    return tuple(key for key, times in counts.most_common(MOST_KEYS) if times >= threshold)


def amplification_of(members: Members) -> Amplification:
    """The most messages that one led to directly."""
    children: dict[int, set[int]] = {head.id: set() for head in members.heads}
    for head in members.heads:
        for cause in members.causes.get(head.id, ()):
            parent = members.message_of(cause.event)
            if parent in children and parent != head.id:
                children[parent].add(head.id)
    greatest = max(map(len, children.values()), default=0)
    first = min((message for message in children if len(children[message]) == greatest), default=0)
    return Amplification(greatest, first if greatest else None)


def loops_of(members: Members) -> tuple[Loop, ...]:
    """Types in their own past; a message that was forwarded or has died is the same one."""
    by_type: defaultdict[str, set[int]] = defaultdict(set)
    # By message, the nearest of each type on the way from the root, itself included.
    nearest: dict[int, dict[str, int]] = {}
    readers = Counter(
        members.message_of(members.causes[head.id][0].event)
        for head in members.heads
        if head.id in members.causes
    )
    for head in members.heads:
        causes = members.causes.get(head.id, ())
        parent = members.message_of(causes[0].event) if causes else None
        past = nearest.get(parent, {}) if parent is not None else {}
        if parent is not None:
            readers[parent] -= 1
            if readers[parent] == 0:
                nearest.pop(parent, None)
            else:
                past = dict(past)
        is_again = bool(causes) and causes[0].kind in _REPEATS
        if not is_again:
            if head.message_type in past:
                by_type[head.message_type] |= {past[head.message_type], head.id}
            past[head.message_type] = head.id
        if readers[head.id]:
            nearest[head.id] = past
    loops = [Loop(name, tuple(sorted(ids))) for name, ids in by_type.items()]
    return tuple(sorted(loops, key=lambda loop: loop.events))
