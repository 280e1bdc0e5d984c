"""What failed: found by index, each death once, and nobody named who may not have been it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec
import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store import Store
from app.store.conversations import failures
from app.store.conversations.failures import BATCH
from app.stored.assertions import JudgingStep, NewViolation, ViolationKind
from app.stored.failures import Failure, FailureFilter, FailureKind, FailurePage
from app.tracker import Policy, Publish, Record
from model.conversations.states import State
from model.words import Via
from tests.contract.asserting import hold
from tests.contract.failing import (
    ADMIN,
    BILLING,
    OTHER,
    SHOP,
    death,
    handed,
    letter,
    message,
)
from tests.contract.outbox import START, tell, tracker_by


async def told(store: Store, *records: Record, vhost: str = "/") -> list[int]:
    """The ids of the events that come of some records, a second apart."""
    trace = await store.traces.create(vhost, Policy.channel)
    return await tell(store, trace.id, tracker_by(Policy.channel), records)


async def found(store: Store, **asked: Any) -> list[Failure]:
    return (await store.failures.find(FailureFilter(**asked))).items


def by(failure: Failure) -> str | None:
    """Its user, who is one participant or several."""
    return None if failure.by is None else failure.by.name.partition("@")[0]


async def test_a_rejected_message_names_where_why_and_who(store: Store) -> None:
    order = message(1)
    ids = await told(
        store,
        order,
        handed(BILLING, order),
        handed(OTHER, order, again=True),
        letter(ADMIN, order, death("orders")),
    )
    [failure] = await found(store)
    assert failure.by is not None
    assert failure.publisher is not None
    assert failure == Failure(
        event=ids[3],
        message=ids[0],
        vhost="/",
        kind=FailureKind.died,
        queue="orders",
        reason="rejected",
        type="order.new",
        exception=None,
        at=START + 3_000_000,
        by=failure.by,
        handed_over=ids[2],
        candidate=None,
        times=1,
        to="orders.dead",
        publisher=failure.publisher,
        exchange="",
        routing_key="orders",
        remedy=failure.remedy,
    )
    assert failure.remedy is not None
    assert failure.by.name == "other@10.0.0.7 #3"
    assert failure.publisher.name == "shop@10.0.0.5 #1"


@pytest.mark.parametrize("reason", ["expired", "maxlen"])
async def test_nobody_is_named_for_what_the_broker_threw_out(store: Store, reason: str) -> None:
    order = message(1)
    await told(store, order, handed(BILLING, order), letter(ADMIN, order, death("orders", reason)))
    [failure] = await found(store)
    assert (failure.reason, failure.by, failure.handed_over) == (reason, None, None)


async def test_a_death_counts_once_however_often_it_is_told(store: Store) -> None:
    order = message(1)
    ids = await told(
        store,
        order,
        handed(BILLING, order),
        letter(ADMIN, order, death("orders")),
        letter(ADMIN, order, death("orders"), again=True),
        letter(OTHER, order, death("orders"), queue="audit"),
        letter(ADMIN, order, death("orders.dead", "expired"), death("orders"), queue="late"),
    )
    failures = await found(store)
    assert [(each.event, each.queue, each.reason, each.to) for each in failures] == [
        (ids[5], "orders.dead", "expired", "late"),
        (ids[2], "orders", "rejected", "orders.dead"),
    ]


async def test_each_rejection_of_a_retry_counts_and_names_who_rejected_it(store: Store) -> None:
    order = message(1)
    rounds = [(death("retry", "expired", n), death("orders", count=n)) for n in (1, 2)]
    ids = await told(
        store,
        order,
        handed(BILLING, order),
        letter(OTHER, order, *rounds[0], queue="orders"),
        letter(BILLING, order, *rounds[1], queue="orders"),
    )
    failures = await found(store)
    assert [(each.event, each.queue, each.times, by(each), each.to) for each in failures] == [
        (ids[3], "orders", 2, "other", "retry"),
        (ids[2], "orders", 1, "billing", "retry"),
    ]


async def test_deaths_that_a_client_copied_are_another_message_s(store: Store) -> None:
    again = message(1, "repair", message_id="again", headers={"x-death": [death("orders")]})
    dead = letter(ADMIN, again, death("repair"), death("orders"))
    ids = await told(store, again, handed(BILLING, again, "repair"), dead)
    [failure] = await found(store)
    assert (failure.event, failure.queue, by(failure)) == (ids[2], "repair", "billing")


@pytest.mark.parametrize("named", [True, False])
async def test_who_rejected_one_of_two_equal_messages_is_not_guessed(
    store: Store, named: bool
) -> None:
    same = {"message_id": "same"} if named else {"content_type": "text/plain"}
    order = message(1, **same)
    records: list[Record] = [order, order, handed(BILLING, order), handed(OTHER, order)]
    await told(store, *records, letter(ADMIN, order, death("orders")))
    await told(
        store, order, order, *records[2:3] * 2, letter(ADMIN, order, death("orders")), vhost="b"
    )
    [failure] = await found(store, vhost="/")
    assert (failure.by, failure.handed_over) == (None, None)
    # Whichever of the two it was, the same participant had it.
    [failure] = await found(store, vhost="b")
    assert (by(failure), failure.handed_over) == ("billing", None)


async def test_a_message_without_an_id_names_who_rejected_it(store: Store) -> None:
    order, other = message(1, content_type="x"), message(2, content_type="x")
    ids = await told(
        store,
        order,
        other,
        handed(BILLING, order),
        handed(OTHER, other),
        letter(ADMIN, order, death("orders", "delivery_limit")),
    )
    [failure] = await found(store)
    assert (by(failure), failure.handed_over) == ("billing", ids[2])


async def test_the_third_redelivery_is_a_failure_and_later_ones_are_counted(store: Store) -> None:
    order, patient = message(1), message(2)
    ids = await told(
        store,
        order,
        patient,
        handed(BILLING, order),
        handed(BILLING, patient),
        *[handed(BILLING, patient, again=True)] * 2,
        *[handed(BILLING, order, again=True)] * 3,
        handed(OTHER, order, again=True),
    )
    [failure] = await found(store)
    assert (failure.kind, failure.event, failure.times) == (FailureKind.came_back, ids[8], 4)
    assert (failure.queue, by(failure), failure.handed_over) == (
        "orders",
        "other",
        ids[9],
    )


async def test_what_is_routed_nowhere_is_found_but_no_direct_reply(store: Store) -> None:
    lost = Publish(SHOP, "orders", ("nobody's",), (), {}, b"")
    reply = Publish(SHOP, "", ("amq.rabbitmq.reply-to.g1h",), (), {}, b"")
    ids = await told(store, lost, reply, message(1))
    [failure] = await found(store)
    assert (failure.kind, failure.event, failure.message) == (
        FailureKind.unroutable,
        ids[0],
        ids[0],
    )
    assert (failure.type, failure.exchange, failure.by) == ("orders/nobody's", "orders", None)


ERRORS: dict[str, dict[str, str]] = {
    "NServiceBus": {
        "NServiceBus.FailedQ": "orders@host",
        "NServiceBus.ExceptionInfo.ExceptionType": "System.Exception",
        "NServiceBus.ExceptionInfo.Message": "no stock\nat",
    },
    "MassTransit": {
        "MT-Fault-ExceptionType": "System.Exception",
        "MT-Fault-Message": "no stock",
        "MT-Fault-InputAddress": "rabbitmq://host/v/orders?x=1",
    },
    "Spring": {
        "x-exception-message": "no stock",
        "x-exception-stacktrace": "org.x.ListenerExecutionFailedException: failed\n\tat y\n"
        "Caused by: System.Exception: no stock\n\tat z",
    },
    "Rebus": {"rbs2-error-details": "System.Exception: no stock\n at z"},
    "Watermill": {
        "_watermill_message_uuid": "w",
        "reason_poisoned": "System.Exception: no stock",
        "topic_poisoned": "orders",
    },
}


@pytest.mark.parametrize("library", [*ERRORS])
async def test_a_forward_to_an_error_queue_is_a_failure_of_who_forwarded_it(
    store: Store, library: str
) -> None:
    its = {"_watermill_message_uuid": "w"} if library == "Watermill" else {}
    order = message(1, message_id="m", type="order.new", headers=its)
    properties = {**order.properties, "headers": ERRORS[library]}
    error = Publish(BILLING, "", ("error",), ("error",), properties, order.body)
    retry = Publish(
        BILLING,
        "",
        ("orders",),
        ("orders",),
        {"message_id": "m", "headers": {"NServiceBus.Retries": "1"}},
        order.body,
    )
    ids = await told(store, order, handed(BILLING, order), error, retry)
    [failure] = await found(store)
    assert (failure.kind, failure.event, failure.message) == (
        FailureKind.error_queue,
        ids[2],
        ids[0],
    )
    assert failure.exception == "System.Exception: no stock"
    assert (failure.queue, failure.to, failure.handed_over) == ("orders", "error", ids[1])
    assert by(failure) == "billing"
    assert await found(store, exception="System.Exception") == [failure]
    assert await found(store, exception="System.Error") == []


STAMP = "X-Message-Stamp-Symfony\\Component\\Messenger\\Stamp\\"
DETAILS = '[{"exceptionClass":"Error","exceptionCode":0,"exceptionMessage":"no"},'
DETAILS += '{"exceptionClass":"RuntimeException","exceptionCode":0,"exceptionMessage":"no stock"}]'
RASCAL = {"originalQueue": "orders", "originalExchange": "x", "originalRoutingKey": "k"}
EASY_NET_Q = "EasyNetQ.SystemMessages.Error, EasyNetQ"
# As `ERRORS`, where nothing names the message: queue and exception that are said.
ALONE: dict[str, tuple[dict[str, Any], str | None, str | None]] = {
    "Spring, as it is": (
        {
            "x-exception-message": "no stock",
            "x-original-exchange": "x",
            "x-original-routingKey": "k",
        },
        None,
        "no stock",
    ),
    "rascal": (
        {"rascal": {**RASCAL, "error": {"message": "no stock", "code": None}}},
        "orders",
        "no stock",
    ),
    "Symfony": (
        {
            f"{STAMP}ErrorDetailsStamp": DETAILS,
            f"{STAMP}SentToFailureTransportStamp": '[{"originalReceiverName":"async"}]',
        },
        None,
        "RuntimeException: no stock",
    ),
    "Sneakers": (
        {
            "retry_info": '[{"error":"no stock","num_attempts":5,"failed_at":"2026-01-01",'
            '"error_class":"ArgumentError","error_message":"no stock"},{"failed_at":"x"}]'
        },
        None,
        "ArgumentError: no stock",
    ),
    "Sneakers, rejected": (
        {"retry_info": '{"error":"reject","num_attempts":1,"failed_at":"2026-01-01"}'},
        None,
        "reject",
    ),
    "Wolverine": (
        {"exception-type": "System.Exception", "exception-message": "no", "failed-at": "1"},
        None,
        "System.Exception: no",
    ),
    "Watermill": (
        {"reason_poisoned": "no stock", "topic_poisoned": "orders"},
        "orders",
        "no stock",
    ),
    "NServiceBus": ({"NServiceBus.FailedQ": "orders@host"}, "orders", None),
    "MassTransit": ({"MT-Reason": "dead-letter"}, None, None),
}
# What says something like it, and puts no message into an error queue.
OTHERS: dict[str, dict[str, Any]] = {
    "Symfony tries again": {
        f"{STAMP}ErrorDetailsStamp": DETAILS,
        f"{STAMP}RedeliveryStamp": '[{"retryCount":1}]',
    },
    "rascal tries again": {
        "rascal": {**RASCAL, "originalQueue": "error", "error": {"message": "no"}}
    },
    "rascal forwards": {"rascal": RASCAL},
    "somebody counts": {"retry_info": "3"},
    "somebody's own": {"exception-type": "none", "x-original-exchange": "x"},
    "MassTransit delays": {"MT-Redelivery-Count": 1},
}


@pytest.mark.parametrize("library", [*ALONE])
async def test_what_says_itself_that_it_failed_is_a_failure_though_nothing_names_the_message(
    store: Store, library: str
) -> None:
    headers, queue, exception = ALONE[library]
    order, other = message(1, content_type="x"), message(2, content_type="x")
    error = Publish(BILLING, "", ("error",), ("error",), {"headers": headers}, order.body)
    nobody = msgspec.structs.replace(error, channel=OTHER)
    ids = await told(
        store, order, handed(BILLING, order), other, handed(BILLING, other), error, nobody
    )
    unknown, failure = await found(store)
    assert (failure.kind, failure.event, failure.message) == (
        FailureKind.error_queue,
        ids[4],
        None,
    )
    assert (failure.queue, failure.exception, failure.to) == (queue, exception, "error")
    assert (by(failure), failure.handed_over, failure.publisher) == ("billing", None, None)
    # It may be that one, which is a different thing from being it.
    assert (failure.candidate, unknown.candidate) == (ids[1], None)
    caused = await store.causality.walk(ids[4], -1, via=Via.links)
    assert [event.id for event in caused.items] == []
    if "x-original-exchange" in headers or library == "rascal":
        assert (failure.exchange, failure.routing_key) == ("x", "k")


@pytest.mark.parametrize("what", [*OTHERS])
async def test_what_is_tried_again_or_says_something_alike_is_no_failure(
    store: Store, what: str
) -> None:
    order = message(1, content_type="x")
    again = Publish(BILLING, "", ("error",), ("error",), {"headers": OTHERS[what]}, order.body)
    await told(store, order, handed(BILLING, order), again, handed(ADMIN, again, "error"))
    assert await found(store) == []


LARGE = "x" * 40_000


@pytest.mark.parametrize("kind", ["died", "error_queue"])
async def test_large_headers_hide_no_failure(store: Store, kind: str) -> None:
    trace = (
        "shop.NoStockException: no stock\n" + "\tat shop.Billing.handle(Billing.java:17)\n" * 2_900
    )
    order = message(1, message_id="m", headers={"blob": 3 * LARGE} if kind == "died" else {})
    spring = {"x-exception-stacktrace": trace, "x-exception-message": "no stock"}
    error = Publish(BILLING, "", ("error",), ("error",), {"headers": spring}, order.body)
    told_by = letter(ADMIN, order, death("orders")) if kind == "died" else error
    *_, event = await told(store, order, handed(BILLING, order), told_by)
    [failure] = await found(store)
    assert (failure.event, failure.kind) == (event, FailureKind[kind])
    if kind == "error_queue":
        assert failure.exception == "shop.NoStockException: no stock"


@pytest.mark.parametrize("more", ["", LARGE])
async def test_an_exception_in_the_body_is_a_failure_and_the_body_in_it_the_candidate(
    store: Store, more: str
) -> None:
    said = {
        "RoutingKey": "k",
        "Exchange": "x",
        "Queue": "orders",
        "Exception": "System.Exception: no\n",
    }
    order = msgspec.structs.replace(
        message(1, content_type="x"), body=f'{{"Id": "{more}"}}'.encode()
    )
    body = msgspec.json.encode({**said, "Message": order.body.decode(), "DateTime": "2026"})
    error = Publish(
        BILLING,
        "ErrorExchange_k",
        ("k",),
        ("errors",),
        {"type": EASY_NET_Q, "delivery_mode": 2},
        body,
    )
    mine = msgspec.structs.replace(error, properties={"type": "Shop.Error"})
    ids = await told(store, order, handed(BILLING, order), error, mine)
    [failure] = await found(store)
    assert (failure.event, failure.queue, failure.exception) == (
        ids[2],
        "orders",
        "System.Exception: no",
    )
    assert (failure.candidate, failure.exchange, failure.routing_key) == (ids[1], "x", "k")


@pytest.mark.parametrize("between", [failures.MOST_BEFORE - 1, failures.MOST_BEFORE])
async def test_a_candidate_is_looked_for_among_a_bounded_number_of_deliveries(
    store: Store, between: int
) -> None:
    order = message(0, content_type="x")
    records: list[Record] = [order, handed(BILLING, order)]
    for number in range(1, 1 + between):
        records += [message(number), handed(BILLING, message(number))]
    headers = {"x-exception-message": "no stock"}
    error = Publish(BILLING, "", ("error",), ("error",), {"headers": headers}, order.body)
    ids = await told(store, *records, error)
    [failure] = await found(store)
    assert failure.candidate == (ids[1] if between < failures.MOST_BEFORE else None)


def rejected(numbers: Iterable[int]) -> list[Record]:
    records: list[Record] = []
    for number in numbers:
        order = message(number)
        dead = letter(ADMIN, order, death("orders"))
        records += [order, handed(BILLING, order), dead]
    return records


async def test_pages_groups_and_counts_agree(store: Store) -> None:
    ids = await told(store, *rejected(range(7)), Publish(SHOP, "x", ("y",), (), {}, b""))
    whole = await store.failures.find(FailureFilter())
    assert (whole.counted, whole.counted_all, whole.next) == (8, True, None)
    assert [(group.kind, group.count, group.by) for group in whole.groups] == [
        (FailureKind.unroutable, 1, []),
        (FailureKind.died, 7, ["billing@10.0.0.6 #2"]),
    ]
    assert sum(span.count for span in whole.over_time.counts) == 8
    seen: list[Failure] = []
    page: FailurePage | None = None
    while page is None or page.next is not None:
        before = None if page is None else page.next
        page = await store.failures.find(FailureFilter(), before=before, limit=3)
        seen += page.items
    assert seen == whole.items
    assert [each.event for each in seen] == [ids[-1], *ids[-2:0:-3]]


async def test_filters_hold_each_for_itself(store: Store) -> None:
    ids = await told(store, *rejected(range(3)))
    await told(store, *rejected(range(2)), vhost="b")
    [one, *_] = failures = await found(store, vhost="/")
    assert len(failures) == 3
    assert one.by is not None
    good: dict[str, Any] = {
        "kind": FailureKind.died,
        "queue": "orders",
        "reason": "rejected",
        "type": "order.new",
        "participant": one.by.number,
    }
    for name, value in good.items():
        assert await found(store, vhost="/", **{name: value}) == failures
    bad: dict[str, Any] = {
        "kind": FailureKind.unroutable,
        "queue": "x",
        "reason": "x",
        "type": "x",
        "exception": "x",
        "participant": 99,
    }
    for name, value in bad.items():
        assert await found(store, vhost="/", **{name: value}) == []
    assert await found(store, vhost="/", kind=FailureKind.overdue) == []
    at = [each.at for each in failures]
    assert await found(store, vhost="/", since=at[1]) == failures[:2]
    assert await found(store, vhost="/", until=at[1]) == failures[2:]
    assert len(await found(store)) == 5
    assert await found(store, vhosts=frozenset({"/"})) == failures
    assert await found(store, vhosts=frozenset()) == []
    assert ids[-1] == one.event


@pytest.mark.parametrize(("bound", "value"), [("MOST_COUNTED", 10), ("LOOK_SECONDS", 0.0)])
async def test_what_takes_too_long_ends_with_what_it_has(
    store: Store, monkeypatch: pytest.MonkeyPatch, bound: str, value: float
) -> None:
    ids = await told(store, *rejected(range(BATCH + 50)))
    with monkeypatch.context() as bounded:
        bounded.setattr(failures, bound, value)
        some = await store.failures.find(FailureFilter(), limit=1_000)
    assert (some.counted_all, some.next) == (False, some.items[-1].event)
    rest = await store.failures.find(FailureFilter(), before=some.next, limit=1_000)
    assert rest.counted_all
    assert [each.event for each in some.items + rest.items] == ids[::-1][::3]


async def _plan(store: Store, connection: AsyncConnection) -> list[str]:
    """The database's plan for a look-up."""
    query = failures._query(await failures._scope(connection, FailureFilter()), None)
    said = query.compile(connection.sync_engine, compile_kwargs={"render_postcompile": True})
    values = tuple(said.params[name] for name in said.positiontup or ())
    explain = "EXPLAIN QUERY PLAN " if store.is_alone else "EXPLAIN "
    return [str(row) for row in await connection.exec_driver_sql(explain + said.string, values)]


async def test_every_kind_is_looked_up_by_an_index_of_its_own(store: Store) -> None:
    await told(store, *rejected(range(100)))
    plan = "\n".join(await store._database.read(partial(_plan, store)))
    for index in ("ix_events_died", "ix_events_came_back", "ix_events_unroutable"):
        assert index in plan
    assert (
        "keys USING PRIMARY KEY (trace_id=? AND run=? AND key=?)"
        if store.is_alone
        else "ix_keys_search"
    ) in plan


async def test_what_is_overdue_is_a_failure_of_each_assertion_that_says_so(store: Store) -> None:
    order = message(1)
    ids = await told(store, order, handed(BILLING, order), message(2))
    trace = await store.traces.find("/")
    assert trace is not None
    for name, events in {"paid": [ids[0], ids[2]], "shipped": [ids[0]], "gone": [10**6]}.items():
        await hold(store, trace.id, name, "{}", "ann")
        (one,) = [each for each in await store.assertions.list() if each.name == name]
        late = tuple(overdue(event) for event in events)
        judged = JudgingStep(
            name=name, text="{}", before=one.judged_id, judged_id=10**7, violations=late
        )
        assert await store.assertions.note_judgement(trace.id, judged)
    failures = await found(store, kind=FailureKind.overdue)
    assert [(each.event, each.reason) for each in failures] == [
        (ids[2], "paid"),
        (ids[0], "paid"),
        (ids[0], "shipped"),
    ]
    last = failures[-1]
    assert (last.message, last.type, last.at) == (ids[0], "order.new", START)
    assert last.publisher is not None
    assert last.publisher.name == "shop@10.0.0.5 #1"
    assert await found(store, kind=FailureKind.overdue, reason="shipped") == failures[2:]
    assert await found(store, vhosts=frozenset(), kind=FailureKind.overdue) == []


def overdue(event: int) -> NewViolation:
    return NewViolation(
        event=event,
        last_id=event,
        root=None,
        kind=ViolationKind.overdue,
        type="order.new",
        recorded_at=START,
        sentence="it led to nothing",
    )


async def test_a_dead_letter_has_its_remedy_until_somebody_took_it(store: Store) -> None:
    order, lost = message(1), message(2)
    dead = [letter(ADMIN, each, death("orders")) for each in (order, lost)]
    publish = msgspec.structs.replace(order, channel=ADMIN, properties=dead[0].properties)
    elsewhere = msgspec.structs.replace(publish, routing_keys=("log",), routed_queues=("log",))
    handed_over = [handed(BILLING, each) for each in (order, lost)]
    trace = await store.traces.create("/", Policy.channel)
    tracker = tracker_by(Policy.channel)
    await tell(store, trace.id, tracker, [order, lost, *handed_over, *dead, elsewhere])
    failures = await found(store)
    assert [failure.put_back for failure in failures] == [None, None]
    for failure in failures:
        assert (failure.remedy or "").startswith(
            "rabbitmqadmin --vhost=/ publish exchange=amq.default routing_key=orders "
        )
    blind = await store.failures.find(FailureFilter(), may_read=lambda vhost: False)
    assert [failure.remedy for failure in blind.items] == [None, None]

    [back] = await tell(store, trace.id, tracker, [publish])
    still, again = await found(store)
    assert (again.put_back, again.remedy) == (back, None)
    assert (still.put_back, still.remedy) == (None, failures[0].remedy)
    assert again.message is not None
    waiting = (await store.conversations.of_event(again.message, Via.links)).conversation
    [first] = [each for each in waiting.messages if each.event == again.message]
    assert (first.put_back, waiting.state) == (back, State.waiting)
    assert (first.failure_sentence or "").endswith(
        f"it went to queue orders.dead; put back as {back}"
    )
