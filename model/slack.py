"""Slack: which events decided when the last one came, and how much time the others had.

An event comes a fixed time after the last of the events that it waited for, its predecessors,
which have smaller ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def slacks(times: Mapping[int, int], waits: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """By how much later each event could have come without a later end (µs).

    ``times`` are by event, ``waits`` the predecessors among these.
    """
    end = max(times.values(), default=0)
    slack = {event: end - moment for event, moment in times.items()}
    for event in sorted(times, reverse=True):
        predecessors = waits.get(event, ())
        last = max((times[predecessor] for predecessor in predecessors), default=0)
        for predecessor in predecessors:
            slack[predecessor] = min(slack[predecessor], slack[event] + last - times[predecessor])
    return slack


def critical_path(times: Mapping[int, int], waits: Mapping[int, Sequence[int]]) -> list[int]:
    """The events that decided when the last one came, from the first to the last.

    Among events of one time the smallest id counts.
    """
    if not times:
        return []
    path = [max(times, key=lambda event: (times[event], -event))]
    while predecessors := waits.get(path[-1], ()):
        path.append(max(predecessors, key=lambda event: (times[event], -event)))
    return path[::-1]
