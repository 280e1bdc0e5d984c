"""Our queue as it should be, and the faults of the existing one.

A user who may configure our queue's name can declare it before us, with a bound that drops nearly
everything into that user's own queue; one who may write to it can unbind it; and a broker policy
for all queues applies to ours too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
from pamqp.common import FieldTable

from app.broker.bundles import bundles_queue, wishes
from app.broker.management import Binding, QueueInfo

# From here on the broker may already be dropping the oldest trace messages.
NEARLY_FULL = 0.95
# A queue with smaller bounds than these, and than ours, is somebody else's. An operator who changes
# our bounds leaves queues with other ones behind, and those are fine.
LEAST_BYTES = 1 << 20
LEAST_MESSAGES = 10_000
# 4.x drops a message after twenty redeliveries; each connection of ours may cause one.
MOST_DELIVERIES = 2**31 - 1

# These do not affect which messages the queue keeps.
_HARMLESS = frozenset(
    {
        "x-queue-type",
        "x-single-active-consumer",
        "x-queue-mode",
        "x-queue-version",
        "x-queue-master-locator",
        "x-queue-leader-locator",
        "x-quorum-initial-group-size",
    }
)

# The argument that names a trace queue's owner: the broker keeps it and ignores it.
OWNER = "x-itc-store"
# The prefix of bookmarks' keys.
BOOKMARK = "itc.stored."
# Our policy for our queue ranks so high that policies for all queues leave it alone.
POLICY_PRIORITY = 1_000_000


def announcements_queue(trace_queue: str) -> str:
    """The name of the queue of connections' announcements that goes with a trace queue."""
    return f"{trace_queue}.connections"


class QueueBounds(msgspec.Struct, frozen=True):
    """Bounds on our queue: bytes of bodies, and messages, since headers take room too."""

    bytes: int = 1 << 30
    messages: int = 500_000


class QueueState(msgspec.Struct, frozen=True):
    """The state of our queue.

    ``fault`` says why it cannot be ours, ``harm`` what a broker policy does to it; both are None if
    all is well. ``is_nearly_full`` is None if the broker cannot say yet. ``most_bytes`` bounds its
    bodies. ``remarks`` are sentences for the operator. ``missing`` are routing keys that it should
    be bound with, and ``excess`` others.
    """

    fault: str | None = None
    harm: str | None = None
    is_bound: bool = True
    is_nearly_full: bool | None = None
    most_bytes: int | None = None
    remarks: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    excess: tuple[str, ...] = ()


class Bookmark(NamedTuple):
    """The store's progress: the epoch of a run, and the last event that was stored.

    The broker keeps it with the trace queue, as a binding whose key no trace message has. The epoch
    changes with each run, and both only grow. A store that is behind it was restored from a backup:
    messages acknowledged since that backup are in no queue any more.
    """

    epoch: int
    event_id: int

    @property
    def key(self) -> str:
        return f"{BOOKMARK}{self.epoch}.{self.event_id}"


def bookmarks(keys: Iterable[str]) -> list[Bookmark]:
    """The bookmarks among binding keys; malformed ones of others are left out."""
    marks = [key.removeprefix(BOOKMARK).split(".") for key in keys if key.startswith(BOOKMARK)]
    numbers = [[int(part) for part in parts if part.isdecimal()] for parts in marks]
    return [Bookmark(*pair) for pair in numbers if len(pair) == len(Bookmark._fields)]


def queue_arguments(bounds: QueueBounds, *, quorum: bool, owner: str | None = None) -> FieldTable:
    """The arguments that our queue is declared with; ``owner`` is the name of our store."""
    table: FieldTable = {
        "x-max-length-bytes": bounds.bytes,
        "x-max-length": bounds.messages,
    }
    if owner is not None:
        table[OWNER] = owner
    if quorum:
        table |= {"x-queue-type": "quorum", "x-delivery-limit": MOST_DELIVERIES}
    return table


def state(
    queue: QueueInfo, bounds: QueueBounds, *, wanted: Collection[str], bound: Collection[str]
) -> QueueState:
    """Judge a queue by the broker's answer, and its ``bound`` routing keys by the ``wanted``.

    Nothing is lost where the queue has not asked for bundles yet.
    """
    asked = {*wanted, *wishes(wanted)}
    return QueueState(
        fault=fault(queue, bounds),
        harm=_harm(queue, bounds),
        is_bound=set(wanted) <= set(bound),
        missing=tuple(sorted(asked - set(bound))),
        excess=tuple(sorted(set(bound) - asked)),
        is_nearly_full=_is_nearly_full(queue),
        most_bytes=min(_limits(queue, "max-length-bytes"), default=None),
        remarks=tuple(_remarks(queue)),
    )


def keys_bound_to(bindings: Iterable[Binding], queue: str) -> frozenset[str]:
    """The keys by which trace messages come into a queue, also in bundles."""
    return frozenset(
        binding.routing_key
        for binding in bindings
        if binding.destination_type == "queue"
        and binding.destination in (queue, bundles_queue(queue))
    )


def feeds_plugin(bindings: Iterable[Binding], queue: str) -> bool:
    """Tell whether what is traced for a queue goes to the broker plugin."""
    return any(binding.destination == bundles_queue(queue) for binding in bindings)


def guard_policy(queue: str, bounds: QueueBounds) -> dict[str, Any]:
    """A policy for our queue alone, which comes before those for all queues: only one applies.

    Those of operators apply beside it.
    """
    return {
        "pattern": f"^{re.escape(queue)}$",
        "definition": {"max-length-bytes": bounds.bytes, "max-length": bounds.messages},
        "priority": POLICY_PRIORITY,
        "apply-to": "queues",
    }


def is_others(queue: QueueInfo, owner: str | None) -> bool:
    """Tell whether another service's store gets this queue's messages."""
    return owner is not None and queue.arguments.get(OWNER, owner) != owner


def fault(queue: QueueInfo, bounds: QueueBounds) -> str | None:
    """Explain why a queue of our name is not ours: others get its messages, or it keeps too few."""
    if queue.type not in ("classic", "quorum"):
        return f"it is a {queue.type}"
    for is_so, sentence in (
        (queue.exclusive, "it is exclusive to a connection"),
        (queue.auto_delete, "it deletes itself"),
        (not queue.durable, "it is not durable"),
    ):
        if is_so:
            return sentence
    for name, value in sorted(queue.arguments.items()):
        if not _is_good(name, value, bounds):
            return f"it has {name} {str(value)[:100]}"
    return None


def _is_good(name: str, value: Any, bounds: QueueBounds) -> bool:
    lowest = _lower_limits(bounds).get(name.removeprefix("x-"))
    if lowest is not None:
        return type(value) is int and value >= lowest
    if name == "x-overflow":
        return bool(value == "drop-head")
    return name == OWNER or name in _HARMLESS


def _lower_limits(bounds: QueueBounds) -> dict[str, int]:
    return {
        "max-length-bytes": min(bounds.bytes, LEAST_BYTES),
        "max-length": min(bounds.messages, LEAST_MESSAGES),
        "delivery-limit": MOST_DELIVERIES,
    }


def _harm(queue: QueueInfo, bounds: QueueBounds) -> str | None:
    for name, value in sorted(queue.policy_definition.items()):
        if name in ("message-ttl", "expires"):
            return (
                f"{_policy(queue)} removes waiting messages from the trace queue ({name} {value})"
            )
        lowest = _lower_limits(bounds).get(name)
        if (lowest is not None and value < lowest) or (name == "overflow" and value != "drop-head"):
            return f"{_policy(queue)} lets the trace queue lose messages ({name} {value})"
    return None


def _policy(queue: QueueInfo) -> str:
    names = [
        f"{kind} {name[:100]}"
        for kind, name in (
            ("the broker's policy", queue.policy),
            ("the broker's operator policy", queue.operator_policy),
        )
        if name
    ]
    return " and ".join(names) or "a policy of the broker's"


def _remarks(queue: QueueInfo) -> Iterator[str]:
    """Remarks for the operator on things that lose nothing."""
    if "dead-letter-exchange" in queue.policy_definition:
        exchange = str(queue.policy_definition["dead-letter-exchange"])[:100]
        yield (
            f"{_policy(queue)} sends messages that the trace queue drops to exchange {exchange!r}: "
            "its readers get trace messages"
        )
    if (queue.consumers or 0) > 1:
        yield f"the trace queue has {queue.consumers} consumers: each gets only a part of it"


def _is_nearly_full(queue: QueueInfo) -> bool | None:
    """Judged by the bounds that apply to this queue, from any source."""
    if queue.message_bytes is None:
        return None
    for name, amount in (
        ("max-length-bytes", queue.message_bytes),
        ("max-length", queue.messages_ready or 0),
    ):
        limits = _limits(queue, name)
        if limits and amount > NEARLY_FULL * min(limits):
            return True
    return False


def _limits(queue: QueueInfo, name: str) -> list[int]:
    """The bounds of one kind that apply to a queue; the least one counts."""
    set_for_it = (queue.arguments.get(f"x-{name}"), queue.policy_definition.get(name))
    return [limit for limit in set_for_it if type(limit) is int]
