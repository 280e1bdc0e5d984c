"""Who acts, as the page says it: names, how a trace tells them apart, what is quiet."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from playwright.sync_api import Route, expect

from tests.web.conftest import OpenPage
from tests.web.past import Past, demo_world
from tests.web.service import Served

SHOP = "shop@10.0.0.11 #1"


def test_a_participant_is_found_by_its_name(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/admin?vhost=%2F")
    page.get_by_role("link", name=SHOP).click()
    expect(page.locator(".filter")).to_contain_text(SHOP)
    expect(page.locator("tr.row").first.get_by_title(SHOP)).to_have_text("shop")
    expect(page.locator("tr.row", has_not=page.get_by_title(SHOP))).to_have_count(0)


def test_a_lane_is_called_by_what_tells_it_from_others_of_its_group(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/space-time?vhost=%2F")
    label = page.locator(f".lane-label[title='{SHOP}']")
    expect(label).to_have_text("10.0.0.11 #1")
    page.get_by_label("Group by").select_option("none")
    expect(label).to_have_text(SHOP)


def test_a_trace_is_started_with_a_policy_and_what_is_quiet(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    page = open_page(serve(demo_world(20)), "#/admin?vhost=empty")
    page.get_by_role("button", name="Start the trace of empty").click()
    asks = page.get_by_role("dialog", name="Start the trace of empty")
    expect(asks).to_contain_text("one more message for each publish and each delivery")
    policy = asks.get_by_label("What counts as a participant")
    expect(policy.locator("option")).to_have_text(
        ["client", "host", "user", "connection", "channel"]
    )
    expect(page.get_by_text("A program: user and place")).to_be_visible()
    policy.select_option("host")
    expect(page.get_by_text("A user at a place")).to_be_visible()
    page.get_by_label("Quiet traffic").fill(" queue:audit.*  exchange:ticks ")
    page.get_by_label("and read them for links").uncheck()
    page.get_by_label("Only these exchanges").fill(' ""  orders.# ')
    page.get_by_label("Only these queues").fill("work")
    with page.expect_request(lambda request: request.method == "PUT") as asked:
        asks.get_by_role("button", name="Start the trace", exact=True).click()
    assert json.loads(asked.value.post_data or "") == {
        "participant": "host",
        "quiet": ["queue:audit.*", "exchange:ticks"],
        "bodies": False,
        "exchanges": ["", "orders.#"],
        "queues": ["work"],
    }


def test_quiet_events_are_muted_and_said_to_be_quiet(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/overview")

    def quieten(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        for event in found if isinstance(found, list) else [found]:
            event["quiet"] = True
        route.fulfill(response=answer, json=found)

    page.route("**/itc_db?*", quieten)
    page.route("**/itc_db/events/*", quieten)
    page.goto(f"{demo.url}/#/events?live=off&vhost=%2F")
    page.locator("tr.row.muted a").first.click()
    expect(page.locator(".drawer .badge", has_text="quiet")).to_be_visible()


def test_settings_say_when_each_participant_and_trace_acted_last(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/overview")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{demo.url}/#/admin?vhost=%2F")
    newest = demo.answer("/itc_db/participants", vhost="/")[0]
    last = page.get_by_title(f"Event #{newest['last_event_id']}", exact=True)
    expect(last).to_have_text([re.compile(r"\d\d:\d\d:\d\d$")] * 2)  # the trace's, too
    [event] = demo.answer("/itc_db", vhost="/", page_size=1)
    assert newest["last_event_at"] == event["recorded_at"]
    times = [url for url in asked if "/itc_db?" in url and "columns=recorded_at" in url]
    assert len(times) <= 1  # of all that is in view, for its silence; none of each trace
    costs = page.get_by_text("costs the broker one more message")
    expect(costs).not_to_be_visible()
    page.get_by_text("Costs, and how long events are kept").click()
    expect(costs).to_be_visible()
