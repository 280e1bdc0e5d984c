"""The service, the broker or the store goes down and comes back, and the page recovers."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.web.conftest import PATIENCE_MS, OpenPage
from tests.web.service import Served

DATA = "**/itc_db**"
UNAVAILABLE = {"error": "unavailable", "reason": "the database does not answer"}
SENTENCE = "The database does not answer"


class Outage:
    """Between `begin` and `end` every request for data is refused."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.refused_at: list[float] = []

    def begin(self) -> None:
        self.page.route(DATA, self.refuse)

    def refuse(self, route: Route) -> None:
        if "/itc_db?" in route.request.url:  # events; the banner asks what is known of them, too
            self.refused_at.append(time.monotonic())
        route.fulfill(status=503, json=UNAVAILABLE)

    def wait_for_refusals(self, most: int, meanwhile: Callable[[], None] = lambda: None) -> None:
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while len(self.refused_at) < most:
            assert time.monotonic() < deadline, f"asked {len(self.refused_at)} times only"
            meanwhile()
            self.page.wait_for_timeout(50)

    def end(self) -> None:
        self.page.unroute(DATA)


def never_refresh(page: Page) -> None:
    page.get_by_role("banner").get_by_label("Refresh").select_option("0")


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("#/overview", "role=button[name='Stop the trace of /']"),
        ("#/events?live=off", "tr.row >> nth=5"),
        ("#/events?live=off&at=700", "tr.row >> text=#700"),
        ("#/events?live=off&event=17", ".drawer >> role=heading[name=/Payload/]"),
        ("#/space-time?vhost=%2F&at=700", ".diagram canvas >> nth=0"),
        ("#/chain?a=3&b=1400", ".pair-word"),
        ("#/jobs", "text=No job has run yet"),
        ("#/topology?vhost=%2F", "#page svg >> nth=0"),
    ],
)
def test_a_view_that_failed_in_an_outage_loads_by_itself_after_it(
    demo: Served, open_page: OpenPage, address: str, what: str
) -> None:
    page = open_page(demo, "#/admin", hurry=True)
    outage = Outage(page)
    outage.begin()
    never_refresh(page)  # within it: that asks once more for what every view shows
    page.evaluate("address => { location.hash = address }", address)
    tab = address.partition("?")[0]
    expect(page.locator(f"nav a[aria-current=page][href^='{tab}']")).to_be_visible()
    expect(page.get_by_role("alert").first).to_contain_text(SENTENCE)
    outage.end()
    expect(page.locator(what)).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)


SAMPLES = """() => modules["app/core/traces.js"].rateSamples.value
  .map(({ at, seconds }) => [at - seconds, at])"""


def measured(page: Page, since: float) -> list[list[float]]:
    """The spans of which rates are told, once there is one that ends after a time."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while True:
        spans: list[list[float]] = page.evaluate(SAMPLES)
        if any(end > since for _, end in spans):
            return spans
        assert time.monotonic() < deadline
        page.wait_for_timeout(50)


def test_no_rate_is_told_of_an_outage(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, hurry=True)
    now = "() => Date.now() / 1000"
    measured(page, page.evaluate(now))
    outage = Outage(page)
    outage.begin()
    expect(page.get_by_role("region", name="What is known")).to_contain_text("does not answer")
    within = page.evaluate(now)
    outage.end()
    assert [span for span in measured(page, within) if span[0] < within < span[1]] == []


def scroll_down(page: Page) -> None:
    page.locator(".rows").evaluate("rows => { rows.scrollTop = rows.scrollHeight }")


def go_to_the_first_loaded(page: Page) -> None:
    page.locator(".diagram canvas").first.press("Home")


@pytest.mark.parametrize(
    ("address", "to_the_edge"),
    [
        ("#/events?live=off", scroll_down),
        pytest.param(
            "#/space-time?vhost=%2F&at=900",
            go_to_the_first_loaded,
            marks=pytest.mark.long(15),
        ),
    ],
)
def test_an_edge_that_cannot_be_loaded_is_asked_for_with_patience(
    demo: Served, open_page: OpenPage, address: str, to_the_edge: Callable[[Page], None]
) -> None:
    page = open_page(demo, address)
    never_refresh(page)
    expect(page.locator("tr.row, .diagram canvas").first).to_be_visible()
    outage = Outage(page)
    outage.begin()
    # Where it was done before what is shown was all there, nothing came of it.
    outage.wait_for_refusals(1, lambda: to_the_edge(page))
    expect(page.get_by_role("alert")).to_contain_text(SENTENCE)
    outage.wait_for_refusals(4)
    assert outage.refused_at[3] - outage.refused_at[0] > 5, "asked again at once"
    outage.end()
    expect(page.get_by_role("alert")).to_have_count(0)
