"""How the page behaves: what it asks first, what it does not pretend, where one comes back to."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from app.extras import SPARK
from tests.web.conftest import OpenPage, without_broker
from tests.web.past import Past, demo_world
from tests.web.service import USERS, Served
from tests.web.test_chain import cause_and_effect, export


def test_the_header_is_one_line_whoever_has_signed_in(
    demo: Served, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(USERS, "orders-on-call", ("orders-on-call", ["monitoring"]))
    page = open_page(demo, user="orders-on-call")
    tabs, name = (
        page.get_by_role("navigation", name="Tabs"),
        page.get_by_text("orders-on-call", exact=True),
    )
    one, other = tabs.bounding_box(), name.bounding_box()
    assert one is not None
    assert other is not None
    assert one["y"] <= other["y"] < one["y"] + one["height"]


LONG = ("v" * 120, "shop of the north " * 6 + "and the south", "חנות-" * 24)


@pytest.mark.parametrize("width", [1440, 1000, 390])
def test_the_name_of_a_virtual_host_makes_no_head_higher(
    serve: Callable[[Past], Served], open_page: OpenPage, width: int
) -> None:
    world = Past()
    for name in ("shop", *LONG):
        world.start_trace(name, 4)
        world.grow(name, 20)
    server = serve(world)
    page = open_page(server, "#/events?live=off&vhost=shop", width=width)
    below = """() => [document.querySelector("#page").getBoundingClientRect().top,
      document.documentElement.scrollWidth]"""
    shown = page.get_by_role("region", name="What is known")
    expect(shown).to_contain_text("shop")
    expected = page.evaluate(below)
    for name in LONG:
        page.get_by_label("Virtual host").select_option(name)
        expect(shown).to_contain_text(name[:20])
        expect(shown).to_contain_text("complete")
        assert page.evaluate(below) == expected, name


def test_a_trace_is_not_stopped_before_one_has_said_so(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(60)
    page = open_page(serve(world))
    stop = page.get_by_role("button", name="Stop the trace of shop")
    stop.click()
    question = page.get_by_role("alertdialog", name="Stop the trace of shop?")
    expect(question).to_contain_text("that is a gap")
    expect(question.get_by_role("button", name="No, leave it")).to_be_focused()
    page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    expect(stop).to_be_focused()
    stop.click()
    question.get_by_role("button", name="No, leave it").click()
    assert world.traces["shop"].state == "running"
    stop.click()
    question.get_by_role("button", name="Stop the trace").click()
    expect(page.get_by_role("button", name="Start the trace of shop")).to_be_visible()
    assert world.traces["shop"].state == "stopped"


def test_a_file_is_not_deleted_before_one_has_said_so(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(800)
    a, b = cause_and_effect(world)
    server = serve(world)
    page = open_page(server, f"#/chain?a={a}&b={b}")
    export(page)
    page.get_by_role("button", name=f"Remove chain-{a}-{b}.jsonl").click()
    question = page.get_by_role("alertdialog", name=f"Delete chain-{a}-{b}.jsonl?")
    question.get_by_role("button", name="No, leave it").click()
    expect(question).to_have_count(0)
    assert len(server.answer("/itc_db/exports")) == 1


def test_without_the_broker_nothing_is_green(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(60)
    server = serve(world)
    page = open_page(server, hurry=True)
    expect(page.locator(".badge.good")).not_to_have_count(0)
    without_broker(page)
    expect(page.locator(".badge.good")).to_have_count(0)
    page.get_by_role("link", name="Events", exact=True).click()
    expect(page.locator("tr.row").first).to_be_visible()
    world.grow("/", 1)
    newest = page.locator("tr.row a", has_text=f"#{len(world.events)}")
    expect(newest).to_be_visible()  # the stream is there, and still
    expect(page.locator(".live-dot")).to_be_visible()
    expect(page.locator(".live-dot.on")).to_have_count(0)
    page.goto(f"{server.url}/#/admin")
    expect(page.locator(".facts", has_text="Health")).to_contain_text("unavailable")
    expect(page.locator(".badge.good")).to_have_count(0)
    page.unroute("**/health/ready")
    expect(page.locator(".badge.good").first).to_be_visible()


def test_without_spark_it_is_said_what_to_install_and_nothing_is_old(
    serve: Callable[[Past], Served], open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SPARK:
        monkeypatch.setitem(sys.modules, name, None)
    remedy = "pip install 'rabbitmq-itc[spark]'"
    world = demo_world(800)
    a, b = cause_and_effect(world)
    server = serve(world)
    page = open_page(server, "#/jobs")
    expect(page.locator(".page-title")).to_contain_text(remedy)
    page.goto(f"{server.url}/#/overview")
    expect(page.locator(".badge.good")).not_to_have_count(0)
    page.goto(f"{server.url}/#/chain?a={a}&b={b}")
    export(page)
    expect(page.locator(".notice")).to_contain_text(remedy)


@pytest.mark.parametrize("pin", ["", "&a=750"])
def test_the_mark_of_a_gap_is_never_cut(demo: Served, open_page: OpenPage, pin: str) -> None:
    page = open_page(demo, f"#/events?live=off&vhost=%2F&at=750&event=750{pin}")
    mark = page.locator("tr.after-gap .gap-mark")
    expect(mark).to_have_text("gap")
    # Found and measured in one go, as often as it takes: the table is drawn anew meanwhile.
    measured = page.wait_for_function(
        """() => {
             const mark = document.querySelector("tr.after-gap .gap-mark");
             if (!mark) return null;
             const cell = mark.closest("td").getBoundingClientRect();
             return { room: cell.right - mark.getBoundingClientRect().right };
           }"""
    )
    room = measured.evaluate("({ room }) => room")
    assert room >= 0


def test_how_a_delivery_was_matched_stays_in_sight_beside_an_open_event(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/events?live=off&vhost=%2F&event=700", width=1440)
    named = page.get_by_role("button", name="Type", exact=True)
    head = page.get_by_role("columnheader").filter(has=named)
    expect(head).to_be_in_viewport(ratio=1)


def across_the_gap(world: Past) -> tuple[int, int]:
    """Two events with a gap between them that nothing leads from one to the other."""
    for later in range(751, 900):
        for earlier in range(750, 700, -1):
            pair = world.events[earlier - 1], world.events[later - 1]
            if world.relation(*pair) == "concurrent":
                return earlier, later
    raise AssertionError("everything is ordered")


def test_across_a_gap_no_two_events_are_called_concurrent(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(1500)
    a, b = across_the_gap(world)
    server = serve(world)
    page = open_page(server, f"#/chain?a={a}&b={b}")
    expect(page.locator(".pair-word")).to_have_text("has no known relation to")
    known = page.get_by_role("region", name="What is known")
    expect(known.locator(".trust-part").first).to_have_text("incomplete, 1 gap")
    page.goto(f"{server.url}/#/events?live=off&a={a}&b={b}")
    expect(page.locator(".pins-relation")).to_have_text("has no known relation to")


def test_the_page_as_a_whole_has_no_ring(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # skips to the content
    expect(page.locator("#page")).to_be_focused()
    assert page.locator("#page").evaluate("e => getComputedStyle(e).outlineStyle") == "none"


@pytest.mark.parametrize("text", ["since:yesterday", "until:12h"])
def test_a_time_that_is_none_is_told_before_it_is_asked_for(
    demo: Served, open_page: OpenPage, text: str
) -> None:
    page = open_page(demo, "#/events?live=off")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_label("Filter events").fill(text)
    page.keyboard.press("Enter")
    name, _, value = text.partition(":")
    expect(page.get_by_role("alert")).to_have_text(
        f"{name} is a time, such as 12:30 or 2026-01-02T12:30."
    )
    assert not any(f"{name}={value}" in url for url in asked)


def test_the_history_of_rates_reaches_back_however_many_events_there_were(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = Past()
    trace = world.start_trace("/")
    begin = time.time_ns() // 1000 - 300_000_000
    trace.simulation.now = begin
    world.grow("/", 4000)
    assert world.events[-500].at - begin > 20_000_000
    page = open_page(serve(world))
    expect(page.locator(".plot-legend")).to_contain_text("published")
    samples = page.evaluate('() => modules["app/core/traces.js"].rateSamples.value')
    counted = sum(one["published"] + one["received"] for one in samples)
    assert counted == len(world.events)


def place(page: Page) -> tuple[str, int]:
    row = page.locator("tr.row").nth(20).inner_text()
    return row, page.locator(".rows").evaluate("e => e.scrollTop")


@pytest.mark.parametrize("way", ["link", "key", "back"])
def test_back_to_the_events_is_back_to_the_same_place(
    demo: Served, open_page: OpenPage, way: str
) -> None:
    page = open_page(demo, "#/events?live=off&vhost=%2F&type=received")
    expect(page.locator("tr.row").first).to_be_visible()
    # As often as it takes: the first page of events is not as high, another follows it.
    scroll = "(e) => (e.scrollTop = 3000, e.scrollTop === 3000)"
    page.wait_for_function(f"() => ({scroll})(document.querySelector('.rows'))")
    expect(page.locator("tr.row").first).not_to_have_attribute("aria-rowindex", "2")
    before = place(page)
    page.get_by_role("link", name="Map", exact=True).click()
    expect(page.get_by_role("heading", name="Topology")).to_be_visible()
    if way == "link":
        page.get_by_role("link", name="Events", exact=True).click()
    elif way == "key":
        page.keyboard.press("3")
    else:
        page.go_back()
    expect(page).to_have_url(re.compile("type=received"))
    expect(page.locator("tr.row").first).not_to_have_attribute("aria-rowindex", "2")
    assert place(page) == before


def test_of_another_virtual_host_the_events_begin_anew(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/events?live=off&vhost=%2F&type=received")
    page.get_by_role("link", name="Overview", exact=True).click()
    page.get_by_label("Virtual host").select_option("shop")
    expect(page.get_by_role("heading", name="shop")).to_be_visible()
    page.get_by_role("link", name="Events", exact=True).click()
    expect(page).to_have_url(re.compile("vhost=shop"))
    assert "type=" not in page.url


def test_what_is_chosen_right_after_a_link_is_of_the_link_s_view(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/events?live=off&type=received")
    page.evaluate(
        """() => {
          document.querySelector('a[href^="#/overview"]').click();
          const hosts = document.querySelector('select[aria-label="Virtual host"]');
          hosts.value = "shop";
          hosts.dispatchEvent(new Event("change", { bubbles: true }));
        }"""
    )
    expect(page.get_by_role("heading", name="shop")).to_be_visible()


def test_what_a_proxy_says_in_the_service_s_place_is_shown_as_an_error(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo)
    for address in ("**/health/ready", "**/itc_db/histogram*"):
        page.route(address, lambda route: route.fulfill(content_type="text/html", body="<p>hello"))
    page.goto(f"{demo.url}/#/admin")
    expect(page.locator(".facts", has_text="Health")).to_contain_text("not ready SyntaxError")
    page.goto(f"{demo.url}/#/events")
    expect(page.locator(".histogram-foot")).to_contain_text("is not known: SyntaxError")


def test_the_title_says_where_one_is_and_an_unknown_address_that_it_is_none(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/nowhere")
    missing = page.get_by_text("There is no page nowhere: this is the overview.")
    expect(missing).to_be_visible()
    expect(page).to_have_title("Overview · rabbitmq-itc")
    titles = {
        "#/events?event=500&vhost=%2F": "#500 · Events · / · rabbitmq-itc",
        "#/space-time": "Space-time · rabbitmq-itc",
        "#/conversations?filter=failures": "Failures · Conversations · rabbitmq-itc",
        "#/conversations?find=lamp": "lamp · Conversations · rabbitmq-itc",
    }
    for address, title in titles.items():
        page.goto(f"{demo.url}/{address}")
        expect(page).to_have_title(title)
        expect(missing).to_have_count(0)
    page.goto(f"{demo.url}/#/conversations?event=500&vhost=%2F")
    keys = demo.answer("/itc_db/conversations/500")["keys"]
    expect(page).to_have_title(re.compile(f"^{re.escape(keys[0])} · .* · Conversations · / · "))


def test_on_a_phone_a_long_virtual_host_leaves_its_button_inside(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = Past()
    world.vhosts = ["a-long-virtual-host-" * 10]
    page = open_page(serve(world), width=390)
    button = page.get_by_role("button", name="Start the trace").bounding_box()
    assert button is not None
    assert button["x"] > 0
    assert button["x"] + button["width"] <= 390
