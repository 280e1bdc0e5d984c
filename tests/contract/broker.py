"""A broker as its plugin tells of it: what happens on a few channels, and what became of all.

Plain bookkeeping by the broker's own rules. Of each delivery it knows what became of it, whether or
not that can be known from the records.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec

from app.tracker.records import Channel, Deliver, Publish, Settlement
from model.words import Disposition

BEGINNING = 1_700_000_000_000_000  # µs
QUEUES = ("work", "log", "both")
OUTCOMES = ("acknowledged", "rejected", "returned")


class Copy(msgspec.Struct):
    """A delivery, and what became of it; ``is_known``: the records tell."""

    disposition: Disposition = Disposition.in_hand
    at: int | None = None
    is_known: bool = True


class Process(msgspec.Struct):
    """A channel's process, and what the broker has of it; ``counted``: records tell its tags."""

    channel: Channel
    pid: str
    counted: bool
    next_tag: int = 1
    transactional: bool = False
    hand: dict[int, Copy] = {}
    taken: list[tuple[int, Copy, str]] = []
    gone: list[int] = []  # tags that are certainly not in hand
    modes: dict[str, set[bool]] = {}


class Broker:
    """Channels on which random things happen, a record at a time."""

    def __init__(self, seed: int, channels: int = 3) -> None:
        self.random = random.Random(seed)
        self.copies: list[Copy] = []
        self.now = BEGINNING
        self._pids = 0
        self.late: list[Settlement] = []  # that channels are closed, not told yet
        self._places = [Channel("rabbit@one", f"c:{n} -> b", n, "shop") for n in range(channels)]
        self._open: dict[Channel, Process] = {}

    def records(self, count: int) -> Iterator[Publish | Deliver | Settlement]:
        """So many steps, and the records that they leave."""
        for _ in range(count):
            self.now += self.random.randrange(1, 1_000)
            if self.late and self.random.random() < 0.3:
                yield self.late.pop(0)
            place = self.random.choice(self._places)
            process = self._open.get(place)
            yield from self._begin(place) if process is None else self._act(process)

    def _begin(self, place: Channel) -> Iterator[Deliver | Settlement]:
        self._pids += 1
        process = self._open[place] = Process(place, f"<{self._pids}>", counted=False)
        process.modes = {"work": {False}, "log": {True}, "both": {self.random.random() < 0.5}}
        # Of some the plugin tells only when they have been there for a while.
        if self.random.random() < 0.7:
            yield from self._tell(process)

    def _tell(self, process: Process) -> Iterator[Settlement]:
        yield self._say(
            process,
            "channel",
            pid=process.pid,
            next_tag=process.next_tag,
            transactional=process.transactional,
        )
        process.counted = all(len(modes) == 1 for modes in process.modes.values())
        for queue, modes in process.modes.items():
            for auto in sorted(modes):
                yield self._say(process, "consumer", queue=queue, auto=auto)

    def _mix(self, process: Process) -> None:
        """Have what it holds, and what comes, be settled by acknowledgement or without."""
        process.counted = False
        for copy in [*process.hand.values(), *[copy for _, copy, _ in process.taken]]:
            copy.is_known = False

    def _act(self, process: Process) -> Iterator[Publish | Deliver | Settlement]:
        chance = self.random.random()
        if chance < 0.45:
            yield self._deliver(process, self.random.choice(QUEUES))
        elif chance < 0.75:
            yield from self._settle(process)
        elif chance < 0.80:
            yield self._say(process, "recovered")
            self._put_back([*process.hand.values()], Disposition.returned)
            process.hand = {}
        elif chance < 0.82:
            process.transactional = True
            yield self._say(process, "selected")
        elif chance < 0.87 and process.transactional:
            yield self._say(process, "committed")
            for _, copy, outcome in process.taken:
                self._end(copy, outcome)
            process.taken = []
        elif chance < 0.90 and process.transactional:
            yield self._say(process, "rolled_back")
            back = {tag: copy for tag, copy, _ in process.taken}
            process.hand = dict(sorted((process.hand | back).items()))
            process.taken = []
        elif chance < 0.93:
            yield from self._get(process)
        elif chance < 0.95:
            yield Publish(process.channel, "", ("x",), (), {}, b"")
        elif chance < 0.97:
            yield from self._close(process)
        elif chance < 0.975:
            process.modes["both"] = {False, True}
            yield self._say(process, "consumer", queue="both", auto=False)
            yield self._say(process, "consumer", queue="both", auto=True)
            self._mix(process)
        else:
            yield from self._tell(process)

    def _deliver(self, process: Process, queue: str, auto: bool | None = None) -> Deliver:
        modes = process.modes.get(queue, {False})
        auto = self.random.choice(sorted(modes)) if auto is None else auto
        copy = Copy(is_known=process.counted)
        if auto:
            copy.disposition = Disposition.auto
            process.gone.append(process.next_tag)
        else:
            process.hand[process.next_tag] = copy
        process.next_tag += 1
        self.copies.append(copy)
        number = len(self.copies)
        return Deliver(process.channel, "", ("k",), queue, False, {"message_id": f"{number}"}, b"")

    def _get(self, process: Process) -> Iterator[Publish | Deliver | Settlement]:
        """A get in either mode, which may find nothing."""
        auto = self.random.random() < 0.5
        queue = self.random.choice(["got"] * 9 + ["work" if auto else "log"])
        yield self._say(process, "get", queue=queue, auto=auto)
        if queue != "got":  # it may have found nothing, and a consumer be handed what follows
            self._mix(process)
            yield self._deliver(process, queue)
        elif self.random.random() < 0.6:
            yield self._deliver(process, queue, auto)
        elif self.random.random() < 0.5:
            yield Publish(process.channel, "", ("x",), (), {}, b"")
            yield self._say(process, "get", queue="got", auto=not auto)
            yield self._deliver(process, "got", not auto)

    def _settle(self, process: Process) -> Iterator[Settlement]:
        hand, multiple = process.hand, self.random.random() < 0.5
        outcome, tags = self.random.choice(OUTCOMES), [*hand]
        tag = self.random.choice(tags) if tags else 0
        if self.random.random() < 0.03 and process.gone:
            tag = self.random.choice(process.gone)
        elif multiple and self.random.random() < 0.1:
            tag = 0
        if tag == 0 and not multiple:
            return
        yield self._say(process, "settled", outcome=outcome, delivery_tag=tag, multiple=multiple)
        if tag and tag not in hand:
            yield from self._close(process)
            return
        for each in [each for each in tags if each <= tag or not tag] if multiple else [tag]:
            copy = hand.pop(each)
            if process.transactional:
                process.taken.append((each, copy, outcome))
            else:
                process.gone.append(each)
                self._end(copy, outcome)

    def _end(self, copy: Copy, outcome: str) -> None:
        copy.disposition, copy.at = Disposition[outcome], self.now

    def _close(self, process: Process) -> Iterator[Settlement]:
        del self._open[process.channel]
        held = [*process.hand.values(), *[copy for _, copy, _ in process.taken]]
        self._put_back(held, Disposition.channel_closed)
        if process.counted or self.random.random() < 0.5:
            self.late.append(self._say(process, "closed", pid=process.pid))
            if self.random.random() < 0.5:
                yield self.late.pop()

    def _put_back(self, copies: list[Copy], disposition: Disposition) -> None:
        for copy in copies:
            copy.disposition, copy.at = disposition, self.now

    def _say(self, process: Process, event: str, **said: object) -> Settlement:
        return msgspec.convert(
            {"event": event, "channel": process.channel, "at": self.now, **said}, Settlement
        )
