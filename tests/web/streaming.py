"""What the dashboard does while events stream in: the longest tasks of the page, tab by tab.

    python -m tests.web.streaming

Prints a table for this machine's headless browser, which draws without a graphics card. A task's
time is what its thread computed, so that it does not grow with whatever else the machine does; "by
the clock" says how long it took here and now. A frame's is the time since the one before it.
"""

from __future__ import annotations

import argparse
import json
import platform
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from playwright.sync_api import Browser, sync_playwright

from tests.web.benchmark import signed_in
from tests.web.browser import launch
from tests.web.past import Past
from tests.web.service import Served, running

STORED = 20_000
PARTICIPANTS = 64
TICK = 0.1  # s between two lots of events
SPACE_TIME = ("#/space-time?live=on&vhost=%2F", ".diagram-title > .small")
# The address, what is there then, and what is there once an event is chosen among those that come.
TABS: dict[str, tuple[str, str, str | None]] = {
    "events": ("#/events?vhost=%2F", "tr.row", None),
    "events, one open": ("#/events?vhost=%2F", "tr.row", ".drawer h2"),
    "space-time": (*SPACE_TIME, None),
    "space-time, lit": (*SPACE_TIME, ".diagram .key.past"),
    "overview": ("#/overview", ".figure", None),
}
LONG = 50.0  # ms
FRAMES = """
() => {
  window.frames = [];
  let last = performance.now();
  const frame = (now) => {
    window.frames.push(now - last);
    last = now;
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}
"""


@contextmanager
def streaming(world: Past, rate: int) -> Iterator[None]:
    """Events at this rate a second until the block ends."""
    ended = threading.Event()

    def grow() -> None:
        due = time.monotonic()
        while not ended.is_set():
            world.traces["/"].simulation.now = time.time_ns() // 1000
            world.grow("/", int(rate * TICK))
            due += TICK
            ended.wait(max(0.0, due - time.monotonic()))

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


class Seen(NamedTuple):
    """A page's tasks, computed and by the clock, and the times between its frames: ms, sorted."""

    computed: list[float]
    by_clock: list[float]
    frames: list[float]


def watch(browser: Browser, server: Served, tab: str, seconds: float) -> Seen:
    """What the page does while a tab is shown."""
    address, shown, chosen = TABS[tab]
    page = signed_in(browser, server)
    page.goto(f"{server.url}/{address}")
    page.wait_for_selector(shown)
    if chosen:
        page.evaluate("number => (location.hash += `&event=${number}`)", len(server.world.events))
        page.wait_for_selector(chosen)
    page.wait_for_timeout(1500)  # what opening the page costs is measured elsewhere
    page.evaluate(FRAMES)
    browser.start_tracing(page=page, categories=["toplevel", "__metadata"])
    page.wait_for_timeout(seconds * 1000)
    trace = json.loads(browser.stop_tracing())["traceEvents"]
    frames: list[float] = page.evaluate("() => window.frames")
    page.close()
    return Seen(*tasks_of(trace), sorted(frames))


def tasks_of(trace: list[dict[str, Any]]) -> tuple[list[float], list[float]]:
    """The times of the tasks of the busiest page's main thread, in ms."""
    main = {
        (event["pid"], event["tid"])
        for event in trace
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks: defaultdict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for event in trace:
        thread = event["pid"], event["tid"]
        if event["name"].endswith("RunTask") and event["ph"] == "X" and thread in main:
            tasks[thread].append((event.get("tdur", 0) / 1000, event["dur"] / 1000))
    busiest = max(tasks.values(), key=lambda found: sum(task[0] for task in found))
    computed, by_clock = zip(*busiest, strict=True)
    return sorted(computed), sorted(by_clock)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=500, help="events a second")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long each tab is watched")
    parser.add_argument("--tab", choices=TABS, action="append")
    options = parser.parse_args()
    world = Past()
    world.start_trace("/", PARTICIPANTS)
    world.grow("/", STORED)
    with (
        sync_playwright() as playwright,
        running(world) as server,
        streaming(world, options.rate),
    ):
        browser = launch(playwright)
        print(f"Chromium {browser.version}, {platform.machine()}, headless, no graphics card")
        print(f"\n{options.rate} events a second for {options.seconds:.0f} s a tab, milliseconds")
        print("                    tasks over 50  longest  by the clock   frames: median   95 %")
        for tab in options.tab or TABS:
            computed, by_clock, frames = watch(browser, server, tab, options.seconds)
            long = sum(task > LONG for task in computed)
            late = frames[int(len(frames) * 0.95)]
            print(
                f"  {tab:17} {long:13} {computed[-1]:8.1f} {by_clock[-1]:13.1f}"
                f" {frames[len(frames) // 2]:16.1f} {late:6.1f}",
                flush=True,
            )
        browser.close()


if __name__ == "__main__":
    main()
