"""Conversations as spans, and spans in both of the protocol's forms."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.semconv._incubating.attributes import messaging_attributes
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from app.api.otlp import as_json as reading_json
from app.api.otlp import as_protobuf as reading_protobuf
from app.api.otlp.fields import ReadingBudget
from app.stored.spans import Span as StoredSpan
from model.deaths import Loss
from model.otlp import as_json, as_protobuf, refusals_in
from model.spans import (
    Context,
    ExportedSpan,
    LinkDelivery,
    OtlpKind,
    context_in,
    destination,
    spans_of,
)
from model.words import Disposition, EdgeKind, Via
from spark_jobs.reports.conversations import ConversationRows, conversation_of_rows
from tests.spark.histories import NOON, History, Link
from tests.spark.telling import headers, tell

TRACE, SENDER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SENDER}-01"


def order(**first: object) -> History:
    """An order, handed over, and the invoice that it led to, handed over."""
    history = History(pasts=False)
    shop, billing, mail = history.join(), history.join(), history.join()
    ordered = history.publish(shop, **first)
    got = history.receive(billing, ordered)
    invoiced = history.publish(billing, links=[Link(got)], routing_keys='["invoice"]')
    history.receive(mail, invoiced, queue="mail")
    return history


def made_of(
    rows: ConversationRows, vhost: str, arrivals: Mapping[int, LinkDelivery] | None = None
) -> list[ExportedSpan]:
    return [*spans_of(rows.conversation, rows.span_facts, vhost, arrivals)]


def spans(history: History) -> list[ExportedSpan]:
    return [*made_of(tell(history), "/")]


def unsettled(history: History) -> list[ExportedSpan]:
    return [each for each in spans(history) if each.kind is not OtlpKind.client]


def test_a_publish_a_queue_and_a_delivery_are_spans_one_under_the_other() -> None:
    # A settlement is a span of its own.
    sent, waited, got, invoice, _, mailed = unsettled(order())
    kinds = [OtlpKind.producer, OtlpKind.internal, OtlpKind.consumer]
    assert [each.kind for each in (sent, waited, got)] == kinds
    assert (sent.service, waited.service, got.service) == ("user1", "rabbitmq", "user2")
    assert (sent.parent, waited.parent) == (None, sent.context.span_id)
    assert (got.parent, invoice.parent) == (waited.context.span_id, got.context.span_id)
    assert {each.context.trace_id for each in (sent, waited, got, invoice, mailed)} == {
        sent.context.trace_id
    }
    assert (sent.begin, sent.end) == (NOON + 1000, NOON + 1000)
    assert (waited.begin, waited.end) == (NOON + 1000, NOON + 2000)
    # It was handled until the invoice was published; of the mail nothing is known.
    assert (got.begin, got.end, got.name) == (NOON + 2000, NOON + 3000, "process work")
    assert (mailed.begin == mailed.end, mailed.name) == (True, "receive mail")
    assert len({each.context for each in spans(order())}) == len(spans(order()))


def test_a_span_ends_where_its_message_was_settled_and_says_what_its_end_is() -> None:
    history = History(pasts=False)
    shop, billing, mail = history.join(), history.join(), history.join()
    ordered = history.publish(shop)
    at = NOON + 9_000
    how = {"settlement": Disposition.acknowledged, "settled_at": at}
    got = history.receive(billing, ordered, **how)
    invoiced = history.publish(billing, links=[Link(got)])
    handed = history.receive(mail, invoiced, settlement=None)
    history.publish(mail, links=[Link(handed)])
    held = history.receive(billing, ordered, match=2, settlement=Disposition.in_hand)
    by_event = {e.attributes["itc.event.id"]: e for e in spans(history) if e.kind == 5}
    ends = [by_event[each] for each in (got, handed, held)]
    assert [each.end for each in ends] == [at, NOON + 5_000, NOON + 6_000]
    assert [each.attributes.get("itc.until") for each in ends] == ["settled", "published", None]
    said = [each.attributes.get("itc.settlement") for each in ends]
    assert said == ["acknowledged", None, "in_hand"]


def test_spans_are_under_the_applications_own_where_a_message_says_so() -> None:
    sent, waited, got, *rest = spans(order(properties=headers(traceparent=PARENT)))
    assert sent.context.trace_id.hex() == TRACE
    assert (sent.parent, sent.is_remote) == (bytes.fromhex(SENDER), True)
    assert (waited.parent, waited.is_remote) == (sent.context.span_id, False)
    assert {each.context.trace_id.hex() for each in (got, *rest)} == {TRACE}


@pytest.mark.parametrize("traceparent", [None, PARENT])
def test_spans_lead_through_a_shovel_to_another_virtual_host(traceparent: str | None) -> None:
    named = {} if traceparent is None else {"properties": headers(traceparent=traceparent)}
    here, there = History(pasts=False), History(pasts=False)
    shop, shovel = here.join(), here.join()
    left = here.receive(shovel, here.publish(shop, **named), **named)
    shovel, billing = there.join(), there.join()
    came = there.publish(shovel, **named)
    there.receive(billing, came, **named)
    names = {2: "Shovel dc2"}
    up = [*made_of(tell(here, names=names), "/")]
    arrivals = {came: LinkDelivery("/", left, here.rows[left - 1]["recorded_at"])}
    down = [*made_of(tell(there, names={1: "Shovel dc2"}), "shop", arrivals)]

    [forwarded] = [span for span in up if span.name == "forward work"]
    [handed] = [span for span in up if span.kind is OtlpKind.consumer]
    publish = down[0]
    assert forwarded.context.trace_id == publish.context.trace_id
    assert {span.context.trace_id for span in down} == {publish.context.trace_id}
    assert publish.is_remote
    if traceparent is None:
        assert publish.parent == forwarded.context.span_id
        assert (forwarded.parent, forwarded.links) == (None, (handed.context,))
        assert handed.links == (forwarded.context,)
    else:
        assert (publish.parent, publish.links) == (bytes.fromhex(SENDER), (forwarded.context,))
        assert (forwarded.parent, forwarded.links) == (handed.context.span_id, ())
    assert not [span for span in spans(here) if span.name == "forward work"]


def test_causes_that_are_not_the_parent_are_links() -> None:
    history = History(pasts=False)
    client, worker = history.join(), history.join()
    first = history.publish(client)
    one = history.receive(worker, first)
    second = history.publish(client, links=[Link(first)])
    two = history.receive(worker, second)
    history.publish(worker, links=[Link(one), Link(two)])
    history.publish(worker, links=[Link(one)], properties=headers(traceparent=PARENT))
    by_event = {(e.attributes["itc.event.id"], e.kind): e for e in spans(history)}
    joined = by_event[5, OtlpKind.producer]
    deliveries = [by_event[each, OtlpKind.consumer].context for each in (one, two)]
    assert (joined.parent, joined.links) == (deliveries[0].span_id, (deliveries[1],))
    foreign = by_event[6, OtlpKind.producer]
    assert (foreign.parent, foreign.links) == (bytes.fromhex(SENDER), (deliveries[0],))


def test_a_dead_letter_is_linked_to_the_delivery_that_was_rejected() -> None:
    history = History(pasts=False)
    shop, billing, admin = history.join(), history.join(), history.join()
    ordered = history.publish(shop)
    got = history.receive(billing, ordered)
    pusher = history.publish(shop)
    acts = [Link.act(got, EdgeKind.rejected), Link.act(pusher, EdgeKind.overflow)]
    letter = history.receive(admin, ordered, queue="dead", match=3, links=acts)
    told = [*made_of(tell(history, ids=[ordered, got, letter]), "/")]
    rejected, dead = [each for each in told if each.kind is OtlpKind.consumer]
    assert dead.links == (rejected.context,)


DEATHS = headers(
    **{
        "x-death": [
            {"queue": "delay", "reason": "expired", "count": 1},
            {"queue": "work", "reason": "rejected", "count": 1},
        ]
    }
)


@pytest.mark.parametrize("told_at", [NOON + 2_500, None])
def test_settlements_and_deaths_are_spans_with_their_reason(told_at: int | None) -> None:
    history = History(pasts=False)
    shop, billing, admin = history.join(), history.join(), history.join()
    ordered = history.publish(shop)
    how = {} if told_at is None else {"settlement": Disposition.rejected, "settled_at": told_at}
    got = history.receive(billing, ordered, **{"settlement": None, **how})
    acts = [Link.act(got, EdgeKind.rejected)]
    ack = {"settlement": Disposition.acknowledged, "settled_at": NOON + 9_000}
    history.receive(admin, ordered, queue="dead", match=3, links=acts, properties=DEATHS, **ack)
    made = {each.name: each for each in spans(history)}
    first, then = made["move work"], made["move delay"]
    assert [each.service for each in (first, then)] == ["rabbitmq"] * 2
    reasons = [each.attributes["itc.reason"] for each in (first, then)]
    assert reasons == ["rejected", "expired"]
    # When it was rejected the plugin tells; else it was between the two deliveries.
    begun = NOON + 2_000 if told_at is None else told_at
    assert (first.begin, first.end) == (begun, told_at or NOON + 3_000)
    assert (then.begin, then.end) == (begun, NOON + 3_000)
    assert ("reject work" in made) == (told_at is not None)
    settled = made["ack dead"]
    assert (settled.kind, settled.begin, settled.end) == (3, NOON + 9_000, NOON + 9_000)
    assert (
        settled.parent == made["receive dead"].context.span_id
        if "receive dead" in made
        else (made["process dead"].context.span_id)
    )
    assert settled.attributes["messaging.operation.type"] == "settle"


def test_a_copy_that_was_lost_is_deleted_in_the_time_until_that_was_known() -> None:
    history = History(pasts=False)
    history.publish(history.join())
    rows = tell(history).rows
    lost = {"work": Loss(NOON + 60_000_000, "queue_deleted")}
    rows[1] = {**rows[1], "properties": "{}", "losses": json.dumps(lost)}
    _, deleted = made_of(conversation_of_rows(1, rows, Via.links), "/")
    assert (deleted.name, deleted.attributes["itc.reason"]) == ("delete work", "queue_deleted")
    assert (deleted.begin, deleted.end) == (NOON + 1_000, NOON + 60_000_000)


def test_a_brokers_address_is_where_its_client_connected_to() -> None:
    for connection, server in (
        ("127.0.0.1:4711 -> 10.0.0.9:5672", ("10.0.0.9", 5672)),
        ("[::1]:4711 -> [fe80::1]:5671", ("fe80::1", 5671)),
        ("<rabbit@one.1.2.3>", (None, None)),
        (":0 -> /run/rabbitmq.sock:0", ("/run/rabbitmq.sock", None)),
    ):
        rows = tell(order()).rows
        for row in rows.values():
            row |= {"properties": "{}", "connection": connection}
        sent, *_ = made_of(conversation_of_rows(1, rows, Via.links), "/")
        found = (sent.attributes.get("server.address"), sent.attributes.get("server.port"))
        assert found == server


def test_a_second_export_is_the_same_and_another_event_is_another_span() -> None:
    assert spans(order()) == spans(order())
    other = [*made_of(tell(order()), "other")]
    assert {e.context for e in other}.isdisjoint({e.context for e in spans(order())})


def test_attributes_are_those_of_the_conventions_for_messaging() -> None:
    properties = json.dumps({"headers": {}, "message_id": "m1", "correlation_id": "c1"})
    sent, waited, got, *_ = spans(order(properties=properties))
    assert sent.attributes == {
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders:order.new",
        "messaging.system": "rabbitmq",
        "messaging.message.id": "m1",
        "messaging.message.conversation_id": "c1",
        "messaging.message.body.size": len("payload of 1"),
        "messaging.rabbitmq.destination.routing_key": "order.new",
        "messaging.rabbitmq.vhost.name": "/",
        "itc.event.id": 1,
        "itc.conversation.id": 1,
        "itc.message.type": "orders/order.new",
        "itc.match": "none",
    }
    assert got.attributes["messaging.destination.name"] == "orders:order.new:work"
    known = {v for k, v in vars(messaging_attributes).items() if k.startswith("MESSAGING_")}
    known |= {"messaging.rabbitmq.vhost.name"}  # proposed
    for each in (sent, waited, got):
        used = {name for name in each.attributes if name.startswith("messaging.")}
        assert used <= {str(one) for one in known}


def test_a_delivery_without_its_publish_is_a_span_alone() -> None:
    history = History(pasts=False)
    history.receive(history.join(), None, properties=headers(traceparent=PARENT))
    [got] = spans(history)
    assert (got.kind, got.parent, got.is_remote) == (
        OtlpKind.consumer,
        bytes.fromhex(SENDER),
        True,
    )


def test_what_went_wrong_is_said_where_it_did() -> None:
    history = History(pasts=False)
    history.publish(history.join(), routed_queues="[]")
    [lost] = spans(history)
    assert (lost.error, lost.attributes["error.type"]) == ("unroutable", "unroutable")


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        (PARENT, True),
        (f"cc-{TRACE}-{SENDER}-01-more", True),
        (f"ff-{TRACE}-{SENDER}-01", False),
        (f"00-{'0' * 32}-{SENDER}-01", False),
        (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE.upper()}-{SENDER}-01", False),
        (f"00-{TRACE}-{SENDER}", False),
        ("", False),
        (7, False),
        ([PARENT], False),
    ],
)
def test_a_traceparent_is_read_as_the_standard_has_it(text: object, is_valid: bool) -> None:
    found = context_in({"headers": {"traceparent": text}})
    assert found == (Context(bytes.fromhex(TRACE), bytes.fromhex(SENDER)) if is_valid else None)
    if is_valid and isinstance(text, str):
        assert TraceContextTextMapPropagator().extract({"traceparent": text})


def test_messages_without_headers_begin_a_trace() -> None:
    assert context_in({}) is None
    assert context_in({"headers": None}) is None


@pytest.mark.parametrize(
    ("exchange", "key", "queue", "said"),
    [
        ("orders", "new", None, "orders:new"),
        ("orders", "new", "work", "orders:new:work"),
        ("", "work", "work", "work"),
        ("", "", None, "amq.default"),
        ("orders", "", "work", "orders:work"),
    ],
)
def test_a_destination_is_named_as_the_conventions_do(
    exchange: str, key: str, queue: str | None, said: str
) -> None:
    assert destination(exchange, key, queue) == said


def test_both_forms_say_the_same_to_the_protocols_own_library() -> None:
    history = order(properties=headers(traceparent=PARENT))
    history.publish(history.actors[1][2], links=[Link(2), Link(4)], routed_queues="[]")
    made = [*spans(history), spans(history)[0]._replace(name="\x1b é", error="broken")]
    binary = ExportTraceServiceRequest.FromString(as_protobuf(made, "/", "1"))
    text = as_json(made[:-1], "/", "1").decode()
    parsed = ExportTraceServiceRequest.FromString(as_protobuf(made[:-1], "/", "1"))
    # JSON of this protocol has ids in hexadecimal, where the library expects base 64.
    as_text = Parse(_with_base64(text), ExportTraceServiceRequest())
    assert as_text == parsed
    found = [s for r in binary.resource_spans for s in r.scope_spans[0].spans]
    assert len(found) == len(made)
    last = next(each for each in found if each.status.message)
    assert (last.name, last.status.code) == ("\x1b é", 2)
    services = [r.resource.attributes[0].value.string_value for r in binary.resource_spans]
    assert services == ["user1", "rabbitmq", "user2", "user3"]


def _with_base64(text: str) -> str:
    from base64 import b64encode

    def changed(value: object) -> object:
        if isinstance(value, list):
            return [changed(each) for each in value]
        if not isinstance(value, dict):
            return value
        return {
            k: b64encode(bytes.fromhex(v)).decode() if k in _IDS else changed(v)
            for k, v in value.items()
        }

    return json.dumps(changed(json.loads(text)))


_IDS = ("traceId", "spanId", "parentSpanId")


def test_what_is_written_can_be_read_where_spans_are_taken() -> None:
    made = spans(order(properties=headers(traceparent=PARENT)))
    binary = [*reading_protobuf.read(as_protobuf(made, "/", "1"), ReadingBudget(100))]
    assert binary == [*reading_json.read(as_json(made, "/", "1"), ReadingBudget(100))]
    assert len(binary) == len(made)
    assert all(isinstance(each, StoredSpan) for each in binary)


def test_what_a_collector_refused_is_read_from_its_answer() -> None:
    partial = ExportTracePartialSuccess(rejected_spans=300, error_message="too old")
    answer = ExportTraceServiceResponse(partial_success=partial).SerializeToString()
    assert refusals_in(answer) == (300, "too old")
    assert refusals_in(b"") == (0, "")
    assert refusals_in(b"\xff\xff<html>") == (0, "")
