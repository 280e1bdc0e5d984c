"""The built-in rules, on messages as the libraries write them.

Every message of every library is compared with every other one: what is not listed as a link is
none.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from app.tracker.links import BUILT_IN, Rules
from app.tracker.links.profiles import PROFILES
from app.tracker.links.rule import Rule
from app.tracker.records import Channel, Publish
from model.words import LinkKind

DOCUMENT = Path(__file__).parents[2] / "docs" / "links.md"
CHANNEL = Channel("rabbit@a", "10.0.0.1:1 -> 10.0.0.2:5672", 1, "app")
RULES = Rules(BUILT_IN)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def uuid(number: int) -> str:
    return f"11111111-2222-4333-8444-{number:012d}"


def message(
    headers: dict[str, Any] | None = None,
    body: Any = b"{}",
    *,
    key: str = "work",
    exchange: str = "",
    **properties: Any,
) -> Publish:
    if headers is not None:
        properties["headers"] = headers
    if not isinstance(body, bytes):
        body = json.dumps(body, separators=(",", ":")).encode()
    return Publish(CHANNEL, exchange, (key,), (), properties, body)


def task(
    id_: int,
    parent: int | None,
    root: int,
    *,
    retries: int = 0,
    asks: bool = True,
    nesting: int = 0,
) -> Publish:
    return message(
        {
            "lang": "py",
            "task": "shop.charge",
            "id": uuid(id_),
            "shadow": None,
            "eta": None,
            "group": None,
            "retries": retries,
            "timelimit": [None, None],
            "root_id": uuid(root),
            "parent_id": None if parent is None else uuid(parent),
            "argsrepr": "(1,)",
            "origin": "gen7@host",
            "ignore_result": False,
            "replaced_task_nesting": nesting,
            "stamps": {},
        },
        [[1], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}],
        key="celery",
        content_type="application/json",
        correlation_id=uuid(id_),
        reply_to=uuid(99) if asks else "",
    )


def nservicebus(id_: int, related: int | None, **more: str) -> Publish:
    headers = {
        "NServiceBus.MessageId": uuid(id_),
        "NServiceBus.MessageIntent": "Send",
        "NServiceBus.ConversationId": uuid(200),
        "NServiceBus.CorrelationId": uuid(200),
        **({} if related is None else {"NServiceBus.RelatedTo": uuid(related)}),
        **more,
    }
    return message(headers, exchange="Sales", message_id=uuid(id_), correlation_id=uuid(200))


def masstransit(body: dict[str, Any], headers: dict[str, Any] | None = None) -> Publish:
    return message(
        {"Content-Type": "application/vnd.masstransit+json", **(headers or {})},
        {"messageType": ["urn:message:Shop:Order"], "message": {}, "headers": {}, **body},
        exchange="Shop:Order",
        message_id=body["messageId"],
        content_type="application/vnd.masstransit+json",
    )


def dramatiq(id_: int, target: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    return {
        "queue_name": "default",
        "actor_name": "charge",
        "args": [1],
        "kwargs": {},
        "options": {**options, **({} if target is None else {"pipe_target": target})},
        "message_id": uuid(id_),
        "message_timestamp": 1,
    }


def stack(*calls: str) -> dict[str, Any]:
    return {"nameko.call_id_stack": [f"orders.{call}" for call in calls]}


def event(id_: str, causation: str | None, prefix: str) -> dict[str, Any]:
    attributes = {"id": id_, "source": "/shop", "specversion": "1.0", "correlationid": uuid(600)}
    if causation is not None:
        attributes["causationid"] = causation
    return {prefix + name: value for name, value in attributes.items()}


def oslo(**fields: Any) -> dict[str, Any]:
    """As oslo.messaging's `serialize_msg` writes them."""
    named = {f"_{name}": value for name, value in fields.items()}
    return {"oslo.version": "2.0", "oslo.message": json.dumps({"args": {}, **named})}


def moleculer(id_: str, **fields: Any) -> dict[str, Any]:
    return {"id": id_, **fields, "meta": {}, "level": 1, "ver": "4", "sender": "node-1"}


CLOUDEVENT = "application/cloudevents+json; charset=UTF-8"
MT = {"correlationId": uuid(301), "conversationId": uuid(300), "messageId": uuid(302)}
REQUEST = {
    "messageId": uuid(311),
    "requestId": uuid(310),
    "conversationId": uuid(319),
    "responseAddress": "rabbitmq://h/bus",
}
NEXT = dramatiq(702)

MESSAGES = {
    "celery first": task(1, None, 1),
    "celery child": task(2, 1, 1),
    "celery grandchild": task(3, 2, 1, asks=False),
    "celery child again": task(2, 1, 1, retries=1),
    "celery replaced": task(3, 3, 1, asks=False, nesting=1),
    **{
        f"celery header {n}": message(
            {"task": "shop.pack", "id": uuid(20 + n), "group": uuid(19)},
            [[n], {}, {"chord": {"task": "shop.settle", "options": {"task_id": uuid(29)}}}],
        )
        for n in (1, 2)
    },
    "celery body": message(
        {"task": "shop.settle", "id": uuid(29), "group": None}, [[[1, 2]], {}, {}]
    ),
    "celery result": message(
        None, {"task_id": uuid(1)}, key=uuid(99), correlation_id=uuid(1), content_type="a/json"
    ),
    "nsb first": nservicebus(201, None),
    "nsb child": nservicebus(202, 201),
    "nsb child failed": nservicebus(202, 201, **{"NServiceBus.FailedQ": "Billing"}),
    "nsb child audited": nservicebus(202, 201, **{"NServiceBus.ProcessingEnded": "now"}),
    "mt first": masstransit(MT),
    "mt child": masstransit(
        {"messageId": uuid(303), "conversationId": uuid(300), "initiatorId": uuid(301)}
    ),
    "mt child again": masstransit(
        {"messageId": uuid(303), "conversationId": uuid(300), "initiatorId": uuid(301)},
        {"MT-Redelivery-Count": 1},
    ),
    "mt child failed": masstransit(
        {"messageId": uuid(303), "conversationId": uuid(300), "initiatorId": uuid(301)},
        {"MT-Reason": "fault", "MT-Fault-Message": "no"},
    ),
    # Copied from the message that was handled: it names what caused that one.
    "mt copied": masstransit(
        {"messageId": uuid(304), "conversationId": uuid(300)}, {"causation_id": uuid(901)}
    ),
    "mt request": masstransit(REQUEST),
    "mt answer": masstransit(
        {"messageId": uuid(312), "requestId": uuid(310), "initiatorId": uuid(310)}
    ),
    "wolverine first": message({"conversation-id": uuid(401)}, message_id=uuid(401)),
    "wolverine child": message(
        {"conversation-id": uuid(401), "parent-id": f"00-{TRACE}-00f067aa0ba902b7-01"},
        message_id=uuid(402),
    ),
    "nameko first": message(stack("web.1"), exchange="nameko-rpc", correlation_id=uuid(501)),
    "nameko child": message(stack("web.1", "add.2"), exchange="orders.events"),
    "nameko grandchild": message(stack("web.1", "add.2", "note.3"), exchange="notes.events"),
    "cloudevent first": message(event("e1", None, "cloudEvents:")),
    "cloudevent child": message(event("e2", "e1", "cloudEvents_")),
    "cloudevent grandchild": message(None, event("e3", "e2", ""), content_type=CLOUDEVENT),
    "ce first": message(event("f1", None, "ce-")),
    "ce child": message(event("f2", "f1", "ce-")),
    "moleculer first": message(None, moleculer("c1", action="orders.create", parentID=None)),
    "moleculer child": message(None, moleculer("c2", action="mail.send", parentID="c1")),
    "moleculer event": message(None, moleculer("c3", event="order.new", parentID="c2")),
    "moleculer response": message(None, moleculer("c2", success=True, data=None)),
    "oslo call": message(
        None, oslo(msg_id="9f", reply_q="reply_1", unique_id="u1", context_request_id="req-7")
    ),
    "oslo cast": message(None, oslo(unique_id="u2", context_request_id="req-7")),
    "oslo reply": message(None, oslo(msg_id="9f", unique_id="u3"), key="reply_1"),
    "oslo reply of another": message(None, oslo(msg_id="9e", unique_id="u4"), key="reply_1"),
    "oslo reply elsewhere": message(None, oslo(msg_id="9f", unique_id="u5"), key="reply_2"),
    "cap first": message({"cap-msg-id": uuid(961), "cap-corr-id": uuid(961), "cap-corr-seq": "0"}),
    "cap callback": message(
        {"cap-msg-id": uuid(962), "cap-corr-id": uuid(961), "cap-corr-seq": "1"}
    ),
    "rascal first": message({}, message_id=uuid(971)),
    "rascal republished": message(
        {"rascal": {"originalQueue": "q", "recovery": {"q": {"republished": 1}}}},
        message_id=uuid(971),
    ),
    "watermill first": message({"_watermill_message_uuid": uuid(981)}),
    "watermill poisoned": message(
        {"_watermill_message_uuid": uuid(981), "reason_poisoned": "no", "topic_poisoned": "orders"}
    ),
    "spring request": message(None, b"1", reply_to="replies/key.1", correlation_id="s1"),
    "spring answer": message(None, b"2", exchange="replies", key="key.1", correlation_id="s1"),
    "amqp 1.0 request": message(None, b"1", reply_to="/queues/a%2Fb", message_id="ID:2"),
    "amqp 1.0 answer": message(None, b"2", key="a/b", correlation_id="ID:2"),
    # As RabbitMQ 4.3 shows ids that are bytes or over 255 bytes long, and response topics.
    "request with long id": message({"x-message-id": "i" * 300}, b"1", reply_to="/queues/long"),
    "answer to long id": message({"x-correlation-id": "i" * 300}, b"2", key="long"),
    "request with bytes": message({"x-correlation-id": "\0\\xff"}, b"1", reply_to="/queues/byte"),
    "answer with bytes": message({"x-correlation-id": "\0\\xff"}, b"2", key="byte"),
    "answer with other bytes": message({"x-correlation-id": "\0\\xfe"}, b"2", key="byte"),
    "mqtt request": message({"x-reply-to-topic": "answers.1"}, b"1", correlation_id="t1"),
    "mqtt answer": message(None, b"2", exchange="amq.topic", key="answers.1", correlation_id="t1"),
    "mqtt request with bytes": message(
        {"x-reply-to-topic": "answers.2", "x-correlation-id": "\0\\xff"}, b"1"
    ),
    "mqtt answer with bytes": message(
        {"x-correlation-id": "\0\\xff"}, b"2", exchange="amq.topic", key="answers.2"
    ),
    "moved on": message({"x-shovelled": True}, b"m", key="dst", message_id="moved"),
    "moved": message(None, b"m", key="src", message_id="moved"),
    "dramatiq first": message(None, dramatiq(701, NEXT), delivery_mode=2),
    "dramatiq next": message(None, NEXT, delivery_mode=2),
    "dramatiq next again": message(None, dramatiq(702, retries=1), delivery_mode=2),
    "rebus request": message({"rbs2-msg-id": uuid(801), "rbs2-corr-id": uuid(801)}),
    "rebus answer": message(
        {
            "rbs2-msg-id": uuid(802),
            "rbs2-corr-id": uuid(801),
            "rbs2-in-reply-to": uuid(801),
        }
    ),
    "app first": message({}, message_id=uuid(901)),
    "app child": message({"causation_id": uuid(901)}, message_id=uuid(902)),
    "app grandchild": message({"causation-id": uuid(902)}, message_id=uuid(903)),
    "app last": message({"x-causation-id": uuid(903)}, message_id=uuid(904)),
    "spring dead": message(
        {"causation_id": uuid(901), "x-exception-message": "no", "x-original-exchange": ""},
        message_id=uuid(902),
    ),
    "shovelled": message({"x-death": [{"queue": "q", "count": 1}]}, message_id=uuid(901)),
    "rpc request": message(None, b"1", reply_to="amq.gen-1", correlation_id="17"),
    "rpc answer": message(None, b"2", key="amq.gen-1", correlation_id="17"),
    "rpc other answer": message(None, b"2", key="amq.gen-1", correlation_id="18"),
    "rpc elsewhere": message(None, b"2", key="amq.gen-2", correlation_id="17"),
    "jms request": message(None, b"1", reply_to="answers", message_id="ID:1"),
    "jms answer": message(None, b"2", key="answers", correlation_id="ID:1"),
    # As RabbitMQ's JMS client writes them: `toHeaders` and `setReplyToProperty`.
    "rabbit jms request": message(
        {"JMSDeliveryMode": "PERSISTENT", "JMSMessageID": "ID:3", "JMSPriority": 4},
        b"1",
        exchange="jms.durable.queues",
        key="asked",
        reply_to="jms-temp-queue-1",
    ),
    "rabbit jms answer": message(
        {"JMSMessageID": "ID:4", "JMSCorrelationID": "ID:3"},
        b"2",
        exchange="jms.temp.queues",
        key="jms-temp-queue-1",
        correlation_id="ID:3",
    ),
    "rabbit jms elsewhere": message(
        {"JMSMessageID": "ID:5", "JMSCorrelationID": "ID:3"}, key="audit", correlation_id="ID:3"
    ),
    "easynetq request": message(None, b"1", reply_to="easynetq.response.1", correlation_id="c1"),
    "easynetq answer": message(
        None, b"2", exchange="easy_net_q_rpc", key="easynetq.response.1", correlation_id="c1"
    ),
    "traced": message({"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}),
    "traced too": message({"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}),
    "plain": message({"id": uuid(1), "parent_id": uuid(1), "root_id": uuid(1)}),
}

LINKS = {
    ("celery first", "celery child"): {"celery-parent"},
    ("celery child", "celery grandchild"): {"celery-parent"},
    ("celery child again", "celery grandchild"): {"celery-parent"},
    ("celery child", "celery child again"): {"celery-retry"},
    ("celery grandchild", "celery replaced"): {"celery-replaced"},
    ("celery header 1", "celery body"): {"celery-chord"},
    ("celery header 2", "celery body"): {"celery-chord"},
    ("celery first", "celery result"): {"reply"},
    ("nsb first", "nsb child"): {"nservicebus-related-to"},
    ("nsb child", "nsb child failed"): {"forward"},
    ("nsb child", "nsb child audited"): {"forward"},
    ("nsb child audited", "nsb child failed"): {"forward"},
    ("nsb child failed", "nsb child audited"): {"forward"},
    ("mt first", "mt child"): {"masstransit-initiator"},
    ("mt child", "mt child again"): {"masstransit-redelivery"},
    ("mt child failed", "mt child again"): {"masstransit-redelivery"},
    ("mt child", "mt child failed"): {"forward"},
    ("mt child again", "mt child failed"): {"forward"},
    ("mt request", "mt answer"): {"masstransit-reply", "masstransit-initiator"},
    ("nameko first", "nameko child"): {"nameko-call"},
    ("nameko child", "nameko grandchild"): {"nameko-call"},
    ("cloudevent first", "cloudevent child"): {"cloudevents-jms-causation"},
    ("cloudevent child", "cloudevent grandchild"): {"cloudevents-json-causation"},
    ("ce first", "ce child"): {"cloudevents-http-causation"},
    ("oslo call", "oslo reply"): {"oslo-reply"},
    ("moleculer first", "moleculer child"): {"moleculer-parent"},
    ("moleculer child", "moleculer event"): {"moleculer-parent"},
    ("moleculer child", "moleculer response"): {"moleculer-response"},
    ("cap first", "cap callback"): {"cap-correlation"},
    ("rascal first", "rascal republished"): {"forward"},
    ("watermill first", "watermill poisoned"): {"watermill-poison"},
    ("spring request", "spring answer"): {"reply"},
    ("amqp 1.0 request", "amqp 1.0 answer"): {"reply"},
    ("request with long id", "answer to long id"): {"reply-by-bytes"},
    ("request with bytes", "answer with bytes"): {"reply-by-bytes"},
    ("mqtt request", "mqtt answer"): {"reply"},
    ("moved", "moved on"): {"forward-moved"},
    ("mqtt request with bytes", "mqtt answer with bytes"): {"reply-by-bytes"},
    ("dramatiq first", "dramatiq next"): {"dramatiq-pipeline"},
    ("dramatiq first", "dramatiq next again"): {"dramatiq-pipeline"},
    ("dramatiq next", "dramatiq next again"): {"dramatiq-again"},
    ("dramatiq next again", "dramatiq next"): {"dramatiq-again"},
    ("rebus request", "rebus answer"): {"rebus-reply"},
    ("app first", "app child"): {"causation_id"},
    ("shovelled", "app child"): {"causation_id"},
    ("app child", "app grandchild"): {"causation-id"},
    ("spring dead", "app grandchild"): {"causation-id"},
    ("app grandchild", "app last"): {"x-causation-id"},
    ("app child", "spring dead"): {"forward"},
    ("app first", "shovelled"): {"forward-x-death"},
    ("rpc request", "rpc answer"): {"reply"},
    ("jms request", "jms answer"): {"reply"},
    ("rabbit jms request", "rabbit jms answer"): {"reply"},
    ("easynetq request", "easynetq answer"): {"reply"},
}

NAMES = {name: RULES.read(record) for name, record in MESSAGES.items()}


def linked(cause: str, effect: str) -> set[str]:
    return {RULES[number].name for number, key in NAMES[effect].causes if key in NAMES[cause].ids}


@pytest.mark.parametrize(("cause", "effect"), LINKS)
def test_a_message_names_what_caused_it(cause: str, effect: str) -> None:
    assert linked(cause, effect) == LINKS[cause, effect]


def test_no_message_names_any_other() -> None:
    found = {
        (cause, effect): names
        for cause, effect in product(MESSAGES, repeat=2)
        if cause != effect and (names := linked(cause, effect))
    }
    assert found == LINKS


def test_every_rule_that_names_a_cause_is_seen_at_work() -> None:
    seen = set().union(*LINKS.values())
    # The first of two that mean the same is the one that is said.
    same = {
        "reply-to-message-id",
        "jms-reply",
        *("reply-to-message-bytes", "mqtt-reply", "mqtt-reply-by-bytes"),
        "masstransit-initiator-request",
        "cloudevents-causation",
    }
    assert {rule.name for rule in BUILT_IN if rule.kind.name != "conversation"} - same == seen


@pytest.mark.parametrize(
    "members",
    [
        (
            *("celery first", "celery child", "celery grandchild"),
            *("celery child again", "celery replaced"),
        ),
        ("nsb first", "nsb child", "nsb child failed"),
        ("mt first", "mt child", "mt child again"),
        ("wolverine first", "wolverine child"),
        (
            *("cloudevent first", "cloudevent child", "cloudevent grandchild"),
            *("ce first", "ce child"),
        ),
        ("rebus request", "rebus answer"),
        ("oslo call", "oslo cast"),
        ("traced", "traced too", "wolverine child"),
        ("rpc request", "rpc answer", "rpc elsewhere"),
    ],
)
def test_messages_that_belong_together_share_a_conversation(members: tuple[str, ...]) -> None:
    shared = set.intersection(*(set(NAMES[name].conversations) for name in members))
    assert len(shared) == 1
    others = {name for name, names in NAMES.items() if shared & set(names.conversations)}
    assert others - set(members) <= {"celery result", "mt child failed", "mt copied"} | {
        "nsb child audited"
    }


@pytest.mark.parametrize(
    "header",
    [
        {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"},
        {"b3": f"{TRACE}-b7ad6b7169203331-1"},
        {"X-B3-TraceId": TRACE, "X-B3-SpanId": "b7ad6b7169203331"},
        {"x-b3-traceid": TRACE.upper()},
        {"uber-trace-id": f"{TRACE}:b7ad6b7169203331:0:1"},
        {"cloudEvents:traceparent": f"00-{TRACE}-b7ad6b7169203331-01"},
    ],
)
def test_a_trace_is_one_conversation_whatever_carries_it(header: dict[str, str]) -> None:
    names = RULES.read(message(header))
    assert names.conversations == NAMES["traced"].conversations
    assert not names.ids
    assert not names.causes


def test_a_traceparent_is_never_a_parent() -> None:
    assert not NAMES["traced"].ids
    assert not NAMES["traced too"].causes


def test_a_program_that_copies_a_death_still_names_its_cause() -> None:
    copied = message({"causation_id": uuid(901), "x-death": [{"queue": "q"}]}, message_id=uuid(950))
    named = {RULES[number].name for number, _ in RULES.read(copied).causes}
    assert named == {"causation_id", "forward-x-death"}


def test_two_messages_that_may_have_one_id_are_marked() -> None:
    assert {rule.name for rule in BUILT_IN if rule.alone} == {
        "masstransit-initiator",
        "masstransit-initiator-request",
        "nameko-call",
    }


def row(carrier: str, rules: Sequence[Rule]) -> str:
    cells = (" ".join(f"`{rule.name}`" for rule in rules if rule.kind is kind) for kind in LinkKind)
    return " ".join(f"| {cell}" if cell else "|" for cell in (carrier, *cells, ""))


def test_the_document_lists_the_built_in_rules() -> None:
    _, listed = DOCUMENT.read_text().split(
        "| carrier | parent | reply | forward | conversation |\n"
    )
    rows = listed.partition("\n\n")[0].splitlines()[1:]
    assert rows == [row(carrier, rules) for carrier, rules in PROFILES.items()]
