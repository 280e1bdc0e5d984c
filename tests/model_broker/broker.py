"""The model: queues as their arguments say, copies in them, and programs that hold some.

A copy carries its past: the events that have influenced it, as the bits of a number. Its publish
begins that; whoever parts with it, and whoever pushes it out of a queue, adds to it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.tracker import Channel, Deliver, Publish, Record
from drills.acts.topology import HEADERS, Layout, QueueRules
from tests.model_broker.manners import Manners, is_cycle, with_death

REPLIES = "amq.rabbitmq.reply-to"
SECOND = 1_000_000  # µs


def channel(name: str) -> Channel:
    """A channel of a user, alone on its connection."""
    return Channel("rabbit@test", f"{name} -> 127.0.0.1:5672", 1, name)


@dataclass
class Copy:
    """A message in a queue. ``returns`` are those that count towards a limit of deliveries."""

    number: int
    publish: int
    past: int
    exchange: str
    keys: tuple[str, ...]
    properties: dict[str, Any]
    body: str
    expires: int | None = None
    is_brought: bool = True  # the deaths in its headers are a client's
    was_handed: bool = False
    redelivered: bool = False
    is_pushed: bool = False
    returns: int = 0

    @property
    def headers(self) -> dict[str, Any]:
        return dict(self.properties.get("headers", {}))


@dataclass
class Program:
    """A program at an address of its own; ann publishes on another channel than it receives on."""

    name: str
    address: str
    number: int = 1
    past: int = 0
    hand: list[tuple[str, Copy]] = field(default_factory=list)
    handed: list[str] = field(default_factory=list)  # ids of messages

    def channel(self, kind: str = "") -> Channel:
        number = self.number + (kind == "publish" and self.name == "ann")
        return Channel("rabbit@model", f"{self.address}:5000 -> 10.1.0.1:5672", number, "guest")

    def is_at(self, channel: Channel) -> bool:
        """Tell whether a channel is one of the program's."""
        return channel.connection.startswith(f"{self.address}:")


class Queue:
    """A queue, classic, quorum or stream, as its arguments have it."""

    def __init__(self, name: str, arguments: Mapping[str, Any]) -> None:
        self.name = name
        self.ready: deque[Copy] = deque()
        self.log: list[Copy] = []  # of a stream
        self.kind = arguments.get("x-queue-type", "classic")
        self.letters_to = arguments.get("x-dead-letter-exchange")
        self.letter_key = arguments.get("x-dead-letter-routing-key")
        self.ttl = arguments.get("x-message-ttl")
        self.longest = arguments.get("x-max-length")
        self.overflow = arguments.get("x-overflow", "drop-head")
        self.limit = arguments.get("x-delivery-limit")
        self.priorities = arguments.get("x-max-priority", 0)
        self.is_single = arguments.get("x-single-active-consumer", False)
        self.consumers: deque[tuple[str, int]] = deque()  # programs, and how many each may hold

    @property
    def refuses(self) -> bool:
        """Tell whether it takes no message now."""
        is_full = self.longest is not None and len(self.ready) >= self.longest
        return is_full and self.overflow != "drop-head"

    def add(self, copy: Copy, *, is_back: bool = False) -> None:
        """Put a copy into its place: of those that came back, the quorum queue's first."""
        if is_back and self.kind == "quorum":
            place = sum(1 for other in self.ready if other.was_handed)
        else:
            mine = self._rank(copy)
            place = sum(1 for other in self.ready if self._rank(other) < mine)
        self.ready.insert(place, copy)

    def _rank(self, copy: Copy) -> tuple[int, int]:
        priority = min(copy.properties.get("priority", 0), self.priorities)
        return -priority, copy.number


def layout_of_queues(*names: str) -> Layout:
    """Queues that nothing happens in."""
    layout = Layout()
    for name in names:
        layout.add(QueueRules(name))
    return layout


class ModelBroker:
    """The broker. ``records`` are what the firehose shows; ``past`` what led to each, itself too.

    ``publish_of`` has each delivery's publish. Of `hidden` events no record is traced.
    """

    def __init__(
        self,
        layout: Layout,
        manners: Manners,
        names: Sequence[str] = ("ann", "bob", "cid", "dan"),
    ) -> None:
        self.layout, self.manners = layout, manners
        self.queues = {name: Queue(name, rules.arguments) for name, rules in layout.queues.items()}
        self.programs = {
            name: Program(name, f"10.0.{number >> 8}.{number & 255}")
            for number, name in enumerate(names, 10)
        }
        self.now = 1_700_000_000 * SECOND
        self.records: list[Record] = []
        self.times: list[int] = []
        self.past: list[int] = []
        self.publish_of: dict[int, int] = {}
        self.settled: dict[int, str] = {}
        self.hidden: set[int] = set()
        self._next_copy = 0
        self._reply_names: dict[str, str] = {}
        self._last_delivery: dict[int, int] = {}  # a copy's

    # ---- what programs do ------------------------------------------------------------------------

    def publish(
        self,
        who: str,
        exchange: str,
        key: str,
        body: str,
        *,
        copied: tuple[str, ...] = (),
        **properties: Any,
    ) -> None:
        """Publish a message; a cause that it names is one that the program was handed."""
        cause = properties.get("headers", {}).get("causation_id")
        if cause is not None and cause not in self.programs[who].handed:
            return
        self._deposit(*self._traced(who, exchange, key, body, copied, properties))

    def transact(self, who: str, messages: list[tuple[str, str, str]], *, commits: bool) -> None:
        """Publish in a transaction: what is rolled back was traced all the same."""
        traced = [self._traced(who, *message, (), {}) for message in messages]
        if commits:
            for event, record in traced:
                self._deposit(event, record)

    def replay(self, who: str, place: int, key: str) -> None:
        """Publish what is held again with all its properties, and acknowledge it."""
        held = self._held(who, place)
        if held is not None:
            copy = held[1]
            kept = {n: v for n, v in copy.properties.items() if n != "expiration"}
            copied = tuple(copy.headers.get("CC", ()))
            event, record = self._traced(who, "", key, copy.body, copied, kept)
            self._deposit(event, record)
            self.settle(who, place, "acknowledge")

    def get(self, who: str, queue: str) -> None:
        """Take the next message of a queue, if there is one."""
        self._expire()
        if self.queues[queue].ready:
            self._hand_over(who, queue, self.queues[queue].ready.popleft())

    def read(self, who: str, stream: str, offset: int) -> None:
        """Read a stream at an offset."""
        log = self.queues[stream].log
        if offset < len(log):
            copy = replace(log[offset])
            headers = {**copy.headers, "x-stream-offset": offset}
            copy.properties = {**copy.properties, "headers": headers}
            if self.manners.are_sorted:
                copy.properties.setdefault("delivery_mode", 1)
            self._hand_over(who, stream, copy, is_held=False)

    def consume(self, who: str, queue: str, prefetch: int) -> None:
        """Have a queue's messages pushed, up to a number at a time."""
        if all(program != who for program, _ in self.queues[queue].consumers):
            self.queues[queue].consumers.append((who, prefetch))
            self._push()

    def settle(self, who: str, place: int, outcome: str) -> None:
        """Acknowledge, reject, give back by ``reject`` or ``nack``, or reject for good."""
        held = self._held(who, place)
        if held is None:
            return
        program = self.programs[who]
        program.hand.remove(held)
        queue, copy = held
        copy.past |= program.past
        self.settled[self._last_delivery[copy.number]] = outcome
        if outcome == "discard":
            self._die(queue, copy, "rejected")
        elif outcome != "acknowledge":
            self._return(queue, copy, outcome)
        self._push()

    def close(self, who: str) -> None:
        """Close the channel, or have it closed for not acknowledging in time."""
        program = self.programs[who]
        for queue in self.queues.values():
            queue.consumers = deque(each for each in queue.consumers if each[0] != who)
        self._reply_names.pop(who, None)
        hand, program.hand = program.hand, []
        program.number += 2
        for queue_name, copy in hand:
            copy.past |= program.past
            self.settled[self._last_delivery[copy.number]] = "close"
            self._return(queue_name, copy, "close")
        self._push()

    def ask(self, who: str, queue: str, body: str) -> None:
        """Publish a request for a direct reply."""
        name = self._reply_names.setdefault(who, f"{REPLIES}.{who}.{len(self.records)}")
        said = {"reply_to": name, "correlation_id": body}
        self._deposit(*self._traced(who, "", queue, body, (), said))

    def answer(self, who: str, place: int) -> None:
        """Reply to a request that is held."""
        held = self._held(who, place)
        if held is None or not self.is_awaited(held[1]):
            return
        name = held[1].properties["reply_to"]
        said = {"correlation_id": held[1].properties["correlation_id"]}
        reaches = (name,) if self.manners.traces_replies else ()
        event, record = self._traced(who, "", name, f"re {held[1].body}", (), said, reaches)
        [asker] = [asker for asker, asked in self._reply_names.items() if asked == name]
        copy = self._copy(event, record)
        self._hand_over(asker, name, copy, is_held=False)
        if not self.manners.traces_replies:
            self.hidden.add(len(self.records) - 1)

    def purge(self, who: str, queue: str) -> None:
        """Purge a queue."""
        self.queues[queue].ready.clear()

    def wait(self, who: str, milliseconds: int) -> None:
        """Let time pass."""
        end = self.now + milliseconds * 1_000
        while dates := [copy.expires for _, copy in self._expiring() if copy.expires <= end]:
            self.now = max(self.now, min(dates))
            self._expire()
            self._push()
        self.now = end

    # ---- what the broker does --------------------------------------------------------------------

    def is_awaited(self, request: Copy) -> bool:
        """Tell whether somebody waits for the reply to a message."""
        return request.properties.get("reply_to") in self._reply_names.values()

    def consumed_by(self, who: str) -> list[str]:
        """The queues that a program consumes."""
        return [
            name
            for name, queue in self.queues.items()
            if any(program == who for program, _ in queue.consumers)
        ]

    def is_empty(self, queue: str) -> bool:
        """Tell whether a queue has no message, in nobody's hands either."""
        held = any(name == queue for each in self.programs.values() for name, _ in each.hand)
        return not (held or self.queues[queue].ready or self.queues[queue].log)

    def _traced(
        self,
        who: str,
        exchange: str,
        key: str,
        body: str,
        copied: tuple[str, ...] = (),
        properties: Mapping[str, Any] = {},
        queues: tuple[str, ...] | None = None,
    ) -> tuple[int, Publish]:
        if copied:
            headers = {**properties.get("headers", {}), "CC": [*copied]}
            properties = {**properties, "headers": headers}
        if queues is None:
            by = (properties.get("headers", {}).get("colour"),) if exchange == HEADERS else ()
            queues = tuple(self.layout.routed(exchange, by or (key, *copied)))
            if exchange == "":  # it is said to have a queue of each name
                queues = tuple(dict.fromkeys((key, *copied)))
        record = Publish(
            self.programs[who].channel("publish"),
            exchange,
            (key, *copied),
            queues,
            dict(properties),
            body.encode(),
        )
        return self._record(who, record, 0), record

    def _record(self, who: str, record: Record, past: int) -> int:
        event, program = len(self.records), self.programs[who]
        program.past |= past | 1 << event
        self.records.append(record)
        self.times.append(self.now)
        self.past.append(program.past)
        return event

    def _copy(self, event: int, record: Publish) -> Copy:
        self._next_copy += 1
        return Copy(
            self._next_copy,
            event,
            self.past[event],
            record.exchange,
            record.routing_keys,
            record.properties,
            record.body.decode(),
        )

    def _deposit(self, event: int, record: Publish) -> None:
        for name in record.routed_queues:
            if name in self.queues:
                self._enter(name, self._copy(event, record), self.past[event])
        self._push()

    def _enter(self, name: str, copy: Copy, pusher: int) -> None:
        """Put a new copy into a queue; ``pusher`` is the past of what makes it too long."""
        self._expire()
        queue = self.queues[name]
        if queue.kind == "stream":
            headers = copy.headers
            if not self.manners.are_sorted:  # before 4.0 other keys than the first are gone, too
                copy.keys = copy.keys[:1]
                headers.pop("CC", None)
            if copy.is_brought:  # it loses what a client brought of them
                headers.pop("x-death", None)
            rest = {n: v for n, v in copy.properties.items() if n != "headers"}
            copy.properties = {**rest, "headers": headers} if headers else rest
            copy.redelivered = False
            queue.log.append(copy)
            return
        if queue.refuses:
            if queue.overflow == "reject-publish-dlx":
                for other in queue.ready:  # with which it was full
                    copy.past |= self.past[other.publish]
                self._die(name, copy, "maxlen")
            return
        times = [copy.properties.get("expiration"), queue.ttl]
        shortest = min((int(time) for time in times if time is not None), default=None)
        copy.expires = None if shortest is None else self.now + shortest * 1_000
        queue.add(copy)
        flag = copy.redelivered
        if self.manners.flag == "handed over":  # not where a consumer waits for it
            copy.redelivered = False
        self._push()
        if copy in queue.ready:
            copy.redelivered = flag
        self._shorten(name, pusher)

    def _shorten(self, name: str, pusher: int) -> None:
        queue = self.queues[name]
        if queue.longest is None or queue.overflow != "drop-head":
            return
        while len(queue.ready) > queue.longest:
            head = queue.ready.popleft()
            head.past |= pusher
            self._die(name, head, "maxlen")

    def _return(self, name: str, copy: Copy, way: str) -> None:
        queue = self.queues[name]
        copy.redelivered, copy.is_pushed = True, False
        if queue.kind == "quorum":
            copy.returns += way in self.manners.limits
            if queue.limit is not None and copy.returns > queue.limit:
                self._die(name, copy, "delivery_limit")
                return
        queue.add(copy, is_back=True)
        self._expire()
        self._shorten(name, copy.past)

    def _die(self, name: str, copy: Copy, reason: str) -> None:
        queue = self.queues[name]
        if queue.letters_to is None:
            return
        death = {
            "count": 1,
            "reason": reason,
            "queue": name,
            "time": self.now // SECOND,
            "exchange": copy.exchange,
            "routing-keys": [*copy.keys],
        }
        properties = dict(copy.properties)
        if expiration := properties.pop("expiration", None):
            death["original-expiration"] = expiration
        headers = with_death(self.manners, copy.headers, death, is_brought=copy.is_brought)
        if queue.letter_key is not None and not self.manners.are_sorted:
            headers.pop("CC", None)
        properties["headers"] = headers
        keys = copy.keys if queue.letter_key is None else (queue.letter_key,)
        flag = {
            "never": False,
            "as before": copy.redelivered,
            "handed over": copy.redelivered or copy.was_handed,
        }[self.manners.flag]
        for target in self.layout.routed(queue.letters_to, keys):
            if reason != "rejected" and is_cycle(headers["x-death"], target):
                continue
            self._next_copy += 1
            letter = replace(
                copy,
                number=self._next_copy,
                exchange=queue.letters_to,
                keys=keys,
                properties=properties,
                expires=None,
                is_brought=False,
                was_handed=False,
                is_pushed=False,
                redelivered=flag,
                returns=0,
            )
            self._enter(target, letter, copy.past)

    def _expiring(self) -> Iterator[tuple[str, Any]]:
        for name, queue in self.queues.items():
            if queue.ready and queue.ready[0].expires is not None:
                yield name, queue.ready[0]

    def _expire(self) -> None:
        """Let heads of queues die whose time is over."""
        while due := [name for name, copy in self._expiring() if copy.expires <= self.now]:
            for name in due:
                head = next(iter(self.queues[name].ready), None)
                if head is not None and (head.expires or self.now + 1) <= self.now:
                    self._die(name, self.queues[name].ready.popleft(), "expired")

    def _push(self) -> None:
        """Hand over to consumers what they have room for, each in turn."""
        for name, queue in self.queues.items():
            turns = 0
            while queue.ready and turns < len(queue.consumers):
                who, prefetch = queue.consumers[0]
                hand = self.programs[who].hand
                if sum(q == name and copy.is_pushed for q, copy in hand) < prefetch:
                    queue.ready[0].is_pushed = True
                    self._hand_over(who, name, queue.ready.popleft())
                    turns = -1
                elif queue.is_single:
                    break
                if not queue.is_single:
                    queue.consumers.rotate(-1)
                turns += 1

    def _hand_over(self, who: str, queue: str, copy: Copy, *, is_held: bool = True) -> None:
        program = self.programs[who]
        record = Deliver(
            program.channel(),
            copy.exchange,
            copy.keys,
            queue,
            copy.redelivered,
            dict(copy.properties),
            copy.body.encode(),
        )
        event = self._record(who, record, copy.past)
        self.publish_of[event] = copy.publish
        if is_held:
            copy.was_handed = True
            self._last_delivery[copy.number] = event
            program.hand.append((queue, copy))
        if name := copy.properties.get("message_id"):
            program.handed.append(name)

    def _held(self, who: str, place: int) -> tuple[str, Copy] | None:
        hand = self.programs[who].hand
        return hand[place % len(hand)] if hand else None
