"""The keyboard focus never falls back to the top of the page because something went away."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.web.conftest import OpenPage
from tests.web.past import Past, demo_world
from tests.web.service import Served
from tests.web.test_chain import cause_and_effect, menu


def press(page: Page, name: str) -> None:
    button = page.get_by_role("button", name=name)
    button.focus()
    button.press("Enter")


def test_a_closed_event_gives_the_focus_back_to_its_row(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/events?live=off&vhost=%2F")
    row = page.locator("tr.row").nth(4)
    row.locator("td").nth(1).click()
    press(page, "Close the event (Esc)")
    expect(page.locator(".drawer")).to_have_count(0)
    expect(row.locator("[data-focus]")).to_be_focused()


def test_a_closed_event_that_has_no_row_leaves_the_focus_in_the_page(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/chain?a=3&b=1400&event=3")
    press(page, "Close the event (Esc)")
    expect(page.locator("#page")).to_be_focused()


def test_from_an_event_to_its_cause_the_focus_stays_among_the_details(
    demo: Served, open_page: OpenPage
) -> None:
    number = next(e.id for e in demo.world.events[400:] if e.match == "routed")
    cause = demo.world.events[number - 1].cause
    page = open_page(demo, f"#/events?event={number}&live=off")
    page.locator(".drawer").get_by_role("link", name=f"#{cause}").first.press("Enter")
    expect(page.locator(".drawer h2")).to_have_text(f"#{cause}")
    expect(page.get_by_role("region", name="Details of the event")).to_be_focused()


def test_a_trace_that_is_started_and_stopped_keeps_the_focus_on_its_button(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    page = open_page(serve(Past()))
    press(page, "Start the trace of shop")
    page.get_by_role("button", name="Start the trace", exact=True).press("Enter")
    stop = page.get_by_role("button", name="Stop the trace of shop")
    expect(stop).to_be_focused()
    stop.press("Enter")
    page.get_by_role("button", name="Stop the trace", exact=True).press("Enter")
    # The line below the tabs has one, too, once it knows of the stop.
    expect(page.locator(":focus")).to_have_accessible_name("Start the trace of shop")


def test_the_focus_stays_at_a_chain_that_is_being_exported(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(800)
    a, b = cause_and_effect(world)
    page = open_page(serve(world), f"#/chain?a={a}&b={b}")
    menu(page).press("Enter")
    press(page, "Restore and export")
    expect(page.locator(".chain-result")).to_be_visible()
    expect(menu(page)).to_be_focused()
