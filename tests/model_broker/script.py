"""Scripts: acts of programs on a layout, drawn from a seed, and cut to those that show a fault."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from drills.acts.topology import (
    COLOURS,
    DEAD,
    DIRECT,
    FANOUT,
    HEADERS,
    KEYS,
    SPARED,
    TOPIC,
    DeadLetters,
    Layout,
    QueueBinding,
    QueueRules,
)
from tests.model_broker.broker import ModelBroker

TTL, PAUSE = 2_000, 3_000  # ms: no sum of one is near a sum of the other for a while
NOWHERE = "nowhere"
OUTCOMES = ("acknowledge", "discard", "reject", "nack")


class Act(NamedTuple):
    """What a program does, or the service: ``restart``, and ``look`` for copies that are gone."""

    what: str
    who: str
    of: Mapping[str, Any] = MappingProxyType({})

    def __repr__(self) -> str:
        details = ", ".join(f"{name}={value!r}" for name, value in self.of.items())
        return f"{self.who}: {self.what}({details})"


def layout_of(draw: random.Random) -> Layout:
    """Queues with each of the situations, and what leads to them."""
    made = Layout()
    parked, audit, late = (made.add(QueueRules(name)) for name in ("parked", "audit", "late"))
    made.bindings += [QueueBinding(DEAD, "", parked), QueueBinding(DEAD, "", audit)]
    delay = made.add(QueueRules("delay2", DeadLetters("", late), ttl=TTL))
    delay = made.add(QueueRules("delay1", DeadLetters("", delay), ttl=TTL))
    retry = made.add(QueueRules("retry", DeadLetters("", "work0"), ttl=TTL))
    ways = [
        DeadLetters("", parked),
        DeadLetters(DEAD),
        DeadLetters("", delay),
        DeadLetters(DIRECT),
    ]
    work = [made.add(QueueRules("work0", DeadLetters("", retry)))]
    work += [made.add(QueueRules(f"work{n}", draw.choice(ways))) for n in (1, 2)]
    short = [
        made.add(QueueRules(f"short{n}", draw.choice(ways[:2]), longest=draw.randint(1, 2)))
        for n in (0, 1)
    ]
    limited = [
        made.add(QueueRules(f"limited{n}", DeadLetters("", parked), limit=n, is_safe=n == 2))
        for n in (1, 2)
    ]
    made.equal = [made.add(QueueRules(f"equal{n}", draw.choice([None, *ways[:2]]))) for n in (0, 1)]
    made.purged = [*made.equal]
    others = {
        "urgent": {"x-max-priority": 3},
        "single": {"x-single-active-consumer": True},
        "full": {"x-max-length": 1, "x-overflow": "reject-publish"},
        "refusing": {"x-max-length": 1, "x-overflow": "reject-publish-dlx"},
    }
    for name, more in others.items():
        made.add(QueueRules(name, DeadLetters("", parked), more=more))
    made.add(QueueRules("stream", more={"x-queue-type": "stream"}))
    for name in (*work, "urgent", "stream"):
        for exchange in draw.sample((DIRECT, FANOUT, TOPIC, HEADERS, SPARED), 2):
            patterns = {TOPIC: ("#", "a"), HEADERS: COLOURS}.get(exchange, KEYS)
            made.bindings.append(QueueBinding(exchange, draw.choice(patterns), name))
    made.joined.append(QueueBinding(DIRECT, "c", TOPIC))
    made.taken_from = [parked, audit, late, *work, *limited, *made.equal, short[0], *others]
    return made


class Author:
    """Draws acts that fit the model's state."""

    def __init__(
        self,
        draw: random.Random,
        broker: ModelBroker,
        *,
        is_real: bool = False,
        are_alike: bool = True,
    ) -> None:
        """``is_real``: they are for a broker, which has neither our service nor endless time.

        ``are_alike``: some messages are equal.
        """
        self._draw, self._broker, self._is_real, self._are_alike = draw, broker, is_real, are_alike
        self._bodies = 0

    def act(self) -> Act:
        draw, broker = self._draw, self._broker
        who = draw.choice([*broker.programs])
        hand = broker.programs[who].hand
        place = {"place": draw.randrange(len(hand) or 1)}
        if hand and (len(hand) > 3 or draw.random() < 0.35):
            requests = [n for n, (_, copy) in enumerate(hand) if broker.is_awaited(copy)]
            if requests and draw.random() < 0.7:
                return Act("answer", who, {"place": requests[0]})
            is_dead = "x-death" in hand[place["place"]][1].headers
            if is_dead and self._are_alike and draw.random() < 0.25:
                return Act("replay", who, {**place, "key": draw.choice(self._targets)})
            outcome = draw.choices(OUTCOMES, (35, 35, 15, 15))[0]
            return Act("settle", who, {**place, "outcome": outcome})
        kinds: dict[str, int] = {"publish": 42, "get": 38, "close": 3, "wait": 4, "purge": 2}
        kinds |= {"transact": 2, "ask": 2, "read": 4, "consume": 3}
        if not self._is_real:
            kinds |= {"restart": 4, "look": 3}
        what = draw.choices([*kinds], [*kinds.values()])[0]
        details = getattr(self, f"_{what}", None)
        return Act(what, who, {} if details is None else details(who))

    @property
    def _targets(self) -> list[str]:
        return [name for name in self._broker.queues if not name.startswith("equal")]

    def _body(self, who: str) -> str:
        self._bodies += 1
        return f"{who}/{self._bodies}"

    def _publish(self, who: str) -> dict[str, Any]:
        draw, made = self._draw, self._broker.layout
        if self._are_alike and draw.random() < 0.2:  # what others publish too
            key = draw.choice([*made.equal, "short0", "short1"])
            message = {"exchange": "", "key": key, "body": f"same{draw.randrange(2)}"}
            return message | ({"expiration": str(TTL)} if draw.random() < 0.2 else {})
        exchange, key = "", draw.choice(self._targets)
        headers: dict[str, Any] = {}
        if draw.random() < 0.4:
            exchange = draw.choice((DIRECT, FANOUT, TOPIC, HEADERS, SPARED))
            key = draw.choice(KEYS)
            if exchange == HEADERS:
                headers["colour"] = draw.choice(COLOURS)
        elif draw.random() < 0.1:
            key = NOWHERE
        handed = self._broker.programs[who].handed
        if handed and draw.random() < 0.25:
            headers["causation_id"] = draw.choice(handed[-5:])
        body = self._body(who)
        message = {"exchange": exchange, "key": key, "body": body}
        if exchange == DIRECT and draw.random() < 0.3:
            message["copied"] = (draw.choice(KEYS),)
        if draw.random() < 0.6:
            message["message_id"] = f"id-{body}"
        if draw.random() < 0.08:
            message["expiration"] = str(TTL)
        if key == "urgent" and draw.random() < 0.5:
            message["priority"] = draw.randint(1, 3)
        return message | ({"headers": headers} if headers else {})

    def _get(self, who: str) -> dict[str, Any]:
        queues = self._broker.queues
        filled = [name for name in self._broker.layout.taken_from if queues[name].ready]
        return {"queue": self._draw.choice(filled or self._broker.layout.taken_from)}

    def _read(self, who: str) -> dict[str, Any]:
        log = self._broker.queues["stream"].log
        return {"stream": "stream", "offset": self._draw.randrange(len(log) or 1)}

    def _consume(self, who: str) -> dict[str, Any]:
        # Of several consumers the model need not know whose turn it is.
        free = [n for n, queue in self._broker.queues.items() if not queue.consumers]
        names = [name for name in free if name in self._broker.layout.taken_from]
        names = names if names and self._is_real else [*names, "single"]
        return {"queue": self._draw.choice(names), "prefetch": self._draw.randint(1, 3)}

    def _ask(self, who: str) -> dict[str, Any]:
        return {"queue": self._draw.choice(["work0", "work1"]), "body": self._body(who)}

    def _transact(self, who: str) -> dict[str, Any]:
        # Where a queue refuses one, the broker closes the channel, and half of it was done.
        names = [name for name in self._targets if name not in ("full", "refusing")]
        messages = [("", self._draw.choice(names), self._body(who)) for _ in range(2)]
        return {"messages": messages, "commits": self._draw.random() < 0.5}

    def _purge(self, who: str) -> dict[str, Any]:
        return {"queue": self._draw.choice(self._broker.layout.purged)}

    def _wait(self, who: str) -> dict[str, Any]:
        long = not self._is_real and self._draw.random() < 0.2
        return {"milliseconds": 90_000 if long else PAUSE}


def shortened(acts: list[Act], fails: Callable[[list[Act]], bool]) -> list[Act]:
    """The acts without those that it takes none of to fail: stretches first, then one by one."""
    size = len(acts)
    while size:
        for start in range(len(acts) - size, -1, -1):
            rest = acts[:start] + acts[start + size :]
            if len(rest) < len(acts) and fails(rest):
                acts = rest
        size //= 2
    return acts
