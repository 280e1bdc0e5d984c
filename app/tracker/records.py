"""Records: the broker's word as typed, frozen values that enter the tracker.

A trace message is parsed once, at the broker's edge, into a `Publish` or a `Deliver`. Each is a
`msgspec.Struct` rather than a frozen dataclass: building one takes 0.2 µs instead of 1.6 µs. They
have no cycles (``gc=False``), so the collector need not look at them.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias, final

import msgspec

from model.deaths import Death, deaths_of
from model.times import LATEST
from model.words import EventType

# A larger body is read once, for its digest, which stands for it from then on: a dead letter may
# come from many places, and has a fingerprint for each.
LARGE = 16 * 1024


class Channel(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """A channel of the broker, and its user.

    ``connection`` is the broker's ``ip:port -> ip:port`` (or a management session's
    ``<name@node.…>``); ``number`` is the AMQP channel number, reused by the broker at once.
    """

    node: str
    connection: str
    number: int
    user: str


NOWHERE = Channel("", "", 0, "")  # of messages whose channel is missing or unreadable


class _WithDeaths(msgspec.Struct, frozen=True, gc=False):
    """A record that reads the deaths in its headers once, when it is new."""

    def __post_init__(self: Any) -> None:
        headers = self.properties.get("headers")
        if isinstance(headers, dict) and "x-death" in headers and not self.deaths:
            msgspec.structs.force_setattr(self, "deaths", deaths_of(self.properties))


class Publish(_WithDeaths, frozen=True, tag=True, gc=False, omit_defaults=True):
    """A message that a client handed to an exchange, after routing and before any queue.

    ``properties`` are the AMQP properties as JSON-safe values, ``headers`` among them;
    ``routed_queues`` are the final queues, whatever exchanges and bindings led there. ``sha256`` is
    the digest of a `LARGE` body, and of any other empty. ``deaths`` are those in the headers,
    ``redactions`` the names of the rules by which values were replaced, and what was left out.
    """

    channel: Channel
    exchange: str
    routing_keys: tuple[str, ...]
    routed_queues: tuple[str, ...]
    properties: dict[str, Any]
    body: bytes
    sha256: bytes = b""
    deaths: tuple[Death, ...] = ()
    redactions: tuple[str, ...] = ()

    is_event: ClassVar[Literal[True]] = True
    event_type: ClassVar[int] = int(EventType.published)
    queue: ClassVar[None] = None
    redelivered: ClassVar[bool] = False


class Deliver(_WithDeaths, frozen=True, tag=True, gc=False, omit_defaults=True):
    """A message that the broker handed to a client from ``queue``.

    ``exchange`` and ``routing_keys`` are the message's at that time: after dead-lettering the
    dead letter exchange's, before it the publish's own.
    """

    channel: Channel
    exchange: str
    routing_keys: tuple[str, ...]
    queue: str
    redelivered: bool
    properties: dict[str, Any]
    body: bytes
    sha256: bytes = b""
    deaths: tuple[Death, ...] = ()
    redactions: tuple[str, ...] = ()

    is_event: ClassVar[Literal[True]] = True
    event_type: ClassVar[int] = int(EventType.received)
    routed_queues: ClassVar[None] = None


Record: TypeAlias = Publish | Deliver

# A delivery tag, and a time in µs.
Tag: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=2**60)]
Micros: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LATEST)]


@final
class Settlement(msgspec.Struct, frozen=True, tag=True, gc=False):
    """The broker plugin's message on settlements of ``channel``, or of all channels of its node.

    ``event`` decides which of the fields behind ``at`` it comes with (`app.broker.firehose`).
    ``at`` is when the broker took the method (µs, the node's clock). ``pid`` is the channel's
    process, whose next delivery has ``next_tag``; ``multiple``: everything up to ``delivery_tag``.
    """

    event: str
    channel: Channel
    at: Micros
    pid: str = ""
    next_tag: Tag = 0
    transactional: bool = False
    queue: str = ""
    auto: bool = False
    outcome: Literal["acknowledged", "rejected", "returned"] = "acknowledged"
    delivery_tag: Tag = 0
    multiple: bool = False

    is_event: ClassVar[Literal[False]] = False
    body: ClassVar[bytes] = b""
    sha256: ClassVar[bytes] = b""


UNTRACED_REPLY = (
    "a direct reply was given to nobody, or to a caller whose request is not in the record: before "
    "RabbitMQ 4.2 that is not traced"
)
QUARANTINED_BODY = 4096  # bytes kept of an unreadable message


@final
class Unreadable(msgspec.Struct, frozen=True, tag=True):
    """An unreadable trace message with the reason; never fatal.

    ``headers`` is the header table as JSON, as far as it can be shown, ``body`` the body's first
    bytes, ``body_bytes`` its whole length. ``channel`` is where it happened, as far as that can be
    read. ``is_forged``: the broker has not written it.
    """

    reason: str
    routing_key: str
    headers: str
    body: bytes
    body_bytes: int
    recorded_at: int
    channel: Channel = NOWHERE
    is_forged: bool = False

    is_event: ClassVar[Literal[False]] = False

    @property
    def kind(self) -> str:
        """The first word of its routing key: ``publish``, ``deliver``, ``settle`` or another."""
        return self.routing_key.partition(".")[0]

    @property
    def queue(self) -> str | None:
        """The queue that a delivery came from; None of anything else."""
        return self.routing_key.partition(".")[2] if self.kind == "deliver" else None
