"""The heat map of how long messages wait and are handled: by pointer, by keyboard, as a table."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from app.store import Store, migrate
from app.store.watch import durations
from app.tracker import Deliver, Policy, Publish, Record
from app.tracker.links import BUILT_IN, Rules
from app.tracker.records import Channel
from bench.stores import record_all
from model.texts import storable
from model.times import HOUR, MINUTE
from tests.web.conftest import OpenPage, change_answers
from tests.web.history import HOSTILE
from tests.web.orders import Order, history
from tests.web.past import Past, iso
from tests.web.service import Served, running
from tests.web.test_hostile import assert_unharmed
from tests.web.test_trial import count_durations

VHOST = "shop"
ORDERS = 100
APART = 30_000_000  # µs between orders
# A gap, in minutes before now.
GAP = (20, 17)


async def fill(path: Path, now: int) -> None:
    url = f"sqlite:///{path}"
    await migrate(url)
    store = await Store.open(url, clock=lambda: now)
    orders = [Order(number, now - (ORDERS - number) * APART) for number in range(ORDERS)]
    await record_all(store, VHOST, history(orders), Policy.client, Rules(BUILT_IN))
    await store.traces.create("empty", Policy.client)
    await count_durations(store)
    await store.close()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    now = time.time_ns() // 1000
    world = Past()
    world.stored = tmp_path_factory.mktemp("durations") / "itc.db"
    with ThreadPoolExecutor(1) as pool:  # Playwright's event loop runs in this thread
        pool.submit(asyncio.run, fill(world.stored, now)).result()
    for vhost in (VHOST, "empty"):
        world.start_trace(vhost)
    begin, end = (now - each * MINUTE for each in GAP)
    world.traces[VHOST].gaps.append(
        {
            "id": 1,
            "after_event_id": 1,
            "before_event_id": 2,
            "since": iso(begin),
            "until": iso(end),
            "reason": "tracing was off",
            "suspected": False,
            "declared": False,
        }
    )
    with running(world) as server:
        yield server


def test_a_span_is_read_and_opened_by_keyboard_and_the_table_has_the_same(
    shop: Served, open_page: OpenPage
) -> None:
    page = open_page(shop, f"#/durations?vhost={VHOST}&queue=billing")
    handling = page.get_by_role("region", name="Handling")
    drawing = handling.get_by_role("slider")
    drawing.focus()
    since = iso(time.time_ns() // 1000 - HOUR)
    asked = {"vhost": VHOST, "queue": "billing", "since": since}
    found = shop.answer("/itc_db/durations", **asked)["handling"]["spans"]
    handling.get_by_text("as a table").click()
    rows = handling.locator("tbody tr")
    expect(rows).to_have_count(len(found))
    counts = [int(each) for each in rows.locator("td:nth-child(2)").all_inner_texts()]
    assert counts == [each["count"] for each in found]
    drawing.focus()
    newest = drawing.get_attribute("aria-valuetext") or ""
    assert re.fullmatch(r"\d\d:\d\d:00: \d messages?, median .* 9 of 10 within .*\.", newest)
    page.keyboard.press("ArrowLeft")
    expect(drawing).not_to_have_attribute("aria-valuetext", newest)
    before = drawing.get_attribute("aria-valuetext") or ""
    page.keyboard.press("Enter")
    row = page.locator("tr.row").first
    expect(row).to_contain_text(before[:5])  # received in that minute
    expect(row).to_contain_text("billing")


def test_ticks_are_round_each_with_its_unit(shop: Served, open_page: OpenPage) -> None:
    ticks = open_page(shop).evaluate(
        """async () => {
          const { ticksOf } = await import("/app/ui/ticks.js");
          return [[0.018, 5.4, 9], [0.0009, 20, 5], [0.3, 90_000, 9], [0.02, 0.12, 5]].map(
            ([least, most, room]) => ticksOf(least, most, room).map(([, text]) => text).join(", "));
        }"""
    )
    assert ticks == [
        "20 ms, 50 ms, 100 ms, 200 ms, 500 ms, 1 s, 2 s, 5 s",
        "1 ms, 10 ms, 100 ms, 1 s, 10 s",
        "1 s, 10 s, 1 min, 10 min, 1 h, 10 h, 1 day",
        "20 ms, 50 ms, 100 ms",
    ]


def test_a_gap_is_no_time_of_nothing(shop: Served, open_page: OpenPage) -> None:
    page = open_page(shop, f"#/durations?vhost={VHOST}&service=stock")
    drawing = page.get_by_role("region", name="Waiting").get_by_role("slider")
    drawing.focus()
    page.keyboard.press("End")
    said = []
    for _ in range(30):
        said.append(drawing.get_attribute("aria-valuetext") or "")
        page.keyboard.press("ArrowLeft")
        expect(drawing).not_to_have_attribute("aria-valuetext", said[-1])
    unknown = [n for n, each in enumerate(said) if "known" in each]
    assert unknown == [*range(unknown[0], unknown[-1] + 1)]
    assert GAP[0] - GAP[1] <= len(unknown) <= GAP[0] - GAP[1] + 2


def test_who_is_chosen_from_what_is_counted(shop: Served, open_page: OpenPage) -> None:
    page = open_page(shop, f"#/durations?vhost={VHOST}", width=390)
    expect(page.get_by_role("region", name="Became slow")).to_be_visible()
    expect(page.get_by_label("Against")).to_have_count(0)  # that is the last hour's
    page.get_by_label("Queue or participant").select_option("queue:stock")
    expect(page.get_by_role("region", name="Waiting").get_by_role("slider")).to_be_visible()
    page.get_by_role("button", name="Day", exact=True).click()
    page.get_by_label("Against").select_option("week")
    expect(page).to_have_url(re.compile("baseline=week&period=86400&queue=stock"))
    expect(page.get_by_role("region", name="Waiting")).to_contain_text("Nothing is known of")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_label("Virtual host").select_option("empty")
    expect(page.get_by_text("It is not known of any message of this period.").first).to_be_visible()


def test_where_nothing_became_slow_it_says_what_was_looked_at(
    shop: Served, open_page: OpenPage
) -> None:
    page = open_page(shop, "#/durations")
    title = page.locator(".page-title p")
    expect(title).to_contain_text("How long messages of all virtual hosts waited")
    slow = page.get_by_role("region", name="Became slow")
    # All of the record is less than an hour old.
    expect(slow).to_contain_text("no queue or participant had messages in at least 10 minutes of")
    none = {"items": [], "looked_at": 22}
    change_answers(page, "**/itc_db/slow*", lambda answer: answer | none)
    page.reload()
    expect(slow).to_contain_text("of none is the median of waiting or handling, or 9 of 10,")
    compared = slow.get_by_text("22 queues and participants had enough messages to compare.")
    expect(compared).to_have_attribute("title", re.compile("^A false alarm comes at most once in"))
    page.get_by_label("Queue or participant").select_option("service:stock")
    expect(title).to_contain_text(f"How long messages of {VHOST} waited")


def test_two_times_before_a_change_each_name_their_span(shop: Served, open_page: OpenPage) -> None:
    page = open_page(shop, "#/overview")

    def slower(answer: dict[str, Any]) -> dict[str, Any]:
        change = {"quantile": "median", "before": 0.205, "after": 4.1, "chance": 0.0001}
        spans = {"count": 90, "median": 0.168, "p90": 0.373, "spans": 60}
        since = {"since": answer["waiting"]["spans"][-5]["at"]}
        return answer | {
            "waiting": answer["waiting"] | {"change": change | since, "baseline": spans}
        }

    change_answers(page, "**/itc_db/durations*", slower)
    page.goto(f"{shop.url}/#/durations?vhost={VHOST}&queue=stock&baseline=day")
    verdict = page.locator(".verdict")
    told = r"Queue stock has been slow since [\d:]+: waiting takes 4\.1 s, about 20 times as long"
    expect(verdict).to_have_text(re.compile(told + r" as before \(205 ms\)\.$"))
    until = r"^median from [-\d: ]+ to [-\d: ]+, the day before included; a false alarm at most"
    expect(verdict).to_have_attribute("title", re.compile(until))
    expect(page.get_by_text("false alarm")).to_have_count(0)
    whole = re.compile(r"^This is the median; before is .*, and the day before\.$")
    expect(page.get_by_text(whole)).to_be_visible()
    expect(page.get_by_text("See who takes from queue stock.")).to_be_visible()
    waiting = page.get_by_role("region", name="Waiting")
    alone = re.compile(r"In the day before, [-\d: ]+ to [-\d: ]+, the median was 168 ms")
    expect(waiting).to_contain_text(alone)


def test_what_became_slow_most_or_the_only_service_is_chosen_at_first(
    shop: Served, open_page: OpenPage
) -> None:
    page = open_page(shop, f"#/durations?vhost={VHOST}")
    choice = page.get_by_label("Queue or participant")
    expect(choice).to_have_value("")  # of many, none slow
    expect(page.get_by_role("slider")).to_have_count(0)
    change = {"quantile": "median", "before": 0.2, "after": 0.5, "chance": 0.0001}
    change |= {"since": iso(time.time_ns() // 1000)}
    slow = {"vhost": VHOST, "queue": None, "measured": "handling", "change": change}
    items = [slow | {"service": "stock"}, slow | {"service": "fraud", "measured": "waiting"}]
    change_answers(page, "**/itc_db/slow*", lambda answer: answer | {"items": items})
    page.reload()
    expect(choice).to_have_value("service:stock")
    expect(page.get_by_role("slider")).to_have_count(2)
    rows = page.get_by_role("region", name="Became slow").locator("tbody tr")
    expect(rows).to_have_count(2)  # the other is offered
    page.unroute_all()
    change_answers(page, "**/itc_db/durations*", lambda answer: answer | {"services": ["fraud"]})
    page.reload()
    expect(choice).to_have_value("service:fraud")
    expect(page.get_by_role("slider")).to_have_count(2)


async def fill_hostile(path: Path, now: int) -> None:
    """Store deliveries from queues and to services of hostile names, more than there are places."""
    url = f"sqlite:///{path}"
    await migrate(url)
    store = await Store.open(url, clock=lambda: now)
    records: list[tuple[int, Record]] = []
    for number, name in enumerate(HOSTILE * 3):
        place, at = Channel("rabbit@one", f"{name}:1 -> b", 1, name), now - MINUTE + number
        records.append((at, Publish(place, "", (name,), (name,), {}, b"%d" % number)))
        records.append((at, Deliver(place, "", (name,), name, False, {}, b"%d" % number)))
    await record_all(store, VHOST, records, Policy.channel, None)
    await count_durations(store)
    await store.close()


def test_hostile_names_are_text_and_those_without_a_place_are_said(
    tmp_path: Path, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durations, "MOST_OWNERS", 4)
    world = Past()
    world.stored = tmp_path / "itc.db"
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, fill_hostile(world.stored, time.time_ns() // 1000)).result()
    world.start_trace(VHOST)
    with running(world) as server:
        for name in HOSTILE:
            queue = quote(storable(name), safe="")
            page = open_page(server, f"#/durations?vhost={VHOST}&queue={queue}")
            expect(page.get_by_label("Queue or participant")).to_contain_text("and others, with")
            expect(page.locator(".loading")).to_have_count(0)
            assert_unharmed(page)
        expect(page.get_by_text("counted with others")).to_be_visible()


def test_waiting_and_handling_have_the_colours_of_the_waterfall(
    shop: Served, open_page: OpenPage
) -> None:
    page = open_page(shop, f"#/durations?vhost={VHOST}&service=stock", theme="light")
    more_green = """canvas => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const coloured = (n) => Math.abs(data[4 * n + 1] - data[4 * n]) > 20; // text is not
      const full = [...Array(data.length / 4).keys()].filter((n) => data[4 * n + 3] > 200);
      return full.filter(coloured).reduce((sum, n) => sum + data[4 * n + 1] - data[4 * n], 0);
    }"""
    for title, is_teal in (("Waiting", True), ("Handling", False)):
        canvas = page.get_by_role("region", name=title, exact=True).locator("canvas")
        expect(canvas).to_be_visible()
        assert (canvas.evaluate(more_green) > 0) is is_teal


def test_who_publishes_to_a_queue_is_as_its_messages_were_routed(
    shop: Served, open_page: OpenPage
) -> None:
    """Of one exchange that all publish to; the map leads to the queue."""
    page = open_page(shop, f"#/topology?vhost={VHOST}&newest=5000")
    table = page.get_by_role("group", name="Publishers to queues")
    link = page.get_by_role("link", name="billing", exact=True)
    billing = table.get_by_role("row").filter(has=link)
    expect(billing).to_have_count(1)
    expect(billing.get_by_role("cell").first).to_have_text("fraud")
    billing.get_by_role("link", name="billing", exact=True).click()
    expect(page.get_by_role("heading", name="billing", exact=True)).to_be_visible()
    for label, who in (("Who publishes to it", "fraud"), ("Who takes from it", "billing")):
        rows = page.get_by_role("group", name=label).get_by_role("row")
        expect(rows).to_have_count(2)
        expect(rows.nth(1).get_by_role("cell").first).to_contain_text(who)
        expect(rows.nth(1).get_by_role("cell").nth(2)).to_have_text(str(ORDERS))
    times = page.get_by_role("group", name="How long its messages take").get_by_role("row")
    expect(times).to_have_count(3)
    newest = page.get_by_role("group", name="Newest messages").get_by_role("row")
    expect(newest).to_have_count(11)
    failed = page.get_by_role("group", name="What failed in it").get_by_role("row")
    expect(failed.nth(1)).to_contain_text("rejected")


def test_a_queue_is_found_by_its_name(shop: Served, open_page: OpenPage) -> None:
    page = open_page(shop, f"#/overview?vhost={VHOST}")
    box = page.get_by_role("textbox", name="What happened to")
    box.fill("queue:dead")
    box.press("Enter")
    expect(page.get_by_role("heading", name="dead", exact=True)).to_be_visible()
    rows = page.get_by_role("group", name="Who publishes to it").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("fraud")  # of what billing rejected
    expect(rows.nth(1).get_by_role("cell").nth(3)).not_to_have_text("0")


def test_the_axis_ends_now_and_a_key_says_how_many_are_how_dark(
    shop: Served, open_page: OpenPage
) -> None:
    page = open_page(shop, f"#/durations?vhost={VHOST}&service=stock")
    key = page.get_by_role("region", name="Handling").locator(".heat-key")
    expect(key).to_have_text(re.compile(r"^1\d+ deliver(y|ies)$"))
    past, ahead = page.evaluate(
        """async () => {
          const { axisOf } = await import("/app/durations/heat-map.js");
          const axis = (seconds) => axisOf({
            since: new Date(Date.now() - 600_000).toISOString(),
            until: new Date(Date.now() + 1000 * seconds).toISOString(),
            seconds: 60,
          });
          return [-60, 30].map((seconds) => (axis(seconds).to - Date.now()) / 1000);
        }"""
    )
    assert past == pytest.approx(-60, abs=1)
    assert ahead == pytest.approx(0, abs=1)


def test_an_axis_of_any_period_has_some_round_times(shop: Served, open_page: OpenPage) -> None:
    times = open_page(shop).evaluate(
        """async () => {
          const { paintTimes } = await import("/app/ui/plot.js");
          return [[3600, 1250], [3600, 270], [86_400, 270], [604_800, 1250]].map(
            ([length, pixels]) => {
              const texts = [];
              const context = { fillText: (text) => texts.push(text) };
              const x = (at) => (pixels * at) / length;
              paintTimes(context, x, { from: 0, length, y: 0, ends: [75, 44], apart: 70 });
              return texts;
            });
        }"""
    )
    assert [len(some) for some in times if not 2 <= len(some) < 20] == [], times
    assert all(len(text) == 5 for some in times for text in some)
