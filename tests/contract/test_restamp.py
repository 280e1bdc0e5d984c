"""Restamping on both databases: the new stamps, all of them or none."""

from __future__ import annotations

import pytest

from app.errors import CheckpointError, ConflictError
from app.restamp import replay
from app.restamp.replay import Replay
from app.store import Store
from app.stored.capture import Batch, NewConnection, ParticipantSettings, RestampOutcome
from app.stored.proposals import proposals_in
from app.stored.reading import EventFilter
from app.traces.pipeline import PipelineSettings
from app.tracker import Bounds, Channel, Checkpoint, Policy, Quiet, SharedPlaces, Tracker
from app.tracker.events import StampedEvent
from model.event import Event
from model.jobs import Progress
from tests.contract.history import History
from tests.contract.killing import kill_restamp

QUIET = ("queue:audit",)
CLIENTS = {0: "orders", 1: "orders", 2: "billing"}  # by the port's last digit


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "CHUNK", 7)
    monkeypatch.setattr(replay, "SMALL_LAP", 20)


def client_of(channel: Channel) -> str | None:
    """The client's name as the broker tells it, of connections that it says are the shop's."""
    if channel.user != "shop":
        return None
    return CLIENTS.get(int(channel.connection.split(" ")[0][-1]))


async def told(store: Store, seed: int, policy: Policy = Policy.channel) -> History:
    """A trace's history, of which the broker has told who is connected."""
    history = History(seed=seed, channels=8, policy=policy)
    clients = {channel.connection: client_of(channel) for channel in history.channels[::2]}
    await store.connections.add(
        [
            NewConnection("rabbit@0", name, "/", "shop", client, None, opened_at=1)
            for name, client in clients.items()
            if client is not None
        ]
    )
    return history


def doing(
    store: Store, trace_id: int, policy: Policy, said: list[Progress] | None = None
) -> Replay:
    report = (said if said is not None else []).append
    return Replay(
        store.restamps, trace_id, ParticipantSettings(policy, QUIET), report, PipelineSettings()
    )


async def restamp(store: Store, trace_id: int, policy: Policy) -> RestampOutcome:
    work = doing(store, trace_id, policy)
    await work.catch_up()
    outcome = await work.finish()
    await work.tidy()
    return outcome


def told_by(policy: Policy, events: list[StampedEvent]) -> list[StampedEvent]:
    """What a tracker makes of the same records that has these rules."""
    tracker = Tracker(policy, Bounds(), quiet=Quiet(QUIET), places=SharedPlaces())
    found = []
    for event in events:
        for channel in tracker.participants.strangers([event.record.channel]):
            tracker.participants.introduce(channel, client_of(channel))
        found += tracker.apply(event.record, event.recorded_at)
    return found


async def all_events(store: Store, vhost: str = "/") -> list[Event]:
    return list((await store.events.find(EventFilter(vhost=vhost), after=0, limit=9_999)).items)


def assert_relations(events: list[Event], wanted: list[StampedEvent]) -> None:
    assert len(events) == len(wanted)
    assert [(e.seq, e.lamport, e.quiet) for e in events] == [
        (e.seq, e.lamport, e.quiet) for e in wanted
    ]
    for earlier, expected in zip(events, wanted, strict=True):
        dot = expected.stamp.interval, expected.height
        assert [later.stamp.height_at(earlier.interval) >= earlier.height for later in events] == [
            later.stamp.height_at(dot[0]) >= dot[1] for later in wanted
        ]


OFTEN = (Policy.client, Policy.channel)


@pytest.mark.parametrize(
    "policy",
    [pytest.param(each, marks=() if each in OFTEN else pytest.mark.long(4)) for each in Policy],
)
async def test_the_stored_stamps_are_those_of_a_trace_that_had_the_rules(
    store: Store, trace_id: int, policy: Policy
) -> None:
    history = await told(store, seed=11)
    other = (await store.traces.create("other", "channel")).id
    elsewhere = History(seed=12)
    for _ in range(6):
        await store.batches.append(trace_id, history.batch(25))
        await store.batches.append(other, elsewhere.batch(10))
    before, untouched = await all_events(store), await all_events(store, "other")

    outcome = await restamp(store, trace_id, policy)

    events = await all_events(store)
    wanted = told_by(policy, history.events)
    assert_relations(events, wanted)
    assert [(e.id, e.cause, e.match, e.payload, e.channel, e.connection) for e in events] == [
        (e.id, e.cause, e.match, e.payload, e.channel, e.connection) for e in before
    ]
    assert await all_events(store, "other") == untouched
    assert (outcome.events, outcome.participants) == (150, len({e.participant for e in wanted}))
    assert await store.restamps.clocks(trace_id, [event.id for event in events]) == {}
    trace = await store.traces.find("/")
    assert trace is not None
    assert (trace.policy, trace.quiet, trace.events) == (policy, QUIET, 150)
    counters = Tracker.stored_totals(trace.checkpoint).counters
    assert counters.quiet == sum(event.quiet for event in events)
    assert counters.received == history.tracker.counters.received
    people = await store.participants.list(trace_id)
    assert sum(person.events for person in people) == 150
    assert {person.participant for person in people} == {e.participant for e in events}
    assert sum(len(person.channels) for person in people) == len(history.channels)


@pytest.mark.parametrize("policy", [Policy.client, Policy.channel])
async def test_the_trace_goes_on_as_if_it_had_always_had_the_rules(
    store: Store, trace_id: int, policy: Policy
) -> None:
    history = await told(store, seed=21)
    await store.batches.append(trace_id, history.batch(100))
    work = doing(store, trace_id, policy)
    await work.catch_up()
    await store.batches.append(trace_id, history.batch(60))  # meanwhile it runs
    await work.finish()

    restored = await store.checkpoints.restore(trace_id, Bounds().handovers)
    tracker = Tracker(policy, Bounds(), restored, quiet=Quiet(QUIET), places=SharedPlaces())
    for _ in range(5):
        stamped: list[StampedEvent] = []
        for event in history.batch(30).events:
            for channel in tracker.participants.strangers([event.record.channel]):
                tracker.participants.introduce(channel, client_of(channel))
            stamped += tracker.apply(event.record, event.recorded_at)
        await store.batches.append(trace_id, Batch(stamped, tracker.checkpoint(), b""))

    assert_relations(await all_events(store), told_by(policy, history.events))


async def test_what_was_restamped_can_be_restamped_back(store: Store, trace_id: int) -> None:
    history = await told(store, seed=31)
    await store.batches.append(trace_id, history.batch(100))
    for policy in (Policy.user, Policy.client, Policy.channel):
        await restamp(store, trace_id, policy)
    assert_relations(await all_events(store), told_by(Policy.channel, history.events))


async def test_an_alias_is_there_again_with_its_participant(store: Store, trace_id: int) -> None:
    history = await told(store, seed=4)
    await store.batches.append(trace_id, history.batch(100))
    named = (await store.participants.list(trace_id))[0]
    await store.aliases.give(trace_id, named.participant, "Orders")
    await restamp(store, trace_id, Policy.user)
    assert "Orders" not in {each.name for each in await store.participants.list(trace_id)}
    await restamp(store, trace_id, Policy.channel)
    again = [each.key for each in await store.participants.list(trace_id) if each.name == "Orders"]
    assert again == [named.key]


async def test_what_is_proposed_of_participants_is_looked_for_anew(
    store: Store, trace_id: int
) -> None:
    history = await told(store, seed=4)
    await store.batches.append(trace_id, history.batch(100))
    figures = {"publishes": 40, "linked": 30, "agreement": 1.0, "ambiguity": 1.0, "chance": 0.0}
    example = {"publish": 2, "delivery": 1, "value": "o"}
    rule = {"name": "one", "kind": "conversation", "child": "$message.payload#/order"}
    hand = {**figures, "participant": {"number": 1, "name": "one"}, "examples": [example]}
    key = {**figures, "kind": "conversation", "rules": [rule], "examples": [example]}
    by_key, in_hand = proposals_in({"reactions": 50, "proposals": [key], "in_hand": [hand]})
    [seen] = await store.proposals.coverage([trace_id])
    for found, looked in (([by_key, in_hand], 0), ([by_key], seen.publishes)):
        await store.proposals.put(seen, found)
        await restamp(store, trace_id, Policy.user)
        [after] = await store.proposals.coverage([trace_id])
        assert ([*after.found], after.looked_publishes) == ([by_key], looked)


async def test_retention_may_remove_the_beginning_before_and_meanwhile(
    store: Store, trace_id: int
) -> None:
    history = await told(store, seed=41)
    for _ in range(10):
        await store.batches.append(trace_id, history.batch(20))

    async def keep(events: int) -> None:
        plan = await store.retention.plan(trace_id, keep_events=events)
        assert plan is not None
        history.tracker.forget_before(plan.before_id)
        await store.retention.prune(plan, history.tracker.checkpoint())

    await keep(150)
    work = doing(store, trace_id, Policy.connection)
    await work.catch_up()
    await keep(90)
    outcome = await work.finish()

    events = await all_events(store)
    wanted = told_by(Policy.connection, history.events)[110:]
    assert outcome.events == len(events) == 90
    for earlier, expected in zip(events, wanted, strict=True):
        dot = expected.stamp.interval, expected.height
        assert [later.stamp.height_at(earlier.interval) >= earlier.height for later in events] == [
            later.stamp.height_at(dot[0]) >= dot[1] for later in wanted
        ]
    people = await store.participants.list(trace_id)
    assert sum(person.events for person in people) == 90
    assert min(person.first_event_id for person in people) == events[0].id


async def test_a_trace_that_goes_on_meanwhile_keeps_its_stamps(store: Store, trace_id: int) -> None:
    history = await told(store, seed=51)
    await store.batches.append(trace_id, history.batch(50))
    work = doing(store, trace_id, Policy.user)
    await work.catch_up()
    standing, swap = await store.restamps.extent(trace_id), store.restamps.swap
    await store.batches.append(trace_id, history.batch(10))
    before = await all_events(store)
    new = work._restamper.end(standing.state, standing.first_id)
    with pytest.raises(ConflictError):
        await swap(
            trace_id, ParticipantSettings(Policy.user, ()), standing, new, lambda moved: None
        )
    now = await store.restamps.extent(trace_id)
    with pytest.raises(ConflictError, match="10 of the events have no new stamp"):
        await swap(trace_id, ParticipantSettings(Policy.user, ()), now, new, lambda moved: None)
    assert await all_events(store) == before


async def test_a_trace_without_events_gets_the_rules(store: Store, trace_id: int) -> None:
    assert await restamp(store, trace_id, Policy.host) == RestampOutcome(0, 0, 0)
    trace = await store.traces.find("/")
    assert trace is not None
    assert (trace.policy, trace.quiet, trace.checkpoint) == (Policy.host, QUIET, None)


async def test_a_checkpoint_that_cannot_be_read_is_refused(store: Store, trace_id: int) -> None:
    history = await told(store, seed=61)
    await store.batches.append(trace_id, history.batch(10))
    await store.batches.append(
        trace_id, Batch([], Checkpoint(b"nonsense", [], [], [], [], []), b"")
    )
    with pytest.raises(CheckpointError):
        await restamp(store, trace_id, Policy.host)


async def test_progress_is_said_up_to_the_end(store: Store, trace_id: int) -> None:
    history = await told(store, seed=71)
    await store.batches.append(trace_id, history.batch(50))
    said: list[Progress] = []
    work = doing(store, trace_id, Policy.user, said)
    await work.catch_up()
    await work.finish()
    percents = [each.percent for each in said]
    assert percents == sorted(percents)
    assert said[-1] == Progress("swapping", 100.0, 50, 50)


# Of the moments the other two are tried wherever `test_link_rules.py` is.
@pytest.mark.parametrize(
    "moment",
    [
        "stamping",
        pytest.param("swapping", marks=pytest.mark.long(4)),
        "before the commit",
        pytest.param("swapped", marks=pytest.mark.long(6)),
    ],
)
async def test_a_kill_leaves_the_old_or_the_new(
    store: Store, trace_id: int, database_url: str, moment: str
) -> None:
    history = await told(store, seed=81)
    for _ in range(4):
        await store.batches.append(trace_id, history.batch(25))
    before = await all_events(store)
    people = await store.participants.list(trace_id)

    await kill_restamp(database_url, trace_id, moment)

    if moment == "swapped":
        assert_relations(await all_events(store), told_by(Policy.user, history.events))
    else:
        assert await all_events(store) == before
        assert await store.participants.list(trace_id) == people
    await restamp(store, trace_id, Policy.host)
    assert_relations(await all_events(store), told_by(Policy.host, history.events))
