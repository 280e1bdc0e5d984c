"""The drawer: one event with everything known about it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.web import history
from tests.web.conftest import OpenPage, change_answers
from tests.web.history import Event
from tests.web.past import Past, demo_world
from tests.web.service import Served


def received(world: Past) -> int:
    """A routed delivery some way in."""
    return next(e.id for e in world.events[400:] if e.match == "routed")


def test_it_shows_its_cause_and_goes_there_by_key(demo: Served, open_page: OpenPage) -> None:
    world = demo.world
    number = received(world)
    cause = world.events[number - 1].cause
    page = open_page(demo, f"#/events?event={number}&live=off")
    expect(page.locator(".drawer").get_by_role("link", name=f"#{cause}").first).to_be_visible()
    page.keyboard.press("c")
    expect(page.locator(".drawer h2")).to_have_text(f"#{cause}")
    expect(page.locator(".drawer")).to_contain_text("handed over for")


def test_the_three_clocks_are_shown(demo: Served, open_page: OpenPage) -> None:
    number = received(demo.world)
    clocks = demo.answer(f"/itc_db/events/{number}")["clocks"]
    page = open_page(demo, f"#/events?event={number}&live=off")
    page.get_by_text("Advanced: clocks and codes").click()
    expect(page.locator(".notation")).to_have_text(clocks["itc"]["text"])
    expect(page.locator(".vector li")).to_have_count(len(clocks["vector"]))
    expect(page.locator(".itc svg").first).to_be_visible()


def test_the_itc_trees_are_drawn_as_the_paper_draws_them(demo: Served, open_page: OpenPage) -> None:
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
    demo: Served, open_page: OpenPage
) -> None:
    binary = next(e.id for e in demo.world.events if e.match == "unmatched")
    page = open_page(demo, f"#/events?event={binary}&live=off")
    expect(page.locator("pre.payload")).to_contain_text("00 ff fe 20 62 69 6e 61 72 79 20 80")
    page = open_page(demo, f"#/events?event={received(demo.world)}&live=off")
    expect(page.locator("pre.payload")).to_contain_text("{\n  ")
    page.get_by_role("button", name="Hex").click()
    expect(page.locator("pre.payload")).to_contain_text("000000  7b 22")


def test_what_the_user_may_not_read_is_said_to_be_withheld(
    demo: Served, open_page: OpenPage
) -> None:
    def withhold(route: Route) -> None:
        answer = route.fetch()
        withheld = {"payload": None, "payload_encoding": "withheld", "properties": None}
        route.fulfill(response=answer, json=answer.json() | withheld)

    page = open_page(demo)
    page.route("**/itc_db/events/17", withhold)
    page.goto(f"{demo.url}/#/events?event=17&live=off")
    drawer = page.locator(".drawer")
    expect(drawer).to_contain_text("Withheld: your permissions in this virtual host")
    expect(drawer).to_contain_text("Withheld, as the payload is.")


def test_it_copies_a_curl_command_without_the_password(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/events?event=17&live=off")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="curl").click()
    expect(page.locator(".notice")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == (
        f"curl -s -u admin {demo.url}/itc_db/events/17"
    )


def test_a_missing_event_is_reported(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/events?event=999999&live=off")
    expect(page.locator(".drawer").get_by_role("alert")).to_contain_text(
        "No event has the id 999999."
    )


def named(world: Past) -> Event:
    """A publish some way in that names its cause."""
    return next(e for e in world.events[400:] if e.named)


def with_some_past(world: Past) -> tuple[Event, set[int]]:
    """A publish that names its cause, and its past, which is small enough to be counted."""
    pasts = ((e, history.past(world.events, e) - {e.id}) for e in world.events if e.named)
    return next((event, past) for event, past in pasts if 20 < len(past) < 90)


def test_links_are_listed_by_rule_and_lead_to_the_other_event(
    demo: Served, open_page: OpenPage
) -> None:
    event = named(demo.world)
    page = open_page(demo, f"#/events?event={event.id}&live=off")
    links = section(page, "Links")
    expect(links).to_contain_text("parent causation_id")
    links.get_by_role("link", name=f"#{event.prompt}", exact=True).click()
    expect(page.locator(".drawer h2")).to_have_text(f"#{event.prompt}")
    naming = [e.id for e in demo.world.events if e.named and e.prompt == event.prompt]
    expect(links.get_by_role("link")).to_have_text([f"#{number}" for number in naming])
    links.get_by_role("link", name=f"#{event.id}", exact=True).click()
    expect(page.locator(".drawer h2")).to_have_text(f"#{event.id}")


def test_what_the_broker_did_is_listed_and_an_event_of_equal_messages_says_so(
    demo: Served, open_page: OpenPage
) -> None:
    event = next(e for e in demo.world.events[400:] if e.received)

    def acted(answer: dict[str, Any]) -> dict[str, Any]:
        answer |= {"cause": None, "candidates": 2}
        answer["links"] = [{"cause": 7, "rule": None, "kind": "rejected"}]
        answer["named_by"] = {
            "links": [{"effect": 9, "rule": None, "kind": "returned"}],
            "truncated": False,
        }
        return answer

    page = open_page(demo)
    change_answers(page, f"**/itc_db/events/{event.id}*", acted)
    page.goto(f"{demo.url}#/events?event={event.id}&live=off")
    links = section(page, "Links")
    expect(links.locator("dt")).to_have_text(["Came of", "Led to"])
    expect(links.locator("dd")).to_have_text(["#7 rejected", "#9 back in its queue"])
    expect(page.locator(".drawer")).to_contain_text(
        "one of 2 equal messages: which one is not known"
    )


def test_deliveries_say_what_became_of_them_where_that_is_told_of_any(
    demo: Served, open_page: OpenPage
) -> None:
    event = next(e for e in demo.world.events[400:] if len(e.routed or ()) == 3)
    outcomes: list[str | None] = [None, None, None]

    def settled(answer: dict[str, Any]) -> dict[str, Any]:
        for queue, outcome in zip(answer["queues"], outcomes, strict=True):
            for each in queue["deliveries"]:
                each |= {"settlement": outcome, "settled_at": outcome and "2026-01-02T03:04:05Z"}
        return answer

    page = open_page(demo)
    change_answers(page, f"**/itc_db/events/{event.id}/deliveries*", settled)
    page.goto(f"{demo.url}#/events?event={event.id}&live=off")
    fates = section(page, "Deliveries").locator(".queue-fate")
    expect(fates).to_have_count(3)
    expect(fates.get_by_text("unknown")).to_have_count(0)
    outcomes[:] = ["acknowledged", "in_hand", None]
    page.reload()
    words = ("acknowledged", "in hand", "unknown")
    expect(fates).to_contain_text([re.compile(rf"to .*{word}") for word in words])


def test_an_event_without_links_has_no_such_section(demo: Served, open_page: OpenPage) -> None:
    event = next(e for e in demo.world.events[400:] if not e.received and not e.prompt)
    page = open_page(demo, f"#/events?event={event.id}&live=off")
    expect(section(page, "Causes")).to_be_visible()
    expect(section(page, "Links")).to_have_count(0)


def section(page: Page, title: str) -> Locator:
    heading = page.get_by_role("heading", name=title, exact=title == "Links")
    return page.locator(".drawer .section").filter(has=heading)


def listed(part: Locator) -> list[int]:
    return [int(text.removeprefix("#")) for text in part.locator("li .number").all_inner_texts()]


def counted(world: Past, ids: set[int]) -> str:
    """Events in words, and the messages among them."""
    messages = sum(not world.events[each - 1].received for each in ids)
    among = f" ({messages} message{'s'[: messages > 1]})" if 0 < messages < len(ids) else ""
    return f"{len(ids)} event{'s'[: len(ids) > 1]}{among}"


def test_causes_are_those_that_are_evident_with_both_bounds_in_a_sentence(
    demo: Served, open_page: OpenPage
) -> None:
    world = demo.world
    event = named(world)
    evident = history.evident_past(world.events, event)
    assert 0 < len(evident) <= 8
    page = open_page(demo, f"#/events?event={event.id}&live=off")
    causes = section(page, "Causes")
    expect(causes.locator("li")).to_have_count(len(evident))
    assert listed(causes) == sorted(evident, reverse=True)
    expect(causes.get_by_role("button", name="Links")).to_have_attribute("aria-pressed", "true")
    expect(causes).to_contain_text(
        f"{counted(world, evident)} caused this; 100 or more in all may have had a part."
    )
    led = history.evident_future(world.events, event) - {event.id}
    expect(section(page, "Effects")).to_contain_text(f"It caused {counted(world, led)}; ")


def test_few_causes_are_counted_exactly(demo: Served, open_page: OpenPage) -> None:
    world = demo.world
    event, past = with_some_past(world)
    evident = history.evident_past(world.events, event)
    more = len(past) - len(evident)
    page = open_page(demo, f"#/events?event={event.id}&live=off")
    said = f"{counted(world, evident)} caused this; {more} more may have had a part."
    expect(section(page, "Causes")).to_contain_text(said)


def test_the_bound_is_chosen_in_the_address_and_what_is_evident_is_marked(
    demo: Served, open_page: OpenPage
) -> None:
    event, past = with_some_past(demo.world)
    evident = history.evident_past(demo.world.events, event)
    page = open_page(demo, f"#/events?event={event.id}&live=off")
    causes = section(page, "Causes")
    causes.get_by_role("button", name="All possible").click()
    expect(causes.locator("li")).to_have_count(8)
    causes.get_by_role("button", name="Show more").click()
    expect(causes.locator("li")).to_have_count(len(past))
    expect(causes.get_by_text("certain", exact=True)).to_have_count(len(evident))
    assert "via=any" in page.url
    page.reload()
    wide = causes.get_by_role("button", name="All possible")
    expect(wide).to_have_attribute("aria-pressed", "true")
    with page.expect_request("**/causes?via=conversation*"):
        causes.get_by_role("button", name="Conversation").click()
    wider = history.evident_past(demo.world.events, event, conversation=True)
    expect(causes.locator("li")).to_have_count(min(8, len(wider)))


def test_what_is_possible_is_listed_only_when_asked_for(demo: Served, open_page: OpenPage) -> None:
    world = demo.world
    event = next(e for e in world.events if e.prompt and not e.named)
    past = len(history.past(world.events, event)) - 1
    page = open_page(demo, f"#/events?event={event.id}&live=off")
    causes = section(page, "Causes")
    expect(causes).to_contain_text(f"None is certain; {past} may have had a part.")
    expect(causes.get_by_role("button", name="Links")).to_have_attribute("aria-pressed", "true")
    expect(causes.locator("li")).to_have_count(0)
    causes.get_by_role("button", name="All possible").click()
    expect(causes.locator("li")).to_have_count(min(8, past))


def test_that_nothing_else_had_a_part_is_not_said(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(60)
    event = world.events[1]
    assert history.evident_past(world.events, event) == {1}
    page = open_page(serve(world), "#/events?event=2&live=off")
    causes = section(page, "Causes")
    expect(causes).to_contain_text("1 event caused this.")
    expect(causes).not_to_contain_text("nothing else")


def test_a_delivery_that_may_be_of_several_publishes_says_of_how_many(
    demo: Served, open_page: OpenPage
) -> None:
    event = next(e for e in demo.world.events if e.received)
    page = open_page(demo)
    change_answers(page, f"**/itc_db/events/{event.id}?*", lambda said: {**said, "candidates": 2})
    change_answers(page, f"**/itc_db/events/{event.id}", lambda said: {**said, "candidates": 2})
    page.goto(f"{demo.url}/#/events?event={event.id}&live=off")
    drawer = page.get_by_role("complementary")
    expect(drawer.get_by_text("one of 2 equal messages", exact=True)).to_be_visible()


@pytest.mark.parametrize("unit", ["s", "ms", "negative"])
def test_a_timestamp_that_was_cut_is_no_time(demo: Served, open_page: OpenPage, unit: str) -> None:
    seen: list[int] = []

    def sent(told: dict[str, Any]) -> dict[str, Any]:
        now = int(datetime.fromisoformat(told["recorded_at"]).timestamp() * 1000)
        cut = (now + 2**31) % 2**32 - 2**31
        seen[:] = [{"s": now // 1000, "ms": cut, "negative": -5}[unit]]
        return told | {"properties": {"timestamp": seen[0]}}

    page = open_page(demo)
    change_answers(page, "**/itc_db/events/17", sent)
    page.goto(f"{demo.url}/#/events?event=17&live=off")
    shown = page.locator(".drawer .tree li")
    expect(shown).to_contain_text("timestamp: ")
    cut = "" if unit == "s" else " (not usable: milliseconds, cut to 32 bits)"
    expect(shown).to_have_text(f"timestamp: {seen[0]}{cut}")
