"""The judge on small records made by hand: it must be able to find each fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from itc import Stamp, pack
from model.event import Event
from model.words import EventType
from tests.clients.judge import celery_task, dramatiq_message, judged, message_id
from tests.clients.truth import Diary, Truth

INTERVALS = ("00", "01", "10", "11")
BLANK = Event._make([None] * len(Event._fields))


class Record:
    """Stored events, each stamped as its participant's, with its message's name as its id."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._stamps = [Stamp.of_interval(path) for path in INTERVALS]

    def published(self, message: str, participant: int) -> Event:
        return self._add(EventType.published, message, participant, None)

    def received(self, message: str, participant: int, cause: Event) -> Event:
        self._stamps[participant] = self._stamps[participant].join(cause.stamp.peek())
        return self._add(EventType.received, message, participant, cause.id)

    def _add(self, kind: EventType, message: str, participant: int, cause: int | None) -> Event:
        stamp = self._stamps[participant] = self._stamps[participant].event()
        event = BLANK._replace(
            id=len(self.events) + 1,
            type=kind,
            participant=participant,
            cause=cause,
            properties={"message_id": message},
            interval=INTERVALS[participant],
            clock=pack(stamp),
        )
        self.events.append(event)
        return event


def pipeline(receiver: int, publisher: int) -> Record:
    """Two programs, of which the second receives as one participant and publishes as another."""
    record = Record()
    first = record.published("order", 0)
    record.received("order", receiver, first)
    second = record.published("bill", publisher)
    record.received("bill", 3, second)
    return record


@pytest.fixture
def truth(tmp_path: Path) -> Truth:
    front, orders, billing = (Diary(tmp_path, name) for name in ("front", "orders", "billing"))
    front.published("order")
    orders.published("bill", ["order"])
    orders.handled("order")
    billing.handled("bill")
    return Truth.read(tmp_path)


def test_a_program_that_is_one_participant_has_every_true_pair(truth: Truth) -> None:
    verdict = judged(pipeline(receiver=1, publisher=1).events, truth, message_id)
    assert (verdict.recall, verdict.failures, verdict.confused) == (1.0, [], [])
    assert verdict.participants == {"front": {0}, "orders": {1}, "billing": {3}}


def test_a_program_that_is_two_participants_misses_what_it_caused(truth: Truth) -> None:
    verdict = judged(pipeline(receiver=1, publisher=2).events, truth, message_id)
    assert (verdict.recall, verdict.missed) == (0.0, [("order", "bill")])
    assert verdict.participants["orders"] == {1, 2}


def test_programs_that_share_a_participant_are_confused(truth: Truth) -> None:
    verdict = judged(pipeline(receiver=3, publisher=3).events, truth, message_id)
    assert (verdict.recall, verdict.confused) == (1.0, [{"orders", "billing"}])


def test_a_delivery_of_another_publish_is_misattributed(truth: Truth) -> None:
    record = pipeline(receiver=1, publisher=1)
    record.events[-1] = record.events[-1]._replace(cause=record.events[0].id)
    assert judged(record.events, truth, message_id).misattributed == ["bill"]


def test_a_delivery_without_a_publish_is_misattributed(truth: Truth) -> None:
    record = pipeline(receiver=1, publisher=1)
    record.events[-1] = record.events[-1]._replace(cause=None)
    assert judged(record.events, truth, message_id).misattributed == ["bill"]


@pytest.mark.parametrize("lost", [0, 1, 2, 3])
def test_an_event_that_is_not_stored_fails(truth: Truth, lost: int) -> None:
    record = pipeline(receiver=1, publisher=1)
    message = (record.events.pop(lost).properties or {})["message_id"]
    assert judged(record.events, truth, message_id).absent == [message]


def test_a_message_of_nobody_fails(truth: Truth) -> None:
    record = pipeline(receiver=1, publisher=1)
    record.published("rumour", 2)
    assert judged(record.events, truth, message_id).strange == ["rumour"]


def test_a_message_that_is_stored_twice_is_an_error(truth: Truth) -> None:
    record = pipeline(receiver=1, publisher=1)
    record.published("bill", 1)
    with pytest.raises(ValueError, match="two publishes are named bill"):
        judged(record.events, truth, message_id)


def test_causes_of_causes_are_indirect_and_joined_causes_are_direct(tmp_path: Path) -> None:
    diary = Diary(tmp_path, "worker")
    diary.published("a")
    diary.published("b")
    diary.published("c", ["a"])
    diary.published("d", ["c"])
    diary.joined("d", ["b"])
    truth = Truth.read(tmp_path)
    assert truth.direct == {("a", "c"), ("c", "d"), ("b", "d")}
    assert truth.indirect == {("a", "d")}


def test_what_nobody_has_handled_is_under_way(tmp_path: Path) -> None:
    diary = Diary(tmp_path, "worker")
    diary.published("a")
    diary.published("b")
    diary.handled("a")
    assert Truth.read(tmp_path).under_way == {"b"}


def test_a_celery_retry_is_another_message_and_control_traffic_is_none() -> None:
    task = {"task": "bill", "id": "7", "retries": 1}
    assert celery_task(BLANK._replace(properties={"headers": task})) == "7/1"
    assert celery_task(BLANK._replace(properties={"headers": {"hostname": "a@b"}})) is None
    assert celery_task(BLANK) is None


def test_a_dramatiq_message_is_another_in_each_queue_it_waits_in() -> None:
    body = b'{"message_id": "7", "options": {"retries": 1}}'
    delayed = BLANK._replace(payload=body, routing_keys=("bill.DQ",))
    assert dramatiq_message(delayed) == "7/1@bill.DQ"
    assert dramatiq_message(BLANK._replace(payload=body, queue="bill")) == "7/1@bill"
    assert dramatiq_message(BLANK._replace(payload=b"[]")) is None
