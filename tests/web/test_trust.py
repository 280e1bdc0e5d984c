"""The line on every tab that says what is known: complete, sound, of which time, how old."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.web.conftest import DOUBT, OpenPage, cast_doubt, change_answers, without_broker
from tests.web.past import Past, demo_world
from tests.web.service import Served
from tests.web.test_accessibility import AXE, VIEWS, violations
from tests.web.test_trial import Hand


def trust(page: Page) -> Locator:
    return page.get_by_role("region", name="What is known")


def sure_world() -> Past:
    """Of its main virtual host everything is known."""
    world = demo_world(900)
    world.complete("/")
    return world


@pytest.mark.parametrize("tab", VIEWS)
def test_every_tab_says_whether_the_record_is_complete_and_sound(
    demo: Served, open_page: OpenPage, tab: str
) -> None:
    address = VIEWS[tab]
    page = open_page(
        demo,
        address if "vhost" in address else f"{address}{'&' if '?' in address else '?'}vhost=%2F",
    )
    expect(trust(page)).to_contain_text(re.compile("complete"))
    expect(trust(page)).to_contain_text("sound")
    expect(trust(page)).to_contain_text(re.compile(r"as of \d\d:\d\d:\d\d"))


def test_a_gap_makes_it_incomplete_and_a_doubt_not_sound_and_both_say_why(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    server = serve(sure_world())
    page = open_page(server, "#/overview?vhost=%2F", hurry=True)
    expect(trust(page).locator(".trust-part")).to_have_text(["complete", "sound"])
    expect(trust(page).locator(".badge")).to_have_count(0)  # only what is not right stands out
    expect(trust(page).get_by_text("Why?")).to_have_count(0)
    gap = {"id": 1, "after_event_id": 5, "before_event_id": None, "until": None}
    gap |= {
        "since": "2026-01-02T03:00:00.1Z",
        "reason": "tracing was off",
        "suspected": False,
        "declared": False,
    }
    server.gap("/", **gap)
    cast_doubt(page)
    expect(trust(page).locator(".badge.warn")).to_have_text(["incomplete, 1 gap", "not sound"])
    trust(page).get_by_text("Why?").click()
    expect(trust(page)).to_contain_text("still open: tracing was off")
    expect(trust(page)).to_contain_text(f"{DOUBT}.")


def test_it_is_complete_since_the_last_gap_ended(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/overview?vhost=%2F")
    badge = trust(page).locator(".trust-part").first
    # One of them is that of a message in quarantine.
    expect(badge).to_have_text(re.compile(r"^complete since 2026-01-02 .*; 2 earlier gaps$"))
    expect(badge).not_to_have_class(re.compile(r"\b(warn|good)\b"))


def test_what_is_left_out_by_choice_is_said_and_is_no_alarm(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = sure_world()
    hole = {
        "id": 1,
        "after_event_id": 5,
        "before_event_id": None,
        "since": "2026-01-02T03:00:00.1Z",
        "until": None,
        "reason": "only some exchanges and queues are taken: exchanges orders; all queues",
        "suspected": False,
        "declared": True,
    }
    world.traces["/"].gaps.append(hole)
    server = serve(world)
    page = open_page(server, "#/overview?vhost=%2F", hurry=True)
    badge = trust(page).locator(".trust-part").first
    expect(badge).to_have_text("partial by choice")
    expect(badge).not_to_have_class(re.compile(r"\b(warn|bad)\b"))
    trust(page).get_by_text("Why?").click()
    expect(trust(page)).to_contain_text("to now: only some exchanges and queues are taken")
    expect(page.locator(".figure", has_text="Gaps")).to_contain_text("0the record is partial")
    server.gap("/", **{**hole, "reason": "tracing was off", "declared": False})
    expect(badge).to_have_text("incomplete, 1 gap")


def test_events_are_judged_by_the_time_of_the_rows_in_view(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/events?live=off&vhost=%2F&at=751")
    expect(trust(page).locator(".trust-part").first).to_have_text("incomplete, 1 gap")
    expect(trust(page)).to_contain_text("the rows in view")
    page.locator(".rows").evaluate("e => e.scrollTop = 0")
    expect(trust(page).locator(".trust-part").first).to_have_text("complete")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("#/space-time?vhost=%2F&at=751&live=off", "the loaded events"),
        ("#/space-time?chain=3,900", "the chain"),
        ("#/topology?vhost=%2F&newest=1000", "the period shown"),
    ],
)
def test_a_drawing_is_judged_by_the_time_of_what_it_shows(
    demo: Served, open_page: OpenPage, address: str, said: str
) -> None:
    page = open_page(demo, address)
    expect(trust(page)).to_contain_text(said)
    expect(trust(page).locator(".trust-part").first).to_have_text("incomplete, 1 gap")


def test_of_all_virtual_hosts_together_each_gap_counts(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/overview")
    expect(trust(page).locator(".trust-part").first).to_have_text("incomplete, 2 gaps")
    expect(trust(page)).to_contain_text("legacy is not being recorded")
    page.get_by_label("Virtual host").select_option("shop")
    expect(trust(page).locator(".trust-part").first).to_have_text("complete")
    expect(trust(page)).not_to_contain_text("legacy")


@pytest.mark.parametrize("state", ["waiting", "failed", "stopped"])
def test_while_nothing_is_recorded_it_is_unknown(
    serve: Callable[[Past], Served], open_page: OpenPage, state: str
) -> None:
    world = sure_world()
    world.traces["/"].state = state
    page = open_page(serve(world), "#/topology?vhost=%2F")
    expect(trust(page).locator(".trust-part").first).to_have_text("unknown")
    expect(trust(page)).to_contain_text("/ is not being recorded")


@pytest.mark.parametrize("by_keyboard", [False, True])
def test_a_stopped_trace_says_since_when_and_is_started_from_any_page(
    serve: Callable[[Past], Served], open_page: OpenPage, by_keyboard: bool
) -> None:
    server = serve(stopped_world())
    page = open_page(server, f"#/conversations?vhost={LONG}", width=390, hurry=True)
    idle = trust(page).get_by_role("status")
    expect(idle).to_contain_text(f"{LONG} is not being recorded since 2026-01-02 03:00:00")
    start = idle.get_by_role("button", name=f"Start the trace of {LONG}")
    expect(start).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    hand = Hand(page, server.url, by_keyboard)
    hand.press(start)
    hand.press(page.get_by_role("alertdialog").get_by_role("button", name="Start the trace"))
    expect(idle).to_have_count(0)
    assert server.answer(f"/itc_db/{LONG}/undefined/undefined/undefined")["state"] == "running"


LONG = "a-virtual-host-of-a-shop-" * 5


def stopped_world() -> Past:
    """A world with a virtual host of a long name, whose trace was stopped."""
    world = sure_world()
    world.start_trace(LONG).state = "stopped"
    gap = {"id": 1, "after_event_id": 5, "before_event_id": None, "until": None}
    gap |= {"since": "2026-01-02T03:00:00.1Z", "reason": "the trace was stopped"}
    world.traces[LONG].gaps.append(gap | {"suspected": False, "declared": False})
    return world


def test_a_long_name_leaves_room_for_what_is_said_of_it(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    page = open_page(serve(stopped_world()), "#/overview", width=390)
    words = trust(page).get_by_text("not being recorded", exact=False).last
    expect(words).to_have_text("are not being recorded")  # legacy's failed
    expect(words).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    figure = page.locator(".figure").filter(has_text="Gaps")
    expect(figure).to_contain_text(re.compile(r"\d of \d not recorded"))
    page.get_by_label("Virtual host").select_option(LONG)
    expect(figure).to_contain_text("not recorded now")
    expect(figure).not_to_contain_text("complete")


@pytest.mark.parametrize(
    ("address", "name"), [(VIEWS["conversation"], "/"), (f"#/jobs?vhost={LONG}", LONG)]
)
def test_on_a_phone_the_period_is_shown_whole_with_its_virtual_host(
    serve: Callable[[Past], Served], open_page: OpenPage, address: str, name: str
) -> None:
    page = open_page(serve(stopped_world()), address, width=390)
    period = trust(page).locator(".trust-period")
    expect(period).to_contain_text(f"{name}, ")
    host = period.locator(".value")
    expect(host).to_be_in_viewport(ratio=1)
    assert host.evaluate("e => e.clientWidth") > 0
    assert period.evaluate(
        "e => e.scrollWidth <= e.clientWidth && e.getBoundingClientRect().right <= 390"
    )


def test_a_period_within_a_day_says_its_date_once(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/space-time?chain=3,900")
    time = r"\d\d:\d\d:\d\d"
    once = re.compile(rf": 2026-01-02 {time} to {time}$")
    expect(trust(page).locator(".trust-period")).to_have_text(once)


def test_who_may_not_start_a_stopped_trace_is_told_who_may(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    server = serve(stopped_world())
    page = open_page(server, f"#/topology?vhost={LONG}", user="watch", policy=False)
    idle = trust(page).get_by_role("status")
    expect(idle).to_contain_text("its trace was stopped")
    expect(idle).to_contain_text("Ask an administrator to start it.")
    expect(idle.get_by_role("button")).to_have_count(0)
    assert violations(page) == []


def test_what_was_never_traced_is_unknown(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/overview?vhost=empty")
    expect(trust(page).locator(".trust-part")).to_have_text(["unknown, not traced"])


def test_without_the_service_it_says_as_of_when_and_figures_look_old(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    page = open_page(serve(sure_world()), "#/overview?vhost=%2F", hurry=True)
    expect(trust(page).locator(".trust-part").first).to_have_text("complete")
    figure = page.locator(".figure dd").first
    fresh = figure.evaluate("e => getComputedStyle(e).color")
    page.route("**/itc_db/**", lambda route: route.abort())
    expect(trust(page)).to_contain_text(
        re.compile(r"as of \d\d:\d\d:\d\d\. The server does not answer\.")
    )
    assert figure.evaluate("e => getComputedStyle(e).color") != fresh
    expect(figure).to_be_visible()
    page.unroute("**/itc_db/**")
    expect(trust(page)).not_to_contain_text("does not answer")
    assert figure.evaluate("e => getComputedStyle(e).color") == fresh


def test_a_service_that_hangs_is_not_shown_as_well(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    page = open_page(serve(sure_world()), "#/overview?vhost=%2F", hurry=True)
    expect(trust(page).locator(".trust-part").first).to_have_text("complete")
    running = page.get_by_role("table").get_by_text("running").first
    fresh = running.get_attribute("class")
    page.route("**/*", lambda route: None)  # neither answered nor refused
    expect(trust(page)).to_contain_text("The server does not answer.")
    assert running.get_attribute("class") != fresh


# What would end only after a minute never ends.
PATIENT = """
  const start = window.setTimeout;
  window.setTimeout = (work, ms, ...more) => (ms === 60000 ? 0 : start(work, ms, ...more));
"""


def test_a_service_that_hangs_from_the_beginning_is_said_to(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/jobs?vhost=%2F", hurry=True)
    page.add_init_script(PATIENT)
    page.route("**/itc_db/traces", lambda route: None)
    page.reload()
    expect(trust(page)).to_contain_text("The server does not answer.")


def test_without_the_broker_it_says_so(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    page = open_page(serve(sure_world()), "#/jobs?vhost=%2F", hurry=True)
    without_broker(page)
    expect(trust(page)).to_contain_text("The broker does not answer.")


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.long(7))])
def test_axe_finds_nothing_in_it(
    serve: Callable[[Past], Served], open_page: OpenPage, theme: str
) -> None:
    page = open_page(serve(demo_world(900)), theme=theme, policy=False, hurry=True)
    trust(page).get_by_text("Why?").click()
    page.route("**/itc_db/**", lambda route: route.abort())
    expect(trust(page)).to_contain_text("does not answer")
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    assert [(v["id"], v["nodes"][0]["html"][:160]) for v in found] == []


def test_times_in_the_service_s_sentences_are_said_by_the_chosen_clock(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, zone="Asia/Tokyo")
    waits = "the next try, at 2026-01-02 23:30:00 UTC"

    def waiting(traces: Any) -> Any:
        return [{**one, "state": "waiting", "waiting_for": waits} for one in traces]

    change_answers(page, "**/itc_db/traces", waiting)
    page.reload()
    said = page.get_by_role("group", name="Traces")
    expect(said).to_contain_text("the next try, at 2026-01-03 08:30:00")
    expect(said).not_to_contain_text("UTC")
