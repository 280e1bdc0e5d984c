"""Names and payloads full of markup, control characters, direction marks and emoji are text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import OpenPage
from tests.web.history import HOSTILE
from tests.web.past import Past
from tests.web.service import Served, running
from tests.web.test_learn import judge

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
def hostile() -> Iterator[Served]:
    world = Past()
    world.vhosts = list(HOSTILE)
    for name in HOSTILE[:3]:
        world.start_trace(name, 12, hostile=True)
        world.grow(name, 300)
    asserted = {"name": "a", "every": HOSTILE[2], "leads_to": HOSTILE[3], "within": "30s"}
    world.traces[HOSTILE[0]].last_error = HOSTILE[4]
    with running(world) as server:
        body = json.dumps([asserted], ensure_ascii=False).encode()
        server.put(f"/itc_db/assertions/{quote(HOSTILE[0], safe='')}", body)
        judge(server, "a", 1, last=1, sentence=HOSTILE[4])
        yield server


def assert_unharmed(page: Page) -> None:
    assert page.evaluate("window.pwned") is None
    # The page itself has one picture, the logo, and one script, in the head.
    assert page.locator("img:not(.brand img)").count() == 0
    assert page.locator("body script").count() == 0
    raw = page.evaluate("document.body.innerText")
    assert "\u202e" not in raw
    assert "\x07" not in raw


def test_every_view_shows_it_as_text(hostile: Served, open_page: OpenPage) -> None:
    page = open_page(hostile)
    for address in ADDRESSES:
        page.goto(f"{hostile.url}/{address}")
        expect(page.locator(".loading")).to_have_count(0)
        assert_unharmed(page)


def test_the_words_themselves_are_there(hostile: Served, open_page: OpenPage) -> None:
    page = open_page(hostile, "#/events?live=off")
    expect(page.locator("tr.row").first).to_be_visible()
    text = page.locator("tbody").inner_text()
    assert "<img src=x onerror=" in text
    assert "⟨U+202E⟩gnp.exe" in text
    assert "tab⟨TAB⟩newline⟨LF⟩nul⟨NUL⟩bell⟨BEL⟩" in text
    assert "🧨" in text


def test_an_address_full_of_markup_is_text_as_well(hostile: Served, open_page: OpenPage) -> None:
    page = open_page(
        hostile, "#/events?queue=%3Cimg%20src%3Dx%20onerror%3D%22pwned%3D1%22%3E&event=%3Cb%3E"
    )
    expect(page.locator(".filter")).to_contain_text('<img src=x onerror="pwned=1">')
    assert_unharmed(page)


def test_a_name_from_right_to_left_leaves_the_time_behind_it_in_place(
    hostile: Served, open_page: OpenPage
) -> None:
    name, time, first, second = open_page(hostile).evaluate(
        """async () => {
          const { said, visible } = await import("/app/core/format.js");
          const line = document.createElement("p");
          document.body.append(line);
          const left = (text) => {
            const range = document.createRange();
            const from = line.textContent.indexOf(text);
            range.setStart(line.firstChild, from);
            range.setEnd(line.firstChild, from + text.length);
            return range.getBoundingClientRect().left;
          };
          const name = "\\u05ea\\u05d5\\u05e8";
          line.textContent = `in ${visible(name)} 204 ms`;
          const places = [left(name), left("204")];
          line.textContent = said(`${name} led to 1 more message. 1 died in ${name}-2`);
          return [...places, left(name), left("led to")];
        }"""
    )
    assert name < time
    assert first < second  # a sentence that begins with such a name
