"""Why a message is in an error queue, as the library says that put it there.

Read in the libraries' sources. A failed message that is published to be tried again, or as a copy
for the audit, has none of these headers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from model.bodies import parse
from model.deaths import headers_of
from model.texts import storable

LONGEST_EXCEPTION = 300  # characters that are kept, of its type and message together

Path: TypeAlias = tuple[str | int, ...]
"""Steps into tables and lists, and texts that are JSON; a number leaves a table as it is."""


class Forward(NamedTuple):
    """The reason why a message is in an error queue.

    ``path`` is the exchange and routing key of its first publish. ``body`` is its own where the
    error queue's message has another.
    """

    queue: str | None
    exception: str | None
    path: tuple[str, str] | None = None
    body: bytes | None = None


def _last_part(address: str) -> str:
    """The queue in an address such as ``rabbitmq://host/vhost/queue?durable=true``."""
    return address.partition("?")[0].rstrip("/").rpartition("/")[2]


def _of_java(trace: str) -> str:
    """The cause's type and message, as the first line of a stack trace has them.

    Spring's own wrapper is the outer exception; the listener's stands behind "Caused by".
    """
    first, *rest = [line.strip() for line in trace.splitlines() if line.strip()] or [""]
    caused = [line.removeprefix("Caused by: ") for line in rest if line.startswith("Caused by: ")]
    return caused[0] if "ListenerExecution" in first and caused else first


class ErrorProfile(NamedTuple):
    """The paths in headers or body by which a library says that a message failed.

    One of the headers ``says`` is needed, and all of ``requires``. With ``type`` the body is read
    where the property begins so, and the body with ``body_begins``. The texts at ``exception`` are
    joined; without any, ``fallback`` counts. A message to the queue ``retried`` is only tried
    again.
    """

    says: tuple[str, ...] = ()
    requires: tuple[Path, ...] = ()
    type: str = ""
    body_begins: str = ""
    queue: Path = ()
    queue_in: Callable[[str], str] = storable
    exception: tuple[Path, ...] = ()
    exception_in: Callable[[str], str] = storable
    fallback: Path = ()
    path: tuple[Path, Path] | None = None
    body: Path = ()
    retried: Path = ()


_NSERVICEBUS = "NServiceBus.ExceptionInfo."
_SYMFONY = "X-Message-Stamp-Symfony\\Component\\Messenger\\Stamp\\"
_DETAILS = f"{_SYMFONY}ErrorDetailsStamp"

ERROR_PROFILES: dict[str, ErrorProfile] = {
    "NServiceBus": ErrorProfile(
        says=("NServiceBus.FailedQ",),
        queue=("NServiceBus.FailedQ",),
        queue_in=lambda address: address.partition("@")[0],
        exception=((f"{_NSERVICEBUS}ExceptionType",), (f"{_NSERVICEBUS}Message",)),
    ),
    # Without a fault the message was one that nobody at the endpoint takes.
    "MassTransit": ErrorProfile(
        says=("MT-Fault-ExceptionType", "MT-Fault-Message", "MT-Reason"),
        queue=("MT-Fault-InputAddress",),
        queue_in=_last_part,
        exception=(("MT-Fault-ExceptionType",), ("MT-Fault-Message",)),
    ),
    # And Spring Cloud Stream.
    "Spring AMQP": ErrorProfile(
        says=("x-exception-stacktrace", "x-exception-message"),
        exception=(("x-exception-stacktrace",),),
        exception_in=_of_java,
        fallback=("x-exception-message",),
        path=(("x-original-exchange",), ("x-original-routingKey",)),
    ),
    "Rebus": ErrorProfile(
        says=("rbs2-error-details",),
        queue=("rbs2-source-queue",),
        exception=(("rbs2-error-details",),),
    ),
    "Wolverine": ErrorProfile(
        says=("exception-type",),
        requires=(("failed-at",),),
        exception=(("exception-type",), ("exception-message",)),
    ),
    "Watermill": ErrorProfile(
        says=("reason_poisoned",),
        queue=("topic_poisoned",),
        exception=(("reason_poisoned",),),
    ),
    "rascal": ErrorProfile(
        says=("rascal",),
        requires=(("rascal", "error"),),
        queue=("rascal", "originalQueue"),
        exception=(("rascal", "error", "message"),),
        path=(("rascal", "originalExchange"), ("rascal", "originalRoutingKey")),
        retried=("rascal", "originalQueue"),
    ),
    # A message sent to be tried again has `ErrorDetailsStamp` alone. The transport is no queue.
    "Symfony Messenger": ErrorProfile(
        says=(f"{_SYMFONY}SentToFailureTransportStamp",),
        exception=((_DETAILS, -1, "exceptionClass"), (_DETAILS, -1, "exceptionMessage")),
    ),
    # Sneakers and its successor Kicks.
    "Sneakers": ErrorProfile(
        says=("retry_info",),
        requires=(("retry_info", 0, "failed_at"),),
        exception=(("retry_info", 0, "error_class"), ("retry_info", 0, "error_message")),
        fallback=("retry_info", 0, "error"),
    ),
    "EasyNetQ": ErrorProfile(
        type="EasyNetQ.SystemMessages.Error",
        body_begins='{"RoutingKey":',
        queue=("Queue",),
        exception=(("Exception",),),
        path=(("Exchange",), ("RoutingKey",)),
        body=("Message",),
    ),
}
"""By library."""


def forward_of(
    properties: Mapping[str, Any] | None,
    exchange: str,
    routing_keys: Sequence[str],
    body: bytes | None,
) -> Forward | None:
    """The reason why a publish puts a message into an error queue; None for any other publish."""
    headers = headers_of(properties)
    for profile in ERROR_PROFILES.values():
        content: object = headers
        if profile.type:
            kind = (properties or {}).get("type")
            if not isinstance(kind, str) or not kind.startswith(profile.type):
                continue
            content = parse(body or b"", Counter())
        elif headers.keys().isdisjoint(profile.says):
            continue
        if any(_value_at(content, path) is None for path in profile.requires):
            continue
        if profile.retried and not exchange and _text(content, profile.retried) in routing_keys:
            continue
        return _read(profile, content)
    return None


def _read(profile: ErrorProfile, content: object) -> Forward:
    queue = _text(content, profile.queue)
    parts = [_text(content, path) for path in profile.exception]
    exception = _line([profile.exception_in(part) for part in parts if part])
    path = None
    if profile.path is not None:
        exchange, key = (_text(content, step, empty=True) for step in profile.path)
        path = None if exchange is None or key is None else (exchange, key)
    original = _text(content, profile.body) if profile.body else None
    return Forward(
        (profile.queue_in(queue) or None) if queue else None,
        exception or _line([_text(content, profile.fallback) or ""]),
        path,
        None if original is None else original.encode(),
    )


def exception_type(exception: str | None) -> str | None:
    """The type of an exception as `forward_of` says it; all of it where that has no type."""
    if exception is None:
        return None
    kind, colon, _ = exception.partition(": ")
    return kind if colon and " " not in kind else exception


def _value_at(value: object, path: Path) -> object:
    for step in path:
        if isinstance(value, str):
            value = _parse(value)
        if isinstance(value, dict):
            value = value if isinstance(step, int) else value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and value:
            value = value[step]
        else:
            return None
    return value


@lru_cache(maxsize=2)  # several paths lead through the same text
def _parse(text: str) -> object:
    return parse(text.encode("utf-8", "surrogatepass"), Counter())


def _text(content: object, path: Path, *, empty: bool = False) -> str | None:
    value = _value_at(content, path) if path else None
    return storable(value) if isinstance(value, str) and (value or empty) else None


def _line(parts: Sequence[str]) -> str | None:
    line = ": ".join(part for part in parts if part).strip().partition("\n")[0].rstrip()
    if not line:
        return None
    return line if len(line) <= LONGEST_EXCEPTION else line[: LONGEST_EXCEPTION - 1] + "…"
