"""Programs that name causes of which they heard outside the broker, where nothing dies.

They publish, and acknowledge each message at once, from two places. Who names a message comes after
it, whatever the broker saw of how its name got there. Which event is meant is a rule of the
service's documents (docs/links.md), said here once more in acts: the delivery to whoever names it
or to somebody at its place, else the publish.

So that there is only one answer, a message is told of that has one copy and was handed over once,
or one that no queue took; and who published it does not name it. The broker has traced by then what
is told: a program tells of what it was handed when the broker has answered its next request.
"""

from __future__ import annotations

import json
import random
from typing import NamedTuple

from aio_pika import Message
from aio_pika.abc import HeadersType

from drills.acts.log import Act, ActKind, Log
from drills.acts.programs import LoggedProgram
from drills.acts.topology import COLOURS, KEYS, NOWHERE, ROUTING, Layout

PLACES = ("127.0.0.1", "127.0.0.2")
MOST_CAUSES = 3
LATE = 10  # of this many messages it was told of last, or of all


class Rumour(NamedTuple):
    """A message of which everybody was told: its publish, and its delivery, if there was one."""

    publish: Act
    reply_to: str | None
    delivery: Act | None = None
    place: str = ""  # of who was handed it

    def meaning_at(self, place: str) -> Act:
        """The act that somebody at a place means by the message's name."""
        is_near = self.delivery is not None and self.place == place
        return self.delivery if is_near and self.delivery is not None else self.publish


class Gossip(LoggedProgram):
    """One of them, at a place."""

    def __init__(
        self, name: str, url: str, topology: Layout, log: Log, place: str, rumours: list[Rumour]
    ) -> None:
        super().__init__(name, url, topology, log, place=place)
        self._place = place
        self._rumours = rumours
        self._untold: list[Rumour] = []

    async def act(self, draw: random.Random) -> None:
        """Publish, or take a message."""
        untold, self._untold = self._untold, []
        await (self._publish(draw) if draw.random() < 0.45 else self._get(draw))
        self._rumours += untold  # the broker has answered since

    async def _get(self, draw: random.Random) -> None:
        hand = await self._take(draw.choice(self._topology.taken_from))
        if hand is None:
            return
        await self._settle(hand, ActKind.acknowledge)
        if hand.message.exchange == "":  # the only copy
            publish = self._log.publish_of(hand.act.body)
            reply_to = hand.message.reply_to
            self._untold.append(Rumour(publish, reply_to, hand.act, self._place))

    async def _publish(self, draw: random.Random) -> None:
        self._messages += 1
        body, queues = f"{self.name}/{self._messages}", self._topology.taken_from
        exchange, colour = draw.choice(("", *ROUTING)), draw.choice(COLOURS)
        key = draw.choice(KEYS if exchange else queues)
        headers: HeadersType = {"colour": colour, "traceparent": _trace(draw)}
        message = Message(body.encode(), message_id=body, headers=headers)
        causes = self._rumours_of_others(draw) if draw.random() < 0.5 else []
        if causes and causes[0].reply_to and draw.random() < 0.3:
            del causes[1:]
            exchange, key = "", causes[0].reply_to
            message.correlation_id = causes[0].publish.body
        else:
            names = [each.publish.body for each in causes]
            if names:
                message.headers["causation_id"] = names[0] if len(names) == 1 else [*names]
            if not exchange:
                message.correlation_id = body
                message.reply_to = draw.choice([each for each in queues if each != key])
                key = NOWHERE if draw.random() < 0.2 else key
        numbers = tuple(each.meaning_at(self._place).number for each in causes)
        act = self._log.publish(
            self.name, body, exchange, key, session=self._session, copied=(colour,), causes=numbers
        )
        for number in numbers:
            self._join(self._log.acts[number].clock)
        self._tick(act)
        message.headers["clock"] = json.dumps(self.clock)
        await self._send(message, act)
        if key == NOWHERE:
            self._rumours.append(Rumour(act, message.reply_to))

    def _rumours_of_others(self, draw: random.Random) -> list[Rumour]:
        """Up to `MOST_CAUSES` messages, of late and of all times, that others have published."""
        among = self._rumours[-LATE:] if draw.random() < 0.5 else self._rumours
        chosen = draw.choices(among, k=draw.randint(1, MOST_CAUSES)) if among else []
        return [*{each.publish.body: each for each in chosen if self._is_others(each)}.values()]

    def _is_others(self, rumour: Rumour) -> bool:
        return rumour.publish.program != self.name


def _trace(draw: random.Random) -> str:
    """A trace that many messages share: it groups them, and puts none before another."""
    return f"00-{draw.randint(1, 20):032x}-{draw.getrandbits(64) | 1:016x}-01"
