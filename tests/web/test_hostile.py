"""Names and payloads full of markup, control characters, direction marks and emoji are text."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.web import fake_assertions
from tests.web.conftest import OpenPage
from tests.web.fake_server import Server, running
from tests.web.history import HOSTILE
from tests.web.world import World

ADDRESSES = [
    "#/overview",
    "#/events?event=40&live=off",
    "#/events?event=41&live=off",
    "#/chain?a=3&b=40",
    "#/space-time?event=40",
    "#/topology",
    "#/topology?by=participant",
    "#/learn?view=assertions",
    "#/admin",
]


@pytest.fixture(scope="module")
def hostile() -> Iterator[Server]:
    world = World()
    world.vhosts = list(HOSTILE)
    for name in HOSTILE[:3]:
        world.start_trace(name, 12, hostile=True)
        world.grow(name, 300)
    asserted = {"name": "a", "every": HOSTILE[2], "leads_to": HOSTILE[3], "within": "30s"}
    fake_assertions.set_all(world, HOSTILE[0], json.dumps([asserted], ensure_ascii=False).encode())
    fake_assertions.violate(world, HOSTILE[0], "a", 1, sentence=HOSTILE[4])
    world.traces[HOSTILE[0]].last_error = HOSTILE[4]
    with running(world) as server:
        yield server


def assert_unharmed(page: Page) -> None:
    assert page.evaluate("window.pwned") is None
    # The page itself has one picture, the logo, and one script, in the head.
    assert page.locator("img:not(.brand img)").count() == 0
    assert page.locator("body script").count() == 0
    raw = page.evaluate("document.body.innerText")
    assert "\u202e" not in raw
    assert "\x07" not in raw


def test_every_view_shows_it_as_text(hostile: Server, open_page: OpenPage) -> None:
    page = open_page(hostile)
    for address in ADDRESSES:
        page.goto(f"{hostile.url}/{address}")
        expect(page.locator(".loading")).to_have_count(0)
        assert_unharmed(page)


def test_the_words_themselves_are_there(hostile: Server, open_page: OpenPage) -> None:
    page = open_page(hostile, "#/events?live=off")
    expect(page.locator("tr.row").first).to_be_visible()
    text = page.locator("tbody").inner_text()
    assert "<img src=x onerror=" in text
    assert "⟨U+202E⟩gnp.exe" in text
    assert "tab⟨TAB⟩newline⟨LF⟩nul⟨NUL⟩bell⟨BEL⟩" in text
    assert "🧨" in text


def test_an_address_full_of_markup_is_text_as_well(hostile: Server, open_page: OpenPage) -> None:
    page = open_page(
        hostile, "#/events?queue=%3Cimg%20src%3Dx%20onerror%3D%22pwned%3D1%22%3E&event=%3Cb%3E"
    )
    expect(page.locator(".filter")).to_contain_text('<img src=x onerror="pwned=1">')
    assert_unharmed(page)
