"""A message's type: the name that people give it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from model.bodies import parse
from model.texts import storable

_MASSTRANSIT = "application/vnd.masstransit+json"
_CLOUDEVENTS = "application/cloudevents+json"
_URN = "urn:message:"
CLOUDEVENTS_PREFIXES = ("cloudEvents:", "cloudEvents_", "ce-")
"""Of their attributes as headers: AMQP's binding, JMS's spelling of it, and RabbitMQ's binding."""
_CLOUDEVENTS_TYPES = tuple(f"{prefix}type" for prefix in CLOUDEVENTS_PREFIXES)
LONGEST = 200
"""Characters of a type that are kept: publishers can write anything there."""


def type_of(
    properties: Mapping[str, Any] | None,
    exchange: str,
    routing_keys: Sequence[str],
    payload: bytes | None,
) -> str:
    """The message's type, by its own word or else by its destination.

    The property ``type``, Celery's ``task``, ``NServiceBus.EnclosedMessageTypes``, MassTransit's
    ``messageType``, CloudEvents' ``type``; otherwise `address_of`. ``payload`` matters where
    `is_in_body`.
    """
    name = _named_type(properties or {}) or _in_body(properties, payload)
    return _cut(name or address_of(exchange, routing_keys))


def address_of(exchange: str, routing_keys: Sequence[str]) -> str:
    """The exchange and the first routing key, or only the key for the default exchange."""
    key = routing_keys[0] if routing_keys else ""
    return f"{exchange}/{key}" if exchange else key


def is_in_body(properties: Mapping[str, Any] | None) -> bool:
    """Tell whether only the body may say the message's type."""
    return _envelope(properties) is not None and _named_type(properties or {}) is None


def _named_type(properties: Mapping[str, Any]) -> str | None:
    headers = properties.get("headers")
    headers = headers if isinstance(headers, dict) else {}
    enclosed = _text(headers.get("NServiceBus.EnclosedMessageTypes"))
    return (
        _text(properties.get("type"))
        or _text(headers.get("task"))
        or (enclosed and _short_name(enclosed))
        or next(filter(None, (_text(headers.get(name)) for name in _CLOUDEVENTS_TYPES)), None)
    )


def _in_body(properties: Mapping[str, Any] | None, payload: bytes | None) -> str | None:
    envelope = _envelope(properties)
    if envelope is None or not payload:
        return None
    body = parse(payload, Counter())
    if not isinstance(body, dict):
        return None
    if envelope == _CLOUDEVENTS:
        return _text(body.get("type"))
    types = body.get("messageType")
    urn = _text(types[0]) if isinstance(types, list) and types else None
    return None if urn is None else urn.removeprefix(_URN).rpartition(":")[2] or None


def _envelope(properties: Mapping[str, Any] | None) -> str | None:
    content_type = (properties or {}).get("content_type")
    if isinstance(content_type, str):
        for envelope in (_MASSTRANSIT, _CLOUDEVENTS):
            if content_type.startswith(envelope):
                return envelope
    return None


def _short_name(enclosed: str) -> str | None:
    """OrderPlaced for ``Shop.Orders.OrderPlaced, Shop, Version=1.0.0.0, …; …``."""
    full = enclosed.partition(";")[0].partition(",")[0].strip()
    plain = full.partition("[")[0].rstrip("`0123456789") if "[" in full else full
    return plain.replace("+", ".").rpartition(".")[2] or None


def _text(value: object) -> str | None:
    return storable(value) if isinstance(value, str) and value else None


def _cut(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"
