"""The rules that hold without anybody's asking: what the libraries that people use write.

Read in the libraries' sources. A rule is here only if what it says is so wherever its headers are;
`docs/links.md` has them as a table for people, and says what is left out and why.
"""

from __future__ import annotations

from typing import Any

from app.tracker.links.rule import Rule
from app.tracker.links.rules import CONVERSATION, MESSAGE_ID
from model.error_queues import ERROR_PROFILES

# Whoever publishes a message again because it failed, or as a copy for the audit, says so in one of
# these. None is passed on to other messages.
PUBLISHED_AGAIN = (
    "NServiceBus.Retries",
    "NServiceBus.ProcessingEnded",
    "MT-Fault-Timestamp",
    "MT-Fault-StackTrace",
    *(name for profile in ERROR_PROFILES.values() for name in profile.says),
)


def _header(name: str) -> str:
    return "$message.header#/" + name.replace("~", "~0").replace("/", "~1")


def _body(pointer: str) -> str:
    return "$message.payload#/" + pointer


def _property(name: str) -> str:
    return "$message.property#/" + name


_CONTENT_TYPE = _property("content_type")
_CELERY = {"has": _header("task")}
_MASSTRANSIT = {"has": _CONTENT_TYPE, "begins": "application/vnd.masstransit+json"}
_CLOUDEVENTS = {"has": _CONTENT_TYPE, "begins": "application/cloudevents+json"}
# Its JSON encoder writes the fields in this order.
_DRAMATIQ = {"body_begins": '{"queue_name":', "where": [{"lacks": _CONTENT_TYPE}]}
_DRAMATIQ_ON_BOTH_SIDES = {**_DRAMATIQ, "parent_where": _DRAMATIQ["where"]}
# It writes the fields in this order, and its own behind them.
_MOLECULER: dict[str, Any] = {
    "body_begins": '{"id":"',
    "where": [{"lacks": _CONTENT_TYPE}, {"has": _body("ver")}, {"has": _body("sender")}],
}
_MOLECULER_CALL = [*_MOLECULER["where"], {"has": [_body("action"), _body("event")]}]


def _conversation(name: str, child: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "conversation", "child": child, "space": CONVERSATION, **more}


def _trace(name: str, child: str, take: str) -> dict[str, Any]:
    return _conversation(name, child, take=take)


def _cloudevents(name: str, place: Any, where: list[dict[str, str]]) -> list[dict[str, Any]]:
    """The correlation and tracing extensions, in headers of one kind or in the JSON envelope."""
    return [
        {
            "name": f"{name}-causation",
            "kind": "parent",
            "child": place("causationid"),
            "parent": place("id"),
            "space": "cloudevents",
            "where": where,
            "parent_where": where,
        },
        _conversation(f"{name}-correlation", place("correlationid"), where=where),
        _conversation(f"{name}-trace", place("traceparent"), where=where, take="traceparent"),
    ]


def _causation(header: str) -> dict[str, Any]:
    # MassTransit copies headers like this one from the message that it handles to those that it
    # publishes, and then the header names the grandparent.
    return {
        "name": header,
        "kind": "parent",
        "child": _header(header),
        "parent": _property(MESSAGE_ID),
        "space": MESSAGE_ID,
        "where": [{"lacks": _CONTENT_TYPE, "begins": "application/vnd.masstransit"}],
    }


_PROFILES: dict[str, list[dict[str, Any]]] = {
    "Celery": [
        {
            "name": "celery-parent",
            "kind": "parent",
            "child": _header("parent_id"),
            "parent": _header("id"),
            "space": "celery",
            "where": [_CELERY],
            "parent_where": [_CELERY],
        },
        {
            # A retry is published under the id and with the parent of the first attempt.
            "name": "celery-retry",
            "kind": "forward",
            "child": _header("id"),
            "parent": _header("id"),
            "space": "celery",
            "where": [_CELERY, {"has": _header("retries")}],
            "parent_where": [_CELERY],
        },
        {
            # A task that is replaced gives the other one its id, which so names itself.
            "name": "celery-replaced",
            "kind": "forward",
            "child": _header("id"),
            "parent": _header("id"),
            "space": "celery",
            "where": [_CELERY, {"has": _header("replaced_task_nesting")}],
            "parent_where": [_CELERY],
            "sure": False,
        },
        _conversation("celery-root", _header("root_id"), where=[_CELERY]),
    ],
    "NServiceBus": [
        {
            # Both are the property `message_id` as well, of whichever message was handled.
            "name": "nservicebus-related-to",
            "kind": "parent",
            "child": _header("NServiceBus.RelatedTo"),
            "parent": _header("NServiceBus.MessageId"),
            "space": MESSAGE_ID,
        },
        _conversation("nservicebus-conversation", _header("NServiceBus.ConversationId")),
    ],
    "MassTransit": [
        {
            # The initiator is the *correlation id* of the message that was handled, or else its
            # request id; messages of one saga share a correlation id.
            "name": "masstransit-initiator",
            "kind": "parent",
            "child": _body("initiatorId"),
            "parent": _body("correlationId"),
            "space": "masstransit-initiator",
            "where": [_MASSTRANSIT],
            "parent_where": [_MASSTRANSIT],
            "alone": True,
        },
        {
            "name": "masstransit-initiator-request",
            "kind": "parent",
            "child": _body("initiatorId"),
            "parent": _body("requestId"),
            "space": "masstransit-initiator",
            "where": [_MASSTRANSIT],
            "parent_where": [
                _MASSTRANSIT,
                {"has": _body("responseAddress")},
                {"lacks": _body("correlationId")},
            ],
            "alone": True,
        },
        {
            "name": "masstransit-reply",
            "kind": "reply",
            "child": _body("requestId"),
            "parent": _body("requestId"),
            "where": [_MASSTRANSIT, {"lacks": _body("responseAddress")}],
            "parent_where": [_MASSTRANSIT, {"has": _body("responseAddress")}],
        },
        {
            "name": "masstransit-redelivery",
            "kind": "forward",
            "child": _body("messageId"),
            "parent": _body("messageId"),
            "where": [
                _MASSTRANSIT,
                {"has": [_header("MT-Redelivery-Count"), _body("headers/MT-Redelivery-Count")]},
            ],
            "parent_where": [_MASSTRANSIT],
        },
        _conversation("masstransit-conversation", _body("conversationId"), where=[_MASSTRANSIT]),
        _conversation("masstransit-conversation-header", _header("ConversationId")),
    ],
    "Wolverine": [
        _conversation("wolverine-conversation", _header("conversation-id")),
        # Its parent is an activity's id, not a message's.
        _trace("wolverine-trace", _header("parent-id"), "traceparent"),
    ],
    "CloudEvents": [
        *_cloudevents("cloudevents", lambda name: _header(f"cloudEvents:{name}"), []),
        *_cloudevents("cloudevents-jms", lambda name: _header(f"cloudEvents_{name}"), []),
        # As the SDKs write headers for HTTP, which people give to AMQP.
        *_cloudevents("cloudevents-http", lambda name: _header(f"ce-{name}"), []),
        *_cloudevents("cloudevents-json", _body, [_CLOUDEVENTS]),
    ],
    "Nameko": [
        {
            # Each call writes its id behind those of the calls that led to it. A call may publish
            # several messages, and a stand-alone proxy is one call for as long as it lives.
            "name": "nameko-call",
            "kind": "parent",
            "child": _header("nameko.call_id_stack") + "/-2",
            "parent": _header("nameko.call_id_stack") + "/-1",
            "alone": True,
        },
    ],
    "Dramatiq": [
        {
            # A message of a pipeline holds the whole of the next one.
            "name": "dramatiq-pipeline",
            "kind": "parent",
            "child": _body("message_id"),
            "parent": _body("options/pipe_target/message_id"),
            "sure": False,
            **_DRAMATIQ_ON_BOTH_SIDES,
        },
        {
            # Retried, or brought back from the queue of delayed messages.
            "name": "dramatiq-again",
            "kind": "forward",
            "child": _body("message_id"),
            "parent": _body("message_id"),
            "sure": False,
            **_DRAMATIQ_ON_BOTH_SIDES,
        },
    ],
    "Moleculer": [
        {
            # The context that it was called in, which may be one that no message brought.
            "name": "moleculer-parent",
            "kind": "parent",
            "child": _body("parentID"),
            "parent": _body("id"),
            "space": "moleculer",
            "sure": False,
            "parent_where": _MOLECULER_CALL,
            **_MOLECULER,
        },
        {
            "name": "moleculer-response",
            "kind": "reply",
            "child": _body("id"),
            "parent": _body("id"),
            "space": "moleculer",
            "sure": False,
            "parent_where": _MOLECULER_CALL,
            "body_begins": _MOLECULER["body_begins"],
            "where": [*_MOLECULER["where"], {"lacks": [_body("action"), _body("event")]}],
        },
    ],
    "CAP": [
        {
            # What begins a conversation has its own id here.
            "name": "cap-correlation",
            "kind": "parent",
            "child": _header("cap-corr-id"),
            "parent": _header("cap-msg-id"),
        },
    ],
    "Rebus": [
        {
            "name": "rebus-reply",
            "kind": "reply",
            "child": _header("rbs2-in-reply-to"),
            "parent": _header("rbs2-msg-id"),
            "space": MESSAGE_ID,
        },
        _conversation("rebus-correlation", _header("rbs2-corr-id")),
    ],
    "a causation header": [
        _causation("causation_id"),
        _causation("causation-id"),
        _causation("x-causation-id"),
    ],
    "AMQP replies": [
        {
            # Through whichever exchange: EasyNetQ and Nameko have one of their own for replies.
            "name": "reply",
            "kind": "reply",
            "child": [_property("routing_key"), _property("correlation_id")],
            "parent": [_property("reply_to"), _property("correlation_id")],
            "space": "reply",
            "sure": False,
        },
        {
            "name": "reply-to-message-id",
            "kind": "reply",
            "child": [_property("routing_key"), _property("correlation_id")],
            "parent": [_property("reply_to"), _property(MESSAGE_ID)],
            "space": "reply",
            "sure": False,
        },
        {
            # RabbitMQ's JMS client has a message's id in a header alone.
            "name": "jms-reply",
            "kind": "reply",
            "child": [_property("routing_key"), _property("correlation_id")],
            "parent": [_property("reply_to"), _header("JMSMessageID")],
            "space": "reply",
            "sure": False,
        },
    ],
    "Watermill": [
        {
            # Its queue for what failed; the message has no id but this one.
            "name": "watermill-poison",
            "kind": "forward",
            "child": _header("_watermill_message_uuid"),
            "parent": _header("_watermill_message_uuid"),
            "same_body": True,
            "where": [{"has": _header("reason_poisoned")}],
        },
    ],
    "error and audit queues": [
        {
            "name": "forward",
            "kind": "forward",
            "child": _property(MESSAGE_ID),
            "parent": _property(MESSAGE_ID),
            "space": "forward",
            "same_body": True,
            "where": [{"has": [_header(name) for name in PUBLISHED_AGAIN]}],
        },
        {
            # Some programs copy this one with all other headers to whatever they publish.
            "name": "forward-x-death",
            "kind": "forward",
            "child": _property(MESSAGE_ID),
            "parent": _property(MESSAGE_ID),
            "space": "forward",
            "same_body": True,
            "where": [{"has": _header("x-death")}],
            "sure": False,
        },
    ],
    "tracing": [
        _trace("traceparent", _header("traceparent"), "traceparent"),
        _trace("b3", _header("b3"), "b3"),
        _trace("x-b3-traceid", _header("x-b3-traceid"), "b3-trace-id"),
        _trace("X-B3-TraceId", _header("X-B3-TraceId"), "b3-trace-id"),
        _trace("uber-trace-id", _header("uber-trace-id"), "uber-trace-id"),
        _trace("x-datadog-trace-id", _header("x-datadog-trace-id"), "datadog"),
        _trace("sw8", _header("sw8"), "sw8"),
    ],
    "a copied correlation id": [_conversation("correlation_id", _property("correlation_id"))],
}

PROFILES: dict[str, tuple[Rule, ...]] = {
    carrier: tuple(map(Rule.from_json, rules)) for carrier, rules in _PROFILES.items()
}
"""The built-in rules by what carries the names."""

BUILT_IN: tuple[Rule, ...] = tuple(rule for rules in PROFILES.values() for rule in rules)
