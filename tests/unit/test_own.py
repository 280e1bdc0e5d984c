"""Which trace messages are about the service itself, and which the broker's counters have."""

from dataclasses import dataclass

import pytest

from app.broker.own import OTHERS, OWN, OWN_UNCOUNTED, UNCOUNTED, About, Own
from app.broker.sentinel import WORD
from app.tracker import Channel, Deliver, Publish, Settlement, Unreadable

QUEUE = "itc.trace"
about = Own(QUEUE, "itc").about


@dataclass(frozen=True)
class On:
    """Where something happens, and as whom."""

    number: int = 1
    user: str = "itc"

    def publish(self, key: str, exchange: str = "", body: bytes = b"") -> Publish:
        return Publish(self._channel, exchange, (key,), (), {}, body)

    def deliver(self, queue: str) -> Deliver:
        return Deliver(self._channel, "", (queue,), queue, False, {}, b"")

    def settle(self) -> Settlement:
        return Settlement("recovered", self._channel, 1)

    @property
    def _channel(self) -> Channel:
        return Channel("rabbit@one", "them:1 -> broker", self.number, self.user)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (On().publish("key", "orders"), OTHERS),
        (On().publish("orders"), OTHERS),
        (On().publish(QUEUE, "orders", WORD), OTHERS),
        (On(user="ann").publish(QUEUE, body=WORD), OTHERS),
        (On().publish(QUEUE), OTHERS),
        (On().publish(QUEUE, body=WORD + b"token"), OWN),
        (On(number=0).publish(QUEUE, body=WORD), OWN_UNCOUNTED),
        (On(number=0).publish("key", "orders"), UNCOUNTED),
        (
            On().publish(f"{QUEUE}.marks.1", body=b"series 7"),
            About(is_own=True, is_counted=True, mark=("series", 7)),
        ),
        (On(user="ann").publish(f"{QUEUE}.marks.1", body=b"series 7"), OTHERS),
        (On().deliver("orders"), OTHERS),
        (On().deliver(f"{QUEUE}.of.another"), OTHERS),
        (On(number=0).deliver("orders"), UNCOUNTED),
        (On().deliver("amq.rabbitmq.reply-to.abc"), UNCOUNTED),
        (On().deliver(QUEUE), OWN_UNCOUNTED),
        (On().deliver(f"{QUEUE}.connections"), OWN),
        (On().settle(), UNCOUNTED),
    ],
)
def test_a_message_is_told_by_who_sends_it_and_through_what(
    message: Publish | Deliver | Settlement, expected: About
) -> None:
    assert about(message) == expected


def test_marks_of_an_account_under_which_we_captured_once_are_ours_too() -> None:
    about = Own(QUEUE, "new", ("itc",)).about
    mark = On().publish(f"{QUEUE}.marks.1", body=b"series 7")
    assert about(mark) == About(is_own=True, is_counted=True, mark=("series", 7))
    assert about(On().publish(QUEUE, body=WORD + b"token")) is OWN
    assert about(On(user="ann").publish(f"{QUEUE}.marks.1", body=b"series 7")) is OTHERS


def test_what_cannot_be_read_is_somebody_elses_or_the_sentinel() -> None:
    odd = Unreadable("why", "publish.x", "{}", b"", 0, 1)
    token = Unreadable("why", QUEUE, "{}", WORD + b"token", 27, 1)
    assert about(odd) is OTHERS
    assert about(token) == About(is_own=True, is_counted=False, sentinel="token")
