"""A row of the table, as a class; the rows themselves are in `rows`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from drills.faults.stage import BODY, Stage

Act: TypeAlias = Callable[[Stage], Awaitable[None]]
Store: TypeAlias = Literal["sqlite", "postgres"]

SQLITE: tuple[Store, ...] = ("sqlite",)
POSTGRES: tuple[Store, ...] = ("postgres",)
BOTH: tuple[Store, ...] = ("sqlite", "postgres")


@dataclass(frozen=True)
class Fault:
    """A row: ``act`` does it, while clients work.

    ``broker``: which one it needs. ``settings`` are the service's. ``pause`` and ``body`` are
    those of the clients. ``proxies``: the service reaches its broker and its database through
    `Proxy`. ``own_clock``: the service has a clock that can be set. ``keeps``: everything can be
    kept, so that even a gap is an error. ``seconds``: how long a trial may take. ``short``: the
    stores on which it is in the short form.
    """

    name: str
    title: str
    act: Act
    stores: tuple[Store, ...] = SQLITE
    broker: Literal["node", "cluster", "no statistics"] = "node"
    settings: Mapping[str, str] = field(default_factory=dict)
    pause: float = 0.025
    body: bytes = BODY
    proxies: bool = False
    own_clock: bool = False
    keeps: bool = False
    seconds: float = 240.0
    short: tuple[Store, ...] = ()


FAULTS: dict[str, Fault] = {}


def fault(name: str, title: str, **options: object) -> Callable[[Act], Act]:
    """Make a row of a function."""

    def row(act: Act) -> Act:
        if name in FAULTS:
            raise ValueError(f"two faults are called {name}")
        FAULTS[name] = Fault(name, title, act, **options)  # type: ignore[arg-type]
        return act

    return row
