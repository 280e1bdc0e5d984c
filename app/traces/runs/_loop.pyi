"""The types of `_loop.pyx`."""

from collections.abc import Callable, Collection, Iterable, Iterator

from app.broker.deliveries import Arrival
from app.broker.own import About
from app.traces.recorder import Recorder
from app.traces.runs.stamper import Stamper
from app.tracker import StampedEvent

class Loop:
    tag: int
    count: int
    size: int
    unfinished: int
    published: int
    received: int
    def __init__(
        self,
        stamper: Stamper,
        recorder: Recorder,
        about: Callable[..., About],
        refused: Collection[bytes],
    ) -> None: ...
    def go_on(
        self, decisions: Iterator[tuple[Arrival, bool]], deadline: float
    ) -> Iterable[StampedEvent] | None: ...
