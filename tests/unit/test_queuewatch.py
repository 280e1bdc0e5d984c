"""Copies that wait long: whether their queue still holds anything, and what is made of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from app.broker.management import QueueInfo
from app.errors import OutageError
from app.stored.causality import QueueCopies
from app.traces.losses import queuewatch
from app.traces.losses.marks import Point
from app.traces.losses.queuewatch import MOST_QUEUES, WAIT, QueueWatch
from app.traces.pipeline import Ending
from app.tracker import Bounds, Policy, Tracker
from app.tracker.events import LostCopy
from tests.unit.test_matching import handed, publish


class World:
    """A broker whose queues are set by hand, and a trace whose clock and marks are."""

    def __init__(self) -> None:
        self.tracker = Tracker(Policy.channel, Bounds())
        self.queues: dict[str, QueueInfo] = {}
        self.asked: list[str] = []
        self.returned: list[list[QueueCopies]] = [[]]  # at each look; the last for ever
        self.marks = 0
        self.is_lossy = self.is_away = False
        self.is_traced = True
        self.has_local_shovels = False
        self.recorder = SimpleNamespace(
            tracker=self.tracker, settled=Point(0, 0), is_ledger_new=False
        )
        pipeline = SimpleNamespace(
            source=self,
            gaps=SimpleNamespace(has_one_since=lambda at: self.is_lossy),
            marks=self,
            trace=SimpleNamespace(vhost="/", id=1),
            store=SimpleNamespace(copies=self),
            settings=SimpleNamespace(mark_seconds=1),
        )
        self.watch = QueueWatch(pipeline, self.recorder, Ending())  # type: ignore[arg-type]

    async def queue(self, vhost: str, name: str) -> QueueInfo | None:
        self.asked.append(name)
        if self.is_away:
            raise OutageError("away")
        return self.queues.get(name)

    async def back_in_queues(self, trace_id: int, before: int) -> list[QueueCopies]:
        return self.returned.pop(0) if len(self.returned) > 1 else self.returned[0]

    async def may_move_unseen(self) -> bool:
        return self.has_local_shovels

    def ask(self) -> None:
        """A mark is asked for, and comes at once."""
        self.marks += 1
        if self.is_traced:
            self.recorder.settled = Point(1, 2**62)

    def wait(self) -> None:
        self.tracker._time.time += WAIT + 1

    async def lost(self) -> list[tuple[str, str]]:
        await self.watch.look()
        self.watch.take_up()
        return [(each.queue, each.reason) for each in self.changes()]

    def changes(self) -> list[LostCopy]:
        return self.tracker.checkpoint().copies_lost


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    async def no_sleep(seconds: float) -> None:
        pass

    monkeypatch.setattr(queuewatch.asyncio, "sleep", no_sleep)
    return World()


@pytest.mark.parametrize("queues", [{}, {"work": QueueInfo("work", messages=0)}])
async def test_what_a_local_shovel_may_have_moved_is_not_lost_for_good(
    world: World, queues: dict[str, QueueInfo]
) -> None:
    world.queues, world.has_local_shovels = queues, True
    world.tracker.apply(publish("ann", "work"), 1)
    world.wait()
    assert await world.lost() == [("work", "left")]


async def test_copies_of_a_deleted_queue_are_lost_once_all_is_stored(world: World) -> None:
    world.tracker.apply(publish("ann", "work"), 1)
    world.wait()
    assert await world.lost() == [("work", "queue_deleted")]
    assert (world.tracker.totals().pending_copies, world.marks) == (0, 1)
    assert world.recorder.is_ledger_new


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        (QueueInfo("work", messages=0), "not_there"),
        (QueueInfo("work", messages=0, arguments={"x-dead-letter-exchange": "x"}), "left"),
        (
            QueueInfo(
                "work", messages=0, effective_policy_definition={"dead-letter-exchange": "x"}
            ),
            "left",
        ),
        (QueueInfo("work", messages=1), None),
        (QueueInfo("work"), None),
        (QueueInfo("work", "rabbit_mqtt_qos0_queue", messages=0), None),
    ],
)
async def test_an_empty_queue_holds_none_of_what_has_waited(
    world: World, queue: QueueInfo, reason: str | None
) -> None:
    world.queues["work"] = queue
    world.tracker.apply(publish("ann", "work"), 1)
    world.wait()
    assert await world.lost() == ([] if reason is None else [("work", reason)])


async def test_what_came_lately_is_not_asked_for(world: World) -> None:
    world.tracker.apply(publish("ann", "work"), 1)
    world.wait()
    world.tracker.apply(publish("ann", "work", body=b"new"), 2)
    world.tracker.apply(publish("ann", "other", "amq.rabbitmq.reply-to.x"), 3)
    assert await world.lost() == [("work", "queue_deleted")]
    assert world.asked == ["work"]
    assert [copy.queue for copy in world.tracker.pending()[0]] == [
        "work",
        "other",
        "amq.rabbitmq.reply-to.x",
    ]


async def test_a_delivery_on_its_way_is_waited_for(world: World) -> None:
    sent = world.tracker.apply(publish("ann", "work"), 1)
    world.wait()
    await world.watch.look()
    [found] = world.tracker.apply(handed("bob", "work"), 2)
    world.watch.take_up()
    assert (found.cause, world.changes()) == (sent[0].reference, [])


async def test_nothing_is_lost_unless_all_is_known_to_be_stored(world: World) -> None:
    world.is_traced = False
    world.tracker.apply(publish("ann", "work"), 1)
    world.wait()
    assert await world.lost() == []
    assert world.tracker.totals().pending_copies == 1


async def test_what_a_gap_may_hide_is_not_said_to_be_lost_for_good(world: World) -> None:
    world.is_lossy = True
    world.tracker.apply(publish("ann", "work"), 1)
    world.wait()
    assert await world.lost() == [("work", "left")]


async def test_some_queues_are_asked_for_in_turn(world: World) -> None:
    names = [f"q{number:02}" for number in range(MOST_QUEUES + 5)]
    world.queues = {name: QueueInfo(name, messages=1) for name in names}
    world.tracker.apply(publish("ann", *names), 1)
    world.wait()
    for _ in range(2):
        await world.watch.look()
    assert world.asked == (names + names)[: 2 * MOST_QUEUES]


async def test_without_the_management_api_nothing_is_lost(world: World) -> None:
    world.is_away = True
    world.tracker.apply(publish("ann", "work"), 1)
    world.wait()
    with pytest.raises(OutageError):
        await world.watch.look()
    world.watch.take_up()
    assert world.changes() == []


async def test_what_came_back_to_a_queue_that_is_gone_or_empty_waits_no_more(world: World) -> None:
    places = (3, "gone"), (4, "empty"), (5, "full")
    back = [QueueCopies(queue, 1, 0, event) for event, queue in places]
    world.returned = [back]
    world.queues = {name: QueueInfo(name, messages=name == "full") for name in ("empty", "full")}
    await world.watch.look()
    world.watch.take_up()
    noted = [(copy.cause.id, copy.queue, copy.reason) for copy in world.changes()]
    assert noted == [(3, "gone", "returned"), (4, "empty", "returned")]
    world.watch.take_up()
    assert world.changes() == [], "once"


async def test_what_came_back_and_was_handed_over_meanwhile_is_not_lost(world: World) -> None:
    world.returned = [[QueueCopies("work", 1, 0, 3)], []]
    assert await world.lost() == []
