"""The product as its users see it: a real broker, the real service, a real browser."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.web.browser import watch
from tests.web.conftest import PATIENCE_MS, sign_in
from tests.web.test_chain import menu
from tools.demo.orders import ManyOrders
from tools.demo.pipeline import Outcome, Pipeline
from tools.demo.stage import Stage, raised
from tools.servers import Broker, free_port, wait_until

SPARK_MS = 240_000
VIEWS = {
    "overview": "#/overview",
    "durations": "#/durations",
    "events": "#/events?event={last}",
    "conversations": "#/conversations",
    "conversation": "#/conversations?event={last}",
    "failures": "#/conversations?filter=failures",
    "chain": "#/chain?a={first}&b={last}",
    "space-time": "#/space-time?event={first}",
    "space-time-chain": "#/space-time?a={first}&b={last}",
    "topology": "#/topology",
    "learn": "#/learn",
    "assertions": "#/learn?view=assertions",
    "jobs": "#/jobs",
    "admin": "#/admin",
}


@pytest.fixture(scope="module")
def stage(rabbit: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The service on a virtual host of its own, with nothing traced yet."""
    with rabbit.fresh_vhost() as vhost:
        environment = {
            **os.environ,
            "AMQP_URL": rabbit.amqp_url(vhost),
            # Another service of this broker's would be told of connections in its place.
            "ITC_TRACE_QUEUE": "itc.product",
            "MANAGEMENT_URL": rabbit.management_url,
            "ITC_PORT": str(free_port()),
        }
        with raised(tmp_path_factory.mktemp("product"), environment, lambda _: None) as stage:
            yield stage


def drive(stage: Stage) -> Outcome:
    """One run of the demo's order pipeline."""

    async def run() -> Outcome:
        url = stage.broker.amqp_url(stage.vhost)
        async with Pipeline(stage.url_of, url, "2001") as pipeline:
            return await pipeline.run()

    # In another thread, because the event loop of Playwright runs in this one.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, run()).result(timeout=60)


def place_orders(stage: Stage) -> None:
    """Ten orders, of which one gets no invoice."""
    many = ManyOrders(10, 1, receipts=False, pause=0)
    with ThreadPoolExecutor(1) as pool:
        url = stage.broker.amqp_url(stage.vhost)
        pool.submit(asyncio.run, many.run(url)).result(timeout=60)


def opened(browser: Browser, stage: Stage, complaints: list[str], theme: str) -> Page:
    context = browser.new_context(
        viewport={"width": 1440, "height": 900},
        color_scheme="dark" if theme == "dark" else "light",
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    watch(page, stage.client.url, complaints)
    page.goto(stage.client.url)
    sign_in(page, stage.broker.user, stage.broker.password)
    return page


def exported(page: Page, folder: Path, extension: str) -> Path:
    """The chain between the pinned events in one more format, downloaded from the page."""
    menu(page).click()
    page.get_by_label("Format").select_option(extension)
    file = page.get_by_label("File name").input_value() + extension
    page.get_by_role("button", name="Restore and export").click()
    result = page.locator(".chain-result", has_text=f"{file},")
    expect(result).to_be_visible(timeout=SPARK_MS)
    with page.expect_download() as download:
        result.get_by_role("button", name="Download", exact=True).click()
    assert download.value.suggested_filename == file
    download.value.save_as(folder / file)
    written = result.locator("code").text_content()  # folded away for experts
    assert hashlib.sha256((folder / file).read_bytes()).hexdigest() == written
    return folder / file


def ids_in_shiviz(log: str) -> list[int]:
    """Of the events that ShiViz would find: one a match of the expression on the first line."""
    expression, _, lines = log.split("\n", 2)
    python = re.compile(expression.replace("(?<", "(?P<"))
    return [int(match["event"].split()[0]) for match in python.finditer(lines)]


def test_the_story_from_sign_in_to_the_downloaded_chain(
    browser: Browser, stage: Stage, shots: Path, tmp_path: Path
) -> None:
    complaints: list[str] = []
    page = opened(browser, stage, complaints, "light")
    page.get_by_label("Virtual host").select_option(stage.vhost)
    expect(page.get_by_text("Start a trace to see what causes what")).to_be_visible()
    page.screenshot(path=shots / "product-empty.png")
    page.get_by_role("button", name=f"Start the trace of {stage.vhost}").click()
    page.get_by_role("button", name="Start the trace", exact=True).click()
    expect(page.get_by_role("table").get_by_text("running")).to_be_visible(timeout=60_000)

    page.get_by_role("link", name="Events", exact=True).click()
    expect(page.get_by_text("No events yet")).to_be_visible()
    drive(stage)
    expect(page.locator("tr.row")).to_have_count(25, timeout=30_000)

    # The oldest event of an order; the stock count may come before or after it.
    page.locator("tr.row", has_text="order.new").last.click()
    page.get_by_role("button", name="Pin as A").click()
    first = page.locator(".drawer h2").inner_text()
    dead = page.locator("tr.row", has_text="itc-demo.orders.dead")
    dead.click()
    page.get_by_role("button", name="Pin as B").click()
    last = page.locator(".drawer h2").inner_text()
    expect(page.locator(".drawer")).to_contain_text("dead-lettered")
    page.get_by_role("link", name="Compare and chain").click()
    expect(page.locator(".pair-word")).to_have_text("may have had a part in")

    page.get_by_role("group", name="Chain by").get_by_role("button", name="All possible").click()
    expect(page.locator(".chain-step")).to_have_count(21)
    lines = exported(page, tmp_path, ".jsonl").read_text().splitlines()
    expect(page.locator(".chain-step")).to_have_count(21)
    expect(page.locator(".chain-step .number").first).to_have_text(first)
    expect(page.locator(".chain-step .number").last).to_have_text(last)
    shown = page.locator(".chain-step .number").all_inner_texts()
    ids = [int(number.removeprefix("#")) for number in shown]
    assert [row["id"] for row in map(json.loads, lines) if "id" in row] == ids
    table = pyarrow.parquet.read_table(exported(page, tmp_path, ".parquet"))
    assert table.column("id").to_pylist() == ids
    assert ids_in_shiviz(exported(page, tmp_path, ".shiviz").read_text()) == ids

    page.get_by_role("link", name="Topology", exact=True).click()
    page.get_by_role("button", name="Count the last hour").click()
    expect(page.get_by_text("from all 25 events of")).to_be_visible(timeout=SPARK_MS)
    dead_queue = page.locator("a.flow-node.queues", has_text="itc-demo.orders.dead")
    expect(dead_queue).to_have_attribute("title", re.compile("1 message"))
    dead_queue.click()
    expect(page.get_by_role("heading", name="itc-demo.orders.dead")).to_be_visible()
    newest = page.get_by_role("group", name="Newest messages")
    expect(newest.locator("tbody tr")).to_have_count(1)
    page.context.close()
    assert not complaints, complaints


def test_how_long_messages_take_is_counted_and_drawn_within_seconds(
    browser: Browser, stage: Stage
) -> None:
    complaints: list[str] = []
    page = opened(browser, stage, complaints, "light")
    expect(page.locator(".shell")).to_be_visible()
    stage.client.start_trace(stage.vhost)
    page.get_by_label("Virtual host").select_option(stage.vhost)
    expect(page.get_by_role("table").get_by_text("running")).to_be_visible(timeout=60_000)
    place_orders(stage)
    page.goto(f"{stage.client.url}/#/durations?vhost={quote(stage.vhost, safe='')}")
    asked = page.get_by_label("Queue or participant")
    expect(asked.locator("option", has_text="itc-demo.many").first).to_be_attached(timeout=60_000)
    asked.select_option(index=1)
    expect(page.get_by_role("region", name="Waiting").get_by_role("slider")).to_be_visible()
    counted = re.compile(r"[1-9]\d* deliver(y|ies); times are exact to within 5 %")
    expect(page.get_by_text(counted).first).to_be_visible()
    page.context.close()
    assert not complaints, complaints


def test_what_is_asserted_and_does_not_hold_is_shown_within_seconds(
    browser: Browser, stage: Stage, shots: Path
) -> None:
    complaints: list[str] = []
    page = opened(browser, stage, complaints, "light")
    expect(page.locator(".shell")).to_be_visible()
    stage.client.start_trace(stage.vhost)
    page.goto(f"{stage.client.url}/#/learn?view=assertions")
    page.get_by_label("Virtual host").select_option(stage.vhost)
    page.get_by_role("button", name="Set assertions").click()
    file = page.get_by_label("What should hold")
    file.fill("- name: invoice-in-time\n  every: order.approved\n  leads_to: 7: 8\n")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.locator(".mistake")).to_contain_text("3    leads_to: 7: 8")
    file.fill(
        "- name: invoice-in-time\n  every: order.approved\n  leads_to: invoice.sent\n  within: 1s"
    )
    page.get_by_role("button", name="Set", exact=True).click()
    held = page.get_by_role("group", name="Live checks").locator("tbody tr")
    expect(held).to_contain_text("No case yet")

    place_orders(stage)
    found = page.get_by_role("group", name="Violations").locator("tbody tr")
    expect(found).to_contain_text("led to no invoice.sent within 1.0 s")
    expect(held).to_contain_text("Violated")
    page.screenshot(path=shots / "product-violation.png")
    found.get_by_role("link", name="The failures of invoice-in-time").click()
    failed = page.get_by_role("group", name="Conversations that failed").locator("tbody tr")
    expect(failed).to_have_count(1)
    page.get_by_role("link", name="invoice-in-time").last.click()
    found.locator("a.violation").click()
    expect(page.get_by_role("main").get_by_text("order.placed", exact=True).first).to_be_visible()

    page.go_back()
    page.get_by_role("button", name="Remove invoice-in-time").click()
    page.get_by_role("alertdialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_text("No assertion is held")).to_be_visible()
    expect(found).to_have_count(1)
    page.context.close()
    assert not complaints, complaints


@pytest.mark.parametrize("width", [pytest.param(1440, marks=pytest.mark.long(10)), 800])
@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.long(12))])
def test_every_view_of_it_can_be_looked_at(
    browser: Browser, stage: Stage, shots: Path, theme: str, width: int
) -> None:
    complaints: list[str] = []
    page = opened(browser, stage, complaints, theme)
    expect(page.locator(".shell")).to_be_visible()
    page.set_viewport_size({"width": width, "height": 900 if width > 1000 else 1000})
    stored = stage.client.events_after(stage.vhost, 0)
    if not stored:  # it runs without the story before it
        stage.client.start_trace(stage.vhost)
        page.get_by_label("Virtual host").select_option(stage.vhost)
        expect(page.get_by_role("table").get_by_text("running")).to_be_visible(timeout=60_000)
        drive(stage)
        wait_until(
            lambda: len(stage.client.events_after(stage.vhost, 0)) >= 20, 30, "an order's events"
        )
        stored = stage.client.events_after(stage.vhost, 0)
    ids = {"first": stored[0]["id"], "last": stored[-1]["id"]}
    for name, address in VIEWS.items():
        page.goto(f"{stage.client.url}/{address.format(**ids)}")
        expect(page.locator(".loading")).to_have_count(0)
        expect(page.get_by_role("alert")).to_have_count(0)
        page.screenshot(path=shots / f"product-{name}-{theme}-{width}.png")
    page.context.close()
    assert not complaints, complaints
