"""What the record teaches: reports that are started, listed, and drawn by their kind."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.web import fake_reports
from tests.web.conftest import OpenPage
from tests.web.fake_server import Server
from tests.web.test_accessibility import settled, violations
from tests.web.world import World, demo_world

Serve = Callable[[World], Server]

ASSERTIONS = b"""
- {name: in-time, every: order.new, leads_to: invoice, within: 30s}
- {name: approved, every: ship, after: approve}
- {name: calm, no: "*", causes_more_than: 100}
"""


def made(world: World, kind: str, body: bytes = b"") -> str:
    """A report that is there already; its id."""
    job = fake_reports.start(world, kind, {"vhost": "/"}, body)
    with world.changed:
        assert world.changed.wait_for(lambda: world.reports, 60)
    return str(job["request"]["id"])


def shown(serve: Serve, open_page: OpenPage, kind: str, body: bytes = b"") -> Page:
    world = demo_world()
    world.job_seconds = 0.0
    report = made(world, kind, body)
    return open_page(serve(world), f"#/learn?report={report}")


def test_expectations_are_drawn(serve: Serve, open_page: OpenPage) -> None:
    page = shown(serve, open_page, "expectations")
    panel = page.get_by_role("region", name="Expectations")
    expect(panel.get_by_role("heading", name="Out of the ordinary")).to_be_visible()
    expect(panel.get_by_text("order.new: no invoice").first).to_be_visible()
    row = panel.get_by_role("group", name="What leads to what").locator("tbody tr").first
    expect(row).to_contain_text("invoice")
    settled(page)
    assert violations(page) == []
    expect(row.locator("svg")).to_have_attribute("aria-label", re.compile("half within"))
    flow = panel.locator(".small-flow").first
    expect(flow).to_contain_text("\N{MULTIPLICATION SIGN} 2")
    expect(flow.locator(".badge")).to_have_text("died billing rejected")
    expect(panel.locator("pre")).to_contain_text("assertions:")


def test_a_comparison_shows_what_changed(serve: Serve, open_page: OpenPage) -> None:
    panel = shown(serve, open_page, "comparison").get_by_role("region", name="Comparison")
    expect(panel).to_contain_text("Before is from")
    expect(panel.locator(".badge").first).to_be_visible()


def test_correlations_say_how_one_is_adopted(serve: Serve, open_page: OpenPage) -> None:
    panel = shown(serve, open_page, "correlations").get_by_role("region", name="Correlations")
    expect(panel.get_by_role("heading", name="1.")).to_contain_text("$message.header#/x-because")
    copy = panel.get_by_role("button", name="Copy the command")
    expect(copy).to_have_attribute("title", 'rabbitmq-itc correlate "/" --adopt 1')
    panel.get_by_text("What is no key, and why").click()
    expect(panel.get_by_text("as often by chance")).to_be_visible()


def test_assertions_show_where_they_do_not_hold(serve: Serve, open_page: OpenPage) -> None:
    page = shown(serve, open_page, "assertions", ASSERTIONS)
    panel = page.get_by_role("region", name="Assertions")
    expect(panel.get_by_role("heading", name="in-time")).to_contain_text("Violated")
    expect(panel.get_by_role("heading", name="calm")).to_contain_text("Unknown")
    panel.get_by_role("link", name="#1", exact=True).click()
    expect(page).to_have_url(re.compile(r"#/conversations\?event=1"))


def test_an_administrator_has_a_file_of_assertions_judged(
    serve: Serve, open_page: OpenPage
) -> None:
    world = demo_world()
    world.job_seconds = 0.0
    page = open_page(serve(world), "#/learn")
    expect(page.get_by_text("No report yet")).to_be_visible()
    page.get_by_role("button", name="New report").click()
    form = page.get_by_role("group", name="New report")
    form.get_by_role("button", name="Assertions").click()
    form.get_by_label("What should hold").fill("- name: a")
    form.get_by_role("button", name="Start").click()
    expect(page.get_by_text("expected one of leads_to, after")).to_be_visible()
    page.get_by_role("button", name="New report").click()
    form.get_by_role("button", name="Assertions").click()
    form.get_by_label("What should hold").fill(ASSERTIONS.decode())
    form.get_by_role("button", name="Start").click()
    expect(page.get_by_role("region", name="Assertions")).to_contain_text("in-time")
    expect(page.get_by_role("group", name="Reports").locator("tbody tr")).to_have_count(1)


def test_reports_on_order_are_not_among_these(serve: Serve, open_page: OpenPage) -> None:
    world = demo_world()
    world.job_seconds = 0.0
    made(world, "races")
    address = serve(world)
    page = open_page(address, "#/learn")
    expect(page.get_by_text("No report yet")).to_be_visible()
    page.get_by_role("link", name="Failures").first.click()
    expect(page.get_by_role("group", name="Reports").locator("tbody tr")).to_have_count(1)


@pytest.mark.parametrize("kind", ["expectations", "comparison", "correlations", "assertions"])
def test_a_reader_sees_reports_and_starts_none(
    serve: Serve, open_page: OpenPage, kind: str
) -> None:
    world = demo_world()
    world.job_seconds = 0.0
    made(world, kind, ASSERTIONS)
    page = open_page(serve(world), "#/learn", user="watch")
    expect(page.get_by_role("group", name="Reports").locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("button", name="New report")).to_have_count(0)
