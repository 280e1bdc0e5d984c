"""Times in what the service says: in the reader's clock, wherever a sentence is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from tests.web.conftest import OpenPage, change_answers
from tests.web.past import Past, demo_world
from tests.web.service import Served
from tests.web.stories import tell_failures
from tests.web.test_accessibility import VIEWS, settled
from tests.web.test_learn import HELD, judge, made, publishes

# What the service says in words, of any answer.
SAID = {"sentence", "reason", "remark", "why", "waiting_for", "last_error", "error", "note"}
SAID |= {"unwatched", "doubts", "remarks", "stage", "caveats", "failure_sentence"}
THEIRS, OURS = "2026-02-03 04:05:06 UTC", "2026-02-03 13:05:06"
SHOWN = """() => [document.body.innerText, ...window.drawn,
  ...[...document.querySelectorAll("[title], [aria-label]")]
     .flatMap((e) => [e.title, e.getAttribute("aria-label") ?? ""])].join("\\n")"""
NOTE_TEXTS = """
  window.drawn = [];
  for (const Kind of [CanvasRenderingContext2D, OffscreenCanvasRenderingContext2D]) {
    const draw = Kind.prototype.fillText;
    Kind.prototype.fillText = function (text, ...more) {
      window.drawn.push(text);
      return draw.call(this, text, ...more);
    };
  }
"""


def at_a_time(answer: Any, name: str = "") -> Any:
    """An answer whose sentences all speak of a time; a code of one word is none."""
    if isinstance(answer, dict):
        of_clause = {"text": "sentence"} if "about" in answer else {}
        return {key: at_a_time(each, of_clause.get(key, key)) for key, each in answer.items()}
    if isinstance(answer, list):
        return [at_a_time(each, name) for each in answer]
    if isinstance(answer, str) and name in SAID and " " in answer:
        return f"{answer}, at {THEIRS}"
    return answer


def test_no_sentence_of_the_service_shows_another_clock(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(600)
    tell_failures(world, 2)
    server = serve(world)
    server.put("/itc_db/assertions/%2F", HELD)
    first = publishes(server)[0]
    judge(server, "in-time", first, last=first, sentence="it led to nothing")
    reports = {kind: made(server, kind) for kind in ("assertions", "correlations")}
    page = open_page(server, "#/overview", zone="Asia/Tokyo")
    page.add_init_script(NOTE_TEXTS)
    change_answers(page, "**/itc_db/**", at_a_time)
    change_answers(page, "**/health/ready", at_a_time)
    more = {kind: f"#/learn?report={number}" for kind, number in reports.items()}
    wrong, right = [], set()
    for view, address in {**VIEWS, **more}.items():
        page.goto(f"{server.url}/icon.svg")
        page.goto(f"{server.url}/{address}")
        settled(page)
        expect(page.locator(".trust-verdict")).to_be_visible()
        for summary in page.locator("summary").all():
            summary.dispatch_event("click")
        text = page.evaluate(SHOWN)
        wrong += [f"{view}: {line}" for line in text.splitlines() if "04:05:06" in line]
        right |= {view for line in text.splitlines() if OURS in line}
    assert wrong == []
    assert right >= {"overview", "failures", "chain", "space-time", *more}, right


def test_shares_are_of_exact_times_and_come_to_a_hundred(demo: Served, open_page: OpenPage) -> None:
    texts = open_page(demo).evaluate(
        """async () => {
          const { shares } = await import("/app/core/format.js");
          const times = [[0.374, 0.241, 0.229, 0.207], [1, 1, 1], [9.99, 0.01], [0.5, 0], [0]];
          return times.map(shares);
        }"""
    )
    assert texts == [
        ["36 %", "23 %", "22 %", "19 %"],
        ["33 %", "33 %", "34 %"],
        ["100 %", "< 1 %"],
        ["100 %", "0 %"],
        ["100 %"],
    ]


def test_a_duration_is_rounded_before_it_is_divided(demo: Served, open_page: OpenPage) -> None:
    texts = open_page(demo).evaluate(
        """async () => {
          const { seconds } = await import("/app/core/format.js");
          return [9.96, 59.4, 59.6, 75, 119.7, 300, 3599.9, 3660].map(seconds);
        }"""
    )
    assert texts == ["10.0 s", "59 s", "1 min", "1 min 15 s", "2 min", "5 min", "1 h", "1 h 1 min"]
