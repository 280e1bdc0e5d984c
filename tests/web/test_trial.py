"""Questions of a working day: twelve, and three on orders that were retried, stuck and slow.

Each is answered in at most three actions, the last in four.

24,000 events of twelve services in six virtual hosts. An action is a click, a choice, or a typed
text with Enter; by keyboard it is a key pressed on what Tab leads to. Each question begins at the
overview, but those about one order follow each other.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Locator, Page, Request, expect
from sqlalchemy.ext.asyncio import AsyncConnection

from app.store import Store, migrate
from app.store.database import tables
from app.stored.proposals import TraceCoverage, proposals_in
from app.tracker import Policy
from app.tracker.links import BUILT_IN, Rules
from bench.stores import record_several
from tests.web.conftest import OpenPage, change_answers
from tests.web.orders import SAID_BY, SERVICES, TO, WAIT, WORK, Order, history
from tests.web.past import Past, micros
from tests.web.service import Served, running
from tests.web.test_accessibility import violations
from tests.web.test_learn import judge

SHOP, SLOW, NAMELESS = "shop", "outlet", "staging"
VHOSTS = (SHOP, "shop-eu", "shop-us", SLOW, "wholesale", NAMELESS)
NOT_TRACED = "lab"
PAID = b"- {name: paid, every: OrderPlaced, leads_to: PaymentTaken, within: 5s}"
EVENTS = 24_000
EVENTS_EACH = 18  # about; of an order
EACH = EVENTS // len(VHOSTS) // EVENTS_EACH
APART = 700_000  # µs between orders
FAR_APART = 20_000_000  # of those that become slow
SLOW_SINCE = 10 * 60 * 1_000_000  # µs ago
FIRST, SOUGHT = 1001, 1126  # which fails
RETRIED, STUCK = SOUGHT + 1, FIRST + EACH - 1  # the last one, so that nothing overtakes it
RULE = {"name": "found-payload-order", "kind": "conversation", "child": "$message.payload#/order"}
MOST_TABS = 120


def orders() -> dict[str, list[Order]]:
    """Of each virtual host; the last ones are of now."""
    now = time.time_ns() // 1000
    numbers = itertools.count(FIRST)
    placed = {}
    for vhost in VHOSTS:
        apart = FAR_APART if vhost == SLOW else APART
        times = [now - (EACH - place) * apart - 5_000_000 for place in range(EACH)]
        placed[vhost] = [
            Order(
                number,
                at,
                named=vhost != NAMELESS,
                slow="stock" if vhost == SLOW and at > now - SLOW_SINCE else None,
                retried="stock" if number == RETRIED else None,
                stuck="billing" if number == STUCK else None,
            )
            for at, number in zip(times, numbers, strict=False)
        ]
    return placed


async def fill(path: Path) -> None:
    url = f"sqlite:///{path}"
    await migrate(url)
    placed = orders()
    begin = min(order.at for each in placed.values() for order in each)
    store = await Store.open(url, clock=lambda: begin)
    histories = {vhost: history(each) for vhost, each in placed.items()}
    await record_several(store, histories, Policy.client, Rules(BUILT_IN))
    await store.close()


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    """The service of the shop, with an assertion that did not hold."""
    world = Past()
    world.stored = folder / "itc.db"
    with ThreadPoolExecutor(1) as pool:  # Playwright's event loop runs in this thread
        pool.submit(asyncio.run, fill(world.stored)).result()
    for vhost in VHOSTS:
        world.start_trace(vhost).policy = "client"
    world.vhosts = [*VHOSTS, NOT_TRACED]
    with running(world) as server:
        server.put(
            f"/itc_db/assertions/{SHOP}",
            PAID,
        )
        found = server.answer("/itc_db/conversations", correlation_id=f"order-{SOUGHT}")
        root, at = found["items"][0]["root"], micros(found["items"][0]["began_at"])
        server.done(count_durations(server.parts.store))
        judge(server, "paid", root, last=root, sentence="no PaymentTaken within 5s", at=at)
        yield server


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("trial")) as server:
        yield server


async def count_durations(store: Store) -> None:
    """As the service does beside capture."""
    while places := await store.durations.behind([]):
        for each in places:
            await store.durations.count(await store.durations.next(each, 5_000))


def begin_anew(server: Served) -> None:
    """What somebody started and adopted is taken back, and proposed again."""
    server.world.traces.pop(NOT_TRACED, None)
    # What is stored of a trace has a status, too.
    server.done(server.parts.store._database.write(_forget))
    with httpx2.Client(base_url=server.url, auth=("admin", "admin"), timeout=60) as client:
        client.delete(f"/itc_db/links/{NAMELESS}/{RULE['name']}")
    propose(server)


async def _forget(connection: AsyncConnection) -> None:
    of_vhost = tables.traces.c.vhost == NOT_TRACED
    await connection.execute(tables.traces.delete().where(of_vhost))


def propose(server: Served) -> None:
    """As the search for rules would, once it has looked at the virtual host."""
    trace = server.done(server.parts.store.traces.find(NAMELESS))
    newest = server.answer("/itc_db", vhost=NAMELESS, type="published", page_size="1")[0]["id"]
    found = {
        "kind": "conversation",
        "rules": [RULE],
        "publishes": 1_700,
        "ambiguity": 1.0,
        "chance": 0.0,
        "agreement": None,
        "linked": 0,
        "examples": [{"publish": newest, "delivery": newest - 1, "value": "order-5"}],
    }
    seen = TraceCoverage(trace.id, NAMELESS, 2_000, 1_800, 0, 3)
    proposals = proposals_in({"reactions": 1_800, "proposals": [found]})
    server.done(server.parts.store.proposals.put(seen, proposals))


@dataclass
class Hand:
    """Acts on the page by mouse or by keyboard, and counts."""

    page: Page
    url: str
    by_keyboard: bool = False
    actions: int = 0
    answers: dict[str, int] = field(default_factory=dict)

    def begin(self, address: str = "#/overview") -> None:
        self.page.goto(f"{self.url}/icon.svg")
        self.page.goto(f"{self.url}/{address}")
        expect(self.page.locator(".trust-verdict")).to_be_visible()

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

    def choose(self, target: Locator, option: str) -> None:
        self.actions += 1
        target.select_option(option)

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
        self.answers[question] = self.actions
        self.actions = 0


def tab(page: Page, name: str) -> Locator:
    return page.get_by_role("navigation").get_by_role("link", name=name, exact=True)


def message(page: Page, kind: str) -> Locator:
    return page.get_by_role("treeitem", name=re.compile(f"^{kind} from "))


def find(hand: Hand, number: int) -> None:
    """Open an order from the overview."""
    page = hand.page
    hand.begin()
    hand.type(page.get_by_role("textbox", name="What happened to"), f"order-{number}")
    expect(page.get_by_role("heading", name=f"order-{number}")).to_be_visible()


def ask_of_an_order(hand: Hand) -> None:
    page = hand.page
    find(hand, SOUGHT)
    expect(message(page, "OrderPlaced")).to_be_visible()
    hand.answered("what happened to the order?")
    time = r"\d\d:\d\d:\d\d\.\d{3}"
    failed = rf"rejected by billing in queue billing between {time} and {time}$"
    expect(page.locator(".conv-verdict > span")).to_have_text(re.compile(failed))
    expect(page.get_by_role("region", name="What to do")).to_contain_text("the log of billing")
    hand.answered("why, and who?")
    times = page.get_by_role("region", name="Where the time went")
    part = times.get_by_role("listitem").first
    if not part.is_visible():  # folded on a phone, where the drawing comes first
        hand.press(times.locator("summary"))
    expect(part).to_contain_text(re.compile(r"\d+ (ms|s)"))
    hand.answered("where did the time go?")
    touched = page.get_by_role("region", name="What it touched")
    expect(touched.locator(".tone-caused").filter(has_text="billing")).to_be_visible()
    expect(touched.locator(".tone-cannot_have").first).to_be_visible()
    hand.answered("what did it touch, and cannot have touched?")
    hand.press(page.locator(".conv-head").get_by_role("button", name="Share"))
    sheet = page.get_by_role("group", name="Share")
    hand.press(sheet.get_by_role("button", name="Link"))
    expect(page.get_by_text("Copied.", exact=True)).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    hand.press(sheet.get_by_role("button", name="Picture"))
    expect(page.get_by_text("The picture is copied.")).to_be_visible()
    kinds = page.evaluate("navigator.clipboard.read().then(([one]) => one.types)")
    assert kinds == ["image/png"]
    hand.answered("a picture and a link for a colleague")


def ask_of_a_retried_order(hand: Hand) -> None:
    page = hand.page
    find(hand, RETRIED)
    state = page.locator(".conv-state")
    expect(state).to_contain_text("retried, finished")
    expect(page.locator(".conv-verdict")).to_contain_text("redelivered once")
    again = page.get_by_role("region", name="What was tried again")
    expect(again).to_contain_text(re.compile(r"OrderAccepted was back from stock after \d+ ms"))
    hand.press(state.locator("summary"))
    expect(state).to_contain_text("Redelivered once.")
    hand.answered("did the retried order finish?")


AGES = """() => [".conv-verdict > span", ".conv-part strong", ".conv-bars text"].map((place) =>
  [...document.querySelectorAll(place)].at(-1).textContent)"""


def ask_of_a_stuck_order(hand: Hand) -> None:
    page = hand.page
    find(hand, STUCK)
    head = page.locator(".conv-head")
    expect(head.locator(".conv-state summary")).to_have_text("waiting")
    place = (
        r"OrderChecked waits in queue billing; nobody took it for (\d+ (?:s|min).*), since \d\d:"
    )
    expect(head).to_contain_text(re.compile(place))
    waits = page.get_by_role("region", name="What to do")
    check = r"Check that billing runs: it has taken nothing from queue billing since [\d:]+\."
    expect(waits).to_contain_text(re.compile(check))
    doubt = page.get_by_text("it was dropped, or expired by its queue's own time")
    expect(doubt).to_have_count(1)
    expect(page.locator(".conv-detail")).to_contain_text(
        re.compile(r"waits in billing since \d\d:")
    )
    goes = page.get_by_role("region", name="Where the time goes")
    expect(goes).to_contain_text("handling by fraud, until it published")  # on the way there
    expect(goes).not_to_contain_text("stock")
    ages = page.evaluate(AGES)  # of one moment, though it goes on
    assert re.search(place, ages[0])[1] == ages[1] == ages[2].split(" waiting")[0]
    expect(page.locator(".conv-axis-time")).to_contain_text("\N{HORIZONTAL ELLIPSIS} now")
    hand.press(waits.get_by_role("link", name="billing"))
    named = f"1 message waits: OrderChecked of order-{STUCK}, for"
    expect(page.locator(".verdict").first).to_contain_text(named)
    expect(page.get_by_text(re.compile(check))).to_be_visible()
    times = page.get_by_role("region", name="How long its messages take")
    expect(times).to_contain_text("1 wait goes on and is not counted")
    takes = page.get_by_role("region", name="Who takes from it")
    expect(takes.get_by_role("link", name="billing")).to_be_visible()
    hand.answered("where is the stuck order, since when, and who should take it?")


def ask_of_a_slow_order(hand: Hand) -> None:
    page = hand.page
    find(hand, FIRST + (VHOSTS.index(SLOW) + 1) * EACH - 1)
    slow = page.get_by_role("region", name="Longer than usual")
    usual = r"4\.\d s handling by stock, usually \d+ ms, since \d\d:\d\d:00"
    expect(slow).to_contain_text(re.compile(usual))
    verdict = page.locator(".conv-verdict")
    expect(verdict).to_contain_text(", slower than usual")
    hand.answered("what of the slow order took longer than usual?")


def ask_which_came_first(hand: Hand) -> None:
    page = hand.page
    priced, reserved = message(page, "OrderPriced"), message(page, "StockReserved")
    hand.press(priced)
    hand.press(page.locator(".drawer").get_by_role("button", name="Pin as A"))
    hand.press(reserved)
    said = page.get_by_role("region", name="Pinned events")
    expect(said).to_contain_text(re.compile("(happened|caused|result of|part in|concurrent)"))
    hand.answered("which of two came first?")


def ask_whether_it_is_complete(hand: Hand) -> None:
    hand.begin()
    expect(hand.page.get_by_role("region", name="What is known")).to_contain_text("complete")
    hand.answered("is the record complete now?")


def ask_since_when_it_is_slow(hand: Hand) -> None:
    page = hand.page
    hand.begin()
    slow = page.get_by_role("region", name="Became slow")
    rows = slow.locator("tbody tr")
    expect(rows.first).to_be_visible()
    assert {each.locator(".name .value").first.inner_text() for each in rows.all()} == {"stock"}
    expect(rows.first).to_contain_text(re.compile(r"\d+ ms → \d\.\d s.*\d\d:\d\d:00"))
    expect(rows.first).to_contain_text("stock queue and participant")  # slow once
    handled = page.locator(".figures.now .figure").filter(has_text="Slow")
    assert handled.locator("dd").first.inner_text() == str(rows.count())
    hand.press(rows.first.get_by_role("link", name="→"))
    handling = page.get_by_role("region", name="Handling")
    verdict = r"stock has been slow since [\d:]+: handling takes \d\.\d s, about \d+ times"
    expect(page.locator(".verdict")).to_contain_text(re.compile(verdict))
    hand.press(handling.get_by_role("slider"))
    expect(page.locator("tr.row").first).to_contain_text("stock")
    hand.answered("slow since ten minutes: who?")


def ask_for_a_trace_with_fewer_bodies(hand: Hand) -> None:
    page = hand.page
    hand.begin()
    asked: list[Request] = []
    page.on("request", lambda request: asked.append(request) if request.method == "PUT" else None)
    hand.press(page.get_by_role("button", name=f"Start the trace of {NOT_TRACED}"))
    sheet = page.get_by_role("dialog", name=f"Start the trace of {NOT_TRACED}")
    expect(sheet).to_contain_text("one more message for each publish and each delivery")
    bodies = sheet.get_by_label("read them for links")
    hand.press(bodies)
    hand.press(sheet.get_by_role("button", name="Start the trace"))
    expect(page.get_by_role("button", name=f"Stop the trace of {NOT_TRACED}")).to_be_visible()
    assert json.loads(asked[0].post_data or "")["bodies"] is False
    hand.answered("start another trace, without bodies")


def ask_for_a_rule(hand: Hand) -> None:
    hand.begin()
    line = hand.page.locator(".proposal-line")
    expect(line).to_contain_text("order in the body ties messages together")
    hand.press(line.get_by_role("button", name="Join messages by"))
    expect(line).to_contain_text("Joined")
    hand.answered("find a rule and adopt it")


def ask_what_was_violated(hand: Hand) -> None:
    page = hand.page
    hand.begin()
    hand.press(tab(page, "Conversations"))
    hand.press(page.get_by_role("navigation").get_by_role("link", name="Rules"))
    hand.press(page.get_by_role("button", name="Assertions"))
    violation = page.get_by_role("group", name="Violations").locator("tbody tr")
    expect(violation).to_contain_text("No PaymentTaken within 5s.")
    hand.answered("was an assertion violated?")


def ask_for_the_chain_as_a_file(hand: Hand) -> None:
    page = hand.page
    hand.begin()
    traces = page.get_by_role("group", name="Traces")
    hand.press(
        traces.locator("tr")
        .filter(has=page.get_by_role("link", name=SHOP, exact=True))
        .locator("a[href*='#/events']")
    )
    rows = page.locator("tr.row")
    expect(rows.nth(12)).to_be_attached()
    hand.press(rows.nth(12).get_by_role("button", name="as A"))
    hand.press(rows.nth(2).get_by_role("button", name="as B"))
    with page.expect_download() as download:
        hand.press(
            page.get_by_role("region", name="Pinned events").get_by_role(
                "button", name="Save the chain"
            )
        )
    ids = [json.loads(line)["id"] for line in Path(download.value.path()).read_text().splitlines()]
    assert ids == sorted(ids)
    assert len(ids) >= 2
    hand.answered("from a virtual host over its events to the chain between two as a file")


QUESTIONS: tuple[Callable[[Hand], None], ...] = (
    ask_of_an_order,
    ask_which_came_first,
    ask_of_a_retried_order,
    ask_of_a_stuck_order,
    ask_of_a_slow_order,
    ask_whether_it_is_complete,
    ask_since_when_it_is_slow,
    ask_for_a_trace_with_fewer_bodies,
    ask_for_a_rule,
    ask_what_was_violated,
    ask_for_the_chain_as_a_file,
)


@pytest.mark.parametrize(
    ("width", "theme"),
    [(1440, "light"), (390, "dark")],
)
def test_each_question_takes_few_actions(
    shop: Served, open_page: OpenPage, width: int, theme: str
) -> None:
    begin_anew(shop)
    page = open_page(shop, width=width, theme=theme)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    hand = Hand(page, shop.url)
    for question in QUESTIONS:
        question(hand)
    assert len(hand.answers) == 12 + 3
    *others, last = hand.answers.values()
    assert max(others) <= 3, hand.answers
    assert last <= 4, hand.answers


def test_a_phone_has_two_lines_a_row_and_the_key_of_an_event_leads_to_its_order(
    shop: Served, open_page: OpenPage
) -> None:
    page = open_page(shop, f"#/conversations?vhost={SHOP}", width=390)
    table = page.get_by_role("group", name="Conversations, failed and waiting first")
    row = table.locator("tbody tr").first
    assert (row.bounding_box() or {"y": 999})["y"] < 400
    for part in (f"order-{STUCK}", "waiting", "OrderChecked waits in billing"):
        expect(row.get_by_text(part, exact=True)).to_be_in_viewport(ratio=1)
    died = table.locator("tbody tr").filter(has_text="failed").first.locator(".at-second")
    expect(died).to_have_text("OrderChecked rejected by billing in queue billing")
    page.goto(f"{shop.url}/#/overview")
    waits = page.get_by_role("group", name="Waiting for longest").locator("tbody tr").first
    expect(waits.locator(".at-second")).to_have_text("OrderChecked")
    expect(waits.locator(".at-end")).to_contain_text(SHOP)
    page.goto(f"{shop.url}/#/events?vhost={SHOP}")
    expect(page.get_by_text(re.compile(r"^last event \d+ (s|min)"))).to_be_visible()
    row = page.locator("tr.row").first
    assert (row.bounding_box() or {})["height"] < 60
    row.get_by_role("link", name=f"order-{STUCK}").click()
    expect(page.get_by_role("heading", name=f"order-{STUCK}")).to_be_visible()


def test_words_on_a_bar_keep_clear_of_the_cross_at_its_begin(
    shop: Served, open_page: OpenPage
) -> None:
    [sought] = shop.answer("/itc_db/conversations", correlation_id=f"order-{SOUGHT}")["items"]
    page = open_page(shop, f"#/conversations?event={sought['root']}")
    row = page.get_by_role("treeitem").filter(has=page.locator("path.halo"))
    word = row.locator("text").filter(has_text=re.compile("^auditor")).bounding_box()
    cross = row.locator("path.halo").bounding_box()
    assert word
    assert cross
    assert word["x"] >= cross["x"] + cross["width"]


def test_the_map_tells_in_its_panel_what_waits_and_a_phone_shows_both(
    shop: Served, open_page: OpenPage
) -> None:
    [one] = shop.answer("/itc_db/conversations", correlation_id=f"order-{STUCK}")["items"]
    page = open_page(shop, f"#/space-time?vhost={SHOP}&event={one['root']}", width=390)
    panel = page.locator(".drawer")
    waits = r"waiting: OrderChecked waits in queue billing; nobody took it for \d+ "
    expect(panel.locator(".drawer-lead")).to_contain_text(re.compile(waits))
    canvas = page.locator(".diagram-canvas")
    expect(canvas).to_be_in_viewport(ratio=1)
    above, below = canvas.bounding_box(), panel.bounding_box()
    assert above
    assert below
    assert above["height"] > 100
    assert above["y"] + above["height"] <= below["y"] + 1
    expect(page.locator(".diagram-legend")).not_to_be_visible()
    page.get_by_role("button", name="Close the event").click()
    expect(page.locator(".diagram-legend")).not_to_contain_text(
        re.compile("past|future|concurrent")
    )
    expect(page.get_by_label("Group by")).not_to_be_visible()
    page.get_by_role("button", name="More").click()
    expect(page.get_by_label("Group by")).to_be_visible()


def test_settings_count_what_came_back_and_what_died(shop: Served, open_page: OpenPage) -> None:
    page = open_page(shop, "#/admin")
    recorded = page.get_by_role("group", name="What is recorded").locator("tbody tr")
    expect(recorded.filter(has_text=SHOP).first).to_contain_text("all messageskept")
    page.get_by_text("Costs, and how long events are kept").click()
    expect(page.get_by_text("one participant is a program at one address")).to_be_visible()
    expect(page.locator("main")).not_to_contain_text("Lamport")
    page.get_by_text("Advanced: counters and clocks").click()
    expect(page.get_by_role("columnheader", name="Lamport")).to_be_visible()
    counters = page.get_by_role("group", name="Counters of the traces")
    row = counters.locator("tbody tr").filter(has_text=SHOP)
    died = sum(one.fails for one in orders()[SHOP])
    expect(row.first.locator(".number")).to_have_text(["0", "1", str(died), "0", "1"])


def test_the_map_says_what_failed_and_what_waits_without_a_click(
    shop: Served, open_page: OpenPage
) -> None:
    page = open_page(shop, f"#/topology?vhost={SHOP}")
    billing = page.locator("a.flow-node.queues").filter(has_text="billing")
    expect(billing).to_contain_text(re.compile(r"✕ \d+ failed"))
    expect(billing).to_contain_text(re.compile(r"◷\s1 waiting \d+\s(s|min)"))
    others = page.locator("a.flow-node.queues").filter(has_text="waiting")
    expect(others).to_have_count(1)
    failed = re.findall(r"✕ (\d+) failed", billing.inner_text())
    lines = page.locator(".flow-label b").filter(has_text="failed")
    expect(lines).to_have_text([f"✕ {number} failed" for number in failed])
    expect(page.locator(".flow-links path[class*='failures-3']")).to_have_count(1)


def test_failed_and_waiting_orders_come_first_unless_the_newest_are_asked_for(
    shop: Served, open_page: OpenPage
) -> None:
    page = open_page(shop, f"#/conversations?vhost={SHOP}")
    table = page.get_by_role("group", name="Conversations, failed and waiting first")
    expect(table.locator("tbody tr").first).to_be_visible()
    states = table.locator("tbody tr td:nth-child(2) .badge").all_inner_texts()
    first = [one for one in states if one in ("failed", "waiting")]
    assert len(first) > 2
    assert states[: len(first)] == first
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Sort").select_option("newest")
    newest = page.get_by_role("group", name="Conversations, newest first")
    keys = newest.locator("tbody tr td:first-child")
    expect(keys.nth(1)).to_have_text(f"order-{STUCK - 1}")
    assert keys.all_inner_texts() == [f"order-{STUCK - n}" for n in range(len(states))]


def test_an_order_that_waits_is_listed_behind_any_number_of_newer_ones(
    shop: Served, open_page: OpenPage
) -> None:
    [stuck] = shop.answer("/itc_db/conversations", vhost=SHOP, state="waiting")["items"]
    page = open_page(shop, "#/jobs")

    def without(answer: dict[str, Any]) -> dict[str, Any]:
        found = [one for one in answer["items"] if one["state"] != "waiting"]
        return answer | {"items": found or [stuck], "truncated": bool(found)}

    change_answers(page, "**/itc_db/conversations?*", without)
    page.evaluate(f"location.hash = '#/conversations?vhost={SHOP}'")
    table = page.get_by_role("group", name="Conversations, failed and waiting first")
    row = table.locator("tbody tr").filter(has_text=f"order-{STUCK}")
    expect(row).to_contain_text("waiting")
    page.goto(f"{shop.url}/#/queue?vhost={SHOP}&queue=billing")
    expect(page.get_by_role("link", name=f"OrderChecked of order-{STUCK}")).to_be_visible()
    change_answers(page, "**/itc_db/conversations/*", lambda answer: answer | {"keys": ["A-17"]})
    page.reload()
    expect(page.get_by_role("link", name="OrderChecked of A-17")).to_be_visible()


@pytest.mark.parametrize("number", [SOUGHT, STUCK])
def test_the_lane_that_waits_or_rejected_is_the_first_and_messages_have_names(
    shop: Served, open_page: OpenPage, number: int
) -> None:
    [one] = shop.answer("/itc_db/conversations", correlation_id=f"order-{number}")["items"]
    page = open_page(shop, f"#/space-time?conversation={one['root']}")
    lanes = page.locator(".lane-label")
    expect(lanes.first).to_have_attribute("title", re.compile("^billing@"))
    expect(lanes.last).to_be_in_viewport(ratio=0.5)
    expect(lanes.first).to_have_text("billing")
    expect(page.locator(".group-head")).to_have_count(0)  # it would have the same name
    with page.expect_download() as saving:
        page.get_by_label("Save what is in view as a picture").select_option("SVG")
    texts = re.findall(r"<text[^>]*>([^<]*)", saving.value.path().read_text())
    assert {"OrderPlaced", "OrderAccepted", "OrderChecked"} < set(texts)
    assert any(text.startswith("waiting ") for text in texts) == (number == STUCK)
    page.goto(f"{shop.url}/#/space-time?vhost={SHOP}")
    expect(lanes.first).to_have_attribute("title", re.compile("^billing@"))


def test_an_order_that_went_well_says_where_to_look_too(shop: Served, open_page: OpenPage) -> None:
    page = open_page(shop)
    find(Hand(page, shop.url), RETRIED)
    log = r"Look into the log of stock, \d\d:\d\d:\d\d\.\d+ to \d\d:\d\d:\d\d\.\d+"
    expect(page.get_by_role("region", name="What was tried again")).to_have_text(
        re.compile(
            r"OrderAccepted was back from stock after \d+ ms, and finished then\. Whether it was "
            r"given back, or the connection was lost, is not recorded\.\s*"
            rf"If that happens often: {log.replace('Look', '[Ll]ook')}\.$"
        )
    )
    [slow, *_] = [one for one in orders()[SLOW] if one.slow][::-1][5:]
    find(Hand(page, shop.url), slow.number)
    longer = page.get_by_role("region", name="Longer than usual")
    usual = r"usually \d+ ms, since [\d:]+\s*"
    expect(longer).to_have_text(re.compile(rf"{usual}{log}, or what has been"))
    longer.get_by_role("link", name="what has been slow since then").click()
    expect(page.get_by_text("Participant stock has been slow since")).to_be_visible()


def test_an_order_and_each_event_of_it_say_what_failed_and_what_did_not_hold(
    shop: Served, open_page: OpenPage
) -> None:
    page = open_page(shop)
    find(Hand(page, shop.url), SOUGHT)
    expect(page.get_by_role("region", name="What did not hold")).to_have_text(
        re.compile("Assertion paid: no PaymentTaken within 5s$")
    )
    [found] = shop.answer("/itc_db/conversations", correlation_id=f"order-{SOUGHT}")["items"]
    lead = page.locator(".drawer-lead")
    for number, text in (
        (SOUGHT, "failed: OrderChecked rejected by billing in queue billing"),
        (STUCK, "waiting: OrderChecked waits in queue billing; nobody took it for"),
    ):
        [found] = shop.answer("/itc_db/conversations", correlation_id=f"order-{number}")["items"]
        page.goto(f"{shop.url}/#/events?vhost={SHOP}&event={found['root'] + 1}")
        expect(lead).to_contain_text(text)
    page.goto(f"{shop.url}/#/space-time?vhost={SHOP}&event={found['root']}")
    expect(lead).to_contain_text(text)


def test_a_failure_leads_to_all_that_are_like_it(shop: Served, open_page: OpenPage) -> None:
    page = open_page(shop)
    find(Hand(page, shop.url), SOUGHT)
    alike = [one for one in orders()[SHOP] if one.fails]
    why = page.get_by_role("region", name="What to do")
    link = why.get_by_role("link", name=f"{len(alike) - 1} others like it in {SHOP} since")
    expect(link).to_have_text(re.compile(r" since \d\d:\d\d:\d\d$"))
    link.click()
    rows = page.get_by_role("group", name="Conversations that failed").locator("tbody tr")
    expect(rows).to_have_count(len(alike))


def test_what_fails_alike_in_several_virtual_hosts_is_one_incident(
    shop: Served, open_page: OpenPage
) -> None:
    """With all of its failures, the first and the newest, and the places where it is."""
    groups = shop.answer("/itc_db/failures", limit="1")["groups"]
    alike = [one for one in groups if one["reason"] == "rejected"]
    assert {one["vhost"] for one in alike} == {*VHOSTS}
    total = sum(one["count"] for one in alike)
    page = open_page(shop, "#/conversations?filter=failures")
    all_of_them = sum(one["count"] for one in groups)
    time = r"\d\d:\d\d:\d\d"
    expect(page.locator(".failures-headline")).to_have_text(
        re.compile(
            rf"^\d+ failures since ({time}), \d+ of them rejected by billing. "
            rf"(The last one was|None since {time},) .* ago. "
            rf"Look into the log of billing since \1. {all_of_them} in all since {time}.$"
        )
    )
    rows = page.get_by_role("group", name="Incidents").locator("tbody tr")
    expect(rows).to_have_count(len(groups) - len(alike) + 1)
    times = [min(one["first_at"] for one in alike), max(one["last_at"] for one in alike)]
    for text in (str(total), f"and {len(VHOSTS) - 2} others", *(at[11:19] for at in times)):
        expect(rows.first).to_contain_text(text)
    place = max(alike, key=lambda one: one["count"])
    rows.first.get_by_role("link", name=place["vhost"], exact=True).click()
    counts = page.get_by_role("group", name="Incidents").locator("tbody td:first-child")
    expect(counts).to_have_text([str(place["count"])])
    expect(page.get_by_label("Virtual host")).to_have_value(place["vhost"])
    page.go_back()
    rows.first.get_by_role("link", name=f"Only these {total} failures").click()
    expect(counts).to_have_text([str(total)])
    page.goto(f"{shop.url}/#/overview")
    expect(page.get_by_role("group", name="What failed most").locator("tbody tr")).to_have_count(2)
    number = page.locator(".figures.now dd.bad").bounding_box()  # the whole figure is a link
    assert number
    page.mouse.click(number["x"] + number["width"] / 2, number["y"] + number["height"] / 2)
    expect(page.get_by_role("group", name="Incidents")).to_be_visible()


def test_what_is_asked_of_an_order_works_by_keyboard_too(shop: Served, open_page: OpenPage) -> None:
    page = open_page(shop)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    hand = Hand(page, shop.url, by_keyboard=True)
    ask_of_an_order(hand)
    assert max(hand.answers.values()) <= 3, hand.answers


def test_what_nearly_always_follows_is_proposed_and_held(shop: Served, open_page: OpenPage) -> None:
    held = shop.answer("/itc_db/assertions", vhost=SHOP)
    page = open_page(shop, f"#/rules?view=assertions&vhost={SHOP}", policy=False)
    expect(tab(page, "Settings")).to_have_attribute("aria-current", "true")
    page.get_by_role("button", name="From what is seen").click()
    sheet = page.get_by_role("group", name="From what is seen")
    offered = sheet.get_by_role("listitem")
    expect(offered.filter(has_text="OrderPlaced leads to OrderAccepted within")).to_have_count(1)
    # Where the payment is refused, one order in nine, none follows.
    expect(offered.filter(has_text="OrderChecked leads")).to_have_count(0)
    followed = {
        f"{kind} leads to {SAID_BY[to]}"
        for kind, each in TO.items()
        for to in each
        if to in SAID_BY
    }
    said = {text.split(" within")[0] for text in offered.all_inner_texts()}
    assert said == followed - {"OrderChecked leads to PaymentTaken"}
    assert violations(page) == []

    offered.filter(has_text="OrderPlaced leads to").get_by_role("checkbox").check()
    sheet.get_by_text("Another", exact=True).click()
    every = sheet.get_by_label("Every")
    never_seen = "Not among the newest 2,000 events, since"
    every.fill("OrderPlacd")
    expect(page.get_by_text(never_seen)).to_have_count(0)  # it is still typed
    every.press("Tab")
    expect(sheet.get_by_text(never_seen)).to_contain_text("messages of the type OrderPlacd.")
    every.fill("Order*")
    every.press("Tab")
    expect(sheet.get_by_text(never_seen)).to_have_count(0)
    sheet.get_by_label("What holds").select_option("causes at most")
    sheet.get_by_role("button", name="Add").click()
    sheet.get_by_role("button", name="Hold these 2").click()
    checks = page.get_by_role("group", name="Live checks").locator("tbody tr")
    expect(checks).to_have_count(len(held) + 2)
    now = [one["assertion"] for one in shop.answer("/itc_db/assertions", vhost=SHOP)]
    follows, storm = now[-2:]
    assert (follows["every"], follows["leads_to"]) == ("OrderPlaced", "OrderAccepted")
    longest = max(WAIT) + max(WORK)
    amount, unit = re.fullmatch(r"(\d+)(ms|s)", follows["within"]).groups()  # type: ignore[union-attr]
    assert longest <= int(amount) * {"ms": 1, "s": 1000}[unit] <= 5 * longest
    assert (storm["no"], storm["causes_more_than"]) == ("Order*", 100)

    page.get_by_role("button", name="From what is seen").click()
    expect(sheet.get_by_text("OrderPlaced leads to")).to_have_count(0)  # it is held
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Change").click()
    box = page.get_by_label("What should hold")
    expect(page.get_by_text(never_seen)).to_have_count(0)
    box.fill("- {name: a, every: OrderPlaced, leads_to: Invoise, within: 5s}")
    box.press("Tab")
    expect(page.get_by_text(never_seen)).to_contain_text("messages of the type Invoise.")
    shop.put(f"/itc_db/assertions/{SHOP}", PAID)


def test_orders_are_what_the_trial_says() -> None:
    assert len(SERVICES) == 12
    assert Order(SOUGHT, 0).fails
    records = [len(Order(number, 0).records()) for number in range(FIRST, FIRST + 18)]
    assert sum(records) / len(records) == pytest.approx(EVENTS_EACH, abs=1)


def test_what_alone_is_slow_is_drawn_at_once_with_the_next_step(
    shop: Served, open_page: OpenPage
) -> None:
    page = open_page(shop, f"#/durations?vhost={SLOW}")
    handling = page.get_by_role("region", name="Handling")
    expect(handling.get_by_role("slider")).to_be_visible()
    expect(
        page.get_by_text(re.compile(r"Look into the log of stock since [\d:]+00"))
    ).to_be_visible()
    said = handling.locator(".heat-said")
    key = r"1\d+ deliver(y|ies)\s*Choose a time to list its deliveries\."
    expect(said).to_have_text(re.compile(f"^{key}$"))  # none is marked yet
    handling.get_by_role("slider").press("ArrowLeft")
    expect(said).to_have_text(re.compile(rf"^\d\d:\d\d:00: .*\.\s*{key}$"))


def test_a_queue_tells_its_rejections_and_the_axis_of_events_runs_to_now(
    shop: Served, open_page: OpenPage
) -> None:
    counted = shop.answer("/itc_db/failures", vhost=SHOP, queue="billing")["counted"]
    page = open_page(shop, f"#/queue?vhost={SHOP}&queue=billing")
    expect(page.get_by_text(f"{counted} rejected, from ")).to_be_visible()
    step = page.locator("p", has_text="Check that billing runs")
    expect(step.get_by_role("link", name="billing")).to_have_count(0)  # it would lead here
    todo = page.get_by_role("region", name="What to do")
    expect(todo).to_contain_text(re.compile(r"Look into the log of billing since [\d:]+\."))
    expect(todo).to_contain_text("The newest dead letters went to queue dead.")
    todo.get_by_text("put the newest back").click()
    expect(todo.locator("code")).to_contain_text("publish exchange=amq.default routing_key=billing")
    begin = page.locator(".standing, .queue-choice, .panel")
    expect(begin.nth(0)).to_have_class("standing")  # before the choice of another
    expect(begin.nth(1)).to_have_class(re.compile("queue-choice"))
    expect(page.locator(".panel h2").first).to_have_text("What failed in it")
    todo.get_by_role("link", name="dead", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="dead", exact=True)).to_be_visible()
    expect(todo).to_have_text("No message is known to wait here, and none to have failed.")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{shop.url}/#/events?vhost={SLOW}")
    expect(page.locator(".histogram-foot > span").last).to_have_text("now")
    expect(page.get_by_label("Go to event number")).to_be_hidden()
    page.get_by_role("button", name="More").click()
    expect(page.get_by_label("Go to event number")).to_be_visible()


def test_settings_say_once_what_all_traces_share(shop: Served, open_page: OpenPage) -> None:
    page = open_page(shop, "#/admin")
    recorded = page.get_by_role("region", name="What is recorded")
    expect(recorded).to_contain_text("one participant is a program at one address")
    expect(recorded.get_by_role("columnheader", name="One participant is")).to_have_count(0)
    browser = page.get_by_role("region", name="This browser")
    expect(browser.get_by_role("group")).to_have_count(1)  # the header has theme and refresh


def test_settings_say_first_what_is_recorded_and_since_when_and_stop_apart(
    shop: Served, open_page: OpenPage
) -> None:
    begin_anew(shop)  # a question before may have had the last one traced
    page = open_page(shop, "#/admin")
    expect(page.locator(".verdict")).to_have_text(
        "6 of 7 virtual hosts are recorded, without a gap. lab is not."
    )
    recorded = page.get_by_role("region", name="What is recorded")
    [newest] = shop.answer("/itc_db", vhost=SHOP, page_size="1")
    row = recorded.get_by_role("row").filter(has=page.get_by_text(SHOP, exact=True))
    last = row.get_by_role("link", name=newest["recorded_at"][11:19])
    expect(last).to_have_attribute("title", f"Event #{newest['id']}")
    expect(row).to_contain_text("complete since 2026-01-02 ")
    expect(row.locator(".badge")).to_have_text(re.compile(r"^idle for \d+ (s|min|h)"))
    expect(recorded.locator(".badge.good")).to_have_count(0)
    expect(recorded.get_by_role("button", name="Stop")).to_have_count(0)
    stop = page.get_by_role("button", name=f"Stop the trace of {SHOP}", exact=True)
    expect(stop).not_to_be_visible()
    page.get_by_text("Stop a trace").click()
    expect(stop).to_be_visible()
    gap = {"id": 1, "after_event_id": 1, "before_event_id": 2, "reason": "tracing was off"}
    gap |= {"since": newest["recorded_at"], "until": newest["recorded_at"], "declared": False}
    change_answers(
        page,
        "**/itc_db/traces",
        lambda all_: [
            each | {"rate": 2.0, "gaps": [gap] * (each["vhost"] == SHOP)} for each in all_
        ],
    )
    page.reload()
    expect(page.locator(".verdict")).to_have_text(
        "6 of 7 virtual hosts are recorded, with 1 gap. lab is not."
    )
    expect(row.locator(".badge")).to_have_text("running")
    expect(row).to_contain_text("1 gap since 2026-01-02 ")
