"""What has happened on a made-up broker: events, the traces that saw them, their relations.

The dashboard's tests know from here what the service should show of its store, which holds the same
(tests/web/service.py).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.tracker import Unreadable
from app.tracker.links.memory import LinkCount
from tests.web import history
from tests.web.history import Event, Participant, Simulation


def iso(micros: int) -> str:
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)
    return moment.isoformat(timespec="microseconds") + "Z"


def micros(text: str) -> int:
    moment = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return int(moment.timestamp() * 1_000_000)


class PastTrace:
    """The trace of one virtual host."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.state = "running"
        self.policy = "channel"
        self.last_error: str | None = None
        self.gaps: list[dict[str, Any]] = []  # as the API shows them; before it is served
        self.links: dict[str, LinkCount] = {}
        self.rate = 0.0
        self.people: list[Participant] = []  # in the order in which they were first seen
        self._numbers: dict[int, int] = {}  # of the simulation's participants

    def seen(self, event: Event) -> Event:
        """The event as the trace sees it: participants are numbered as they come."""
        who = event.participant
        if who not in self._numbers:
            self._numbers[who] = len(self.people) + 1
            person = self.simulation.participants[who - 1]
            self.people.append(person._replace(number=self._numbers[who]))
        return event._replace(participant=self._numbers[who])


class Past:
    """All events, by id, and the traces, by virtual host."""

    def __init__(self, auth: bool = True, job_seconds: float = 0.0) -> None:
        self.auth = auth
        self.job_seconds = job_seconds
        self.events: list[Event] = []
        self.traces: dict[str, PastTrace] = {}
        self.vhosts: list[str] = ["/", "shop", "empty"]
        self.unreadable: dict[str, list[Unreadable]] = {}
        self.demo: tuple[int, int] | None = None  # what `demo_world` made it with
        self.made = 0  # events, by that
        self.stored: Path | None = None  # a store that has its events already
        self.grown: Callable[[], None] | None = None  # says so to the service, once there is one

    def complete(self, vhost: str) -> None:
        """Have nothing missing of a virtual host, which a store of the demo's has not."""
        self.traces[vhost].gaps.clear()
        self.unreadable.pop(vhost, None)
        self.demo = None

    def start_trace(
        self, vhost: str, participants: int = 12, seed: int = 7, hostile: bool = False
    ) -> PastTrace:
        trace = self.traces.get(vhost)
        if trace is None:
            trace = PastTrace(Simulation(vhost, participants, seed, hostile))
            self.traces[vhost] = trace
            if vhost not in self.vhosts:
                self.vhosts.append(vhost)
        trace.state = "running"
        return trace

    def grow(self, vhost: str, count: int) -> None:
        """Have `count` more events happen on a virtual host."""
        source = self.traces[vhost].simulation.run(len(self.events) + 1)
        for _ in range(count):
            self.add(next(source))
        if self.grown is not None:
            self.grown()

    def add(self, event: Event) -> None:
        self.events.append(self.traces[event.vhost].seen(event))

    def who(self, event: Event) -> Participant:
        return self.traces[event.vhost].people[event.participant - 1]

    def relation(self, a: Event, b: Event) -> str:
        if a.id == b.id:
            return "equal"
        if a.id < b.id and a.id in history.past(self.events, b):
            return "before"
        if b.id < a.id and b.id in history.past(self.events, a):
            return "after"
        return "concurrent"


def demo_world(events: int = 3000, participants: int = 12, auth: bool = True) -> Past:
    """Two traced vhosts with a gap, quarantine and a failed trace to look at."""
    world = Past(auth=auth)
    world.start_trace("/", participants)
    world.grow("/", events)
    world.start_trace("shop", 8, seed=3)
    world.grow("shop", max(20, events // 10))
    failed = world.start_trace("legacy", 5, seed=4)
    failed.state = "failed"
    failed.last_error = (
        "restarted 3 times within 10 s; the last error: queue 'itc.trace' was deleted"
    )
    world.traces["/"].gaps.append(
        {
            "id": 1,
            "after_event_id": events // 2,
            "before_event_id": events // 2 + 1,
            "since": iso(world.events[events // 2 - 1].at),
            "until": iso(world.events[events // 2].at),
            "reason": "tracing was off on node rabbit@host",
            "suspected": False,
            "declared": False,
        }
    )
    rubbish = Unreadable(
        reason="header exchange_name is missing",
        routing_key="publish.orders",
        headers="{}",
        body=b"hello",
        body_bytes=5,
        recorded_at=history.START,
    )
    world.unreadable["/"] = [rubbish]
    world.demo, world.made = (events, participants), len(world.events)
    return world
