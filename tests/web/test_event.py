"""The drawer: one event with everything known about it."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.web.conftest import OpenPage
from tests.web.fake_server import Server
from tests.web.world import World


def received(world: World) -> int:
    """A routed delivery some way in."""
    return next(e.id for e in world.events[400:] if e.match == "routed")


def test_it_shows_its_cause_and_goes_there_by_key(demo: Server, open_page: OpenPage) -> None:
    world = demo.world
    number = received(world)
    cause = world.events[number - 1].cause
    page = open_page(demo, f"#/events?event={number}&live=off")
    expect(page.locator(".drawer").get_by_role("link", name=f"#{cause}").first).to_be_visible()
    page.keyboard.press("c")
    expect(page.locator(".drawer h2")).to_have_text(f"#{cause}")
    expect(page.locator(".drawer")).to_contain_text("handed over for")


def test_the_three_clocks_are_shown(demo: Server, open_page: OpenPage) -> None:
    number = received(demo.world)
    event = demo.world.events[number - 1]
    clocks = demo.world.clocks_json(event)
    page = open_page(demo, f"#/events?event={number}&live=off")
    expect(page.locator(".notation")).to_have_text(clocks["itc"]["text"])
    expect(page.locator(".vector li")).to_have_count(len(clocks["vector"]))
    expect(page.locator(".itc svg").first).to_be_visible()


def test_the_itc_trees_are_drawn_as_the_paper_draws_them(demo: Server, open_page: OpenPage) -> None:
    page = open_page(demo)
    result = page.evaluate(
        """async () => {
          const { ownedIntervals, steps } = await import("/app/ui/event/itc-tree.js");
          return [ownedIntervals([[0, 1], [1, 0]]), steps([1, 2, [0, [1, 0, 2], 0]])];
        }"""
    )
    assert result == [
        [{"from": 0.25, "to": 0.75}],
        [
            {"from": 0, "to": 0.5, "height": 3},
            {"from": 0.5, "to": 0.625, "height": 2},
            {"from": 0.625, "to": 0.75, "height": 4},
            {"from": 0.75, "to": 1, "height": 1},
        ],
    ]


def test_a_binary_payload_shows_as_bytes_and_a_json_one_laid_out(
    demo: Server, open_page: OpenPage
) -> None:
    binary = next(e.id for e in demo.world.events if e.match == "unmatched")
    page = open_page(demo, f"#/events?event={binary}&live=off")
    expect(page.locator("pre.payload")).to_contain_text("00 ff fe 20 62 69 6e 61 72 79 20 80")
    page = open_page(demo, f"#/events?event={received(demo.world)}&live=off")
    expect(page.locator("pre.payload")).to_contain_text("{\n  ")
    page.get_by_role("button", name="Hex").click()
    expect(page.locator("pre.payload")).to_contain_text("000000  7b 22")


def test_it_copies_a_curl_command_without_the_password(demo: Server, open_page: OpenPage) -> None:
    page = open_page(demo, "#/events?event=17&live=off")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="curl").click()
    expect(page.locator(".notice")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == (
        f"curl -s -u admin {demo.url}/itc_db/events/17"
    )


def test_a_missing_event_is_reported(demo: Server, open_page: OpenPage) -> None:
    page = open_page(demo, "#/events?event=999999&live=off")
    expect(page.locator(".drawer").get_by_role("alert")).to_contain_text("Not Found")
