"""Hearsay between clients: messages that they know of outside the broker, and name as causes.

Who names a message comes after it, whatever the broker saw of how its name got there. Which event
is meant is a rule of the service's documents (docs/links.md), said here once more in clocks: the
delivery to whoever names it or to somebody at its place, else the publish.

So that there is only one answer, a message is told of that has one copy and was handed over once,
or one that no queue took; and who published it does not name it. The broker has traced by then what
is told: a client tells of what it was handed when the broker has answered its next request.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from aio_pika.abc import HeadersType
from pamqp.common import FieldArray

from drills.clocks import Clock

PLACES = ("127.0.0.1", "127.0.0.2")
MOST_CAUSES = 3
LATE = 10  # of so many messages it was told last, or of all


class Told(NamedTuple):
    """A message: who published it, and who was handed it at which place, None if nobody was."""

    identity: str
    publisher: str
    published: Clock
    reply_to: str | None = None
    place: str | None = None
    received: Clock | None = None

    def clock_for(self, place: str) -> Clock:
        """The clock of the event that somebody at this place means by the message's name."""
        is_near = self.received is not None and self.place == place
        return self.received if is_near and self.received is not None else self.published


class Cause(NamedTuple):
    """The causes that a publish names: headers and properties that say so, and clocks before it.

    ``routing_key`` is where a reply has to go.
    """

    headers: HeadersType
    clocks: list[Clock]
    correlation_id: str | None = None
    routing_key: str | None = None


class Hearsay:
    """The messages that everybody was told of."""

    def __init__(self) -> None:
        self._told: list[Told] = []
        self.named = 0  # causes, in all

    def tell(self, told: Told) -> None:
        """Have others name this message from now on."""
        self._told.append(told)

    def cause(self, random_: random.Random, name: str, place: str) -> Cause | None:
        """Choose what a client at a place names: nothing, some messages, or a request."""
        heard = self._heard(random_, name) if random_.random() < 0.5 else []
        if not heard:
            return None
        request = heard[0]
        if request.reply_to is not None and random_.random() < 0.3:
            self.named += 1
            clocks = [request.clock_for(place)]
            return Cause({}, clocks, request.identity, request.reply_to)
        self.named += len(heard)
        names: FieldArray = [told.identity for told in heard]
        headers: HeadersType = {"causation_id": names[0] if len(names) == 1 else names}
        return Cause(headers, [told.clock_for(place) for told in heard])

    def _heard(self, random_: random.Random, name: str) -> list[Told]:
        """Up to `MOST_CAUSES` messages, of late and of all times, that others have published."""
        among = self._told[-LATE:] if random_.random() < 0.5 else self._told
        chosen = random_.choices(among, k=random_.randint(1, MOST_CAUSES)) if among else []
        return [*{told.identity: told for told in chosen if told.publisher != name}.values()]


def trace_header(random_: random.Random) -> HeadersType:
    """A trace that many messages share: it groups them, and puts none before another."""
    return {
        "traceparent": f"00-{random_.randint(1, 20):032x}-{random_.getrandbits(64) | 1:016x}-01"
    }
