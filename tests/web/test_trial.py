"""The questions of `tests.web.trial` on a smaller store, in fewer settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.web.orders import SERVICES, Order
from tests.web.trial import ALLOWED, EVENTS_EACH, VHOSTS, ask, serving, signed_in
from tools.demo.client import ItcClient
from tools.servers import RabbitNode

EVENTS = 2_400
SOUGHT = 1126


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ItcClient]:
    # A node of its own: its virtual hosts have the names of a shop's.
    with RabbitNode() as broker, serving(broker, tmp_path_factory.mktemp("trial"), EVENTS) as one:
        yield one


@pytest.mark.parametrize(
    ("user", "width", "theme", "by_keyboard"),
    [
        ("watcher", 1440, "light", True),
        ("watcher", 800, "dark", False),
        ("boss", 800, "light", True),
    ],
)
def test_each_question_about_an_order_takes_few_actions(
    browser: Browser, client: ItcClient, user: str, width: int, theme: str, by_keyboard: bool
) -> None:
    complaints: list[str] = []
    page = signed_in(browser, client.url, user, width, theme, complaints)
    answers = ask(page, by_keyboard, SOUGHT)
    page.context.close()
    assert answers.keys() == ALLOWED.keys()
    too_many = {q: actions for q, (actions, _) in answers.items() if actions > ALLOWED[q]}
    assert not too_many
    assert not complaints


def test_orders_are_what_the_trial_says() -> None:
    assert len(SERVICES) == 12
    assert Order(SOUGHT, 0).fails
    records = [len(Order(number, 0).records()) for number in range(1001, 1019)]
    assert sum(records) / len(records) == pytest.approx(EVENTS_EACH, abs=1)
    assert len(VHOSTS) == 6
