"""Applications whose messages are full of values that are none of their keys.

Each is made by a number: which key it has, or none, how busy it is, and which decoys stand where:
times, tenants, states, counters, constants, codes, ids of one message alone. Names tell nothing.
``python -m bench.decoys [HOW_MANY]`` looks at them without Spark, and says what was proposed that
is no key.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from app.stored.proposals import RuleProposal, proposals_in
from app.tracker.links import Rules
from bench.applications import KEYS, NO_KEY, Application, Message
from bench.stores import FIRST_TIME, STEP, VHOST, fill
from model.described import json_of
from spark_jobs.reports.look import look
from spark_jobs.spark.database import DatabaseAddress

MOST_EVENTS = 50_000
_OF_REPLIES = {"$message.property#/routing_key", "$message.property#/reply_to"}


class DecoyApplication(Application):
    """An application of some number."""

    def __init__(self, number: int) -> None:
        """Draw its key, its load and its decoys."""
        dice = random.Random(f"decoys {number}")  # not the one of its messages
        self.key = dice.choice([*KEYS, NO_KEY])
        orders = dice.randint(100, 500)
        super().__init__(
            self.key,
            orders,
            seed=number,
            at_once=dice.choice([2, 5, 20, 50]),
            is_split=dice.random() < 0.2,
        )
        kinds = dice.sample([*_DECOYS], dice.randint(4, len(_DECOYS)))
        self._placed = {f"f{at}": (kind, dice.random() < 0.5) for at, kind in enumerate(kinds)}
        self._made = _Maker(dice, orders)

    def _write(self, message: Message) -> None:
        super()._write(message)
        at = FIRST_TIME + (self._records - 1) * STEP
        body = json.loads(message.body)
        for name, (kind, is_header) in self._placed.items():
            where = message.properties["headers"] if is_header else body
            where[name] = _DECOYS[kind](self._made, message, at)
        message.body = json.dumps(body).encode()


class _Maker:
    """What decoys are made of."""

    def __init__(self, dice: random.Random, orders: int) -> None:
        self.dice = dice
        self.counts: Counter[str] = Counter()
        self.few = [self.uuid() for _ in range(dice.randint(2, max(3, orders // 10)))]
        self.of: dict[str, str] = {}

    def uuid(self) -> str:
        return str(UUID(int=self.dice.getrandbits(128), version=4))

    def count(self, name: str) -> int:
        self.counts[name] += 1
        return 1_000 + self.counts[name]

    def kept(self, name: str) -> str:
        return self.of.setdefault(name, self.uuid())


_Decoy = Callable[[_Maker, Message, int], Any]


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1e6, UTC).isoformat(timespec="milliseconds")


_DECOYS: dict[str, _Decoy] = {
    "time": lambda made, message, at: _time(at),
    "second": lambda made, message, at: at // 1_000_000,
    "millisecond": lambda made, message, at: at // 1_000,
    "day": lambda made, message, at: _time(at)[:10],
    "tenant": lambda made, message, at: made.few[message.order % len(made.few)],
    "any of few": lambda made, message, at: made.dice.choice(made.few),
    "state": lambda made, message, at: made.dice.choice(["created", "accepted", "completed"]),
    "counter": lambda made, message, at: made.count(message.by),
    "common counter": lambda made, message, at: made.count("all"),
    "counter of a queue": lambda made, message, at: made.count(f"to {message.to}"),
    "constant": lambda made, message, at: made.kept("all"),
    "instance": lambda made, message, at: made.kept(message.by),
    "version": lambda made, message, at: made.kept(f"version {message.order // 100}"),
    "of one message": lambda made, message, at: made.uuid(),
    "amount": lambda made, message, at: made.dice.randint(1, 10_000),
    "code": lambda made, message, at: f"{made.dice.choice('ABCDEF')}{made.dice.randrange(100):02}",
    "type": lambda made, message, at: f"com.example.{message.by}.{message.to}.v1",
}


async def looked_at(number: int, folder: Path) -> tuple[DecoyApplication, list[RuleProposal]]:
    """An application, and what is proposed by its traffic."""
    application = DecoyApplication(number)
    path = folder / f"{number}.db"
    await fill(f"sqlite+aiosqlite:///{path}", application.records(), Rules(()))
    found = look(DatabaseAddress.from_url(f"sqlite:///{path}"), VHOST, MOST_EVENTS)
    path.unlink()
    return application, proposals_in(json_of(found))


def decoys_in(application: DecoyApplication, found: Sequence[RuleProposal]) -> list[set[str]]:
    """The places of proposals that are not of the key alone."""
    key = {*KEYS[application.key][1:]} if application.key in KEYS else set()
    proposed = ({*_places(each.rules)} - _OF_REPLIES for each in found)
    return [places for places in proposed if not places <= key]


def _places(rules: Iterable[dict[str, Any]]) -> Iterable[str]:
    for rule in rules:
        for side in ("child", "parent"):
            places = rule.get(side, [])
            yield from [places] if isinstance(places, str) else places


async def _main(how_many: int) -> None:
    wrong = with_key = found_key = 0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(how_many):
            application, found = await looked_at(number, Path(folder))
            decoys = decoys_in(application, found)
            wrong += bool(decoys)
            with_key += application.key in KEYS
            found_key += bool(found) and not decoys
            print(number, application.key, [each.kind for each in found], *decoys)
    print(f"{wrong} of {how_many} propose a decoy; of {with_key} with a key {found_key} propose it")


def main() -> None:
    """Look at some applications."""
    parser = argparse.ArgumentParser(prog="python -m bench.decoys")
    parser.add_argument("how_many", type=int, nargs="?", default=50)
    asyncio.run(_main(parser.parse_args().how_many))


if __name__ == "__main__":
    main()
