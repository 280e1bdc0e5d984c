"""A real browser on the real service (tests/web/service.py).

Every page fails its test on script errors, on requests to another host and on anything the
Content-Security-Policy stops.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from tests.web.browser import watch
from tests.web.past import Past, demo_world
from tests.web.service import Served, running

# How long to wait for a condition: on a busy machine slow does not mean failed.
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)

# A page refreshes every 5 s, and in an outage it asks again after 3 s: where a test waits for
# that, it happens ten times as often.
HURRY = """
  for (const name of ["setTimeout", "setInterval"]) {
    const start = window[name];
    window[name] = (work, ms, ...more) =>
      start.call(window, work, ms === 5000 || ms === 3000 ? ms / 10 : ms, ...more);
  }
"""

ARTEFACTS = Path(__file__).resolve().parents[2] / "artefacts" / "web"


@pytest.fixture(scope="module")
def demo() -> Iterator[Served]:
    """A server that tests only read from."""
    with running(demo_world(1500)) as server:
        yield server


@pytest.fixture
def serve() -> Iterator[Callable[[Past], Served]]:
    """Serves a world that belongs to the test."""
    with ExitStack() as stack:
        yield lambda world: stack.enter_context(running(world))


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """`open_page(server, "#/events", user="admin", width=1440, theme="light")`: signed in.

    Without `policy` the Content-Security-Policy is off, for tools that run inside the page. In a
    `hurry` what is shown is asked for again ten times as often as usual.
    """
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def opened(
        server: Served,
        address: str = "#/overview",
        user: str | None = "admin",
        width: int = 1440,
        theme: str = "light",
        policy: bool = True,
        hurry: bool = False,
        zone: str = "Etc/UTC",
    ) -> Page:
        context = browser.new_context(
            bypass_csp=not policy,
            viewport={"width": width, "height": 900 if width > 1000 else 1000},
            color_scheme="dark" if theme == "dark" else "light",
            timezone_id=zone,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        if hurry:
            page.add_init_script(HURRY)
        watch(page, server.url, complaints)
        page.goto(f"{server.url}/icon.svg")
        if user is not None:
            secret = base64.b64encode(f"{user}:{user}".encode()).decode()
            page.evaluate("s => sessionStorage.setItem('itc.authorization', s)", f"Basic {secret}")
        page.goto(f"{server.url}/{address}")
        page.wait_for_selector(".shell" if user else "form, .shell")
        return page

    yield opened
    for context in contexts:
        for page in context.pages:
            page.unroute_all(behavior="ignoreErrors")  # some answers may be under way
        context.close()
    assert not complaints, complaints


def change_answers(
    page: Page, addresses: str | re.Pattern[str], change: Callable[[Any], Any]
) -> None:
    """Let the page see the service's answers as ``change`` makes them from now on."""

    def answer(route: Route) -> None:
        if "/live" in route.request.url or "/progress" in route.request.url:
            return route.fallback()
        answered = route.fetch()
        return route.fulfill(response=answered, json=change(answered.json()))

    page.route(addresses, answer)


DOUBT = "2 participants are connections that give no name"


def cast_doubt(page: Page) -> None:
    """From now on nothing that the service says is sound."""

    def doubted(answer: Any) -> Any:
        if isinstance(answer, list):
            return [doubted(each) for each in answer]
        if isinstance(answer, dict) and "sound" in answer:
            said = {"answer": "unknown"} if answer.get("answer") == "cannot have" else {}
            caveats = [f"Not sound: {DOUBT}"]
            return {**answer, **said, "sound": False, "doubts": [DOUBT], "caveats": caveats}
        return answer

    change_answers(page, "**/itc_db/**", doubted)


def without_broker(page: Page) -> None:
    """From now on the service says that the broker does not answer."""
    checks = {"broker": "unavailable", "database": "ok"}
    answer = {"status": "unavailable", "checks": checks}
    page.route("**/health/ready", lambda route: route.fulfill(status=503, json=answer))


def sign_in(page: Page, user: str, password: str) -> None:
    page.get_by_label("User name").fill(user)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


@pytest.fixture
def shots() -> Path:
    """Where screenshots for people go; not under version control."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    return ARTEFACTS
