"""The page tried as a new user would: how many actions its questions take, and what one sees.

    python -m tests.web.trial [FOLDER]

A real broker and the real service, with 24,000 events of twelve services in six virtual hosts. Each
question is answered by keyboard and by mouse, at two widths, in both themes, as an administrator
and as somebody who only monitors. An action is a click, or a typed text with Enter; by keyboard it
is Enter on what Tab leads to. In the folder, if one is given, are pictures of every tab.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from app.store import Store, migrate
from app.tracker import Policy
from app.tracker.links import BUILT_IN, Rules
from bench.stores import record_all
from tests.web.browser import launch, watch
from tests.web.orders import SERVICES, history
from tools.demo.client import ItcClient
from tools.demo.stage import CHECKOUT, PROGRAM
from tools.servers import Broker, Child, RabbitNode, free_port

VHOSTS = ("shop", "shop-eu", "shop-us", "outlet", "wholesale", "staging")
EVENTS = 24_000
EVENTS_EACH = 18  # about; of an order
APART = 700_000  # µs between orders of one virtual host
SOUGHT = 1234  # which fails
FIRST = 1001
USERS = {"boss": "administrator", "watcher": "monitoring"}
WIDTHS = (1440, 800)
THEMES = ("light", "dark")
READY_SECONDS, STOP_SECONDS = 90, 30
PATIENCE_MS = 60_000
MOST_TABS = 60
# What each question may take, in this order.
ALLOWED = {
    "what happened to the order?": 2,
    "why did it fail, who rejected it?": 1,
    "what else did it touch?": 1,
    "where did the time go?": 0,
    "send it to a colleague": 1,
}
TABS = (
    "overview",
    "events",
    "conversations",
    "failures",
    "chain",
    "space-time",
    "topology",
    "jobs",
)


async def fill(database_url: str, events: int) -> None:
    """A fresh store of about this many events, of orders whose numbers are all different."""
    each = max(1, events // len(VHOSTS) // EVENTS_EACH)
    begin = time.time_ns() // 1000 - (each + 30) * APART
    await migrate(database_url)
    store = await Store.open(database_url, clock=lambda: begin)
    numbers = itertools.count(FIRST)
    for vhost in VHOSTS:
        orders = list(itertools.islice(numbers, each))
        await record_all(
            store, vhost, history(orders, begin, APART), Policy.client, Rules(BUILT_IN)
        )
    await store.close()


@contextmanager
def serving(broker: Broker, folder: Path, events: int) -> Iterator[ItcClient]:
    """The service on a store of this many events; its users are those of `USERS`."""
    for vhost in VHOSTS:
        broker.add_vhost(vhost)
    for name, tag in USERS.items():
        broker.add_user(name, name, [tag])
        for vhost in VHOSTS:
            broker.permit(name, vhost)
    database = f"sqlite:///{folder / 'itc.db'}"
    # In another thread, because the event loop of Playwright may run in this one.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, fill(database, events)).result()
    port = str(free_port())
    environment = {
        **os.environ,
        "ITC_AMQP_URL": broker.amqp_url(VHOSTS[0]),
        "ITC_MANAGEMENT_URL": broker.management_url,
        "ITC_DATA_DIR": str(folder),
        "ITC_HOST": "127.0.0.1",
        "ITC_PORT": port,
    }
    log = folder / "service.log"
    service = Child(
        "rabbitmq-itc serve", [PROGRAM, "serve"], log=log, env=environment, cwd=CHECKOUT
    )
    client = ItcClient(f"http://127.0.0.1:{port}", broker.user, broker.password)
    try:
        service.wait_until(client.is_ready, READY_SECONDS, "being ready")
        yield client
    finally:
        client.close()
        service.stop(STOP_SECONDS)
        for vhost in VHOSTS:
            broker.delete_vhost(vhost)
        for name in USERS:
            broker.delete_user(name)


@dataclass
class Hand:
    """Acts on the page by mouse or by keyboard, and counts."""

    page: Page
    by_keyboard: bool
    actions: int = 0
    answers: dict[str, tuple[int, float]] = field(default_factory=dict)
    _begun: float = field(default_factory=time.perf_counter)

    def press(self, target: Locator) -> None:
        self.actions += 1
        if not self.by_keyboard:
            return target.click()
        expect(target).to_be_visible()
        for _ in range(MOST_TABS):
            if target.evaluate("(it) => it === document.activeElement"):
                return self.page.keyboard.press("Enter")
            self.page.keyboard.press("Tab")
        raise AssertionError(f"not reached by {MOST_TABS} times Tab: {target}")

    def type(self, target: Locator, text: str) -> None:
        self.actions += 1
        expect(target).to_be_visible()
        if self.by_keyboard:
            self.page.keyboard.press("/")
        else:
            target.click()
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")

    def answered(self, question: str) -> None:
        """What was asked can be read now."""
        self.answers[question] = (self.actions, time.perf_counter() - self._begun)
        self.actions, self._begun = 0, time.perf_counter()


def ask(page: Page, by_keyboard: bool, order: int = SOUGHT) -> dict[str, tuple[int, float]]:
    """From the tab after the sign-in to a link in the clipboard: actions and seconds."""
    happened, why, touched, took, sent = ALLOWED
    hand = Hand(page, by_keyboard)
    hand.type(page.get_by_role("textbox", name="What happened to"), f"order-{order}")
    expect(page.get_by_role("heading", name="OrderPlaced")).to_be_visible()
    expect(page.locator(".conv-row").first).to_be_visible()
    hand.answered(happened)
    reason = page.get_by_role("region", name="Why it failed")
    expect(reason).to_contain_text("billing")
    expect(reason).to_contain_text("rejected")
    hand.answered(why)
    part = page.get_by_role("region", name="Where the time went").get_by_role("listitem").first
    expect(part).to_contain_text(re.compile(r"\d+ (ms|s)"))
    hand.answered(took)
    hand.press(page.locator(".conv-head").get_by_role("button", name="What it touched"))
    expect(page.get_by_text(re.compile(r"\d+ (was|were) caused by"))).to_be_visible()
    hand.answered(touched)
    hand.press(page.locator(".conv-head").get_by_role("button", name="Copy link"))
    expect(page.get_by_text("Copied")).to_be_visible()
    hand.answered(sent)
    return hand.answers


def signed_in(
    browser: Browser, url: str, user: str, width: int, theme: str, complaints: list[str]
) -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": 900 if width > 1000 else 1000},
        color_scheme="dark" if theme == "dark" else "light",
        permissions=["clipboard-read", "clipboard-write"],
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    watch(page, url, complaints)
    page.goto(url)
    page.get_by_label("User name").fill(user)
    page.get_by_label("Password").fill(user)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".shell")).to_be_visible()
    return page


def pictures(page: Page, url: str, folder: Path, name: str) -> None:
    """Every tab as it is first seen."""
    address = page.url.partition("#")[2]
    shots = {"conversation": address, **{tab: f"/{tab}?vhost={VHOSTS[0]}" for tab in TABS}}
    for tab, where in shots.items():
        page.goto(f"{url}/#{where}")
        expect(page.locator(".loading, option:text('Loading')")).to_have_count(0)
        page.screenshot(path=folder / f"{tab}-{name}.png")


def main() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    pictured = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    complaints: list[str] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(RabbitNode())
        client = stack.enter_context(serving(broker, folder, EVENTS))
        browser = launch(stack.enter_context(sync_playwright()))
        stack.callback(browser.close)
        print(f"{EVENTS:,} events of {len(SERVICES)} services in {len(VHOSTS)} virtual hosts")
        print("actions/at most (seconds) for:", "; ".join(ALLOWED))
        for user, width, theme, keyboard in itertools.product(USERS, WIDTHS, THEMES, (True, False)):
            page = signed_in(browser, client.url, user, width, theme, complaints)
            answers = ask(page, keyboard)
            cells = [f"{answers[q][0]}/{most} ({answers[q][1]:.2f})" for q, most in ALLOWED.items()]
            how = "keyboard" if keyboard else "mouse"
            print(f"  {USERS[user]:13} {width:4} {theme:5} {how:8} ", "  ".join(cells), flush=True)
            if pictured and not keyboard and user == "boss":
                pictures(page, client.url, pictured, f"{theme}-{width}")
            page.context.close()
    print("\n".join(complaints) or "no complaints of the browser")


if __name__ == "__main__":
    main()
