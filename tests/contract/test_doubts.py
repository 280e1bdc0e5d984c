"""What the store and the jobs find of an answer's soundness, on both databases."""

from __future__ import annotations

import random
from collections import Counter
from typing import TypeAlias

import pytest
from sqlalchemy import insert, text

from app.store import Store
from app.store.database.migrate import locked_connection
from app.store.database.tables import events, participants, traces
from app.stored.capture import Batch, NewConnection
from app.tracker import Bounds, Channel, Deliver, Policy, Publish, Tracker
from app.tracker.clients import client_name
from app.tracker.links import BUILT_IN, Rules
from model.doubtful import MOST_DOUBTFUL
from model.sound import MOST_QUIET, AssumedParticipant, Misfit
from spark_jobs.events.history import History as Jobs
from spark_jobs.spark.database import DatabaseAddress
from statements import Question, doubtful_sql, quiet_sql
from tests.contract.history import History

# A client (user, place, name), and how much one of its participants published and received.
Actor: TypeAlias = tuple[tuple[str, str | None, str | None], int, int]

SHOP = ("shop", "10.0.0.7", None)
NAMED = ("shop", "127.0.0.1", "orders")
OTHER = ("shop", "127.0.0.1", "billing")
NAMELESS = ("shop", "127.0.0.1", None)
ELSEWHERE = ("shop", "10.0.0.8", None)
OLD = ("shop", None, None)


async def made(database_url: str, policy: str, *actors: Actor) -> None:
    """A trace whose participants, from number 1, are (client, publishes, deliveries)."""
    async with locked_connection(database_url) as connection:
        await connection.execute(
            insert(traces).values(
                id=7, vhost="/", policy=policy, quiet="[]", wanted=True, created_at=0, events=1,
                last_event_id=1,
            )
        )  # fmt: skip
        for number, ((user, place, client), published, received) in enumerate(actors, 1):
            await connection.execute(
                insert(participants).values(
                    trace_id=7, number=number, key=str(number), name=f"{user} #{number}",
                    user=user, place=place, client=client, assumed=policy == "client",
                    interval=f"{number:b}", seq=published + received, published=published,
                    lamport=1, height=1, base=0, first_event_id=10 * number,
                    last_event_id=10 * number + 5,
                )
            )  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "actors", "apart"),
    [
        ("channel", [(SHOP, 3, 0), (SHOP, 0, 4)], 3),
        ("connection", [(SHOP, 3, 0), (SHOP, 0, 4)], 3),
        ("channel", [(SHOP, 3, 1), (SHOP, 0, 4)], 0),
        ("channel", [(SHOP, 3, 0), (SHOP, 5, 1), (SHOP, 2, 0)], 5),
        ("channel", [(SHOP, 3, 0), (SHOP, 4, 0)], 0),  # a client that only publishes
        ("channel", [(SHOP, 3, 0), (ELSEWHERE, 0, 4)], 0),
        ("channel", [(SHOP, 3, 0), (("robot", "10.0.0.7", None), 0, 4)], 0),
        ("channel", [(NAMED, 3, 0), (NAMED, 0, 4)], 3),
        ("channel", [(NAMED, 3, 0), (OTHER, 0, 4)], 0),  # two programs at loopback
        ("channel", [(("shop", "::1", "a"), 3, 0), (("shop", "::1", "b"), 0, 4)], 0),
        ("channel", [(NAMED, 3, 0), (NAMELESS, 0, 4)], 3),  # nobody knows
        ("channel", [(NAMELESS, 3, 0), (OTHER, 0, 4)], 3),
        ("channel", [(("shop", "10.0.0.7", "a"), 3, 0), (("shop", "10.0.0.7", "b"), 0, 4)], 3),
        ("channel", [(OLD, 3, 0), (OLD, 0, 4)], 3),
        ("channel", [(OLD, 3, 0), (SHOP, 0, 4)], 0),
    ],
)
async def test_publishes_apart_from_what_their_client_receives_are_counted(
    database_url: str, policy: str, actors: list[Actor], apart: int
) -> None:
    await made(database_url, policy, *actors)
    with DatabaseAddress.from_url(database_url).connect() as connection:
        found = Jobs(connection).misfit(7)
    publishes = sum(actor[1] for actor in actors)
    assert found == (Misfit("/", policy, publishes, apart) if apart else None)
    store = await Store.open(database_url)
    assert bool(await store.doubts.of_trace(7)) is bool(apart)
    await store.close()


@pytest.mark.parametrize("policy", ["client", "host", "user"])
async def test_no_other_policy_is_too_fine(database_url: str, policy: str) -> None:
    await made(database_url, policy, (SHOP, 3, 0), (SHOP, 0, 4))
    with DatabaseAddress.from_url(database_url).connect() as connection:
        assert Jobs(connection).misfit(7) is None


async def test_assumed_participants_are_those_of_the_span(database_url: str) -> None:
    await made(database_url, "client", *[(NAMELESS, 1, 1)] * 4)
    every = [AssumedParticipant(n, f"shop #{n}", 10 * n, 10 * n + 5) for n in range(1, 5)]
    store = await Store.open(database_url)
    with DatabaseAddress.from_url(database_url).connect() as connection:
        for a in range(5, 50, 5):
            for b in range(5, 50, 5):
                within = [each for each in every if each.is_within(a, b)]
                assert Jobs(connection).assumed_participants(7, a, b) == within
                answer = await store.doubts.between(7, a, b)
                assert [doubt.statement[:1] for doubt in answer.doubts] == (
                    [str(len(within))] if within else []
                )
    await store.close()


async def test_what_is_said_of_a_real_history_is_the_same_on_both_sides(
    store: Store, database_url: str
) -> None:
    trace = await store.traces.create("/", Policy.channel)
    written = History(seed=3)
    ids = await store.batches.append(trace.id, written.batch(200))
    half = ids[len(ids) // 2]
    async with locked_connection(database_url) as connection:
        await connection.execute(
            text("UPDATE events SET quiet = :yes WHERE id > :half"), {"yes": True, "half": half}
        )
    answer = await store.doubts.between(trace.id, ids[-1], ids[0])
    assert answer.quiet == len(ids) - len(ids) // 2 - 1
    assert (await store.doubts.between(trace.id, ids[0], half)).quiet == 0
    with DatabaseAddress.from_url(database_url).connect() as connection:
        jobs = Jobs(connection)
        assert jobs.quiet(trace.id, ids[0], ids[-1]) == answer.quiet
        assert jobs.quiet(trace.id, ids[0], half) == 0
        assert jobs.assumed_participants(trace.id, ids[0], ids[-1]) == []


async def test_quiet_events_are_counted_to_a_bound_from_their_own_index(
    store: Store, database_url: str
) -> None:
    trace = await store.traces.create("/", Policy.channel)
    await store.batches.append(trace.id, History(seed=3).batch(5))
    names = ", ".join(f'"{each.name}"' for each in events.columns)
    changed = {"id": "e.id + n.k", "height": "e.height + 1000 + n.k", "quiet": "(1 = 1)"}
    values = ", ".join(changed.get(each.name, f'e."{each.name}"') for each in events.columns)
    count = MOST_QUIET + 500
    async with locked_connection(database_url) as connection:
        await connection.execute(
            text(
                f"INSERT INTO events ({names}) WITH RECURSIVE n (k) AS (SELECT 100 UNION ALL"
                f" SELECT k + 1 FROM n WHERE k < {count + 99})"
                f" SELECT {values} FROM events e CROSS JOIN n WHERE e.id = 1"
            )
        )
        query = quiet_sql(Question(trace.id, 1, 10**9))
        if connection.dialect.name == "sqlite":
            plan = await connection.execute(text(f"EXPLAIN QUERY PLAN {query}"))
            assert "ix_events_quiet" in str(plan.all())
    assert (await store.doubts.between(trace.id, 1, 10**9)).quiet == MOST_QUIET
    assert (await store.doubts.between(trace.id, 1, 110)).quiet == 10


async def test_what_lies_behind_doubtful_deliveries_is_the_same_on_both_sides(
    store: Store, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = await store.traces.create("/", Policy.channel)
    written = History(seed=3)
    ids = await store.batches.append(trace.id, written.batch(300))
    stored = {each.id: each for each in await store.events.get_existing(ids, frozenset({"clock"}))}
    doubtful = [each for each in stored.values() if each.doubtful]
    assert len(doubtful) > 5
    dice, seen = random.Random(3), Counter[bool]()
    with DatabaseAddress.from_url(database_url).connect() as connection:
        for a, b in (sorted(dice.sample([*ids], 2)) for _ in range(40)):
            found = await store.doubts.doubtful(trace.id, b, a)
            assert found == Jobs(connection).doubtful(trace.id, a, b)
            between = [each for each in doubtful if a < each.id <= b]
            assert [each.id for each in found.deliveries] == [each.id for each in between]
            behind = [each for each in between if each.stamp.leq(stored[b].stamp)]
            clock = stored[b].clock
            assert clock is not None
            said = found.doubt(a, b, clock)
            seen[bool(behind)] += 1
            assert said == (
                f"the publish of delivery {behind[0].id} from queue {behind[0].queue!r} was not"
                " seen"
                if behind
                else None
            )
    assert seen[True] > 3
    assert seen[False] > 3


async def test_doubtful_deliveries_are_looked_at_up_to_a_bound_by_their_own_index(
    store: Store, database_url: str
) -> None:
    trace = await store.traces.create("/", Policy.channel)
    ids = await store.batches.append(trace.id, History(seed=3).batch(5))
    names = ", ".join(f'"{each.name}"' for each in events.columns)
    changed = {"id": "e.id + n.k", "height": "e.height + 1000 + n.k", "doubtful": "(1 = 1)"}
    changed |= {"type": "1", "queue": "'work'"}
    values = ", ".join(changed.get(each.name, f'e."{each.name}"') for each in events.columns)
    count = MOST_DOUBTFUL + 50
    async with locked_connection(database_url) as connection:
        await connection.execute(
            text(
                f"INSERT INTO events ({names}) WITH RECURSIVE n (k) AS (SELECT 100 UNION ALL"
                f" SELECT k + 1 FROM n WHERE k < {count + 99})"
                f" SELECT {values} FROM events e CROSS JOIN n WHERE e.id = 1"
            )
        )
        if connection.dialect.name == "sqlite":
            query = doubtful_sql(Question(trace.id, 1, 10**9))
            plan = await connection.execute(text(f"EXPLAIN QUERY PLAN {query}"))
            assert "ix_events_doubtful" in str(plan.all())
    found = await store.doubts.doubtful(trace.id, ids[-1], 10**9)
    last = 100 + MOST_DOUBTFUL
    assert (len(found.deliveries), found.last_id) == (MOST_DOUBTFUL, last)
    clock = (await store.events.get(ids[0])).clock
    assert clock is not None
    assert found.doubt(ids[-1], last, clock) is None
    assert found.doubt(ids[-1], last + 1, clock) == (
        "the publishes of too many deliveries between them were not seen"
    )


@pytest.mark.parametrize(
    ("ports", "processes", "apart", "is_sound"),
    [
        ((4000, 5000), ("71", "72"), 0, True),
        ((4000, 5000), ("71", "71"), 9_000_000, False),
        ((4000, 4002), (None, None), 9_000, False),
        ((4000, 4002), (None, None), 9_000_000, True),
    ],
)
async def test_what_connections_tell_of_two_names_is_the_same_on_both_sides(
    store: Store,
    database_url: str,
    ports: tuple[int, int],
    processes: tuple[str | None, str | None],
    apart: int,
    is_sound: bool,
) -> None:
    trace = await store.traces.create("/", Policy.client)
    tracker = Tracker(Policy.client, Bounds())
    names, moments = ("notify", "front"), (1_000_000, 1_000_000 + apart)
    reads, writes = channels = [
        Channel("rabbit@a", f"127.0.0.1:{port} -> 127.0.0.1:5672", 1, "guest") for port in ports
    ]
    for channel, name, process, opened_at in zip(channels, names, processes, moments, strict=True):
        tracker.participants.introduce(channel, name)
        given = channel.node, channel.connection, "/", channel.user
        # The port's last owner, under another name, is somebody else.
        old = NewConnection(*given, "other", "71", opened_at - 500_000)
        await store.connections.add([old, NewConnection(*given, name, process, opened_at)])
    records = (
        Publish(writes, "x", ("placed",), ("q",), {}, b""),
        Deliver(reads, "x", ("placed",), "q", False, {}, b""),
    )
    events = [event for record in records for event in tracker.apply(record, 1)]
    await store.batches.append(trace.id, Batch(events, tracker.checkpoint(), b"window"))
    doubts = await store.doubts.of_trace(trace.id)
    assert (not doubts) is is_sound
    with DatabaseAddress.from_url(database_url).connect() as connection:
        assert Jobs(connection).soundness(trace.id, 1, 2).doubts == doubts


@pytest.mark.parametrize(
    ("listens", "speaks", "carries", "is_sound"),
    [
        # Two programs, as the documents advise to name them.
        ("notify", "front", False, True),
        ("mail-service-2", "order-service-1", False, True),
        # One program with two connections.
        (
            "0b9f8a52-6f5e-4a3e-9d5c-0f1e2d3c4b5a",
            "1c9f8a52-6f5e-4a3e-9d5c-0f1e2d3c4b5a",
            False,
            False,
        ),
        ("kQzXwPvbTrmD", "hGtYzqWxKpLv", False, False),
        ("ID:shop-36241-1637250000000-0:1", "ID:shop-36241-1637250000000-0:2", False, False),
        ("repid-1a2b3c4d", "repid-5e6f7a8b", False, False),
        ("orders-in", "orders-out", False, False),
        ("listener", "emitter", False, False),
        ("inbox", "billing", False, False),
        ("intake", "dispatch", True, False),  # told by the key that it carries
    ],
)
async def test_two_connections_are_two_programs_only_where_nothing_speaks_for_one(
    store: Store, listens: str, speaks: str, carries: bool, is_sound: bool
) -> None:
    trace = await store.traces.create("/", Policy.client)
    tracker = Tracker(Policy.client, Bounds(), rules=Rules(BUILT_IN))
    shop = Channel("rabbit@a", "10.0.0.7:4000 -> 10.0.9.1:5672", 1, "guest")
    reads, writes = (
        Channel("rabbit@a", f"127.0.0.1:{port} -> 127.0.0.1:5672", 1, "guest")
        for port in (4000, 4002)
    )
    for channel, name in ((reads, listens), (writes, speaks)):
        tracker.participants.introduce(channel, client_name(None, {"container_id": name}))
    events = []
    for order in range(5):
        given = {"correlation_id": f"order-{order}"}
        passed_on = given if carries else {"correlation_id": f"other-{order}"}
        records = (
            Publish(shop, "x", ("placed",), ("q",), given, b""),
            Deliver(reads, "x", ("placed",), "q", False, given, b""),
            Publish(writes, "x", ("sent",), ("r",), passed_on, b""),
        )
        events += [event for record in records for event in tracker.apply(record, order)]
    await store.batches.append(trace.id, Batch(events, tracker.checkpoint(), b"window"))
    assert (not await store.doubts.of_trace(trace.id)) is is_sound
