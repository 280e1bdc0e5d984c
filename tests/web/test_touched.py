"""What an event touched, and what it cannot have: in the drawer, and of the pinned events."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.web import history
from tests.web.conftest import OpenPage, cast_doubt
from tests.web.history import Event
from tests.web.jobs import verdicts
from tests.web.past import Past, demo_world, iso
from tests.web.service import Served
from tests.web.test_accessibility import settled, violations


def with_effects(world: Past) -> Event:
    """A late publish, behind the gap, that caused something."""
    late = (e for e in world.events[800:1500] if not e.received)
    return next(e for e in late if len(history.evident_future(world.events, e)) > 3)


@pytest.fixture
def complete(serve: Callable[[Past], Served]) -> Served:
    """A service that lacks nothing: only there does the page rule anything out."""
    world = demo_world(1600)
    world.complete("/")
    return serve(world)


def touched(page: Page) -> Locator:
    heading = page.get_by_role("heading", name="What it touched")
    return page.locator(".drawer .section").filter(has=heading)


def listed(part: Locator) -> list[int]:
    return [int(text.removeprefix("#")) for text in part.locator("li .number").all_inner_texts()]


def test_services_are_said_first_and_a_conversation_is_judged_up_to_its_end(
    demo: Served, open_page: OpenPage
) -> None:
    event = with_effects(demo.world)
    page = open_page(demo, f"#/conversations?event={event.id}&beyond=on", policy=False)
    part = page.get_by_role("region", name="What it touched")
    expect(part.get_by_role("button", name="Until its end")).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(part).to_contain_text(
        re.compile(r"[1-9]\d* of \d+ other participants? w(as|ere) touched")
    )
    certain = part.locator(".strip .tone-caused")
    expect(certain.first).to_be_visible()
    led = history.evident_future(demo.world.events, event) - {event.id}
    users = {demo.world.who(demo.world.events[each - 1]).user for each in led}
    assert {*certain.locator("a").all_inner_texts()} == users
    queues = {demo.world.events[each - 1].queue for each in led} - {None}
    assert {*part.locator(".touched-queues a.queue").all_inner_texts()} == queues
    before = part.locator(".strip li").count()
    part.get_by_role("button", name="Until now").click()
    expect(part.locator(".strip li")).not_to_have_count(0)
    assert part.locator(".strip li").count() >= before
    settled(page)
    assert violations(page) == []


def test_the_drawer_says_what_it_caused_may_have_and_cannot_have(
    complete: Served, open_page: OpenPage
) -> None:
    event = with_effects(complete.world)
    counts = {name: len(ids) for name, ids in verdicts(complete.world, [event]).items()}
    page = open_page(complete, f"#/events?event={event.id}&live=off", user="watch")
    part = touched(page)
    expect(part).to_contain_text(
        f"Of {sum(counts.values()):,} events since, {counts['caused']} were caused by it, "
        f"{counts['may_have']} more may have been, {counts['cannot_have']} cannot have been."
    )
    expect(part.get_by_text("complete", exact=True)).to_be_visible()
    expect(part.get_by_text("sound", exact=True)).to_be_visible()


def test_each_number_opens_its_list_and_stands_in_the_address(
    complete: Served, open_page: OpenPage
) -> None:
    event = with_effects(complete.world)
    ids = verdicts(complete.world, [event])
    page = open_page(complete, f"#/events?event={event.id}&live=off")
    part = touched(page)
    part.get_by_role("button", name="caused").click()
    expect(part.locator("li:has(.number)")).to_have_count(len(ids["caused"]))
    assert listed(part) == ids["caused"]
    part.get_by_role("button", name="cannot have been touched").click()
    expect(part.locator("li:has(.number)")).to_have_count(20)
    part.get_by_role("button", name="Show 20 more").click()
    expect(part.locator("li:has(.number)")).to_have_count(40)
    assert listed(part) == ids["cannot_have"][:40]
    assert "touched=cannot_have" in page.url
    page.reload()
    expect(part.locator("li:has(.number)")).to_have_count(20)
    part.get_by_role("button", name="cannot have been touched").click()
    expect(part.locator("li:has(.number)")).to_have_count(0)


def test_until_when_is_its_own_beside_the_filters_of_a_view(
    demo: Served, open_page: OpenPage
) -> None:
    event = with_effects(demo.world)
    until = iso(demo.world.events[-1].at)
    query = urlencode({"event": event.id, "live": "off", "until": until})
    page = open_page(demo, f"#/events?{query}&touched_until=end")
    part = touched(page)
    expect(part.get_by_role("button", name="Until now")).to_have_attribute("aria-pressed", "true")
    expect(part).to_contain_text("events since")
    part.get_by_role("button", name="The next minute").click()
    expect(page).to_have_url(re.compile("touched_until=minute"))
    expect(part).to_contain_text("events since")
    assert urlencode({"until": until}) in page.url
    expect(page.get_by_role("alert")).to_have_count(0)


def test_nothing_is_impossible_where_messages_may_be_missing(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(800)
    page = open_page(serve(world), "#/events?event=3&live=off")
    part = touched(page)
    expect(part).to_contain_text("As far as is known, of ")
    expect(part.get_by_text("not complete", exact=True)).to_be_visible()
    expect(part.get_by_role("button", name="not known to have been touched")).to_be_visible()
    expect(part).not_to_contain_text("cannot")
    cast_doubt(page)
    page.reload()
    expect(part.get_by_text("not sound", exact=True)).to_be_visible()
    expect(part).not_to_contain_text("cannot")


def test_it_is_exported_by_an_administrator_as_a_job(
    demo: Served, open_page: OpenPage, tmp_path: Path
) -> None:
    event = with_effects(demo.world)
    page = open_page(demo, f"#/events?event={event.id}&live=off")
    part = touched(page)
    part.get_by_role("button", name="Export", exact=True).press("Enter")
    expect(part.get_by_label("File name")).to_have_value(f"touched-{event.id}")
    part.get_by_role("group", name="Export").get_by_role("button", name="Export").click()
    with page.expect_download() as download:
        part.get_by_role("button", name=f"Download touched-{event.id}.jsonl").click()
    download.value.save_as(tmp_path / "touched.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "touched.jsonl").read_text().splitlines()]
    assert len(rows) == sum(len(ids) for ids in verdicts(demo.world, [event]).values())
    page = open_page(demo, f"#/events?event={event.id}&live=off", user="watch")
    expect(touched(page).get_by_role("button", name="caused")).to_be_visible()
    expect(touched(page).get_by_role("button", name="Export", exact=True)).to_have_count(0)


def test_of_the_pinned_events_by_each_or_by_both(demo: Served, open_page: OpenPage) -> None:
    world = demo.world
    a = with_effects(world)
    b = next(e for e in world.events[a.id + 20 : 1500] if not e.received)
    page = open_page(demo, f"#/chain?a={a.id}&b={b.id}")
    panel = page.get_by_role("region", name="What it touched")
    expect(panel).to_contain_text("were caused by it")
    panel.get_by_role("button", name="A and B").click()
    both = verdicts(world, [a, b])
    expect(panel.get_by_role("button", name=f"{len(both['caused'])} caused")).to_be_visible()
    expect(panel).to_contain_text("caused by them")
    assert "by=both" in page.url


def test_axe_finds_nothing_with_a_list_and_the_menu_open(demo: Served, open_page: OpenPage) -> None:
    event = with_effects(demo.world)
    address = f"#/events?event={event.id}&live=off&touched=caused"
    for theme in ("light", "dark"):
        page = open_page(demo, address, theme=theme, policy=False)
        settled(page)
        touched(page).get_by_role("button", name="Export", exact=True).click()
        expect(touched(page).get_by_label("Format")).to_be_visible()
        assert violations(page) == []
