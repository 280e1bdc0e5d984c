from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect

from app.tracker.links.memory import LinkCount
from model.sound import Evidence
from tests.web.conftest import OpenPage, cast_doubt, change_answers
from tests.web.history import Event
from tests.web.past import Past, demo_world, iso
from tests.web.service import Served


def test_with_nothing_traced_it_says_what_to_do_and_does_it(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = Past()
    page = open_page(serve(world))
    expect(page.get_by_text("Start a trace to see what causes what")).to_be_visible()
    page.get_by_role("button", name="Start the trace of /").click()
    expect(page.get_by_role("dialog")).to_contain_text("one more message for each publish")
    page.get_by_role("button", name="Start the trace", exact=True).click()
    expect(page.get_by_role("button", name="Stop the trace of /")).to_be_visible()
    assert world.traces["/"].state == "running"


def test_a_failed_trace_shows_its_reason_and_can_be_started_again(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(60)
    page = open_page(serve(world))
    expect(page.get_by_text("queue 'itc.trace' was deleted")).to_be_visible()
    page.get_by_role("button", name="Start the trace of legacy").click()
    page.get_by_role("button", name="Start the trace", exact=True).click()
    expect(page.get_by_role("button", name="Stop the trace of legacy")).to_be_visible()
    page.get_by_role("button", name="Stop the trace of shop").click()
    page.get_by_role("button", name="Stop the trace", exact=True).click()
    expect(page.get_by_role("button", name="Start the trace of shop")).to_be_visible()


def test_the_chosen_virtual_host_is_kept_over_tabs_and_in_the_address(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo)
    page.get_by_label("Virtual host").select_option("shop")
    expect(page.get_by_role("heading", name="shop")).to_be_visible()
    page.get_by_role("link", name="Events", exact=True).click()
    assert "vhost=shop" in page.url
    expect(page.locator("tr.row").first).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="shop")).to_be_visible()


def hidden_way(world: Past, effect: Event, giver: int, rule: str, links: int) -> dict[str, Any]:
    """As if so many causes had come to a publish's participant from another by no message."""
    people = world.traces[effect.vhost].people
    sides = {
        side: {"participant": number, "name": people[number - 1].name}
        for side, number in (("from", giver), ("to", effect.participant))
    }
    times = {name: iso(effect.at) for name in ("first_at", "last_at")}
    return {"rule": rule, **sides, "links": links, "last_effect": effect.id, **times}


def test_hidden_ways_are_listed_and_lead_to_an_example(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(300)
    published = [event for event in world.events[:300] if not event.received]
    ways = [
        hidden_way(world, published[-1], 3, "causation_id", 12),
        hidden_way(world, published[-2], 1, "x-outbox", 1),
    ]
    way, other = ways
    page = open_page(serve(world), hurry=True)

    def hidden(answer: dict[str, Any]) -> dict[str, Any]:
        return answer | {"ways": ways if answer["vhost"] == "/" else []}

    def counted(traces: list[dict[str, Any]]) -> list[dict[str, Any]]:
        some = {"/": {"hidden": sum(way["links"] for way in ways)}}
        return [
            each | {"evidence": each["evidence"] | some.get(each["vhost"], {})} for each in traces
        ]

    change_answers(page, "**/itc_db/hidden*", hidden)
    change_answers(page, "**/itc_db/traces", counted)
    panel = page.get_by_role("region", name="Hidden ways")
    rows = panel.locator("tbody tr")
    expect(rows).to_have_count(2)
    for words in (way["from"]["name"], way["to"]["name"], "causation_id", "12"):
        expect(rows.first).to_contain_text(words)
    expect(rows.nth(1)).to_contain_text("x-outbox")
    ways.append(other | {"rule": "x-new"})
    expect(rows).to_have_count(3)
    page.get_by_label("Virtual host").select_option("shop")
    expect(page.get_by_role("heading", name="shop")).to_be_visible()
    expect(panel).to_have_count(0)
    page.get_by_label("Virtual host").select_option("/")
    rows.first.get_by_role("link", name=f"#{way['last_effect']}").click()
    expect(page.locator(".drawer h2")).to_have_text(f"#{way['last_effect']}")
    expect(page.locator(".diagram-legend")).to_contain_text("may have led to")


def test_gaps_are_listed_and_lead_to_their_place(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo)
    page.get_by_role("region", name="Gaps").get_by_role("link", name="#750").click()
    expect(page.get_by_role("heading", name="#750")).to_be_visible()
    expect(page.locator("tr.after-gap")).to_contain_text("#750")


def test_an_unreachable_service_is_reported_and_the_last_state_stays(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    page = open_page(serve(demo_world(60)))
    expect(page.get_by_role("table")).not_to_have_count(0)
    page.route("**/itc_db/traces", lambda route: route.abort())
    page.get_by_role("button", name="Start the trace of legacy").click()
    page.get_by_role("button", name="Start the trace", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    expect(page.get_by_role("button", name="Stop the trace of /")).to_be_visible()


def begun(ago: int) -> Past:
    """A trace whose first event was so long ago (µs)."""
    world = Past()
    trace = world.start_trace("/")
    trace.simulation.now = time.time_ns() // 1000 - ago
    world.grow("/", 400)
    return world


def test_the_recent_past_is_drawn_from_the_events_at_once(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    page = open_page(serve(begun(60_000_000)))
    expect(page.get_by_role("img", name="Events per second over time, by type")).to_be_visible()
    expect(page.locator(".plot-legend")).to_contain_text("published")


def test_what_failed_lately_stands_beside_what_failed_before_that(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    page = open_page(serve(begun(20 * 60_000_000)))
    panel = page.get_by_role("region", name="Failures")
    figure = page.locator(".figures.now .figure").first
    figures = r"^Failures\s*0\s*in the last 15 minutes, [1-9]\d* in the 15 min before$"
    expect(figure).to_have_text(re.compile(figures))
    expect(panel).to_contain_text("Nothing that was recorded failed")


AGED = """() => Object.entries(sessionStorage).forEach(([name, kept]) => {
  const hourBefore = (_, at) => `"at":${at - 3_600_000}`;
  sessionStorage.setItem(name, kept.replace(/"at":(\\d+)/g, hourBefore));
})"""


def test_the_last_figures_stand_until_there_are_new_ones_and_old_ones_have_their_time(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    page = open_page(serve(begun(60_000_000)))
    figure = page.locator(".figures.now .figure").first
    expect(figure).to_have_text(re.compile(r"^Failures\s*([1-9]\d*)\s*in the last"))
    text = figure.inner_text()
    held: list[Route] = []
    page.route("**/itc_db/failures*", lambda route: held.append(route))
    page.reload()
    expect(page.get_by_role("region", name="Failures").locator("tbody tr")).not_to_have_count(0)
    assert figure.inner_text() == text
    page.evaluate(AGED)
    page.reload()
    expect(figure).to_have_text(re.compile(r"^Failures as of \d\d:\d\d:\d\d\s*[1-9]"))
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Password")).to_be_visible()
    assert page.evaluate("Object.keys(sessionStorage)") == []


def color_of(it: Locator, name: str = "color") -> str:
    return str(it.evaluate(f"(it) => getComputedStyle(it).{name}"))


@pytest.mark.parametrize(
    ("address", "width", "sentence"),
    [
        ("overview", 1440, r"^No message recorded since [\d: -]+ \(\d+ min.*\)$"),
        ("conversations", 390, r"^No message for \d+ min"),
    ],
)
def test_where_nothing_comes_any_more_the_line_below_the_tabs_says_since_when(
    serve: Callable[[Past], Served], open_page: OpenPage, address: str, width: int, sentence: str
) -> None:
    page = open_page(serve(begun(20 * 60_000_000)), f"#/{address}", width=width)
    known = page.get_by_role("region", name="What is known")
    silence = known.get_by_text(re.compile(sentence))
    expect(silence).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    if address == "overview":  # nothing looks healthy then
        running = page.locator(".badge", has_text="running")
        assert color_of(running) == color_of(silence)
        page.get_by_role("link", name="Events", exact=True).click()
        expect(page.get_by_role("button", name="Live, silent")).to_be_visible()
        dot = page.locator(".live-dot.on")
        assert color_of(dot, "backgroundColor") == color_of(silence)
        page.go_back()
    change_answers(page, "**/itc_db/traces", lambda all_: [each | {"rate": 0.5} for each in all_])
    page.reload()
    expect(known).to_contain_text("all that was recorded")
    expect(silence).to_have_count(0)


def test_what_fails_now_leads_to_its_failures_and_the_worst_comes_first(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    page = open_page(serve(begun(60_000_000)))
    worst = page.get_by_role("region", name="Failures").locator("tbody tr").first
    expect(worst).to_contain_text("rejected")
    look = page.get_by_role("region", name="Failures").locator(".panel-head strong")
    time = r"[\d: -]+"
    said = rf"^\d+ failures? since {time}, .*\. Look into the logs? of \w.* since {time}\.$"
    expect(look).to_have_text(re.compile(said))
    since = worst.locator("td").nth(5)
    expect(since).to_have_text(re.compile(rf"^{time}$"))
    failed = int(worst.locator("td").first.inner_text())
    assert failed > 0
    worst.get_by_role("link").first.click()
    each = page.get_by_role("group", name="Conversations that failed").locator("tbody tr")
    expect(each).to_have_count(failed)
    change_answers(page, "**/itc_db/failures*", lambda answer: answer | {"counted_all": False})
    page.goto(page.url.partition("#")[0])
    page.reload()
    before = re.compile(r"in the last 15 minutes, \d+ or more in the")
    expect(page.get_by_text(before)).to_be_visible()

    def went_on(route: Route) -> None:
        """What fails now failed before, too."""
        route.fulfill(response=route.fetch(url=re.sub("until=[^&]*", "", route.request.url)))

    page.route("**/itc_db/failures*", went_on)
    page.reload()
    expect(since).to_have_text(re.compile(r"^before [\d:]+$"))
    slow = page.get_by_role("region", name="Became slow")
    expect(slow).to_contain_text("Too little to compare: no queue or participant had")


def test_a_gap_in_the_recent_past_is_no_rate_of_0(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    page = open_page(serve(begun(60_000_000)))
    legend = page.locator(".plot-legend")
    expect(legend).to_contain_text("published")
    expect(legend).not_to_contain_text("not known")
    since, until = (datetime.now(UTC) - timedelta(seconds=before) for before in (50, 40))
    gap = {"id": 1, "after_event_id": 1, "before_event_id": 2, "reason": "the queue was full"}
    gap |= {"since": since.isoformat(), "until": until.isoformat(), "declared": False}
    change_answers(page, "**/itc_db/traces", lambda all_: [each | {"gaps": [gap]} for each in all_])
    page.reload()
    expect(legend).to_contain_text("not known")


def test_a_trace_that_waits_says_for_what(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(30)
    world.traces["/"].state = "waiting"
    page = open_page(serve(world))
    expect(page.get_by_role("table").get_by_text("Waiting: the broker")).to_be_visible()


def test_a_trace_that_is_not_sound_says_why(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    server = serve(demo_world(30))
    page = open_page(server)
    expect(page.get_by_role("table")).not_to_have_count(0)
    expect(page.get_by_text("Not sound")).to_have_count(0)
    cast_doubt(page)
    page.reload()
    said = "2 participants are connections that give no name."
    expect(page.get_by_role("table").get_by_text(said).first).to_be_visible()
    expect(page.locator(".figures").last).to_contain_text("1 of 3 not recorded, not sound")
    page.goto(f"{server.url}/#/space-time?vhost=%2F")
    expect(page.get_by_text("Not sound: what is dimmed may have had a part")).to_be_visible()


def test_virtual_hosts_that_come_and_go_are_followed(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(60)
    page = open_page(serve(world), hurry=True)
    choice = page.get_by_label("Virtual host")
    made = choice.locator("option", has_text="just made")
    expect(choice).to_be_visible()
    world.vhosts.append("just made")
    expect(made).to_have_count(1)
    choice.select_option("just made")
    world.vhosts.remove("just made")
    expect(page.get_by_text("There is no virtual host just made that you can see")).to_be_visible()
    assert "vhost=just+made" in page.url
    page.get_by_role("link", name="All virtual hosts").click()
    expect(made).to_have_count(0)
    expect(page.get_by_text("There is no virtual host")).to_have_count(0)


def test_virtual_hosts_are_asked_for_again_when_the_choice_is_opened(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(60)
    page = open_page(serve(world))
    with page.expect_response("**/whoami"):
        page.get_by_label("Refresh").select_option("0")
    world.vhosts.append("just made")
    choice = page.get_by_label("Virtual host")
    choice.focus()
    expect(choice.locator("option", has_text="just made")).to_have_count(1)


def test_causes_that_messages_name_are_shown_by_rule_with_what_is_missing_and_the_fit(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(30)
    world.traces["shop"].links = {}
    world.traces["/"].links = {
        "reply": LinkCount(found=20, known=17, unseen=2, ambiguous=1),
        "celery-parent": LinkCount(found=1999, known=1998, forgotten=4),
        "x-causation-id": LinkCount(unseen=2, early=1),
        "forward": LinkCount(found=7, known=5, hidden=2),
    }
    page = open_page(serve(world), hurry=True)
    expect(page.locator("tr:has(.coverage)").first).to_contain_text(
        "Bodies that could not be read: 2 (body not JSON)."
    )
    expect(page.locator(".coverage li")).to_have_text(
        [
            "celery-parent 1,999 of 2,003 found, 4 forgotten, fit 99.9 %",
            "reply 20 of 23 found, 2 never seen, 1 ambiguous, fit 85 %",
            "forward 7 of 7 found, 2 by a way outside the broker, fit 100 %",
            "x-causation-id 0 of 3 found, 2 never seen, 1 perhaps before the rule held",
        ]
    )
    said = {"reactions": 2000, "explained": 412, "coverage": 0.206}
    said |= {"spanned": 1588, "coverage_by_spans": 0.794}
    said["sentence"] = Evidence(2000, 412, spanned=1588).sentence

    def told(traces: list[dict[str, Any]]) -> list[dict[str, Any]]:
        some = {"/": said}
        return [
            each | {"evidence": each["evidence"] | some.get(each["vhost"], {})} for each in traces
        ]

    change_answers(page, "**/itc_db/traces", told)
    expect(page.locator("tr:has(.coverage)").first).to_contain_text(
        "412 of 2,000 publishes that may have a cause name it, and spans tell 1,588 more."
    )
    fit = page.get_by_text("fit 85 %")
    expect(fit).to_have_attribute(
        "title", re.compile("^17 of 20 of the causes that came by the broker were known")
    )


def test_who_holds_what_is_listed_with_what_is_late_first(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo)
    panel = page.locator(".panel", has_text="In hand now")
    expect(page.get_by_text("Events stored")).to_be_visible()
    expect(panel).to_have_count(0)

    def held(queue: str, **more: Any) -> dict[str, Any]:
        one = {"vhost": "/", "queue": queue, "holder": {"number": 2, "name": f"{queue}@10.0.1.10"}}
        one |= {"count": 3, "oldest": 12, "since": "2026-01-02T03:00:04Z"}
        return one | {"usual": 0.25, "late": False} | more

    items = [held("stock", usual=None), held("billing", late=True, count=1_200)]
    answer = {"count": 1_203, "items": items, "truncated": False}
    change_answers(page, "**/itc_db/in_hand*", lambda said: answer)
    page.reload()
    expect(panel).to_contain_text("1,203 messages that consumers have not settled yet")
    rows = panel.locator("tbody tr")
    expect(rows).to_contain_text(
        [re.compile("billing.*longer than usual250 ms"), re.compile("stock.*not known")]
    )
    rows.first.get_by_role("link", name="billing").first.click()
    expect(page).to_have_url(re.compile("#/events.*settlement=in_hand"))
