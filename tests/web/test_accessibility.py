"""By keyboard, by screen reader, in both themes, and large."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import OpenPage
from tests.web.past import Past, demo_world
from tests.web.service import Served

AXE = (files("axe_playwright_python") / "axe.min.js").read_text()
VIEWS = {
    "overview": "#/overview",
    "durations": "#/durations?vhost=%2F",
    "events": "#/events?live=off&vhost=%2F",
    "event": "#/events?live=off&vhost=%2F&event=500",
    "conversations": "#/conversations",
    "conversation": "#/conversations?vhost=%2F&event=500",
    "sequence": "#/conversations?vhost=%2F&event=500&view=sequence&panel=on",
    "failures": "#/conversations?vhost=%2F&filter=failures",
    "chain": "#/chain?a=3&b=1400",
    "queue": "#/queue?vhost=%2F&queue=billing",
    "space-time": "#/space-time?vhost=%2F&event=500&list=on",
    "topology": "#/topology?vhost=%2F",
    "learn": "#/learn",
    "assertions": "#/learn?vhost=%2F&view=assertions",
    "jobs": "#/jobs",
    "admin": "#/admin",
}


def settled(page: Page) -> None:
    expect(page.locator(".loading")).to_have_count(0)
    page.wait_for_function("() => document.fonts.status === 'loaded'")


def violations(page: Page) -> list[str]:
    """What axe finds, one line each."""
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{v['id']}: {v['help']}: " + "; ".join(n["html"][:160] for n in v["nodes"][:4])
        for v in found["violations"]
    ]


@pytest.mark.parametrize(
    ("theme", "width"), [("light", 1440), pytest.param("dark", 390, marks=pytest.mark.long(17))]
)
def test_axe_finds_nothing(demo: Served, open_page: OpenPage, theme: str, width: int) -> None:
    page = open_page(demo, theme=theme, width=width, policy=False)
    found = {}
    for view, address in VIEWS.items():
        page.goto(f"{demo.url}/{address}")
        settled(page)
        found[view] = violations(page)
    assert {view: lines for view, lines in found.items() if lines} == {}


def test_axe_finds_nothing_on_the_sign_in_and_the_help(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, user=None, policy=False)
    expect(page.get_by_label("User name")).to_be_visible()
    assert violations(page) == []
    page = open_page(demo, policy=False)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations(page) == []


@pytest.mark.parametrize("width", [pytest.param(800, marks=pytest.mark.long(5)), 400])
def test_no_view_is_wider_than_the_window(demo: Served, open_page: OpenPage, width: int) -> None:
    page = open_page(demo, width=width)
    overflow = {}
    for view, address in VIEWS.items():
        page.goto(f"{demo.url}/{address}")
        settled(page)
        overflow[view] = page.evaluate(
            """() => [document.documentElement, document.getElementById("page")]
                 .map((e) => Math.max(0, e.scrollWidth - e.clientWidth))"""
        )
    assert overflow == {view: [0, 0] for view in VIEWS}


def test_on_a_phone_a_trace_can_be_started_whatever_its_virtual_host_is_called(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(60)
    name = "orders-production-eu-central-1-warehouse-and-fulfilment-blue"
    world.vhosts.append(name)
    page = open_page(serve(world), width=390)
    row = page.get_by_role("group", name="Traces").locator("tr").filter(has_text=name)
    start = row.get_by_role("button", name=f"Start the trace of {name}").bounding_box()
    state = row.get_by_text("not traced").bounding_box()
    assert start is not None
    assert state is not None
    assert state["x"] + state["width"] <= start["x"]
    assert start["x"] + start["width"] <= 390


def test_at_twice_the_letter_size_rows_grow_with_the_letters(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, VIEWS["events"])
    settled(page)
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    page.get_by_role("button", name="Columns").click()  # any change lays out again
    height = page.locator("tr.row").nth(3).evaluate("e => e.getBoundingClientRect().height")
    assert height == 56
    page.keyboard.press("Escape")
    page.locator(".rows").evaluate("e => e.scrollTop = 56 * 100")
    expect(page.locator("tr.row[aria-rowindex='104']")).to_be_in_viewport()


def test_help_lists_the_keys_and_closes_by_escape(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("find here, or filter events")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_number_keys_open_the_tabs_but_not_while_typing(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo)
    page.keyboard.press("3")
    expect(page.get_by_label("Filter events")).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("4")
    expect(page.get_by_label("Filter events")).to_have_value("4")


def test_a_slash_goes_to_what_finds_on_this_tab_and_else_to_the_filter_of_events(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo)
    expect(page.get_by_role("textbox", name="What happened to")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_role("textbox", name="What happened to")).to_be_focused()
    page.goto(f"{demo.url}/#/jobs")
    expect(page.get_by_role("heading", name="Jobs").first).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("main").focus()
    page.keyboard.press("/")
    expect(page.get_by_label("Filter events")).to_be_focused()


def test_the_theme_follows_the_system_and_can_be_switched(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, theme="dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.get_by_role("button", name="Theme: system").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    page.reload()
    expect(page.get_by_role("button", name="Theme: light")).to_be_visible()


def test_focus_can_be_seen(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo)
    page.keyboard.press("Tab")
    for _ in range(12):
        outline = page.evaluate(
            "(e => [getComputedStyle(e).outlineStyle, e.outerHTML.slice(0, 80)])"
            "(document.activeElement)"
        )
        assert outline[0] == "solid", outline[1]
        page.keyboard.press("Tab")
