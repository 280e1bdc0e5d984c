"""A phone: an order opens at its top, with the drawing at what went wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.web.conftest import OpenPage
from tests.web.past import Past
from tests.web.service import Served, running
from tests.web.stories import AUDITOR, BILLING, SHOP, STOCK, Story
from tests.web.test_accessibility import settled

STEPS = 14
HEIGHT = 844  # pixels
BOTH = [(BILLING, "billing"), (STOCK, "stock")]
VIEWS = [("waterfall", "treeitem"), ("sequence", "option")]
WITHIN = """(row) => {
  const [one, box] = [row, row.closest(".conv-rows")].map((e) => e.getBoundingClientRect());
  return box.top <= one.top && one.bottom <= box.bottom;
}"""

BELOW = """(names) => {
  const [one, other] = names.map((name) => document.querySelector(name).getBoundingClientRect());
  return one.height > 0 && one.top >= other.bottom;
}"""


def tell_long(world: Past, order: str, end: str) -> int:
    """An order of many steps, of which the last message has the ``end``."""
    story = Story(world, order)
    root = story.publish(0, SHOP, "order.new", ("billing",))
    message, at = root, 0.0
    for step in range(STEPS):
        who, queue = ((BILLING, "billing"), (STOCK, "stock"))[step % 2]
        got = story.deliver(at + 10, who, message, queue)
        at += 50
        following = ("stock", "billing")[step % 2]
        message = story.publish(at, who, f"step.{step}", (following,), got)
    if end == "failed":
        story.deliver(at + 10, BILLING, message, "billing")
        story.deliver(at + 30, AUDITOR, message, "dead", "dead_lettered", "billing")
    if end == "retried":
        story.deliver(at + 10, BILLING, message, "billing")
        got = story.deliver(at + 60, BILLING, message, "billing", "redelivered")
        paid = story.publish(at + 90, BILLING, "paid", ("audit",), got)
        story.deliver(at + 95, AUDITOR, paid, "audit")
    return root


@pytest.fixture(scope="module")
def orders() -> Iterator[tuple[Served, dict[str, int]]]:
    world = Past()
    roots = {end: tell_long(world, f"order-{end}", end) for end in ("failed", "retried", "waiting")}
    with running(world) as server:
        yield server, roots


@pytest.mark.parametrize(("view", "role"), VIEWS)
@pytest.mark.parametrize("end", ["failed", "waiting", "retried"])
def test_an_order_opens_at_its_top_and_the_drawing_at_what_went_wrong(
    orders: tuple[Served, dict[str, int]], open_page: OpenPage, end: str, view: str, role: str
) -> None:
    server, roots = orders
    page = open_page(server, f"#/conversations?event={roots[end]}&view={view}", width=390)
    page.set_viewport_size({"width": 390, "height": HEIGHT})
    chosen = page.locator(f"[role={role}][aria-selected=true]")
    expect(chosen).to_contain_text(f"step.{STEPS - 1}")
    page.wait_for_function(WITHIN, arg=chosen.element_handle())
    settled(page)
    assert page.evaluate(
        "[...document.querySelectorAll('.conv, .page')].map((e) => e.scrollTop)"
    ) == [0, 0]
    expect(page.locator(".conv-verdict")).to_be_in_viewport(ratio=1)
    expect(chosen).to_be_in_viewport(ratio=0.98)  # but for a part of a pixel
    if view == "waterfall":
        legend = page.locator(".conv-legend")
        expect(legend).to_contain_text("waiting")
        assert page.evaluate(BELOW, [".conv-legend", ".conv-rows"])
    if end == "waiting":
        expect(page.get_by_role("heading", name="What to do")).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("view", ["overview", "conversations", "topology", "durations", "queue"])
def test_what_stands_above_a_view_takes_less_than_a_third_of_the_first_screen(
    orders: tuple[Served, dict[str, int]], open_page: OpenPage, view: str
) -> None:
    server, _ = orders
    page = open_page(server, f"#/{view}", width=390)
    page.set_viewport_size({"width": 390, "height": HEIGHT})
    settled(page)
    top = page.locator("main").bounding_box()
    assert top is not None
    assert top["y"] < HEIGHT / 5
    if view == "conversations":
        row = page.locator("tbody tr").first.bounding_box()
        assert row is not None
        assert row["y"] < HEIGHT / 2


def test_a_drawing_shows_the_way_to_what_failed_whole_and_folds_what_is_beside(
    open_page: OpenPage,
) -> None:
    world = Past()
    story = Story(world, "order-1")
    root = story.publish(0, SHOP, "order.new", ("billing", "stock", "audit"))
    got = [story.deliver(10 + n, who, root, queue) for n, (who, queue) in enumerate(BOTH)]
    paid = story.publish(50, BILLING, "paid", ("mail",), got[0])
    packed = story.publish(60, STOCK, "packed", ("ship",), got[1])
    story.deliver(70, AUDITOR, packed, "ship")
    story.deliver(80, STOCK, paid, "mail")
    story.deliver(90, AUDITOR, paid, "dead", "dead_lettered", "mail")
    with running(world) as server:
        page = open_page(server, f"#/conversations?event={root}", width=390)
        rows = page.get_by_role("treeitem")
        expect(rows).to_have_count(5)  # the message, its three copies, and what failed
        expect(page.get_by_role("treeitem", selected=True)).to_contain_text("paid")
        beside = page.get_by_role("treeitem", expanded=False)
        expect(beside).to_contain_text(["stock"])
        expect(beside.locator(".badge")).to_have_text("+1")
        assert page.evaluate(
            "(({ scrollHeight, clientHeight }) => scrollHeight - clientHeight)"
            "(document.querySelector('.conv-rows'))"
        ) == 0
        beside.locator(".fold").click()
        expect(rows).to_have_count(6)
        page.get_by_role("button", name="Fold all", exact=True).click()
        expect(rows).to_have_count(1)


def test_on_a_wide_window_an_order_opens_at_its_top(
    orders: tuple[Served, dict[str, int]], open_page: OpenPage
) -> None:
    server, roots = orders
    page = open_page(server, f"#/conversations?event={roots['failed']}")
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text(f"step.{STEPS - 1}")
    expect(page.get_by_role("heading", level=1)).to_be_in_viewport(ratio=1)
