"""The pictures of docs/dashboard.md and README, taken anew: `make screenshots`.

    python -m tests.web.screenshots [FOLDER]

Runs the demo's orders once on a private broker, looks at each tab with the chain's two ends pinned,
at Learn after a thousand orders more, and writes PNGs with a palette, which are a third of what the
browser writes.
"""

from __future__ import annotations

import asyncio
import base64
import io
import os
import re
import struct
import sys
import tempfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.web.browser import launch
from tests.web.test_trial import SOUGHT, serving
from tools.demo.orders import ManyOrders
from tools.demo.pipeline import NEW_ORDERS, Outcome, Pipeline
from tools.demo.stage import CHECKOUT, Stage, raised
from tools.servers import free_port, wait_until

WIDTH, HEIGHT = 1200, 730
FOLDER = CHECKOUT / "docs" / "screenshots"
SPARK_MS = 240_000
# By file; {a} and {b} are the first order's publish and the dead letter.
VIEWS = {
    "overview": "#/overview",
    "events": "#/events?a={a}&b={b}&event={b}",
    "conversations": "#/conversations?event={b}",
    "failures": "#/conversations?filter=failures",
    "chain": "#/chain?a={a}&b={b}",
    "space-time": "#/space-time?a={a}&b={b}",
    "topology": "#/topology?a={a}&b={b}",
    "queue": "#/queue?queue=" + NEW_ORDERS,
    "jobs": "#/jobs",
    "admin": "#/admin",
    "learn": "#/learn?report={report}",  # behind the others, because it takes more orders
    "durations": "#/durations?service=orders",
}

# What a view shows once it has its data.
SHOWN = {
    "overview": "in the last 15 minutes",
    "events": "dead-lettered",
    "conversations": "Where the time went",
    "failures": "rejected",
    "chain": "In the order in which they were stamped",
    "space-time": "auditor",
    "topology": "from all ",
    "queue": "Who takes from it",
    "jobs": "demo.jsonl",
    "admin": "auditor (auditor@",
    "learn": "no invoice.sent",
    "durations": "Handling",
}

# What the line below the tabs says that it is about, and else it is of all that was recorded.
PERIODS = {
    "events": "the rows in view",
    "conversations": "this conversation",
    "chain": "between A and B",
    "space-time": "the loaded events",
    "topology": "the period shown",
    "queue": "the newest events",
    "durations": "the period shown",
}


def main() -> None:
    """Take all of them from one run of the demo."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "ITC_PORT": str(free_port())}
    with (
        tempfile.TemporaryDirectory(prefix="itc-screenshots-") as data,
        sync_playwright() as driver,
        raised(Path(data), environment, print) as stage,
    ):
        a, b = _told(stage)
        browser = launch(driver)
        for name, picture in pictures(browser, stage, a, b):
            path = folder / f"{name}.png"
            path.write_bytes(small(picture))
            print(f"{path}: {path.stat().st_size // 1000} kB")
        (folder.parent / "order.png").write_bytes(small(order(browser)))
        browser.close()


def order(browser: Browser) -> bytes:
    """The picture that the page makes of an order that failed, of the trial's 12 services."""
    with tempfile.TemporaryDirectory(prefix="itc-shop-") as data, serving(Path(data)) as shop:
        query = {"correlation_id": f"order-{SOUGHT}"}
        [found] = shop.answer("/itc_db/conversations", **query)["items"]
        page = browser.new_page(color_scheme="light", timezone_id="Etc/UTC")
        page.goto(f"{shop.url}/icon.svg")
        secret = base64.b64encode(b"admin:admin").decode()
        page.evaluate("s => sessionStorage.setItem('itc.authorization', s)", f"Basic {secret}")
        page.goto(f"{shop.url}/#/conversations?event={found['root']}")
        expect(page.get_by_role("treeitem").first).to_be_visible()
        page.get_by_role("button", name="Share").click()
        with page.expect_download() as download:
            page.get_by_role("button", name="PNG").click()
        return Path(download.value.path()).read_bytes()


def _told(stage: Stage) -> tuple[int, int]:
    """Have the demo's story happen and counted; returns the events at its two ends."""
    stage.client.start_trace(stage.vhost)
    wait_until(lambda: stage.client.trace(stage.vhost)["state"] == "running", 60, "the trace")
    with ThreadPoolExecutor(1) as pool:  # Playwright's event loop runs in this thread
        outcome = pool.submit(asyncio.run, _orders(stage)).result(timeout=120)
    stored: list[dict[str, object]] = []

    def all_stored() -> bool:
        stored[:] = stage.client.events_after(stage.vhost, 0)
        return any(event["match"] == "dead_lettered" for event in stored)

    wait_until(all_stored, 60, "the dead letter")
    [dead] = [int(str(event["id"])) for event in stored if event["match"] == "dead_lettered"]
    first = next(
        int(str(event["id"])) for event in stored if event["routing_keys"] == ["order.new"]
    )
    assert outcome.first != outcome.last
    stage.client.make_chain(first, dead, "demo.jsonl")
    return first, dead


async def _orders(stage: Stage) -> Outcome:
    url = stage.broker.amqp_url(stage.vhost)
    async with (
        asyncio.timeout(100),
        Pipeline(stage.url_of, url, stage.run_name, heartbeats=True) as pipeline,
    ):
        return await pipeline.run()


def _learnt(stage: Stage) -> str:
    """Have a thousand orders placed, and learn from them; returns the report's id."""
    began = datetime.now(UTC).isoformat()
    many = ManyOrders(1000, 8, receipts=False, pause=5)
    with ThreadPoolExecutor(1) as pool:
        url = stage.broker.amqp_url(stage.vhost)
        pool.submit(asyncio.run, many.run(url)).result(timeout=120)
    return stage.client.make_report("expectations", stage.vhost, began)


def pictures(browser: Browser, stage: Stage, a: int, b: int) -> Iterator[tuple[str, bytes]]:
    """Each view as the browser's PNG."""
    page = browser.new_page(
        viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light", timezone_id="Etc/UTC"
    )
    page.set_default_timeout(60_000)
    page.goto(stage.client.url)
    page.get_by_label("User name").fill(stage.broker.user)
    page.get_by_label("Password").fill(stage.broker.password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator(".shell")).to_be_visible(timeout=60_000)
    for name, address in VIEWS.items():
        report = _learnt(stage) if name == "learn" else None
        page.goto(f"{stage.client.url}/{address.format(a=a, b=b, report=report)}")
        _settle(page, name)
        yield name, page.screenshot()
    page.context.close()


def _settle(page: Page, name: str) -> None:
    """Wait until the view shows all that it is going to show."""
    if name == "topology":
        page.get_by_role("button", name="Count the last hour").click()
    expect(page.locator("main").get_by_text(SHOWN[name]).first).to_be_visible(timeout=SPARK_MS)
    if "a={a}" in VIEWS[name] and name != "chain":
        expect(page.locator(".pins-relation")).to_contain_text(re.compile("[a-z]"), timeout=60_000)
    if name == "space-time":
        with page.expect_response(re.compile(r"/itc_db\?.*properties")):  # messages' types
            page.get_by_role("button", name="Fit all loaded events").click()
        page.mouse.move(0, 0)
    expect(page.locator(".trust-period")).to_contain_text(
        PERIODS.get(name, "all that was recorded"), timeout=60_000
    )
    expect(page.get_by_role("button", name="Jobs: none running")).to_be_visible(timeout=60_000)
    for waiting in (page.locator(".loading"), page.get_by_text("Loading")):
        expect(waiting).to_have_count(0, timeout=60_000)
    page.evaluate("document.fonts.ready")
    # Two frames later what was asked for last is drawn.
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


# ---- PNG ----------------------------------------------------------------------------------------


def small(png: bytes) -> bytes:
    """The same picture with at most 256 colours: frequent ones, and such as no other is like."""
    drawn = pixels(png)
    height, width, _ = drawn.shape
    colours, where, counts = np.unique(
        drawn.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True
    )
    colours = colours.astype(np.int64)
    taken = [int(np.argmax(counts))]
    off = ((colours - colours[taken[0]]) ** 2).sum(axis=1)  # of each from the nearest that is taken
    nearest = np.zeros(len(colours), dtype=np.uint8)
    while len(taken) < 256 and off.any():
        taken.append(int(np.argmax(off * counts)))
        new = ((colours - colours[taken[-1]]) ** 2).sum(axis=1)
        nearest[new < off] = len(taken) - 1
        off = np.minimum(off, new)
    palette = colours[taken]
    rows = nearest[where.reshape(-1)].reshape(height, width)
    unfiltered = np.hstack([np.zeros((height, 1), np.uint8), rows])  # filter 0 suits a palette
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", palette.astype(np.uint8).tobytes()),
            _chunk(b"IDAT", zlib.compress(unfiltered.tobytes(), 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pixels(png: bytes) -> np.ndarray:
    """Height by width by 3 of an RGB or RGBA picture with eight bits a channel, not interlaced."""
    stream, data, header = io.BytesIO(png[8:]), b"", b""
    while head := stream.read(8):
        length, kind = struct.unpack(">I4s", head)
        body = stream.read(length)
        stream.read(4)
        header = body if kind == b"IHDR" else header
        data += body if kind == b"IDAT" else b""
    width, height, depth, colour, *_ = struct.unpack(">IIBBBBB", header)
    channels = {2: 3, 6: 4}[colour]
    assert depth == 8
    lines = np.frombuffer(zlib.decompress(data), np.uint8).reshape(height, 1 + width * channels)
    rows = np.zeros((height, width * channels), np.uint8)
    above = np.zeros(width * channels, np.uint8)
    for number, line in enumerate(lines):
        above = rows[number] = _unfiltered(int(line[0]), line[1:], above, channels)
    return rows.reshape(height, width, channels)[:, :, :3]


def _unfiltered(kind: int, line: np.ndarray, above: np.ndarray, step: int) -> np.ndarray:
    if kind == 0:
        return line
    if kind == 2:
        return line + above
    if kind == 1:
        return np.cumsum(line.reshape(-1, step), axis=0, dtype=np.uint8).reshape(-1)
    values, before = line.astype(int).tolist(), [*above.astype(int).tolist()]
    for at in range(len(values)):
        left = values[at - step] if at >= step else 0
        corner = before[at - step] if at >= step else 0
        up = before[at]
        values[at] = (
            values[at] + (_paeth(left, up, corner) if kind == 4 else (left + up) // 2)
        ) & 255
    return np.array(values, np.uint8)


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda one: abs(guess - one))


if __name__ == "__main__":
    main()
