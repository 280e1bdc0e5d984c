"""What helps whoever sees the page for the first time, and what is kept for experts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.web import history
from tests.web.conftest import OpenPage
from tests.web.past import Past, demo_world
from tests.web.service import Served
from tests.web.test_chain import cause_and_effect

WORDS = ["event", "participant", "complete", "sound", "gap", "unknown", "concurrent"]


@pytest.mark.parametrize("by", ["pointer", "keyboard"])
def test_a_word_says_what_it_means(demo: Served, open_page: OpenPage, by: str) -> None:
    page = open_page(demo, "#/overview?vhost=shop")
    word = page.locator(".figures").get_by_text("Unmatched", exact=True)
    tip = page.get_by_role("tooltip")
    if by == "pointer":
        word.hover()
        expect(tip).to_contain_text("whose publish was not seen")
        page.get_by_role("heading", name="shop").hover()
    else:
        word.focus()
        expect(tip).to_contain_text("whose publish was not seen")
        page.keyboard.press("Escape")
    expect(tip).to_have_count(0)


def test_the_help_has_the_words_and_the_keys(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo)
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog", name="Help")
    expect(help_).to_contain_text("may have had a part")
    expect(help_.locator(".about dt")).to_have_text(WORDS)
    expect(help_.get_by_role("heading", name="Space-time")).to_be_visible()


def test_the_worked_example_is_of_what_is_stored(demo: Served, open_page: OpenPage) -> None:
    events = demo.world.events
    dead = [e for e in events if e.match == "dead_lettered" and e.vhost == "/"][-1]
    first = min(history.evident_past(events[: dead.id], dead, False) - {dead.id})
    page = open_page(demo, "#/overview?vhost=%2F")
    page.get_by_role("button", name="New here?").click()
    help_ = page.get_by_role("dialog", name="Help")
    help_.get_by_role("link", name="the answer, and the way from one to the other").click()
    expect(help_).to_have_count(0)
    expect(page.locator(".pair")).to_contain_text(f"Event {first} caused event {dead.id}")
    assert f"a={first}" in page.url
    assert f"b={dead.id}" in page.url
    expect(page.get_by_role("button", name="New here?")).to_have_count(0)


def test_without_events_there_is_no_example(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    page = open_page(serve(Past()))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Help")).to_contain_text("What this is")
    expect(page.get_by_text("A worked example")).to_have_count(0)


def test_clocks_are_folded_until_somebody_wants_them(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/events?live=off&vhost=%2F&event=500")
    fold = page.get_by_text("Advanced: clocks and codes")
    expect(fold).to_be_visible()
    expect(page.locator(".notation")).not_to_be_visible()
    fold.click()
    expect(page.locator(".notation")).to_be_visible()
    page.goto(f"{demo.url}/#/events?live=off&vhost=%2F&event=501")
    expect(page.locator(".drawer h2")).to_have_text("#501")
    expect(page.locator(".notation")).to_be_visible()
    page.reload()
    expect(page.locator(".notation")).to_be_visible()


def opened_tray(page: Page, name: str) -> None:
    page.get_by_role("button", name=name).click()


def test_jobs_are_followed_from_any_tab(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(800)
    world.job_seconds = 600
    server = serve(world)
    page = open_page(server, "#/topology?vhost=%2F", hurry=True)
    opened_tray(page, "Jobs: none running")
    tray = page.get_by_role("group", name="The newest jobs")
    expect(tray).to_contain_text("No job has run yet")
    a, b = cause_and_effect(world)
    server.put(f"/itc_db/undefined/{a}/{b}/long.jsonl")
    expect(page.get_by_role("button", name="Jobs: 1 running")).to_be_visible()
    expect(tray.get_by_role("progressbar")).to_be_visible()
    tray.get_by_role("button", name="Cancel the job 1").click()
    expect(tray).to_contain_text("cancelled")
    page.keyboard.press("Escape")
    expect(tray).to_have_count(0)
    world.job_seconds = 0.0
    server.put(f"/itc_db/undefined/{a}/{b}/short.jsonl")
    opened_tray(page, "Jobs: none running")
    with page.expect_download() as download:
        tray.get_by_role("button", name="short.jsonl").click()
    assert download.value.suggested_filename == "short.jsonl"
    tray.get_by_role("link", name="All jobs and exports").click()
    expect(page.get_by_role("heading", name="Exports")).to_be_visible()
