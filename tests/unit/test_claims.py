"""Which service takes a trace that nobody runs; what this one does with those that it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from app.stored.capture import LeasedTrace, Service
from app.traces.holding import claims
from app.traces.holding.claims import Claims, is_free, turns_of
from app.traces.holding.elsewhere import Peers, ability, encode_snapshots
from app.traces.holding.here import TracesHere
from app.traces.life import Standing, TraceState
from app.traces.status import Snapshot


def service(name: str, idle_since: int = 0, *, is_alive: bool = True, **more: Any) -> Service:
    return Service(name, f"{name}:15680", 0, idle_since, is_alive, **more)


def living(*services: Service) -> dict[str, Service]:
    return {each.id: each for each in services}


def held(trace_id: int, holder: str | None, *, wanted: bool = True) -> LeasedTrace:
    return LeasedTrace(trace_id, f"v{trace_id}", wanted, holder)


def test_the_one_with_the_fewest_traces_takes_it_then_the_one_that_has_waited_longest() -> None:
    there = living(service("a", 1), service("b", 3), service("c", 2))
    free = [held(2, "dead"), held(3, None)]
    turns = turns_of(free, [held(1, "a"), *free], there)
    assert turns == {free[0]: ["c", "b", "a"], free[1]: ["b", "a", "c"]}


@pytest.mark.parametrize(
    ("trace", "free"),
    [
        (held(1, None), True),
        (held(1, "dead"), True),
        (held(1, "a"), False),
        (held(1, None, wanted=False), False),
        (held(1, "dead", wanted=False), True),  # it has yet to be stopped in order
    ],
)
def test_a_trace_without_a_living_holder_is_free(trace: LeasedTrace, free: bool) -> None:
    assert is_free(trace, {"a"}) is free


class FakeTraces:
    def __init__(self, *running: str) -> None:
        self.here = set(running)
        self.over: Collection[str] = ()
        self.away: Collection[str] = ()
        self.ahead: dict[int, None] = {}
        self.held: dict[int, Snapshot] = {}
        self.done: list[tuple[str, str]] = []

    def snapshots(self) -> dict[int, Snapshot]:
        return self.held

    async def prepare(self, vhost: str) -> None:
        self.done.append(("prepare", vhost))

    def running(self) -> Collection[str]:
        return self.here

    def alive(self, vhost: str) -> str | None:
        return vhost if vhost in self.here and vhost not in self.over else None

    async def run_here(self, vhost: str) -> None:
        self.done.append(("run", vhost))

    async def stop_here(self, vhost: str) -> None:
        self.done.append(("stop", vhost))

    def out_of_reach(self) -> Collection[str]:
        return self.away

    async def give_up(self, vhost: str, deadline: float = 0.0) -> None:
        self.done.append(("give up", vhost))

    async def drop(self, vhost: str) -> None:
        self.done.append(("drop", vhost))

    def forget(self, trace_id: int) -> None:
        del self.ahead[trace_id]


class FakeServices:
    def __init__(self, services: Sequence[Service], traces: Sequence[LeasedTrace]) -> None:
        self.services, self.traces = services, traces
        self.said: list[bytes] = []

    async def all(self) -> Sequence[Service]:
        return self.services

    async def renew(self, service: str, seconds: float, snapshots: bytes) -> bool:
        self.said.append(snapshots)
        return True

    async def leased_traces(self) -> Sequence[LeasedTrace]:
        return self.traces


async def looked(
    here: FakeTraces, services: Sequence[Service], *traces: LeasedTrace, hold_seconds: float = 60.0
) -> Claims:
    store: Any = FakeServices(services, traces)
    there: Any = here
    mine = Claims(store, there, "me", "me:15680", hold_seconds=hold_seconds)
    await mine.look()
    await asyncio.sleep(0)
    return mine


async def test_what_another_has_taken_is_given_up() -> None:
    here = FakeTraces("v1", "v2")
    await looked(here, [service("me"), service("b")], held(1, "b"), held(2, "me"))
    assert here.done == [("drop", "v1")]


async def test_what_is_held_here_runs_again_when_its_run_is_over() -> None:
    """As after a standstill, in which our own taking of the lease came through twice."""
    here = FakeTraces("v1", "v2")
    here.over = ["v2"]
    await looked(here, [service("me"), service("b")], held(1, "me"), held(2, "me"))
    assert here.done == [("run", "v2")]


async def test_what_was_asked_elsewhere_is_done_here() -> None:
    here = FakeTraces("v1")
    await looked(here, [service("me")], held(1, "me", wanted=False), held(2, "me"))
    assert here.done == [("stop", "v1"), ("run", "v2")]


async def test_a_free_trace_is_taken_in_turn_and_out_of_turn_if_nobody_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = FakeTraces("v2")
    two = [service("me", 5), service("b", 9)]
    mine = await looked(here, two, held(1, "dead"), held(2, "me"))
    assert here.done == []  # b has none
    monkeypatch.setattr(claims, "TURN_SECONDS", 0)
    await mine.look()
    await asyncio.sleep(0)
    assert here.done == [("run", "v1")]


async def test_a_service_that_is_not_heard_of_itself_claims_nothing() -> None:
    here = FakeTraces()
    await looked(here, [service("me", is_alive=False)], held(1, None))
    assert here.done == []


@pytest.mark.parametrize(
    ("mine", "other", "hold_seconds", "given_up"),
    [
        (False, True, 0.0, True),
        (False, True, 60.0, False),  # not yet
        (False, False, 0.0, False),  # nobody can do better
        (True, True, 0.0, False),
    ],
)
async def test_what_only_others_can_capture_is_given_up(
    mine: bool, other: bool, hold_seconds: float, given_up: bool
) -> None:
    here = FakeTraces("v1", "v2")
    here.away = ["v1"]
    there = [
        service("me", snapshots=encode_snapshots({}, reaches=mine)),
        service("b", snapshots=encode_snapshots({}, reaches=other)),
    ]
    await looked(here, there, held(1, "me"), held(2, "me"), hold_seconds=hold_seconds)
    assert here.done == ([("give up", "v1")] if given_up else [])


async def test_a_service_out_of_the_brokers_reach_leaves_free_traces_to_the_others() -> None:
    here = FakeTraces()
    cut_off = service("me", snapshots=encode_snapshots({}, reaches=False))
    await looked(here, [cut_off, service("b", 9)], held(1, "dead"))
    assert here.done == []
    await looked(here, [cut_off], held(1, "dead"))  # nobody can do better
    assert here.done == [("run", "v1")]


@pytest.mark.parametrize("others", [True, False])
async def test_a_service_that_ends_hands_over_first_where_there_is_another(others: bool) -> None:
    here = FakeTraces("v1", "v2")
    there = [service("me"), *([service("b")] if others else [])]
    mine = await looked(here, there, held(1, "me"), held(2, "me"))
    await mine.hand_over(5.0)
    # All at once, in any order.
    assert sorted(here.done) == ([("give up", "v1"), ("give up", "v2")] if others else [])
    said: list[bytes] = mine.store.said  # type: ignore[attr-defined]
    assert [ability(service("me", snapshots=each)).reaches for each in said] == [False] * others


async def test_one_that_leaves_waits_until_another_can_take_over_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(claims, "QUICK_SECONDS", 0)
    here = FakeTraces("v1", "v2")
    here.held = dict.fromkeys((1, 2), Snapshot(Standing()))
    leaves = service("me", snapshots=encode_snapshots({}, reaches=False))
    readying = [(), (2,), (2, 1)]
    seen: list[int] = []

    class Watched(FakeServices):
        async def all(self) -> Sequence[Service]:
            assert here.done == []
            prepared = readying[min(len(seen), 2)]
            seen.append(len(prepared))
            return [leaves, service("b", snapshots=encode_snapshots({}, prepared=prepared))]

    store: Any = Watched([leaves, service("b")], ())
    there: Any = here
    mine = Claims(store, there, "me", "me:15680")
    mine._has_peers = True
    await mine.hand_over(60.0)
    assert (seen, len(here.done)) == ([0, 1, 2], 2)


async def test_what_another_is_about_to_leave_is_prepared_by_the_one_whose_turn_it_is() -> None:
    here = FakeTraces()
    here.ahead = {2: None, 3: None, 4: None}
    leaves = service("b", snapshots=encode_snapshots({}, reaches=False))
    there = [service("me", 1), leaves, service("c", 0)]
    stopped = held(4, None, wanted=False)
    await looked(here, there, held(1, "b"), held(2, "b"), held(3, "c"), stopped)
    assert (here.done, here.ahead) == ([("prepare", "v1")], {2: None})


async def test_a_trace_that_becomes_free_is_taken_while_it_is_still_read_ahead() -> None:
    class Reading(FakeTraces):
        async def prepare(self, vhost: str) -> None:
            await super().prepare(vhost)
            await asyncio.Event().wait()

    here = Reading()
    leaves = service("b", snapshots=encode_snapshots({}, reaches=False))
    mine = await looked(here, [service("me"), leaves], held(1, "b"))
    store: Any = FakeServices([service("me")], [held(1, None)])
    mine.store = store
    await mine.look()
    await asyncio.sleep(0)
    assert here.done == [("prepare", "v1"), ("run", "v1")]


def test_how_a_trace_is_elsewhere_is_what_its_holder_said_last() -> None:
    shown = Snapshot(Standing(TraceState.running), last_event_id=7, lag=3)
    there = [service("me"), service("b", snapshots=encode_snapshots({1: shown})), service("c")]
    others = Peers("me", there)
    assert others.are_there
    assert others.snapshot(1, True, "b") == shown
    assert others.name_of("b") == "b:15680"
    starting = others.snapshot(2, True, "c")
    assert starting is not None
    assert starting.standing.state is TraceState.starting
    assert others.snapshot(1, True, "me") is None  # it is known here
    waiting = others.snapshot(3, True, "dead")
    assert waiting is not None
    assert waiting.standing.waiting_for == "a service to run it"
    assert others.snapshot(3, False, None) is None


def test_what_another_version_says_of_its_traces_does_no_harm() -> None:
    others = Peers("me", [service("me"), service("b", snapshots=b'{"1": {"new": 1}}')])
    found = others.snapshot(1, True, "b")
    assert found is not None
    assert found.standing.state is TraceState.starting


async def test_a_run_that_is_over_is_replaced_and_one_that_goes_on_is_left() -> None:
    trace = SimpleNamespace(id=1, vhost="v1", holder="me", wanted=True)
    runs: list[SimpleNamespace] = []

    async def found(vhost: str) -> Any:
        return trace

    async def claimed(trace_id: int, service: str) -> bool:
        return True

    def run(trace: Any, ahead: Any) -> Any:
        runs.append(SimpleNamespace(trace=trace, is_alive=True))
        return runs[-1]

    store: Any = SimpleNamespace(
        traces=SimpleNamespace(find=found), leases=SimpleNamespace(claim=claimed)
    )
    elsewhere: Any = SimpleNamespace(service="me")
    capture: Any = SimpleNamespace(run=run)
    nothing: Any = None
    here = TracesHere(store, nothing, elsewhere, capture, nothing)
    for _ in range(2):
        await here.run_here("v1")
    assert len(runs) == 1
    runs[0].is_alive = False
    await here.run_here("v1")
    assert [each.is_alive for each in runs] == [False, True]
    assert here.alive("v1") is here.present("v1")
