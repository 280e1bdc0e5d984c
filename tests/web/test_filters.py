"""The filter box: its language, what it completes, and what it says when it does not understand."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.web.conftest import OpenPage
from tests.web.service import Served
from tests.web.test_accessibility import AXE

EVENTS = "#/events?live=off&vhost=%2F"


def call(page: Page, name: str, *arguments: Any) -> Any:
    """What a function of the filter box's language returns."""
    return page.evaluate(
        """async ([name, given]) => {
             const language = await import("/app/events/filter-text.js");
             return language[name](...given);
           }""",
        [name, arguments],
    )


def filters_in(page: Page) -> dict[str, str]:
    asked = dict(parse_qsl(page.url.partition("?")[2]))
    return {name: value for name, value in asked.items() if name not in {"live", "vhost"}}


def box(page: Page) -> Locator:
    return page.get_by_role("combobox", name="Filter events")


def options(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Completions").get_by_role("option")


# -- the language

FIELDS = {
    "queue:billing type:received refund": {
        "queue": "billing",
        "type": "received",
        "q": "refund",
    },
    'participant_name:"orders (shop@10.0.0.7)"': {"participant_name": "orders (shop@10.0.0.7)"},
    "participant:billing queue:x": {"participant_name": "billing", "queue": "x"},
    "participant:17": {"participant": "17"},
    "header.tenant-id=acme": {"header.tenant-id": "acme"},
    'header."cloudEvents:id":17': {"header.cloudEvents:id": "17"},
    "message_id:m-1 correlation_id:a:b conversation:x=y": {
        "message_id": "m-1",
        "correlation_id": "a:b",
        "conversation": "x=y",
    },
    "since:12:30": {"since": "12:30"},
    "routing_key:a\\d": {"routing_key": "a\\d"},
    "12:30 late": {"q": "12:30 late"},
    '"order": 12,': {"q": '"order": 12,'},
    '"foo:bar" "two  spaces"': {"q": "foo:bar two  spaces"},
    '"say \\"hi\\": now"': {"q": 'say "hi": now'},
}


def test_fields_and_text_are_told_apart(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo)
    parsed = {text: call(page, "parse", text) for text in FIELDS}
    assert parsed == {text: {"filters": filters} for text, filters in FIELDS.items()}


ODD = ["plain", "a b", "a  b", " a", '"', '"a', '"a" b', "\\", '\\"', "queue:x", "x=", "http://x"]


@pytest.mark.parametrize("name", ["q", "queue", "conversation", "header.tenant", "header.a:b c"])
def test_what_is_shown_asks_for_the_same(demo: Served, open_page: OpenPage, name: str) -> None:
    page = open_page(demo)
    wanted = [{name: value, "type": "received"} for value in ODD]
    shown = [call(page, "print", filters) for filters in wanted]
    assert [call(page, "parse", text) for text in shown] == [{"filters": one} for one in wanted]


PROBLEMS = {
    "corelation_id:17": ("There is no field “corelation_id”.", "correlation_id:17"),
    "message-id:17": ("There is no field “message-id”.", "message_id:17"),
    "corr:17": ("There is no field “corr”.", "correlation_id:17"),
    "headers.tenant:acme": ("There is no field “headers.tenant”.", "header.tenant:acme"),
    "foo:bar": ("There is no field “foo”.", '"foo:bar"'),
    "foo=bar": ("There is no field “foo”.", '"foo=bar"'),
    "http://x": ("There is no field “http”.", '"http://x"'),
    "type:recieved": ("type is published or received.", "type:received"),
    'queue:"two words': ("The closing quote is missing.", "queue:two"),
    "queue:": ("queue needs a value.", None),
    "queue:a queue:b": ("queue is given twice.", None),
    "participant:a participant_name:b": ("participant_name is given twice.", None),
    "channel:one": ("channel is a number.", None),
}


def test_a_mistake_is_named_and_never_searched_for(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo)
    found = {}
    for text in PROBLEMS:
        answer = call(page, "parse", f"refund {text}")
        assert set(answer) == {"problem"}, text
        better = answer["problem"]["better"]
        found[text] = answer["problem"]["says"], better[0] if better else None
    assert found == PROBLEMS


# -- the box


def test_the_box_shows_the_filters_of_the_address(demo: Served, open_page: OpenPage) -> None:
    address = "&queue=billing&header.tenant=acme&q=order%3A+1"
    page = open_page(demo, EVENTS + address)
    expect(box(page)).to_have_value('queue:billing header.tenant:acme "order: 1"')
    box(page).fill("queue:stock refund")
    box(page).press("Enter")
    expect(box(page)).to_have_value("queue:stock refund")
    assert filters_in(page) == {"queue": "stock", "q": "refund"}
    page.get_by_role("button", name="Remove the filter queue").click()
    expect(box(page)).to_have_value("refund")
    page.go_back()
    expect(box(page)).to_have_value("queue:stock refund")
    box(page).fill("")
    box(page).press("Enter")
    expect(page.locator(".filter")).to_have_count(0)
    assert filters_in(page) == {}


@pytest.mark.parametrize("field", ["message_id", "correlation_id", "conversation", "header.tenant"])
def test_messages_are_found_by_what_people_know(
    demo: Served, open_page: OpenPage, field: str
) -> None:
    event = next(e for e in demo.world.events[300:] if e.named)
    values = {"message_id": event.message_id, "header.tenant": event.headers["tenant"]}
    value = values.get(field, event.correlation_id)
    wanted = demo.answer("/itc_db", vhost="/", columns="id", page_size=500, **{field: value})
    page = open_page(demo, EVENTS)
    box(page).fill(f"{field}:{value}")
    with page.expect_request(re.compile(re.escape(f"{field}={value}"))):
        box(page).press("Enter")
    expect(page.locator("tr.row a").first).to_have_text(f"#{wanted[0]['id']}")
    if len(wanted) < 20:
        expect(page.locator("tr.row")).to_have_count(len(wanted))


def test_the_live_tail_has_the_same_filters(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo)
    with page.expect_request(re.compile(r"/live\?.*header\.tenant=acme")):
        page.goto(f"{demo.url}/#/events?vhost=%2F&header.tenant=acme")


def test_fields_and_values_are_completed_by_keys(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, EVENTS)
    box(page).press_sequentially("rec")
    expect(options(page)).to_have_count(0)  # a text, so far
    box(page).fill("")
    box(page).press_sequentially("qu")
    expect(options(page).first).to_contain_text("queue:")
    box(page).press("Tab")
    expect(box(page)).to_have_value("queue:")
    expect(box(page)).to_be_focused()
    box(page).press_sequentially("bil")
    expect(options(page)).to_have_text(["queue:billing"])
    box(page).press("ArrowDown")
    expect(options(page).first).to_have_attribute("aria-selected", "true")
    chosen = options(page).first.get_attribute("id")
    expect(box(page)).to_have_attribute("aria-activedescendant", chosen or "")
    box(page).press("Enter")
    expect(box(page)).to_have_value("queue:billing ")
    assert filters_in(page) == {}  # taken, not sent
    box(page).press_sequentially("ty")
    box(page).press("Tab")
    expect(options(page)).to_have_text(["type:published", "type:received"])
    box(page).press("ArrowUp")
    box(page).press("Tab")
    box(page).press("Enter")
    expect(page.locator(".filter")).to_have_count(2)
    assert filters_in(page) == {"queue": "billing", "type": "received"}


def test_what_is_known_is_offered(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, EVENTS)
    world = demo.world
    newest = next(event for event in reversed(world.events) if event.vhost == "/")
    offered = {
        "participant_name:stock": 'participant_name:"stock@',
        "participant:sto": "participant:stock",
        "exchange:not": "exchange:notify",
        "user:ship": None,
        "user:sho": "user:shop",
        "vhost:sh": "vhost:shop",
        "match:re": "match:redelivered",
        f"correlation_id:{newest.correlation_id[:7]}": newest.correlation_id,
        "header.te": "header.tenant:",
        "header.tenant:": "header.tenant:globex",
    }
    for typed, wanted in offered.items():
        box(page).fill(typed)
        if wanted is None:
            expect(options(page)).to_have_count(0)
        else:
            expect(options(page).filter(has_text=wanted).first).to_be_visible()
    box(page).fill("vhost:shop")
    box(page).press("Enter")
    expect(page.get_by_label("Virtual host")).to_have_value("shop")


def test_an_unknown_field_is_an_error_at_the_box(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, EVENTS)
    for text in ("corelation_id:17", "corelation_id=17"):
        box(page).fill(text)
        box(page).press("Enter")
        said = page.get_by_role("alert")
        expect(said).to_contain_text("There is no field “corelation_id”. Did you mean")
        expect(box(page)).to_have_attribute("aria-invalid", "true")
        assert filters_in(page) == {}
    said.get_by_role("button", name="correlation_id:17", exact=True).click()
    expect(box(page)).to_have_value("correlation_id:17")
    expect(box(page)).to_be_focused()
    expect(box(page)).to_have_attribute("aria-invalid", "false")
    box(page).press("Enter")
    assert filters_in(page) == {"correlation_id": "17"}


def test_what_was_meant_is_taken_by_a_key_too(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, EVENTS)
    box(page).fill("refund corelation_id:17")
    box(page).press("Enter")
    box(page).press("Tab")
    page.keyboard.press("Enter")
    expect(box(page)).to_have_value("refund correlation_id:17")
    expect(box(page)).to_be_focused()
    box(page).press("Enter")
    assert filters_in(page) == {"q": "refund", "correlation_id": "17"}
    box(page).fill("foo:bar")
    box(page).press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("As text:")
    box(page).press("ArrowDown")
    expect(options(page)).to_have_text(['"foo:bar" as text'])
    box(page).press("ArrowDown")
    box(page).press("Enter")
    expect(box(page)).to_have_value('"foo:bar"')
    box(page).press("Enter")
    assert filters_in(page) == {"q": "foo:bar"}


def test_escape_closes_the_list_and_then_brings_back_the_address(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, EVENTS + "&queue=billing&event=700")
    box(page).click()
    box(page).press("End")
    box(page).press_sequentially(" ty")
    expect(options(page)).to_have_count(1)
    box(page).press("Escape")
    expect(options(page)).to_have_count(0)
    expect(box(page)).to_have_attribute("aria-expanded", "false")
    expect(box(page)).to_have_value("queue:billing ty")
    box(page).press("Escape")
    expect(box(page)).to_have_value("queue:billing")
    expect(page.locator(".drawer")).to_have_count(1)


def test_tab_leaves_the_box_where_nothing_was_begun(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, EVENTS)
    box(page).click()
    expect(options(page).first).to_be_visible()
    box(page).press("Tab")
    expect(box(page)).not_to_be_focused()
    expect(options(page)).to_have_count(0)


@pytest.mark.parametrize("theme", [pytest.param("light", marks=pytest.mark.long(5)), "dark"])
def test_axe_finds_nothing_at_the_open_list_and_the_error(
    demo: Served, open_page: OpenPage, theme: str
) -> None:
    page = open_page(demo, EVENTS, theme=theme, policy=False)
    box(page).fill("corelation_id:17")
    box(page).press("Enter")
    box(page).press("ArrowDown")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(options(page).first).to_contain_text("did you mean this?")
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert [v["id"] for v in found["violations"]] == []
