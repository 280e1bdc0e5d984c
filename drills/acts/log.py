"""The acts of programs, in the order in which they noted them: all that the judge is given.

An act of a program that the broker is told of is noted before it is sent, one of the broker's when
it has come. So whatever led to an act stands before it. All programs write to one log, whose places
are the only clock: ``since`` is the place at which a delivery was asked for, ``until`` the one at
which the broker had confirmed a publish or a purge.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class ActKind(enum.StrEnum):
    """The kinds of acts. By the last five a program parts with a copy."""

    publish = enum.auto()
    delivery = enum.auto()
    purge = enum.auto()  # of a queue, or its deletion
    bind = enum.auto()  # of a queue to the exchange that keeps messages
    leave = enum.auto()  # a program ends a session in which it consumed a queue
    acknowledge = enum.auto()
    reject = enum.auto()
    give_back = enum.auto()
    time_out = enum.auto()  # the broker told it so, and may have taken the copy back long before
    die = enum.auto()  # it closes or loses the session, with the copy in hand


@dataclass
class Act:
    """One act. ``number`` is its place in the log, from 0.

    ``session`` is a connection and a channel of it, by the client's port and the channel's number;
    ``copied`` are the keys of CC and BCC, and the value by which a headers exchange routes;
    ``causes`` are acts of which a program heard outside the broker, and which its publish names;
    ``settles`` is the delivery that it parts with. ``is_replay``: the message was handed over to
    the program, which publishes it again as it is.
    """

    number: int
    kind: ActKind
    program: str
    session: str = ""
    body: str = ""
    queue: str = ""
    exchange: str = ""
    key: str = ""
    copied: tuple[str, ...] = ()
    causes: tuple[int, ...] = ()
    redelivered: bool = False
    pushed: bool = False
    expires: bool = False
    is_replay: bool = False
    settles: int | None = None
    since: int = 0
    until: int | None = None
    clock: dict[str, int] = field(default_factory=dict)

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys that a publish is routed by."""
        return (self.key, *self.copied)


@dataclass
class Log:
    """The acts of all programs."""

    acts: list[Act] = field(default_factory=list)

    @property
    def now(self) -> int:
        """The next act's place."""
        return len(self.acts)

    def publish(self, program: str, body: str, exchange: str, key: str, **more: object) -> Act:
        """Note a publish that is about to be sent; `confirm` follows."""
        where = {"exchange": exchange, "key": key}
        return self._note(ActKind.publish, program, body=body, **where, **more)

    def publish_of(self, body: str) -> Act:
        """The only publish of a body."""
        [act] = [each for each in self.acts if each.kind is ActKind.publish and each.body == body]
        return act

    def confirm(self, act: Act) -> None:
        """Note that the broker has done it."""
        act.until = self.now

    def delivery(
        self, program: str, body: str, queue: str, *, asked: int | None = None, **more: object
    ) -> Act:
        """Note a delivery that came; ``asked`` is when for it, None if the broker pushed it."""
        what = {"body": body, "queue": queue, "pushed": asked is None, "since": asked or 0}
        return self._note(ActKind.delivery, program, **what, **more)

    def part(self, kind: ActKind, delivery: Act) -> Act:
        """Note that a program parts with what it was handed."""
        what = {"body": delivery.body, "queue": delivery.queue, "settles": delivery.number}
        return self._note(kind, delivery.program, **what)

    def purge(self, program: str, queue: str) -> Act:
        """Note a purge, or a queue's deletion, that is about to be sent; `confirm` follows."""
        return self._note(ActKind.purge, program, queue=queue, since=self.now)

    def bind(self, program: str, queue: str) -> Act:
        """Note that a queue is about to be bound to the exchange that keeps messages."""
        return self._note(ActKind.bind, program, queue=queue)

    def leave(self, program: str, queue: str) -> Act:
        """Note that a program ends a session that consumes a queue."""
        return self._note(ActKind.leave, program, queue=queue)

    def _note(self, kind: ActKind, program: str, **what: object) -> Act:
        act = Act(self.now, kind, program, **what)  # type: ignore[arg-type]
        self.acts.append(act)
        return act
