"""Slack: which events decided when the last one came, and how much time the others had.

An event comes some time after the last of the events that it had to wait for; how long after does
not change when these come later. Ids are a linear extension: what an event waited for has a
smaller id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def slacks(at: Mapping[int, int], before: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """By how much later each event could have come without a later end (µs).

    ``at`` are the events' times, ``before`` the events that each had to wait for, among these.
    """
    end = max(at.values(), default=0)
    left = {event: end - moment for event, moment in at.items()}
    for event in sorted(at, reverse=True):
        waited = before.get(event, ())
        last = max((at[each] for each in waited), default=0)
        for each in waited:
            left[each] = min(left[each], left[event] + last - at[each])
    return left


def critical_path(at: Mapping[int, int], before: Mapping[int, Sequence[int]]) -> list[int]:
    """The events that decided when the last one came, from the first to the last.

    Among events of one time the smallest id counts.
    """
    if not at:
        return []
    path = [max(at, key=lambda event: (at[event], -event))]
    while waited := before.get(path[-1], ()):
        path.append(max(waited, key=lambda event: (at[event], -event)))
    return path[::-1]
