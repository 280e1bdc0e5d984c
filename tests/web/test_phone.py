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
VIEWS = [("waterfall", "treeitem"), ("sequence", "option")]
WITHIN = """(row) => {
  const [one, box] = [row, row.closest(".conv-rows")].map((e) => e.getBoundingClientRect());
  return box.top <= one.top && one.bottom <= box.bottom;
}"""
BEYOND = """(({ scrollHeight, clientHeight }) => scrollHeight - clientHeight)(
  document.querySelector(".conv-rows")
)"""
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
    roots = [tell_wide(world, f"order-{length}", length) for length in (0, 3)]
    with running(world) as server:
        page = open_page(server, f"#/conversations?event={roots[0]}", width=390)
        rows = page.get_by_role("treeitem")
        expect(rows).to_have_count(5)
        expect(page.get_by_role("treeitem", expanded=False)).to_have_count(0)
        assert page.evaluate(BEYOND) == 0
        page.goto(f"{server.url}/#/conversations?event={roots[1]}")
        expect(page.get_by_role("treeitem", selected=True)).to_contain_text("step.0")
        expect(rows).to_have_count(5)
        beside = page.get_by_role("treeitem", expanded=False)
        expect(beside.locator(".badge")).to_have_text(["+3"] * 3)
        assert page.evaluate(BEYOND) == 0
        beside.first.locator(".fold").click()
        expect(rows).to_have_count(8)
        page.get_by_role("button", name="Unfold all", exact=True).click()
        expect(rows).to_have_count(14)
        page.get_by_role("button", name="Fold all", exact=True).click()
        expect(rows).to_have_count(1)


def tell_wide(world: Past, order: str, length: int) -> int:
    """An order that led to four messages: the first failed, the others led to a way so long."""
    story = Story(world, order)
    root = story.publish(0, SHOP, "order.new", ("work",))
    got = story.deliver(10, STOCK, root, "work")
    for step in range(4):
        at = 50.0 + step
        message = story.publish(at, STOCK, f"step.{step}", ("mail",), got)
        took = story.deliver(at + 20, BILLING, message, "mail")
        for further in range(length if step else 0):
            at += 30
            who, queue = ((BILLING, "stock"), (STOCK, "mail"))[further % 2]
            following = story.publish(at, who, f"further.{further}", (queue,), took)
            took = story.deliver(at + 5, (STOCK, BILLING)[further % 2], following, queue)
        if not step:
            story.deliver(at + 25, AUDITOR, message, "dead", "dead_lettered", "mail")
    return root


def test_on_a_wide_window_an_order_opens_at_its_top(
    orders: tuple[Served, dict[str, int]], open_page: OpenPage
) -> None:
    server, roots = orders
    page = open_page(server, f"#/conversations?event={roots['failed']}")
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text(f"step.{STEPS - 1}")
    expect(page.get_by_role("heading", level=1)).to_be_in_viewport(ratio=1)
