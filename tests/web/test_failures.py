"""The failures: as incidents, over time, each with its conversation; and the reports on order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.web.conftest import OpenPage, cast_doubt, change_answers
from tests.web.past import Past, demo_world, iso
from tests.web.service import Served, running
from tests.web.stories import tell_failures
from tests.web.test_accessibility import settled, violations

LIST = "Conversations that failed"
SEVERAL = re.compile(r"\d failures$")


def failing(events: int, times: int) -> Past:
    world = demo_world(events)
    tell_failures(world, times)
    return world


@pytest.fixture(scope="module")
def demo() -> Iterator[Served]:
    """A service with failures of each kind, that tests only read from."""
    with running(failing(900, 6)) as server:
        yield server


def of(server: Served, **asked: str) -> list[dict[str, Any]]:
    """All failures, newest first."""
    items: list[dict[str, Any]] = server.answer("/itc_db/failures", limit=1000, **asked)["items"]
    return items


def each(page: Page) -> Locator:
    """Rows of one failure."""
    rows = page.get_by_role("group", name=LIST).locator("tbody tr")
    return rows.filter(has_not=page.get_by_role("button", name=SEVERAL))


def expect_all(page: Page, number: int) -> None:
    """Rows of one failure, and of several that are folded, which are these together."""
    page.wait_for_function(
        """([label, number]) => number === [...document.querySelectorAll(
             `[aria-label="${label}"] tbody tr`)].reduce((sum, row) => {
               const text = row.querySelector("[aria-expanded]")?.textContent;
               return sum + (text ? Number(text.match(/\\d+/)[0]) : !row.querySelector(".inner"));
             }, 0)""",
        arg=[LIST, number],
    )


def kind_of(failure: dict[str, Any]) -> list[Any]:
    fields = ("vhost", "kind", "reason", "queue", "to", "type", "exception")
    return [*(failure.get(name) for name in fields), failure["by"] and failure["by"]["name"]]


def unfold(page: Page) -> None:
    """Open the rows of alike failures."""
    table = page.get_by_role("group", name=LIST)
    expect(table.locator("tbody tr").first).to_be_visible()
    for folded in reversed(table.get_by_role("button", name=SEVERAL, expanded=False).all()):
        folded.click()


def groups(page: Page) -> Locator:
    return page.get_by_role("group", name="Incidents").locator("tbody tr")


def test_they_are_listed_newest_first_with_who_rejected_them(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/conversations?filter=failures&vhost=%2F", user="watch")
    known = of(demo, vhost="/")
    expect_all(page, len(known))
    top = page.get_by_role("group", name=LIST).locator("tbody tr")
    assert top.count() < len(known)  # alike ones are one row
    newest = known[0]
    alike = [f for f in known if kind_of(f) == kind_of(newest)]
    head, message = (top.first.locator("td").nth(column) for column in (0, 2))
    expect(head).to_have_text(f"\N{BLACK RIGHT-POINTING SMALL TRIANGLE} {len(alike)} failures")
    expect(message).to_have_text(newest["type"])
    unfold(page)
    expect(each(page)).to_have_count(len(known))
    numbers = each(page).locator("td:last-child").all_inner_texts()
    assert numbers[: len(alike)] == [f"#{f['event']}" for f in alike]
    assert sorted(numbers) == sorted(f"#{f['event']}" for f in known)
    died = next(f for f in known if f["reason"] == "rejected")
    row = each(page).filter(has_text=f"#{died['event']}").filter(has_text="Died rejected")
    expect(row).to_contain_text("stock → dead.orders")
    row.get_by_text("Put back", exact=True).click()
    expect(row.get_by_text(died["remedy"])).to_be_visible()
    assert died["remedy"].startswith("rabbitmqadmin --vhost=/ publish exchange=amq.default ")
    by = row.get_by_role("link", name=died["by"]["name"].split("@")[0] + "@")
    expect(by).to_have_attribute("title", f"Handed over by event {died['handed_over']}")
    by.click()
    expect(page.locator(".drawer h2")).to_have_text(f"#{died['handed_over']}")


def test_failures_are_the_first_saved_filter_of_conversations_with_their_groups_above_the_list(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/conversations?vhost=%2F")
    saved = page.get_by_role("navigation", name="Saved filters").get_by_role("link")
    expect(saved.first).to_have_attribute("aria-current", "page")
    assert saved.all_inner_texts()[:2] == ["All", "Failures"]
    saved.filter(has_text="Failures").click()
    expect_all(page, len(of(demo, vhost="/")))
    group, row = (
        found.first.bounding_box()
        for found in (groups(page), page.get_by_role("group", name=LIST).locator("tbody tr"))
    )
    assert group is not None
    assert row is not None
    assert group["y"] < row["y"]
    groups(page).first.get_by_role("link", name="Only these").click()
    expect(page.locator(".filter").first).to_be_visible()
    expect(saved.filter(has_text="Failures")).to_have_attribute("aria-current", "page")
    page.get_by_role("button", name="Views").click()
    page.get_by_label("Name of this view").fill("the worst")
    page.get_by_role("button", name="Save").click()
    here = page.url
    expect(saved.filter(has_text="the worst")).to_have_attribute("aria-current", "page")
    saved.filter(has_text="All").click()
    expect(each(page)).to_have_count(0)
    saved.filter(has_text="the worst").click()
    expect(page).to_have_url(here)
    page.evaluate("location.hash = '#/conversations?filter=other'")
    expect(each(page)).to_have_count(0)
    expect(saved.filter(has_text="Failures")).not_to_have_attribute("aria-current", "page")


def test_a_failure_leads_to_its_event_and_back(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/conversations?filter=failures&vhost=%2F&kind=error_queue")
    loaded = "performance.getEntriesByType('resource').map((one) => one.name).join(' ')"
    assert "overview-tab" not in page.evaluate(loaded)
    expect_all(page, len(of(demo, vhost="/", kind="error_queue")))
    event = of(demo)[0]["event"]
    page.evaluate(f"location.hash = '#/conversations?filter=failures&event={event}'")
    expect(page.locator(".drawer h2")).to_have_text(f"#{event}")
    page.locator(".drawer").get_by_role("link", name="Conversation").click()
    expect(page.locator(".conv-head")).to_be_visible()
    page.go_back()
    expect(page.locator(".drawer h2")).to_have_text(f"#{event}")
    page.keyboard.press("Escape")
    expect(page.locator(".drawer")).to_have_count(0)
    expect(page.get_by_role("group", name=LIST).locator("tbody tr").first).to_be_visible()


def test_each_leads_to_its_conversation(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/conversations?filter=failures")
    first = of(demo)[0]
    key = first["correlation_id"] or "no key"
    unfold(page)
    link = each(page).first.get_by_role("link", name=key, exact=True)
    vhost = re.escape(first["vhost"]).replace("/", "%2F")
    address = re.compile(rf"#/conversations\?event={first['event']}&vhost={vhost}$")
    expect(link).to_have_attribute("href", address)
    expect(groups(page).first.get_by_role("link", name="Conversation of")).to_have_attribute(
        "href", address
    )


def test_what_names_no_message_leads_to_the_one_that_it_may_be(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/conversations?filter=failures&vhost=%2F&kind=error_queue", hurry=True)

    def unnamed(answer: dict[str, Any]) -> dict[str, Any]:
        items = [{**item, "message": None, "candidate": 7} for item in answer["items"]]
        return answer | {"items": items}

    change_answers(page, "**/itc_db/failures*", unnamed)
    row = each(page).first
    expect(row).to_contain_text("of which message: not known; it may be #7")
    row.get_by_role("link", name="#7").click()
    expect(page.locator(".drawer h2")).to_have_text("#7")


def test_a_column_that_is_empty_in_every_row_is_left_out(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/conversations?filter=failures&vhost=%2F&kind=died")
    table = page.get_by_role("group", name=LIST)
    expect(table.get_by_role("columnheader").first).to_have_text("Failures")
    expect(table.get_by_role("columnheader", name="Exception")).to_have_count(0)
    page.get_by_role("button", name="Error queue").click()
    expect(table.get_by_role("columnheader", name="Exception")).to_have_count(1)


def test_the_choice_of_a_kind_has_those_that_failed_and_how_many(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/conversations?filter=failures&vhost=%2F")
    numbers: Counter[str] = Counter(one["kind"] for one in of(demo, vhost="/"))
    kinds = page.get_by_role("group", name="Kind").get_by_role("button")
    words = [f"{kind.replace('_', ' ').capitalize()} {number}" for kind, number in numbers.items()]
    expect(kinds.first).to_have_text(f"All {numbers.total()}")
    texts = kinds.all_inner_texts()[1:]
    assert sorted(texts) == sorted(word.replace("Overdue", "Not in time") for word in words)


def test_events_have_a_column_once_a_row_of_several_is_open(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/overview")
    one = {**of(demo, vhost="/")[0], "correlation_id": None}
    items = [{**one, "event": n, "type": f"t{n % 2}"} for n in range(1, 7)]
    change_answers(page, "**/itc_db/failures*", lambda answer: answer | {"items": items})
    page.goto(f"{demo.url}/#/conversations?filter=failures&vhost=%2F")
    table = page.get_by_role("group", name=LIST)
    event = table.get_by_role("columnheader", name="Event")
    expect(table.locator("tbody tr")).to_have_count(2)
    expect(event).to_have_count(0)
    table.get_by_role("button", name="3 failures").first.click()
    expect(event).to_have_count(1)
    expect(each(page).first.locator("td").first).to_have_text("no key")
    expect(each(page).first.locator("td").nth(2)).to_have_text("t1")
    expect(each(page).first.locator("td").last).to_have_text("#1")


def test_groups_count_them_and_lead_to_their_own(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/conversations?filter=failures&vhost=%2F")
    known = of(demo, vhost="/", kind="error_queue", queue="mail.out")
    group = groups(page).filter(has_text="System.TimeoutException")
    expect(group).to_have_count(1)
    expect(group).to_contain_text("mail.out")
    group.get_by_role("link", name=f"Only these {len(known)} failures").click()
    expect_all(page, len(known))
    for said in ("kind=error_queue", "queue=mail.out", "exception=System.TimeoutException"):
        assert said in page.url
    page.get_by_role("button", name="Remove the filter queue").click()
    expect(page).not_to_have_url(re.compile("queue=mail"))


def test_the_largest_group_comes_first_and_tables_sort_by_a_press_on_a_head(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/conversations?filter=failures&vhost=%2F")
    counts = groups(page).locator("td:first-child")
    expect(counts.first).to_be_visible()

    def numbers() -> list[int]:
        return [int(text.replace(",", "")) for text in counts.all_inner_texts()]

    largest_first = numbers()
    assert len(set(largest_first)) > 1
    assert largest_first == sorted(largest_first, reverse=True)
    table = page.get_by_role("group", name="Incidents")
    head = table.get_by_role("columnheader", name="Failures")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    assert numbers() == largest_first
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert numbers() == sorted(largest_first)
    head.get_by_role("button").click()
    expect(head).not_to_have_attribute("aria-sort", re.compile(".*"))
    assert numbers() == largest_first


def test_filters_are_in_the_address_and_a_reload_keeps_them(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/conversations?filter=failures&vhost=%2F")
    page.get_by_role("group", name="Kind").get_by_role("button", name="Came back").click()
    known = of(demo, vhost="/", kind="came_back")
    expect_all(page, len(known))
    assert "kind=came_back" in page.url
    page.reload()
    expect_all(page, len(known))
    page.get_by_label("Period").select_option("3600")
    expect(page.get_by_text("No failure fits these filters")).to_be_visible()
    page.get_by_role("link", name="Show all").click()
    expect_all(page, len(of(demo, vhost="/")))


def test_the_plot_has_a_bar_for_each_span_and_goes_by_keyboard(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/conversations?filter=failures&vhost=%2F")
    bars = page.get_by_role("group", name="Failures over time").get_by_role("link")
    expect(bars.first).to_be_visible()
    by_second = Counter(f["at"][:19] for f in of(demo, vhost="/"))
    counts = [int(label.split()[0]) for label in labels(bars)]
    assert [n for n in counts if n] == [by_second[at] for at in sorted(by_second)]
    bars.last.focus()
    page.keyboard.press("Home")
    expect(bars.first).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(bars.nth(1)).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    expect_all(page, counts[0])
    assert "since=" in page.url
    expect(page.get_by_label("Period")).to_have_value("other")


def labels(bars: Locator) -> list[str]:
    return [bar.get_attribute("aria-label") or "" for bar in bars.all()]


def test_the_arrow_keys_step_through_the_failures(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/conversations?filter=failures&vhost=%2F")
    links = page.locator(".failure")
    expect(links.first).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("j")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(links.nth(0)).to_be_focused()


def test_more_are_shown_when_asked_for(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    server = serve(failing(60, 40))
    known = of(server, vhost="/")
    assert len(known) > 150
    page = open_page(server, "#/conversations?filter=failures&vhost=%2F")
    expect_all(page, 100)
    page.get_by_role("button", name="Show 100 more").click()
    expect_all(page, min(200, len(known)))


MANY = r"55 failures since [\d: -]+, all of them rejected by billing\. "
LOOK = r" Look into the log of billing since [\d: -]+\."


@pytest.mark.parametrize(
    ("number", "ago", "rate", "sentence"),
    [
        (1, 30, 1, r"1 failure since .*, rejected by billing\. That was \d+ s ago\."),
        (60, 30, 1, MANY + r"The last one was \d+ s ago: it goes on\."),
        (60, 30, 0, MANY + r"The last one was \d+ s ago\."),
        (60, 3600, 1, MANY + r"None since [\d: -]+, 1 h ago\."),
    ],
)
def test_a_sentence_says_what_grows_whether_it_goes_on_where_to_look_and_how_many_there_are(
    demo: Served, open_page: OpenPage, number: int, ago: int, rate: int, sentence: str
) -> None:
    page = open_page(demo, "#/jobs")
    last = datetime.now(UTC) - timedelta(seconds=ago)
    starts = [(last - timedelta(seconds=60 * back)).isoformat() for back in range(12)]
    over = dict(zip(reversed(starts), [2, 0, 0, 1, 0, 0, 2, 0, 1, 30, 24, 1], strict=True))
    surge = [(last - timedelta(seconds=back)).isoformat() for back in (110, 115)]
    if number == 1:
        over = {starts[0]: 1}

    groups = demo.answer("/itc_db/failures", limit="1")["groups"]

    def alike(answer: dict[str, Any]) -> dict[str, Any]:
        some = {"kind": "died", "reason": "rejected", "by": ["billing@10.0.0.9"]}
        some |= {"first_at": min(over), "last_at": last.isoformat(), "count": number}
        counts = [{"at": at, "count": count} for at, count in over.items()]
        here = groups[0] | some
        since = answer["period"]["since"]
        if since and datetime.fromisoformat(since) >= last - timedelta(seconds=120):
            there = here | {"vhost": "elsewhere", "first_at": surge[1], "count": 1}
            grown = [here | {"first_at": surge[0], "count": 54}, there]
            return answer | {"counted": 55, "groups": grown}
        over_time = {"seconds": 60, "counts": counts}
        return answer | {"counted": number, "groups": [here], "over_time": over_time}

    change_answers(page, "**/itc_db/failures*", alike)
    change_answers(page, "**/itc_db/traces", lambda all_: [each | {"rate": rate} for each in all_])
    page.reload()
    page.evaluate("location.hash = '#/conversations?filter=failures'")
    headline = page.locator(".failures-headline")
    total = "" if number == 1 else f" 60 in all since {min(over)[11:19]}\\."
    expect(headline).to_have_text(re.compile(f"^{sentence}{LOOK}{total}$"))
    since = starts[0] if number == 1 else surge[1]
    expect(headline).to_contain_text(f"{since[11:19]}.")
    died = page.get_by_role("group", name="Kind").get_by_role("button", name="Died")
    expect(died).to_have_text(f"Died {number}")
    died.click()
    expect(died).to_have_text("Died")  # of the other kinds the answer knows no number any more


def test_that_not_all_were_counted_is_said(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/overview")
    few = {"counted": 10, "counted_all": False}
    change_answers(page, "**/itc_db/failures*", lambda answer: answer | few)
    page.goto(f"{demo.url}/#/conversations?filter=failures")
    expect(page.get_by_text("count the newest 10 failures only")).to_be_visible()


def test_what_makes_the_record_uncertain_is_said(
    serve: Callable[[Past], Served], demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/conversations?filter=failures&vhost=%2F")
    known = page.get_by_role("region", name="What is known")
    expect(known).to_contain_text("these failures:")
    expect(known.locator(".trust-part").first).to_contain_text("incomplete")
    page.goto(f"{demo.url}/#/conversations?filter=failures")
    expect(known).to_contain_text("3 of 4 virtual hosts")
    expect(known.locator(".trust-part").first).to_contain_text("incomplete")
    world = failing(60, 1)
    world.complete("/")
    page = open_page(serve(world), "#/conversations?filter=failures")
    expect(page.get_by_role("group", name=LIST).locator("tbody tr").first).to_be_visible()
    known = page.get_by_role("region", name="What is known")
    expect(known.get_by_text("incomplete")).to_have_count(0)


def test_that_there_are_none_is_said_with_what_it_rests_on(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = Past()
    world.start_trace("/", 12)
    server = serve(world)
    page = open_page(server, "#/conversations?filter=failures&vhost=%2F")
    expect(page.get_by_role("heading", name="No failures")).to_be_visible()
    cast_doubt(page)
    page.reload()
    expect(page.get_by_role("heading", name="No failure is known")).to_be_visible()
    page.goto(f"{server.url}/#/conversations?filter=failures&vhost=empty")
    expect(page.get_by_text("This virtual host is not traced")).to_be_visible()


def test_an_error_is_shown_and_can_be_tried_again(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/overview")
    refused = {"error": "bad_request", "reason": "the search took too long"}
    page.route("**/itc_db/failures*", lambda route: route.fulfill(status=400, json=refused))
    page.goto(f"{demo.url}/#/conversations?filter=failures")
    expect(page.get_by_role("alert")).to_contain_text("The search took too long.")
    page.unroute("**/itc_db/failures*")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("group", name=LIST).locator("tbody tr").first).to_be_visible()


def early(world: Past) -> str:
    return iso(world.events[0].at)


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.long(3))])
def test_axe_finds_nothing(demo: Served, open_page: OpenPage, theme: str) -> None:
    page = open_page(
        demo, "#/conversations?filter=failures&vhost=%2F&kind=died", theme=theme, policy=False
    )
    settled(page)
    assert violations(page) == []
    page.goto(f"{demo.url}/#/chain?a=883&b=900&event=900")
    settled(page)
    page.get_by_role("region", name="Chain", exact=True).get_by_role(
        "button", name="Export", exact=True
    ).click()
    assert violations(page) == []


@pytest.mark.parametrize("width", [800, 400])
def test_it_is_no_wider_than_the_window(demo: Served, open_page: OpenPage, width: int) -> None:
    page = open_page(demo, "#/conversations?filter=failures&vhost=%2F&queue=stock", width=width)
    expect(page.get_by_text("keys ↓ and ↑")).to_be_visible(visible=width > 620)
    settled(page)
    expect(page.get_by_role("group", name=LIST).locator("tbody tr").first).to_be_visible()
    over = page.evaluate(
        """() => [document.documentElement, ...document.querySelectorAll("#page, .conv-scroll")]
             .map((e) => Math.max(0, e.scrollWidth - e.clientWidth))"""
    )
    assert over == [0, 0, 0]
