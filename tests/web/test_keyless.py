"""Messages that carry no key: said once, with the remedy, and folded where many are alike."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import OpenPage
from tests.web.past import Past
from tests.web.service import Served
from tests.web.stories import AUDITOR, BILLING, SHOP, STOCK, Story, tell_plain
from tests.web.test_accessibility import settled, violations
from tests.web.test_proposals import propose
from tests.web.test_space_time import Held

TIMES = "\u00d7"
LIST = "Conversations, "
REMEDY = "have each message name what led to it: its message_id, in a header causation_id"


def tell_keyless(world: Past, times: int = 5) -> list[int]:
    """Orders without a key, of which each last message dies in stock; returns what billing got."""
    placed = []
    for number in range(times):
        story = Story(world, f"order-{number}")
        order = story.publish(0, SHOP, "order.new", ("billing",), correlation_id="")
        story.deliver(15, BILLING, order, "billing")
        paid = story.publish(40, BILLING, "paid", ("stock",), named=False, correlation_id="")
        story.deliver(60, STOCK, paid, "stock")
        story.deliver(80, AUDITOR, paid, "dead", "dead_lettered", "stock")
        placed.append(order)
    return placed


def keyless(serve: Callable[[Past], Served]) -> tuple[Served, list[int]]:
    world = Past()
    placed = tell_keyless(world)
    return serve(world), placed


def first_cells(page: Page) -> list[str]:
    return page.get_by_role("group", name=LIST).locator("tbody td:nth-child(1)").all_inner_texts()


def test_alike_messages_are_one_row_that_opens_to_each(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    server, placed = keyless(serve)
    page = open_page(server, "#/conversations?vhost=%2F")
    died = page.get_by_role("row", name=f"paid {TIMES} 5")
    expect(died).to_contain_text("billing → stock; died in stock")
    expect(died).to_contain_text("failed")
    placed_row = page.get_by_role("row", name=f"order.new {TIMES} 5")
    why = "shop → billing; billing has published since, perhaps for it"
    expect(placed_row.get_by_text("unknown")).to_be_visible()
    expect(placed_row.locator(".text")).to_have_text(why)
    expect(page.get_by_role("columnheader", name="Exchange", exact=True)).to_be_visible()
    assert sum(TIMES in cell for cell in first_cells(page)) == len(first_cells(page)) == 2
    placed_row.get_by_role("button").click()
    singles = [f"#{event}" for event in reversed(placed)]
    expect(page.locator("td.inner")).to_have_text(singles)
    settled(page)
    assert not violations(page)
    page.get_by_role("link", name=singles[0], exact=True).click()
    expect(page.get_by_role("heading", name="order.new")).to_be_visible()


def test_a_name_with_the_signs_of_a_sentence_stays_whole(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    queue = "q. 2 were lost; it went to queue x"
    world = Past()
    story = Story(world, "order-1")
    paid = story.publish(0, BILLING, "paid", (queue,), named=False, correlation_id="")
    story.deliver(20, STOCK, paid, queue)
    story.deliver(80, AUDITOR, paid, "dead", "dead_lettered", queue)
    page = open_page(serve(world), "#/conversations?vhost=%2F")
    row = page.get_by_role("row", name="paid").filter(has_text="failed")
    expect(row).to_contain_text(f"billing → {queue}; died in {queue}")
    row.get_by_role("link").first.click()
    verdict = page.locator(".conv-verdict")
    expect(verdict).to_contain_text(f"paid rejected by stock in queue {queue} between ")
    alone = "paid: no other message names it as its cause."
    expect(page.locator(".conv-sentence")).to_have_text(alone)
    verdict.get_by_text("failed").click()
    expect(verdict.get_by_role("listitem").first).to_have_text(f"1 died in {queue}.")


def test_the_remedy_is_said_once(serve: Callable[[Past], Served], open_page: OpenPage) -> None:
    server, placed = keyless(serve)
    page = open_page(server, "#/conversations?vhost=%2F")
    expect(
        page.get_by_text("These messages of / carry no key, so each stands alone.")
    ).to_have_count(1)
    expect(page.get_by_text(REMEDY).filter(visible=True)).to_have_count(1)
    expect(page.get_by_text("to know, have messages carry")).to_have_count(0)
    propose(server, placed[-1])
    page.reload()
    notice = page.locator(".proposal-line")
    expect(notice).to_contain_text("These messages of / carry no key, so each stands alone.")
    expect(notice).to_contain_text("order in the body ties messages together.")
    expect(page.get_by_text(REMEDY)).to_have_count(0)
    expect(page.locator(".button.main")).to_have_text(["Find"])  # what one does first here
    notice.get_by_role("button", name="Join messages by").click()
    expect(notice.get_by_text("carry no key")).to_have_count(0)
    expect(page.get_by_label("Follow")).to_have_value("conversation")


def test_the_end_of_reading_is_heard_after_the_list_is_read_anew(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    server, placed = keyless(serve)
    propose(server, placed[-1])
    page = open_page(server, "#/conversations?vhost=%2F&via=conversation")
    page.route("**/itc_db/jobs/*/progress", held := Held())
    notice = page.locator(".proposal-line")
    notice.get_by_role("button", name="Join messages by").click()
    expect(page.get_by_role("group", name=LIST)).not_to_contain_text(TIMES)
    expect(notice).to_contain_text("What is stored is being read by it")
    held.let_go()
    expect(notice).to_have_count(0)


@pytest.mark.parametrize("width", [390, 1440])
def test_orders_with_a_key_stay_rows_of_their_own(
    serve: Callable[[Past], Served], open_page: OpenPage, width: int
) -> None:
    world = Past()
    for number in range(12):
        tell_plain(world, f"order-{number}")
    tell_keyless(world, 2)
    tell_keyless(world, 1)
    page = open_page(serve(world), "#/conversations?vhost=%2F", width=width)
    expect(page.get_by_role("link", name="order-11", exact=True)).to_be_visible()
    expect(page.get_by_text("carry no key")).to_have_count(0)
    folded = page.get_by_role("button", name=f"{TIMES} 3")
    expect(folded).to_have_count(2)
    folded.first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("td.inner")).to_have_count(3)
    page.keyboard.press("ArrowDown")
    expect(page.locator("td.inner a").first).to_be_focused()


def test_a_phone_shows_the_way_of_a_message(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    server, _ = keyless(serve)
    page = open_page(server, "#/conversations?vhost=%2F", width=390)
    page.set_viewport_size({"width": 390, "height": 844})
    lead = page.get_by_text("These messages of / carry no key, so each stands alone.")
    expect(lead).to_be_in_viewport(ratio=1)
    remedy = page.locator(".alert details code", has_text="causation_id")
    expect(remedy).to_be_hidden()
    page.get_by_text("What to send").click()
    expect(remedy).to_be_visible()
    page.reload()
    expect(page.get_by_text("billing → stock; died in stock")).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


OVERPRINTED = """() => [...document.querySelectorAll("tbody tr")].filter((row) => {
  const [way, at] = [".at-second", ".at-end, .at-last"].map((cell) => {
    const text = document.createRange();
    text.selectNodeContents(row.querySelector(cell));
    return text.getBoundingClientRect();
  });
  return way.right > at.left && way.bottom > at.top + 1;
}).map((row) => row.innerText)"""


def test_on_a_phone_the_time_stands_beside_or_below_the_way_and_has_one_date(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    server, _ = keyless(serve)
    page = open_page(server, "#/conversations?vhost=%2F", width=390)
    group = page.get_by_role("row", name=f"paid {TIMES} 5")
    time = r"\d\d:\d\d:\d\d"
    one_date = re.compile(rf"^[\d-]{{10}} {time} \u2013 {time}$")
    expect(group.locator(".at-last")).to_have_text(one_date)
    group.get_by_role("button").click()
    expect(page.locator("td.inner")).to_have_count(5)
    assert page.evaluate(OVERPRINTED) == []
