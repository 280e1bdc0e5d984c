"""Debian's Chromium under Playwright, kept from everything that is not the page."""

from __future__ import annotations

import shutil
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, Request

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome")


def launch(playwright: Playwright, *more: str) -> Browser:
    """A headless browser with a profile of its own, deleted with it."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        raise RuntimeError("no Chromium on the PATH: apt-get install chromium")
    return playwright.chromium.launch(executable_path=path, args=[*ARGUMENTS, *more])


def watch(page: Page, origin: str, complaints: list[str]) -> None:
    """Collects what must not happen on any page."""

    def on_console(message: ConsoleMessage) -> None:
        # A refused request is up to the test; the browser's own line about it is noise.
        if message.type == "error" and "Failed to load resource" not in message.text:
            complaints.append(f"console: {message.text}")

    def on_request(request: Request) -> None:
        host = urlsplit(request.url)
        if host.scheme in {"http", "https"} and f"{host.scheme}://{host.netloc}" != origin:
            complaints.append(f"request to another host: {request.url}")

    page.on("console", on_console)
    page.on("pageerror", lambda error: complaints.append(f"script error: {error}"))
    page.on("request", on_request)
