"""The tab Causality of RabbitMQ's own page, on a broker with the plugin and a real service."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from signal import SIGTERM

import pika
import pytest
from playwright.sync_api import Browser, Page, expect

from drills.service import Service
from tests.web.history import HOSTILE
from tools.plugin import NAME, build
from tools.servers import RabbitNode


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitNode]:
    folder = tmp_path_factory.mktemp("plugin")
    build(folder)
    with RabbitNode(plugins=(NAME,), plugins_folder=folder) as node:
        yield node


def serving(broker: RabbitNode, folder: Path, framed_by: str) -> Service:
    service = Service(
        broker,
        f"sqlite:///{folder / 'itc.db'}",
        folder,
        settings={"ITC_FRAME_ANCESTORS": framed_by},
    )
    service.start()
    with ThreadPoolExecutor(1) as other:  # the browser's own loop runs in this thread
        other.submit(asyncio.run, service.listening()).result()
        other.submit(asyncio.run, service.start_trace("%2F")).result()
    address = f"http://127.0.0.1:{service.port}"
    broker.ctl("eval", f'application:set_env(rabbitmq_itc, url, "{address}").')
    return service


@pytest.fixture(scope="module")
def in_tab(broker: RabbitNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A service whose dashboard the broker's page may frame; its trace runs."""
    service = serving(broker, tmp_path_factory.mktemp("service"), broker.management_url)
    try:
        with ThreadPoolExecutor(1) as other:
            other.submit(asyncio.run, service.until_running("%2F")).result()
        yield
    finally:
        service.end(SIGTERM)


def open_tab(browser: Browser, broker: RabbitNode) -> Page:
    page = browser.new_page()
    page.goto(broker.management_url)
    page.fill("input[name=username]", broker.user)
    page.fill("input[name=password]", broker.password)
    page.click("input[type=submit]")
    page.get_by_role("link", name="Causality").click()
    return page


def test_the_tab_says_what_is_missing_where_no_address_is_set(
    browser: Browser, broker: RabbitNode
) -> None:
    page = open_tab(browser, broker)

    expect(page.locator("#main")).to_contain_text("The address of rabbitmq-itc is not set")
    page.close()


@pytest.mark.usefixtures("in_tab")
def test_the_tab_shows_the_dashboard_and_leads_back_to_rabbitmq_s_own_pages(
    browser: Browser, broker: RabbitNode
) -> None:
    page = open_tab(browser, broker)
    dashboard = page.frame_locator("iframe[title=rabbitmq-itc]")

    expect(dashboard.get_by_role("heading", name="All virtual hosts")).to_be_visible()
    expect(dashboard.get_by_role("heading", name="Traces")).to_be_visible()
    dashboard.get_by_placeholder("What happened to").fill("order-1234")
    dashboard.get_by_role("button", name="Find", exact=True).click()
    expect(dashboard.get_by_role("heading", name="All virtual hosts")).to_be_hidden()

    page.get_by_role("link", name="Connections").first.click()
    expect(page.locator("#main h1")).to_have_text("Connections")
    expect(page.locator("iframe")).to_have_count(0)
    page.close()


@pytest.mark.usefixtures("in_tab")
def test_names_that_are_markup_are_shown_in_the_tab_as_they_are(
    browser: Browser, broker: RabbitNode
) -> None:
    markup = (name for name in HOSTILE if name.isascii() and name.isprintable())
    names = [*markup, "__proto__", "a/../b#c?d=%2f"]
    publish_to(broker, names)
    page = open_tab(browser, broker)
    dashboard = page.frame_locator("iframe[title=rabbitmq-itc]")
    dashboard.get_by_role("link", name="Events", exact=True).click()
    for name in names:
        expect(dashboard.locator("body")).to_contain_text(name[:60])
    dashboard.locator("tbody tr").first.click()
    expect(dashboard.locator(".drawer")).to_be_visible()
    assert [frame.evaluate("window.pwned") for frame in page.frames] == [None, None]
    page.close()


def publish_to(broker: RabbitNode, names: list[str]) -> None:
    """Send a message to a queue of each name, and take it."""
    with pika.BlockingConnection(pika.URLParameters(broker.amqp_url("/"))) as connection:
        channel = connection.channel()
        for name in names:
            channel.queue_declare(name)
            channel.basic_publish("", name, name.encode(), pika.BasicProperties(type=name))
            assert channel.basic_get(name, auto_ack=True)[0] is not None
            channel.queue_delete(name)


def test_another_page_gets_no_dashboard_into_its_frame(
    browser: Browser, broker: RabbitNode, tmp_path: Path
) -> None:
    service = serving(broker, tmp_path, "https://rabbit.example.org")
    try:
        page = browser.new_page()
        page.goto(broker.management_url)
        with page.expect_console_message(lambda said: "frame-ancestors" in said.text):
            page.evaluate(
                "address => document.body.append("
                "Object.assign(document.createElement('iframe'), {src: address}))",
                f"http://127.0.0.1:{service.port}/",
            )
        page.close()
    finally:
        service.end(SIGTERM)
