"""Names that people give to participants, and programs that share one."""

from __future__ import annotations

import pytest

from app.errors import ConflictError, NotFoundError
from app.store import Store
from app.store.capture import aliases
from app.stored.capture import NewConnection
from app.stored.reading import EventFilter, Participant
from app.tracker import Policy
from tests.contract.history import History


async def names(store: Store, trace_id: int) -> dict[int, str]:
    return {each.participant: each.name for each in await store.participants.list(trace_id)}


async def test_an_alias_is_shown_wherever_the_name_was(store: Store, trace_id: int) -> None:
    history = History(seed=3)
    await store.batches.append(trace_id, history.batch(60))
    await store.aliases.give(trace_id, 2, "Orders")
    await store.batches.append(trace_id, history.batch(60))

    assert (await names(store, trace_id))[2] == "Orders"
    events = (
        await store.events.find(EventFilter(participant_name="Orders"), after=0, limit=500)
    ).items
    mine = [event.reference.id for event in history.events if event.participant == 2]
    assert [event.id for event in events] == mine
    assert {event.participant_name for event in events} == {"Orders"}
    vector = await store.participants.vector(events[-1])
    assert (2, "Orders") in [(entry.participant, entry.name) for entry in vector]


@pytest.mark.parametrize("policy", [Policy.channel, Policy.user, Policy.client])
async def test_the_own_name_is_back_once_the_alias_is_taken_back(
    store: Store, policy: Policy
) -> None:
    trace_id = (await store.traces.create("/", policy)).id
    await store.batches.append(trace_id, History(seed=4, policy=policy).batch(60))
    before = await names(store, trace_id)
    await store.aliases.give(trace_id, 1, "Orders")
    await store.aliases.give(trace_id, 1, "Orders, all of them")
    assert await names(store, trace_id) == {**before, 1: "Orders, all of them"}
    await store.aliases.take_back(trace_id, 1)
    assert await names(store, trace_id) == before
    with pytest.raises(NotFoundError, match="participant 1 has no alias"):
        await store.aliases.take_back(trace_id, 1)


async def test_an_alias_waits_for_a_participant_that_is_gone(store: Store, trace_id: int) -> None:
    first = History(seed=5, channels=1)
    await store.batches.append(trace_id, first.batch(20))
    await store.aliases.give(trace_id, 1, "Orders")
    other = await store.traces.create("other", "channel")
    await store.batches.append(other.id, History(seed=5, channels=1).batch(5))
    assert "Orders" not in (await names(store, other.id)).values()

    first.channels = History(seed=6, channels=1).channels
    await store.batches.append(trace_id, first.batch(20))
    plan = await store.retention.plan(trace_id, keep_events=5)
    assert plan is not None
    first.tracker.forget_before(plan.before_id)
    await store.retention.prune(plan, first.tracker.checkpoint())
    assert "Orders" not in (await names(store, trace_id)).values()
    first.channels = History(seed=5, channels=1).channels
    await store.batches.append(trace_id, first.batch(1))
    assert "Orders" in (await names(store, trace_id)).values()


async def test_nobody_is_named_who_is_not_there(store: Store, trace_id: int) -> None:
    with pytest.raises(NotFoundError, match="no participant has the number 7"):
        await store.aliases.give(trace_id, 7, "Orders")
    with pytest.raises(NotFoundError, match="no participant has the number 7"):
        await store.aliases.take_back(trace_id, 7)


async def test_there_are_so_many_aliases_and_no_more(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aliases, "MOST_ALIASES", 2)
    await store.batches.append(trace_id, History(seed=3).batch(60))
    for number in (1, 2, 1):
        await store.aliases.give(trace_id, number, f"Service {number}")
    with pytest.raises(ConflictError, match="2 aliases"):
        await store.aliases.give(trace_id, 3, "Service 3")
    await store.aliases.take_back(trace_id, 2)
    await store.aliases.give(trace_id, 3, "Service 3")


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (Policy.connection, "orders (shop@127.0.0.1) #1"),
        (Policy.channel, "orders (shop@127.0.0.1) #1"),
        (Policy.host, "shop@127.0.0.1"),
        (Policy.user, "shop"),
        (Policy.client, "shop@127.0.0.1 #1"),  # assumed: its name would have decided who it is
    ],
)
async def test_a_client_s_name_that_is_known_later_is_shown_from_then_on(
    store: Store, policy: Policy, name: str
) -> None:
    trace_id = (await store.traces.create("/", policy)).id
    history = History(seed=1, policy=policy)
    await store.batches.append(trace_id, history.batch(60))
    assert await store.aliases.learn(trace_id) == 0
    seen = next(each.record.channel for each in history.events if each.participant == 1)
    opened = NewConnection(seen.node, seen.connection, "/", seen.user, "orders", None, 1)
    await store.connections.add([opened])
    await store.aliases.learn(trace_id)
    assert (await names(store, trace_id))[1] == name.replace("shop", seen.user)
    assert await store.aliases.learn(trace_id) == 0
    await store.batches.append(trace_id, history.batch(60))
    assert (await names(store, trace_id))[1] == name.replace("shop", seen.user)


async def test_programs_that_are_one_participant_are_counted(store: Store) -> None:
    trace_id = (await store.traces.create("/", "user")).id
    history = History(seed=1, policy=Policy.user)
    await store.batches.append(trace_id, history.batch(100))
    shops = [channel for channel in history.channels if channel.user == "shop"]

    def opened(number: int, process: str | None, user: str = "shop") -> NewConnection:
        seen = shops[number % 3]
        place = (seen.node, seen.connection, "/", user)
        return NewConnection(*place, None, process, number)

    async def shop() -> Participant:
        listed = await store.participants.list(trace_id)
        return next(each for each in listed if each.user == "shop")

    await store.connections.add([opened(0, "11"), opened(1, None), opened(2, "7", "robot")])
    one = await shop()
    assert (one.connections, one.programs, one.note) == (3, 1, None)
    await store.connections.add([opened(3, "11"), opened(4, "12")])
    two = await shop()
    assert two.programs == 2
    assert str(two.note).startswith("2 processes act here")


async def test_who_used_a_connection_s_name_later_is_no_program_of_a_named_one(
    store: Store,
) -> None:
    trace_id = (await store.traces.create("/", "client")).id
    history = History(seed=1, channels=1, policy=Policy.client)
    [channel] = history.channels
    history.tracker.participants.introduce(channel, "orders")
    await store.batches.append(trace_id, history.batch(20))
    seen = (channel.node, channel.connection, "/", channel.user)
    for number, (client, process) in enumerate([("orders", "11"), ("billing", "12")]):
        await store.connections.add([NewConnection(*seen, client, process, number)])
    [orders] = await store.participants.list(trace_id)
    assert (orders.name, orders.programs) == ("orders (shop@127.0.0.1)", 1)
