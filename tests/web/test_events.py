from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page, Route, expect

from tests.web.conftest import OpenPage, change_answers
from tests.web.past import Past, demo_world
from tests.web.service import Served


def first_id(page: Page) -> int:
    text = page.locator("tr.row a").first.inner_text()
    return int(text.removeprefix("#"))


def test_scrolling_down_reaches_the_oldest_with_few_rows_in_the_page(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/events?vhost=%2F&live=off")
    expect(page.locator("tr.row").first).to_be_visible()
    for _ in range(40):
        page.locator(".rows").evaluate("e => e.scrollTop = e.scrollHeight")
        if page.get_by_text("the oldest is loaded").is_visible():
            break
        page.wait_for_function("() => true")
    expect(page.get_by_text("the oldest is loaded")).to_be_visible()
    page.locator(".rows").evaluate("e => e.scrollTop = e.scrollHeight")
    expect(page.locator("tr.row a", has_text=re.compile("^#1$"))).to_be_visible()
    assert page.locator("tr.row").count() < 120


def test_a_filter_is_in_the_address_and_can_be_taken_away(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/events?live=off")
    page.get_by_label("Filter events").fill("queue:billing type:received")
    page.keyboard.press("Enter")
    expect(page.locator(".filter")).to_have_count(2)
    assert "queue=billing" in page.url
    assert "type=received" in page.url
    expect(page.locator("tr.row td").nth(7)).to_have_text("billing")
    page.get_by_role("button", name="Remove the filter queue").click()
    expect(page.locator(".filter")).to_have_count(1)
    assert "queue=" not in page.url


def test_free_text_searches_payloads(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/events?live=off")
    page.get_by_label("Filter events").fill('"order": 12,')
    page.keyboard.press("Enter")
    expect(page.locator("tr.row").first).to_be_visible()
    page.locator("tr.row").first.click()
    expect(page.locator("pre.payload")).to_contain_text('"order": 12')


def test_a_filter_that_the_service_refuses_is_explained(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/events?since=yesterday")
    expect(page.get_by_role("alert")).to_be_visible()


def test_nothing_found_is_not_nothing_there(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/events?queue=nowhere&live=off")
    expect(page.get_by_text("No event matches these filters")).to_be_visible()
    page.get_by_label("Virtual host").select_option("empty")
    page.get_by_role("button", name="Remove the filter queue").click()
    expect(page.get_by_text("No events yet")).to_be_visible()


def test_the_live_tail_comes_in_at_the_top_and_can_be_paused(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(300)
    page = open_page(serve(world), "#/events?vhost=%2F")
    expect(page.get_by_role("button", name="Live")).to_be_visible()
    before = first_id(page)
    world.grow("/", 5)
    expect(page.locator("tr.row a").first).to_have_text(f"#{before + 35}")
    page.get_by_role("button", name="Live").click()
    expect(page.get_by_role("button", name="Paused")).to_be_visible()
    assert "live=off" in page.url
    world.grow("/", 5)
    page.get_by_role("button", name="Paused").click()
    expect(page.locator("tr.row a").first).to_have_text(f"#{before + 40}")


def test_new_events_wait_while_one_reads_further_down(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(600)
    page = open_page(serve(world), "#/events?vhost=%2F")
    expect(page.locator("tr.row").first).to_be_visible()
    # Until the rows have their height there is nowhere to scroll to.
    page.wait_for_function(
        "() => (document.querySelector('.rows').scrollTop = 2000,"
        " document.querySelector('.rows').scrollTop === 2000)"
    )
    expect(page.locator("tr.row").first).not_to_have_attribute("aria-rowindex", "2")
    read = page.locator("tr.row").nth(20).inner_text()
    world.grow("/", 7)
    expect(page.get_by_role("button", name="7 newer")).to_be_visible()
    assert page.locator("tr.row").nth(20).inner_text() == read
    page.get_by_role("button", name="7 newer").click()
    expect(page.get_by_text(f"#{len(world.events)}", exact=True)).to_be_visible()


def test_columns_can_be_chosen_and_are_remembered(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/events?live=off")
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("checkbox", name="Connection").check()
    page.get_by_role("checkbox", name="Who").uncheck()
    page.keyboard.press("Escape")
    expect(page.get_by_role("columnheader", name="Connection")).to_have_count(1)
    expect(page.get_by_role("columnheader", name="Who")).to_have_count(0)
    page.reload()
    expect(page.get_by_role("columnheader", name="Connection")).to_have_count(1)


def test_rows_are_sorted_by_a_column_that_is_not_shown_too(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/overview")
    with page.expect_request(re.compile(r"columns=[^&]*lamport")):
        page.goto(f"{demo.url}/#/events?vhost=%2F&live=off&sort=lamport")
    expect(page.get_by_role("columnheader", name="Lamport")).to_have_count(0)
    expect(page.locator(".rows-foot")).to_contain_text("loaded rows, by Lamport")


def test_properties_that_one_may_not_read_are_said_to_be_withheld(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/overview")

    def withheld(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [each | {"properties": None} for each in events]

    change_answers(page, "**/itc_db?*", withheld)
    page.goto(f"{demo.url}/#/events?vhost=%2F&live=off")
    expect(page.get_by_role("columnheader", name="Key")).to_be_visible()
    first = page.locator("tr.row").first
    expect(first.get_by_text("(withheld)")).to_have_count(2)


def test_the_table_works_by_keyboard_alone(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/events?vhost=%2F&live=off")
    expect(page.locator("tr.row").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("j")
    page.keyboard.press("k")
    active = page.locator("tr.row.active [data-focus]").inner_text()
    page.keyboard.press("Enter")
    expect(page.locator(".drawer h2")).to_have_text(active)
    page.keyboard.press("a")
    expect(page.get_by_role("region", name="Pinned events")).to_contain_text(active)
    page.keyboard.press("Escape")
    expect(page.locator(".drawer")).to_have_count(0)


def test_going_to_a_number_shows_it_with_its_neighbours(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/events?vhost=%2F")
    page.get_by_label("Go to event number").fill("700")
    page.keyboard.press("Enter")
    expect(page.locator(".drawer h2")).to_have_text("#700")
    expect(page.locator("tr.row.open")).to_be_in_viewport()
    expect(page.locator("tr.row a", has_text="#703")).to_be_visible()


def test_a_link_to_an_event_shows_it_among_its_neighbours(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/events?vhost=%2F&event=300")
    expect(page.locator(".drawer h2")).to_have_text("#300")
    expect(page.locator("tr.row.open")).to_be_in_viewport()
    expect(page.locator(".rows-foot")).to_contain_text("scroll up for newer")
    page.keyboard.press("Escape")
    page.keyboard.press("Home")
    expect(page.locator(".rows-foot")).to_contain_text("newest at the top")


def test_a_broken_stream_is_taken_up_again(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(60)
    server = serve(world)
    page = open_page(server, "#/events?vhost=%2F&live=off")
    page.route("**/itc_db/live*", lambda route: route.abort())
    page.get_by_role("button", name="Paused").click()
    expect(page.get_by_role("button", name="Reconnecting")).to_be_visible()
    page.unroute("**/itc_db/live*")
    world.grow("/", 3)
    newest = world.events[-1].id
    expect(page.locator("tr.row a").first).to_have_text(f"#{newest}")


def test_a_field_that_the_page_has_never_heard_of_can_be_a_column(
    demo: Served, open_page: OpenPage
) -> None:
    """The service says which fields there are; the page draws by kind what it does not know."""
    page = open_page(demo)
    field = {"name": "entry", "kind": "text", "label": "Entry", "meaning": "Where.", "usual": True}

    def with_entry(route: Route) -> None:
        url = re.sub(r"(,|%2C)entry\b", "", route.request.url)
        answer = route.fetch(url=url)
        known = answer.json()
        if "fields" in route.request.url:
            return route.fulfill(response=answer, json=[*known, field])
        shown = [{**event, "entry": f"through {event['id']}"} for event in known]
        return route.fulfill(response=answer, json=shown)

    page.route(re.compile(r"/itc_db(/fields|\?.*entry)"), with_entry)
    page.goto(f"{demo.url}/#/events?live=off")
    expect(page.get_by_role("columnheader").last).to_have_text("Entry")
    expect(page.get_by_role("cell", name=re.compile("through [0-9]+")).first).to_be_visible()
