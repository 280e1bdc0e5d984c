"""What the dashboard costs: time to the first row, bytes, redraws, memory.

    python -m tests.web.benchmark
    python -m tests.web.benchmark --loads

Prints one table for this machine's headless browser, which draws without a graphics card. A
redraw is timed until its pixels are there, not until the canvas has taken the orders.

A view's load is timed from the request for the page until its first row is drawn: with nothing
cached, and again. Bytes are those of bodies as they come over the line until then. Files are the
page, scripts, styles, font and pictures, compressed; JSON is what the API answered, which is never
compressed. Less than 120 kB of files are to come until the first answer of the API: all until the
first row are counted, which are more.
"""

from __future__ import annotations

import argparse
import base64
import platform
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, sync_playwright

from tests.web.browser import launch
from tests.web.past import Past
from tests.web.service import Served, running
from tests.web.stories import tell_batch

STORED = 100_000
LOADS = 5
PATIENCE_MS = 120_000
FIRST = {
    "events": ("#/events?live=off", "tr.row"),
    "overview": ("#/overview", ".figure"),
    "conversations": ("#/conversations", "tbody tr"),
}
FREE = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
SLOW = FREE | {"latency": 300, "downloadThroughput": 200_000, "uploadThroughput": 200_000}
LINES = {"as it is": FREE, "300 ms, 1.6 Mbit/s": SLOW}
# When an element was first there, and drawn.
SHOWN = """
  new MutationObserver((_, watcher) => {
    if (!document.querySelector("%s")) return;
    watcher.disconnect();
    requestAnimationFrame(() => (window.shownAt = performance.now()));
  }).observe(document, { childList: true, subtree: true });
"""
SIZES = (1_000, 10_000, 100_000, 1_000_000)
PARTICIPANTS = 64
CONVERSATIONS = (100, 1_000)

# Makes a history in the page itself: fetching a million events would measure the service.
REDRAWS = """
async ({ size, participants }) => {
  const { Model, NONE } = await import("/app/spacetime/model.js");
  const { Scene } = await import("/app/spacetime/scene.js");
  const { paint, palette } = await import("/app/spacetime/painter.js");
  let seed = 7;
  const random = () => (seed = (seed * 1103515245 + 12345) % 2147483648) / 2147483648;
  const lamports = new Int32Array(participants + 1);
  const pending = [];
  const time = (i) => new Date(1.75e12 + i * 3).toISOString();
  const next = (i) => {
    const participant = 1 + Math.floor(random() * participants);
    const receives = pending.length && random() < 0.6;
    const cause = receives ? pending.splice(Math.floor(random() * pending.length), 1)[0] : null;
    lamports[participant] = 1 + Math.max(lamports[participant], cause ? cause.lamport : 0);
    const event = { id: i, participant, cause: cause ? cause.id : null, recorded_at: time(i),
      type: receives ? "received" : "published", match: receives ? "routed" : "none",
      lamport: lamports[participant], exchange: "orders", queue: receives ? "q" : null,
      routing_keys: ["k" + (i % 20)] };
    if (!receives) {
      pending.push(event);
      if (pending.length > 500) pending.shift();
    }
    return event;
  };
  const model = new Model();
  for (let i = 1; i <= size; ) {
    const batch = [];
    for (; i <= size && batch.length < 20000; i += 1) batch.push(next(i));
    model.append(batch);
  }
  const scene = new Scene(model);
  scene.view.resize(1300, 760);
  const started = performance.now();
  scene.layOut();
  const layOut = performance.now() - started;
  const canvas = document.createElement("canvas");
  canvas.width = 1300;
  canvas.height = 760;
  const context = canvas.getContext("2d");
  const colours = palette();
  const frames = (count, move) => {
    const times = [];
    for (let n = 0; n < count; n += 1) {
      move(n);
      const from = performance.now();
      paint(context, scene, colours);
      context.getImageData(0, 0, 1, 1);
      times.push(performance.now() - from);
    }
    return times.sort((a, b) => a - b);
  };
  const pan = () => scene.view.pan(0, -137);
  const result = { layOut, redraws: {} };
  scene.view.top = scene.rows.height / 3;
  frames(10, pan);
  result.redraws.near = frames(60, pan);
  scene.light({ selected: Math.floor(size / 3), chainEnds: null });
  scene.reveal(scene.selected, { centre: true });
  result.redraws.lit = frames(60, pan);
  scene.light({ selected: NONE, chainEnds: null });
  scene.view.rowPixels = scene.view.height / (2000 / (size / scene.rows.height));
  scene.view.top = scene.rows.height / 3;
  result.redraws.middle = frames(30, pan);
  scene.view.fit();
  result.redraws.all = frames(20, () => {});
  const from = performance.now();
  scene.light({ selected: Math.floor(size / 3), chainEnds: null });
  result.light = performance.now() - from;
  return result;
}
"""


def signed_in(browser: Browser, server: Served) -> Page:
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(f"{server.url}/icon.svg")
    secret = base64.b64encode(b"admin:admin").decode()
    page.evaluate("s => sessionStorage.setItem('itc.authorization', s)", f"Basic {secret}")
    return page


@contextmanager
def transferred(page: Page) -> Iterator[dict[str, int]]:
    """The bytes of bodies, by address, that come over the network until the block ends."""
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    urls: dict[str, str] = {}
    heads: dict[str, int] = {}
    found: dict[str, int] = {}
    cached: set[str] = set()

    def received(event: dict[str, Any]) -> None:
        urls[event["requestId"]] = event["response"]["url"]
        heads[event["requestId"]] = int(event["response"]["encodedDataLength"])
        if event["response"].get("fromDiskCache") or event["response"].get("fromPrefetchCache"):
            cached.add(event["requestId"])

    def finished(event: dict[str, Any]) -> None:
        number = event["requestId"]
        if number in urls and number not in cached:
            size = int(event["encodedDataLength"]) - heads[number]
            found[urls[number]] = found.get(urls[number], 0) + size

    network.on("Network.requestServedFromCache", lambda event: cached.add(event["requestId"]))
    network.on("Network.responseReceived", received)
    network.on("Network.loadingFinished", finished)
    yield found
    network.detach()


class Load(NamedTuple):
    """Milliseconds until the first row; kB of files and of JSON; answers."""

    shown: float
    files: float
    json: float
    answers: int


def load(page: Page, act: Callable[[], object], selector: str) -> Load:
    page.add_init_script(SHOWN % selector)
    with transferred(page) as found:
        act()
        page.wait_for_function("() => window.shownAt !== undefined")
        milliseconds = page.evaluate("() => window.shownAt")
        of_api = sum(size for url, size in found.items() if is_data(urlsplit(url).path)) / 1000
        return Load(float(milliseconds), sum(found.values()) / 1000 - of_api, of_api, len(found))


def is_data(path: str) -> bool:
    return path.startswith(("/itc_db", "/health"))


def first_rows(browser: Browser, server: Served, view: str, line: str) -> tuple[Load, Load]:
    """A view opened with nothing cached, and loaded again."""
    address, selector = FIRST[view]
    page = signed_in(browser, server)
    network = page.context.new_cdp_session(page)
    network.send("Network.enable")
    network.send("Network.emulateNetworkConditions", LINES[line])
    page.set_default_timeout(PATIENCE_MS)
    opened = load(page, lambda: page.goto(f"{server.url}/{address}"), selector)
    page.wait_for_load_state("load")
    reloaded = load(page, page.reload, selector)
    page.close()
    return opened, reloaded


def redraws(browser: Browser, server: Served, size: int) -> dict[str, Any]:
    page = signed_in(browser, server)
    page.goto(f"{server.url}/#/jobs")
    page.wait_for_selector(".shell")
    result: dict[str, Any] = page.evaluate(REDRAWS, {"size": size, "participants": PARTICIPANTS})
    page.close()
    return result


def heap(browser: Browser, server: Served, size: int) -> float:
    """Megabytes of the page's typed arrays and objects with `size` events laid out."""
    page = signed_in(browser, server)
    page.goto(f"{server.url}/#/jobs")
    page.wait_for_selector(".shell")
    keep = REDRAWS.replace("return result;", "window.kept = scene; return result;")
    page.evaluate(keep, {"size": size, "participants": PARTICIPANTS})
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")
    page.close()
    return float(used["usedSize"] + used.get("backingStorageSize", 0)) / 1e6


SCROLLED = """
async () => {
  const box = document.querySelector(".conv-rows");
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const work = [];
  for (let n = 0; n < 120; n += 1) {
    const from = performance.now();
    box.scrollTop = (n * 211) % (box.scrollHeight - box.clientHeight);
    box.dispatchEvent(new Event("scroll"));
    await new Promise(queueMicrotask); // the page draws in one
    box.lastElementChild.getBoundingClientRect(); // and the browser lays out
    work.push(performance.now() - from);
    await frame();
  }
  return work.sort((a, b) => a - b);
}
"""


def conversation(browser: Browser, messages: int) -> dict[str, Any]:
    """A conversation of so many messages: milliseconds until it is shown, and of frames."""
    world = Past()
    root = tell_batch(world, messages)
    with running(world) as server:
        page = signed_in(browser, server)
        result: dict[str, Any] = {}
        for view in ("waterfall", "sequence"):
            page.goto(f"{server.url}/icon.svg")
            page.goto(f"{server.url}/#/conversations?event={root}&view={view}")
            page.wait_for_selector(".conv-row")
            result[view] = page.evaluate(
                "() => new Promise((done) => requestAnimationFrame(() => done(performance.now())))"
            )
            result[f"{view} frames"] = page.evaluate(SCROLLED)
        page.close()
    return result


def quantiles(times: list[float]) -> str:
    return f"{statistics.median(times):6.1f} {times[int(0.95 * (len(times) - 1))]:6.1f}"


def print_loads(browser: Browser, server: Served) -> None:
    print(f"\nuntil the first row, {STORED:,} events stored, {LOADS} times: ms, median and least;")
    print("kB of files and of JSON; answers")
    print("  view           line                opened                          again")
    for view in FIRST:
        for line in LINES:
            loads = [first_rows(browser, server, view, line) for _ in range(LOADS)]
            cells = "   ".join(said(each) for each in zip(*loads, strict=True))
            print(f"  {view:13}  {line:18} {cells}", flush=True)


def said(loads: Sequence[Load]) -> str:
    ordered = sorted(loads)
    shown, files, json, answers = ordered[len(ordered) // 2]
    return f"{shown:6.0f} {ordered[0].shown:6.0f} {files:6.1f} {json:5.1f} {answers:4}"


def print_drawings(browser: Browser, server: Served) -> None:
    print("\nspace-time diagram, 1300 x 760, milliseconds: median, 95 %")
    print("  events     near           lit            2,000 in view all in view   lay out")
    for size in SIZES:
        result = redraws(browser, server, size)
        cells = "  ".join(
            quantiles(result["redraws"][name]) for name in ("near", "lit", "middle", "all")
        )
        print(f"  {size:9,}  {cells}  {result['layOut']:8.1f}")
    print("\nconversations: milliseconds until shown; work of a frame: median, 95 %")
    print("  messages  waterfall  frames         sequence   frames")
    for messages in CONVERSATIONS:
        told = conversation(browser, messages)
        frames = [quantiles(told[f"{view} frames"]) for view in ("waterfall", "sequence")]
        print(
            f"  {messages:8,}  {told['waterfall']:9.0f}  {frames[0]}"
            f"  {told['sequence']:9.0f}  {frames[1]}"
        )
    print("\nmemory of the page, MB")
    for size in SIZES:
        print(f"  {size:9,}  {heap(browser, server, size):7.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--loads", action="store_true", help="only what loading the page costs")
    options = parser.parse_args()
    world = Past()
    world.start_trace("/", PARTICIPANTS)
    world.grow("/", STORED)
    with sync_playwright() as playwright, running(world) as server:
        browser = launch(playwright, "--enable-precise-memory-info")
        print(f"Chromium {browser.version}, {platform.machine()}, headless, no graphics card")
        print_loads(browser, server)
        if not options.loads:
            print_drawings(browser, server)
        browser.close()


if __name__ == "__main__":
    main()
