"""The built-in rules, as found in the sources of libraries.

A rule is here only if it holds wherever its headers are; `docs/links.md` has them as a table for
people, and says what is left out and why.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from app.tracker.links.rule import Rule
from app.tracker.links.rules import CONVERSATION, MESSAGE_ID, MOVED_RULE
from model.error_queues import ERROR_PROFILES

# Headers of messages that are published again because they failed, or as a copy for the audit. None
# is passed on to other messages.
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


def _oslo(name: str) -> str:
    return _body("oslo.message/" + name)


def _property(name: str) -> str:
    return "$message.property#/" + name


_CORRELATION, _CORRELATION_BYTES = _property("correlation_id"), _header("x-correlation-id")
_CONTENT_TYPE, _MESSAGE_ID = _property("content_type"), _property(MESSAGE_ID)
_CELERY = {"has": _header("task")}
_MASSTRANSIT = {"has": _CONTENT_TYPE, "begins": "application/vnd.masstransit+json"}
_CLOUDEVENTS = {"has": _CONTENT_TYPE, "begins": "application/cloudevents+json"}
_CALLS = _header("nameko.call_id_stack")
_NO_TYPE = [{"lacks": _CONTENT_TYPE}]
# Its JSON encoder writes the fields in this order.
_DRAMATIQ: dict[str, Any] = {
    "body_begins": '{"queue_name":',
    "where": _NO_TYPE,
    "parent_where": _NO_TYPE,
    "sure": False,
}
# Its envelope holds the message as a text that is JSON.
_OF_OSLO: dict[str, Any] = {"body_begins": '{"oslo.version":'}
_OF_MOLECULER = [*_NO_TYPE, {"has": _body("ver")}, {"has": _body("sender")}]
_ACTIONS = [_body("action"), _body("event")]
# It writes the fields in this order, and its own behind them.
_MOLECULER: dict[str, Any] = {
    "body_begins": '{"id":"',
    "parent_where": [*_OF_MOLECULER, {"has": _ACTIONS}],
    "space": "moleculer",
    "sure": False,
}
_ONCE_MORE: dict[str, Any] = {"space": "forward", "same_body": True}


def _rule(kind: str, name: str, child: Any, parent: Any, **fields: Any) -> dict[str, Any]:
    return {"name": name, "kind": kind, "child": child, "parent": parent, **fields}


_parent, _reply, _forward = (partial(_rule, kind) for kind in ("parent", "reply", "forward"))


def _repeat(name: str, place: str, **fields: Any) -> dict[str, Any]:
    """The rule of messages that are published again with the same value."""
    return _forward(name, place, place, **fields)


def _conversation(name: str, child: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "kind": "conversation", "child": child, "space": CONVERSATION, **fields}


def _trace(name: str, child: str, take: str) -> dict[str, Any]:
    return _conversation(name, child, take=take)


def _cloudevents(name: str, place: Any, conditions: list[dict[str, str]]) -> list[dict[str, Any]]:
    """The correlation and tracing extensions, in headers of one kind or in the JSON envelope."""
    wheres = {"where": conditions, "parent_where": conditions}
    return [
        _parent(
            f"{name}-causation", place("causationid"), place("id"), space="cloudevents", **wheres
        ),
        _conversation(f"{name}-correlation", place("correlationid"), where=conditions),
        _conversation(f"{name}-trace", place("traceparent"), where=conditions, take="traceparent"),
    ]


def _celery(
    kind: Callable[..., dict[str, Any]],
    name: str,
    child: str,
    *conditions: dict[str, str],
    **fields: Any,
) -> dict[str, Any]:
    wheres = {"where": [_CELERY, *conditions], "parent_where": [_CELERY]}
    return kind(name, child, _header("id"), space="celery", **wheres, **fields)


def _initiator(name: str, parent: str, conditions: list[dict[str, str]]) -> dict[str, Any]:
    return _parent(
        name,
        _body("initiatorId"),
        _body(parent),
        space="masstransit-initiator",
        where=[_MASSTRANSIT],
        parent_where=[_MASSTRANSIT, *conditions],
        alone=True,
    )


def _causation(header: str) -> dict[str, Any]:
    # MassTransit copies headers like this one from the message that it handles to those that it
    # publishes, and then the header names the grandparent.
    conditions = [{"lacks": _CONTENT_TYPE, "begins": "application/vnd.masstransit"}]
    return _parent(header, _header(header), _MESSAGE_ID, space=MESSAGE_ID, where=conditions)


def _reply_by(
    name: str,
    parent: str,
    child: str = _CORRELATION,
    address: str = _property("reply_to"),
) -> dict[str, Any]:
    places = [_property("routing_key"), child], [address, parent]
    return _reply(name, *places, space="reply", sure=False)


_PROFILES: dict[str, list[dict[str, Any]]] = {
    "Celery": [
        _celery(_parent, "celery-parent", _header("parent_id")),
        # A retry is published under the id and with the parent of the first attempt.
        _celery(_forward, "celery-retry", _header("id"), {"has": _header("retries")}),
        # A task that is replaced gives the other one its id, which so names itself.
        _celery(
            _forward,
            "celery-replaced",
            _header("id"),
            {"has": _header("replaced_task_nesting")},
            sure=False,
        ),
        # Each task of a chord's header has the body's id; few tasks are the body of one.
        _parent(
            "celery-chord",
            _header("id"),
            _body("2/chord/options/task_id"),
            where=[_CELERY],
            parent_where=[_CELERY, {"has": _header("group")}],
            sure=False,
            joint=True,
        ),
        _conversation("celery-root", _header("root_id"), where=[_CELERY]),
    ],
    "NServiceBus": [
        # Both are the property `message_id` as well, of whichever message was handled.
        _parent(
            "nservicebus-related-to",
            _header("NServiceBus.RelatedTo"),
            _header("NServiceBus.MessageId"),
            space=MESSAGE_ID,
        ),
        _conversation("nservicebus-conversation", _header("NServiceBus.ConversationId")),
    ],
    "MassTransit": [
        # The initiator is the *correlation id* of the message that was handled, or else its
        # request id; messages of one saga share a correlation id.
        _initiator("masstransit-initiator", "correlationId", []),
        _initiator(
            "masstransit-initiator-request",
            "requestId",
            [{"has": _body("responseAddress")}, {"lacks": _body("correlationId")}],
        ),
        _reply(
            "masstransit-reply",
            _body("requestId"),
            _body("requestId"),
            where=[_MASSTRANSIT, {"lacks": _body("responseAddress")}],
            parent_where=[_MASSTRANSIT, {"has": _body("responseAddress")}],
        ),
        _repeat(
            "masstransit-redelivery",
            _body("messageId"),
            where=[
                _MASSTRANSIT,
                {"has": [_header("MT-Redelivery-Count"), _body("headers/MT-Redelivery-Count")]},
            ],
            parent_where=[_MASSTRANSIT],
        ),
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
        # Each call writes its id behind those of the calls that led to it. A call may publish
        # several messages, and a stand-alone proxy is one call for as long as it lives.
        _parent("nameko-call", f"{_CALLS}/-2", f"{_CALLS}/-1", alone=True),
    ],
    "Dramatiq": [
        # A message of a pipeline holds the whole of the next one.
        _parent(
            "dramatiq-pipeline",
            _body("message_id"),
            _body("options/pipe_target/message_id"),
            **_DRAMATIQ,
        ),
        # Retried, or brought back from the queue of delayed messages.
        _repeat("dramatiq-again", _body("message_id"), **_DRAMATIQ),
    ],
    "Moleculer": [
        # The context that it was called in, which may be one that no message brought.
        _parent(
            "moleculer-parent", _body("parentID"), _body("id"), where=_OF_MOLECULER, **_MOLECULER
        ),
        _reply(
            "moleculer-response",
            _body("id"),
            _body("id"),
            where=[*_OF_MOLECULER, {"lacks": _ACTIONS}],
            **_MOLECULER,
        ),
    ],
    "oslo.messaging": [
        # A call and its reply have one id.
        _reply(
            "oslo-reply",
            [_property("routing_key"), _oslo("_msg_id")],
            [_oslo("_reply_q"), _oslo("_msg_id")],
            **_OF_OSLO,
        ),
        _conversation("oslo-request", _oslo("_context_request_id"), **_OF_OSLO),
        _conversation("oslo-global-request", _oslo("_context_global_request_id"), **_OF_OSLO),
    ],
    "CAP": [
        # The first message of a conversation has its own id here.
        _parent("cap-correlation", _header("cap-corr-id"), _header("cap-msg-id")),
    ],
    "Rebus": [
        _reply(
            "rebus-reply", _header("rbs2-in-reply-to"), _header("rbs2-msg-id"), space=MESSAGE_ID
        ),
        _conversation("rebus-correlation", _header("rbs2-corr-id")),
    ],
    "a causation header": [
        *map(_causation, ("causation_id", "causation-id", "x-causation-id")),
    ],
    "AMQP replies": [
        # Through whichever exchange: EasyNetQ and Nameko have one of their own for replies.
        _reply_by("reply", _CORRELATION),
        _reply_by("reply-to-message-id", _MESSAGE_ID),
        # RabbitMQ's JMS client has a message's id in a header alone.
        _reply_by("jms-reply", _header("JMSMessageID")),
        # Ids of AMQP 1.0 that are bytes, or too long for a property.
        _reply_by("reply-by-bytes", _CORRELATION_BYTES, _CORRELATION_BYTES),
        _reply_by("reply-to-message-bytes", _header("x-message-id"), _CORRELATION_BYTES),
    ],
    "MQTT 5 replies": [
        _reply_by("mqtt-reply", _CORRELATION, address=_header("x-reply-to-topic")),
        _reply_by(
            "mqtt-reply-by-bytes",
            *(_CORRELATION_BYTES, _CORRELATION_BYTES),
            address=_header("x-reply-to-topic"),
        ),
    ],
    "Watermill": [
        # Its queue of failed messages; they have no id but this one.
        _repeat(
            "watermill-poison",
            _header("_watermill_message_uuid"),
            same_body=True,
            where=[{"has": _header("reason_poisoned")}],
        ),
    ],
    "error and audit queues": [
        _repeat(
            "forward", _MESSAGE_ID, **_ONCE_MORE, where=[{"has": [*map(_header, PUBLISHED_AGAIN)]}]
        ),
        # Messages that shovels and federation links publish again; without these headers they are
        # recognised by their publisher (`Rules.read`).
        _repeat(
            MOVED_RULE,
            _MESSAGE_ID,
            **_ONCE_MORE,
            where=[{"has": [_header("x-shovelled"), _header("x-received-from")]}],
            sure=False,
        ),
        # Some programs copy this one with all other headers to every publish.
        _repeat(
            "forward-x-death",
            _MESSAGE_ID,
            **_ONCE_MORE,
            where=[{"has": _header("x-death")}],
            sure=False,
        ),
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
