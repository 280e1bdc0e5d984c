"""Finding events: by time, by marks, by saved views, in columns as one likes them, in payloads."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.web.conftest import OpenPage
from tests.web.past import micros
from tests.web.service import Served
from tests.web.test_accessibility import AXE

EVENTS = "#/events?live=off&vhost=%2F"


def bars(page: Page) -> Locator:
    return page.get_by_role("slider", name="Events over time: choose a period")


def foot(page: Page) -> Locator:
    return page.locator(".histogram-foot")


def parameters(page: Page) -> dict[str, str]:
    return dict(
        page.evaluate("[...new URLSearchParams(location.hash.split('?')[1])]")  # as the page does
    )


@pytest.mark.parametrize("by", ["pointer", "keyboard"])
def test_a_period_is_chosen_by_a_brush(demo: Served, open_page: OpenPage, by: str) -> None:
    page = open_page(demo, EVENTS)
    expect(foot(page)).to_contain_text("1,500 events")
    if by == "pointer":
        box = bars(page).bounding_box()
        assert box is not None
        y = box["y"] + 10
        page.mouse.move(box["x"] + box["width"] * 0.4, y)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.5, y)
        page.mouse.up()
    else:
        bars(page).focus()
        for key in ["ArrowLeft"] * 5 + ["Shift+ArrowLeft"] * 7:
            page.keyboard.press(key)
        page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("since="))
    asked = parameters(page)
    begin, end = micros(asked["since"]), micros(asked["until"])
    inside = [e for e in demo.world.events if e.vhost == "/" and begin <= e.at < end]
    assert 20 < len(inside) < 400
    expect(foot(page)).to_contain_text(f"{len(inside)} events")
    expect(page.locator("tr.row a").first).to_have_text(f"#{inside[-1].id}")
    page.get_by_role("button", name="All times").click()
    expect(foot(page)).to_contain_text("1,500 events")


def test_the_histogram_counts_what_the_filters_leave(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, f"{EVENTS}&queue=billing")
    those = [e for e in demo.world.events if e.vhost == "/" and e.queue == "billing"]
    expect(foot(page)).to_contain_text(f"{len(those)} events")


def test_what_was_searched_for_is_marked(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, f"{EVENTS}&q=billing")
    expect(page.locator("tr.row mark").first).to_have_text("billing")
    page.goto(f"{demo.url}/{EVENTS}&queue=stock")
    expect(page.locator("tr.row").first.locator("mark")).to_have_text("stock")
    page.goto(f"{demo.url}/{EVENTS}&q=%22order%22")
    page.locator("tr.row").first.locator(".of-message_type").click()
    expect(page.locator("pre.payload mark").first).to_have_text('"order"')


def test_a_view_is_saved_in_the_browser_and_opened_again(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, f"{EVENTS}&queue=billing&event=500")
    page.get_by_role("button", name="Views").click()
    sheet = page.get_by_role("group", name="Saved views")
    sheet.get_by_label("Name of this view").fill("what billing got")
    page.keyboard.press("Enter")
    expect(sheet).to_have_count(0)
    page.goto(f"{demo.url}/#/overview")
    page.goto(f"{demo.url}/#/events")
    page.reload()
    page.get_by_role("button", name="Views").click()
    sheet.get_by_role("link", name="what billing got").click()
    expect(page.get_by_label("Filter events")).to_have_value("queue:billing")
    assert "event=" not in page.url
    page.get_by_role("button", name="Views").click()
    sheet.get_by_role("button", name="Forget the view what billing got").click()
    expect(sheet).to_contain_text("None yet")


def heads(page: Page) -> list[str]:
    return page.locator(".rows th .head").all_inner_texts()


def test_columns_are_moved_by_button_and_by_drag(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, EVENTS)
    expect(page.locator("tr.row").first).to_be_visible()
    assert heads(page)[:4] == ["Event", "Time", "Type", "Message type"]
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("button", name="Move the column Message type to the left").click()
    page.keyboard.press("Escape")
    assert heads(page)[:4] == ["Event", "Time", "Message type", "Type"]
    page.get_by_role("button", name="Queue", exact=True).drag_to(
        page.get_by_role("button", name="Time", exact=True)
    )
    expect(page.locator(".rows th .head").nth(1)).to_have_text("Queue")
    page.reload()
    expect(page.locator(".rows th .head").nth(1)).to_have_text("Queue")
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("button", name="Default columns").click()
    expect(page.locator(".rows th .head").nth(1)).to_have_text("Time")


@pytest.mark.parametrize("by", ["pointer", "keyboard"])
def test_columns_are_made_wider(demo: Served, open_page: OpenPage, by: str) -> None:
    page = open_page(demo, EVENTS)
    named = page.get_by_role("button", name="Type", exact=True)
    head = page.get_by_role("columnheader").filter(has=named)
    edge = page.get_by_role("separator", name="Width of Type", exact=True)
    width = head.evaluate("e => e.getBoundingClientRect().width")
    if by == "pointer":
        box = edge.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 3, box["y"] + 5)
        page.mouse.down()
        page.mouse.move(box["x"] + 83, box["y"] + 5)
        page.mouse.up()
    else:
        edge.focus()
        for _ in range(5):
            page.keyboard.press("ArrowRight")
    wide = head.evaluate("e => e.getBoundingClientRect().width")
    assert wide == pytest.approx(width + 80, abs=8)
    edge.dblclick()
    assert head.evaluate("e => e.getBoundingClientRect().width") == pytest.approx(width, abs=1)


def test_the_loaded_rows_are_sorted_by_any_column(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, EVENTS)
    page.get_by_role("button", name="Size", exact=True).click()
    size = page.get_by_role("columnheader", name="Size")
    expect(size).to_have_attribute("aria-sort", "ascending")
    expect(page.locator(".rows-foot")).to_contain_text("the 260 loaded rows, by Size")
    newest = sorted(e.id for e in demo.world.events if e.vhost == "/")[-260:]
    sizes = [len(demo.world.events[n - 1].payload) for n in newest]
    expect(page.locator("tr.row").first).to_contain_text(f"{min(sizes)} B")
    size.get_by_role("button").click()
    expect(page.locator("tr.row").first).to_contain_text(f"{max(sizes)} B")
    page.get_by_role("button", name="Load older").click()
    expect(page.locator(".rows-foot")).to_contain_text("the 460 loaded rows")
    page.locator(".rows-foot").get_by_role("button", name="newest first").click()
    expect(page.locator("tr.row a").first).to_have_text("#1500")


def payload_of(server: Served, number: int) -> Any:
    return json.loads(server.world.events[number - 1].payload)


def with_json(server: Served) -> list[int]:
    return [e.id for e in server.world.events if e.vhost == "/" and e.payload.startswith(b"{")]


def test_a_payload_is_copied_saved_and_wrapped(
    demo: Served, open_page: OpenPage, tmp_path: Path
) -> None:
    number = with_json(demo)[-1]
    page = open_page(demo, f"{EVENTS}&event={number}")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tools = page.locator(".payload-tools")
    tools.get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Copied.")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert json.loads(copied) == payload_of(demo, number)
    with page.expect_download() as download:
        tools.get_by_role("button", name="Save").click()
    assert download.value.suggested_filename == f"event-{number}.json"
    download.value.save_as(tmp_path / "saved")
    assert (tmp_path / "saved").read_bytes() == demo.world.events[number - 1].payload
    shown = page.locator("pre.payload")
    assert shown.evaluate("e => getComputedStyle(e).whiteSpaceCollapse") == "preserve"
    tools.get_by_label("Wrap").uncheck()
    assert shown.evaluate("e => getComputedStyle(e).textWrapMode") == "nowrap"
    page.reload()
    expect(tools.get_by_label("Wrap")).not_to_be_checked()


def test_two_payloads_are_compared(demo: Served, open_page: OpenPage) -> None:
    one, other = with_json(demo)[-1], with_json(demo)[0]
    assert payload_of(demo, one) != payload_of(demo, other)
    page = open_page(demo, f"{EVENTS}&event={one}&a={other}")
    page.get_by_label("Compare the payload with").select_option(str(other))
    compared = page.get_by_label(f"Payload compared with #{other}")
    expect(compared.locator("ins").first).to_be_visible()
    expect(compared.locator("del").first).to_be_visible()
    page.get_by_label("Compare the payload with").select_option("")
    expect(compared).to_have_count(0)


DIFFS = [
    ("a\nb\nc", "a\nx\nc", " a|-b|+x| c"),
    ("a\nb", "a\nb", " a| b"),
    ("a", "a\nb\nc", " a|+b|+c"),
    ("x\na\nb", "a\nb\ny", "-x| a| b|+y"),
]


def test_lines_are_compared_by_what_they_share(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo)
    found = [
        page.evaluate(
            """async ([a, b]) => (await import("/app/ui/event/diff.js")).diff(a, b)
                 .map(({ sign, line }) => sign + line).join("|")""",
            [before, after],
        )
        for before, after, _ in DIFFS
    ]
    assert found == [wanted for _, _, wanted in DIFFS]
    long = "\n".join(map(str, range(2000)))
    assert (
        page.evaluate(
            """async (a) => (await import("/app/ui/event/diff.js"))
                 .diff(a, a.split("\\n").reverse().join("\\n"))""",
            long,
        )
        is None
    )


@pytest.mark.parametrize("theme", [pytest.param("light", marks=pytest.mark.long(5)), "dark"])
def test_axe_finds_nothing_where_one_searches(
    demo: Served, open_page: OpenPage, theme: str
) -> None:
    one, other = with_json(demo)[-1], with_json(demo)[0]
    address = f"{EVENTS}&q=order&event={one}&a={other}&sort=-lamport"
    page = open_page(demo, address, theme=theme, policy=False)
    page.get_by_label("Compare the payload with").select_option(str(other))
    expect(page.locator(".payload.diff ins").first).to_be_visible()
    page.get_by_role("button", name="Views").click()
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert [(v["id"], v["nodes"][0]["html"][:160]) for v in found] == []
