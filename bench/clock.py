"""Speed and size of the clock: ``python -m bench.clock [ROUNDS]``.

Events per second of the clock in Python, of the same with its compiled core (which packs it, too,
as the service has it do), and of the paper's form (`bench.peers`), and their ratios; medians of the
rounds. The sides take turns, each in a process of its own, so that no garbage collector walks
another side's stamps; processor time is counted, so that a busy machine matters less. A message is
two events, the sender's and the receiver's, and all ids come from the pool. Workloads:

- gossip: from any participant to any other;
- hub: clients ask one server, which answers at once;
- churn: 50 live participants gossip; after every 5 messages the oldest ends and a new one comes.
Its interval goes back to the pool, or never does. Timing starts when 10,000 have been seen.

Garbage is collected as Python does it, and again as the service does (`app.interpreter`), for all
sides alike: stamps are many small tuples, and walking them can cost as much as the clock itself.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from app.interpreter import tune_interpreter
from bench.peers import PlainStamp
from itc import IdPool, Stamp, encode, pack, receive

ROUNDS = 5
ALIVE, SEEN, MESSAGES_EACH = 50, 10_000, 5

Pair: TypeAlias = tuple[int, int]
Pairs: TypeAlias = Callable[[random.Random, int, int], list[Pair]]


@dataclass(frozen=True)
class Clock:
    """One side of the comparison: how a participant's clock begins, and how it receives one."""

    name: str
    of_interval: Callable[[str, int], Any]
    receive: Callable[[Any, Any], Any]
    pure_python: bool = True  # without the compiled core


def _receive(own: Stamp, message: Stamp) -> Stamp:
    return own.join(message).event()


def _receive_at_once(own: Stamp, message: Stamp) -> Stamp:
    return receive(own, message)[0]


OURS = Clock("itc in Python", Stamp.of_interval, _receive)
COMPILED = Clock("itc compiled", Stamp.of_interval, _receive_at_once, pure_python=False)
PLAIN = Clock("plain nested", PlainStamp.of_interval, PlainStamp.receive)
CLOCKS = (OURS, COMPILED, PLAIN)


class World:
    """Participants with their clocks, all of one kind."""

    def __init__(self, clock: Clock, participants: int, reuse: bool = False) -> None:
        self._clock = clock
        self._reuse = reuse
        self._pool = IdPool()
        self.chance = random.Random(participants)
        self._intervals = [""] * participants
        self.stamps: list[Any] = [None] * participants
        for index in range(participants):
            self._come(index)

    def _come(self, index: int) -> None:
        self._intervals[index], base = self._pool.take()
        self.stamps[index] = self._clock.of_interval(self._intervals[index], base)

    def turned_plain(self) -> World:
        """The same world with the same stamps in the plain peer's form."""
        self._clock = PLAIN
        self.stamps = [PlainStamp(*stamp.trees()) for stamp in self.stamps]
        return self

    def replace(self, index: int) -> None:
        """End a participant, and begin a new one in its place."""
        if self._reuse:
            interval = self._intervals[index]
            self._pool.give_back(interval, self.stamps[index].height_at(interval))
        self._come(index)

    def pass_messages(self, pairs: Iterable[Pair]) -> None:
        """For each pair, let the first participant send and the second receive."""
        stamps, receive = self.stamps, self._clock.receive
        for sender, receiver in pairs:
            sent = stamps[sender] = stamps[sender].event()
            stamps[receiver] = receive(stamps[receiver], sent.peek())

    def pass_with_churn(self, pairs: list[Pair]) -> None:
        """The same, replacing the oldest participant after every few messages."""
        for number, start in enumerate(range(0, len(pairs), MESSAGES_EACH)):
            self.pass_messages(pairs[start : start + MESSAGES_EACH])
            self.replace(number % len(self.stamps))


def gossip(chance: random.Random, participants: int, messages: int) -> list[Pair]:
    """From any participant to any other."""
    return [
        (sender, (sender + chance.randrange(1, participants)) % participants)
        for sender in chance.choices(range(participants), k=messages)
    ]


def hub(chance: random.Random, participants: int, messages: int) -> list[Pair]:
    """Questions to participant 0, each followed by its answer."""
    asking = chance.choices(range(1, participants), k=messages // 2)
    return [pair for client in asking for pair in ((client, 0), (0, client))]


def everybody_to_hub(chance: random.Random, participants: int, messages: int) -> list[Pair]:
    """One message from each to participant 0, in any order: it has then heard from everybody."""
    return [(client, 0) for client in chance.sample(range(1, participants), messages)]


@dataclass(frozen=True)
class Workload:
    """A number of participants, and the messages between them: first, and then in each round."""

    name: str
    participants: int
    first: tuple[Pairs, int]
    then: tuple[Pairs, int]
    churn: bool = False
    reuse: bool = False

    def start(self, clock: Clock) -> World:
        """A world in which the first messages were passed."""
        if clock is PLAIN and self.churn:  # it would take minutes, and arrive at the same stamps
            return self.start(OURS).turned_plain()
        world = World(clock, self.participants, self.reuse)
        self._pass(world, *self.first)
        return world

    def round(self, world: World) -> float:
        """Pass one round of messages; the processor time it took, in seconds."""
        return self._pass(world, *self.then)

    def _pass(self, world: World, pairs: Pairs, messages: int) -> float:
        chosen = pairs(world.chance, self.participants, messages)
        pass_messages = world.pass_with_churn if self.churn else world.pass_messages
        start = time.process_time()
        pass_messages(chosen)
        return time.process_time() - start


class Side:
    """A process that plays one workload with one clock, round by round, when asked."""

    def __init__(self, workload: Workload, clock: Clock, tuned: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        arguments = (theirs, workload, CLOCKS.index(clock), tuned)
        self._process = context.Process(target=play, args=arguments, daemon=True)
        # The process imports the clock before it knows which.
        os.environ["PURE_PYTHON"] = str(int(clock.pure_python))
        self._process.start()

    def wait(self) -> None:
        """Wait until the first messages are passed."""
        self._connection.recv()

    def round(self) -> float:
        """The processor time of one more round, in seconds."""
        self._connection.send(True)
        seconds: float = self._connection.recv()
        return seconds

    def stop(self) -> None:
        """End the process."""
        self._connection.send(False)
        self._process.join()


def play(connection: Connection, workload: Workload, clock: int, tuned: bool) -> None:
    """Run the process of one side."""
    if tuned:
        tune_interpreter()
    world = workload.start(CLOCKS[clock])
    connection.send(True)
    while connection.recv():
        connection.send(workload.round(world))


def rates(workload: Workload, rounds: int, tuned: bool) -> list[float]:
    """Events per second of each clock, medians of the rounds."""
    sides = [Side(workload, clock, tuned) for clock in CLOCKS]
    try:
        for side in sides:
            side.wait()
        seen = [[side.round() for side in sides] for _ in range(rounds)]
    finally:
        for side in sides:
            side.stop()
    return [2 * workload.then[1] / statistics.median(times) for times in zip(*seen, strict=True)]


def gossiping(participants: int, messages: int) -> Workload:
    """Gossip after everybody has heard of most others."""
    first = (gossip, 12 * participants)
    return Workload(f"gossip of {participants:,}", participants, first, (gossip, messages))


def asking(participants: int, messages: int) -> Workload:
    """Questions to a hub that knows everybody."""
    first = (everybody_to_hub, participants - 1)
    return Workload(f"hub of {participants:,}", participants, first, (hub, messages))


def churning(messages: int, reuse: bool) -> Workload:
    """Churn after very many have come and gone."""
    name = f"churn, intervals {'given back' if reuse else 'kept'}"
    first = (gossip, SEEN * MESSAGES_EACH)
    return Workload(name, ALIVE, first, (gossip, messages), churn=True, reuse=reuse)


SMALL = [gossiping(8, 4_000), gossiping(64, 4_000)]
# Their rounds are long enough for full collections to happen in each.
LARGE = [gossiping(1_000, 2_000), asking(1_000, 2_000), asking(5_000, 1_000)]
CHURN = [churning(4_000, reuse=True), churning(200, reuse=False)]


def speed_row(workload: Workload, rounds: int, tuned: bool) -> str:
    """One row of the table of speeds."""
    ours, compiled, plain = seen = rates(workload, rounds, tuned)
    cells = [workload.name, "the service's" if tuned else "Python's"]
    pairs = ((ours, plain), (compiled, ours))
    cells += [*(f"{rate:,.0f}" for rate in seen), *(f"{a / b:.2f}" for a, b in pairs)]
    return f"| {' | '.join(cells)} |"


def speeds(rounds: int) -> Iterator[str]:
    """The table of speeds, each line as soon as it is known."""
    names = " | ".join(clock.name for clock in CLOCKS)
    ratios = "Python ÷ plain | compiled ÷ Python"
    yield f"| events/s | garbage collection | {names} | {ratios} |"
    yield "|---|---|---|---|---|---|---|"
    for workload in [*SMALL, *LARGE, *CHURN]:
        yield speed_row(workload, rounds, tuned=False)
    for workload in [*SMALL, *LARGE]:
        yield speed_row(workload, rounds, tuned=True)


def sizes() -> Iterator[str]:
    """The table of sizes: means over the stamps of all live participants."""
    yield "| bytes a stamp | packed | the paper's code |"
    yield "|---|---|---|"
    for workload in [gossiping(4, 4_000), *SMALL, *LARGE[:2], *CHURN]:
        world = workload.start(OURS)
        for done in range(1, ROUNDS + 1):
            workload.round(world)
            if done in (1, ROUNDS):
                packed = statistics.mean(len(pack(stamp)) for stamp in world.stamps)
                code = statistics.mean(len(encode(stamp)) for stamp in world.stamps)
                messages = workload.first[1] + done * workload.then[1]
                yield f"| {workload.name}, {messages:,} messages | {packed:,.0f} | {code:,.0f} |"


def main() -> None:
    """Print both tables."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    for line in chain(speeds(rounds), [""], sizes()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
