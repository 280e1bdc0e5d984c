"""Numbers and sentences of page, command line and API: of ten conversations, and of a queue.

An order that failed, one that was retried, one that waits, one that is slow, and six others.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.api import commands
from tests.web.conftest import OpenPage
from tests.web.orders import SERVICES
from tests.web.service import Served
from tests.web.test_accessibility import settled
from tests.web.test_trial import RETRIED, SHOP, SLOW, SOUGHT, STUCK, VHOSTS, serving

TIME = re.compile(r"< 1 ms|\d+ min \d+ s|[\d.]+ (?:ms|s)\b")
OTHERS = (1010, 1044, 1077, 1100, 1133, 1190)
WORDS = {"retried": "retried, finished"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("numbers")) as server:
        yield server


def took(seconds: float) -> str:
    """A duration as the page writes it."""

    def rounded(number: float, digits: str) -> Decimal:
        return Decimal(number).quantize(Decimal(digits), ROUND_HALF_UP)

    if seconds < 0.001:
        return "< 1 ms"
    if seconds < 1:
        return f"{rounded(seconds * 1000, '0.1' if seconds < 0.01 else '1')} ms"
    if seconds < 60:
        return f"{rounded(seconds, '0.1' if seconds < 10 else '1')} s"
    return f"{int(seconds // 60)} min {rounded(seconds % 60, '1')} s"


def times_of(message: dict[str, Any], state: str) -> Counter[str]:
    """The times of a message below the drawing: of deliveries, and the slack in what has ended."""
    deliveries = [each for copy in message["copies"] for each in copy["deliveries"]]
    parts = [each[name] for each in deliveries for name in ("queued", "handled", "settled_after")]
    has_ended = state in ("finished", "retried", "failed") and message["outcome"] != "waiting"
    if has_ended and not message["critical"]:
        parts.append(message["slack"])
    return Counter(took(part) for part in parts if part is not None)


def conversations(shop: Served) -> list[dict[str, Any]]:
    """As the list of the API has them."""
    numbers = [SOUGHT, RETRIED, STUCK, *OTHERS]
    found = [
        shop.answer("/itc_db/conversations", vhost=SHOP, correlation_id=f"order-{number}")
        for number in numbers
    ]
    found.append(shop.answer("/itc_db/conversations", vhost=SLOW, state="finished", limit=1))
    return [one["items"][0] for one in found]


def test_ten_conversations_have_the_numbers_of_the_api(shop: Served, open_page: OpenPage) -> None:
    listed = conversations(shop)
    assert len(listed) == 10
    assert {one["state"] for one in listed} == {"failed", "retried", "waiting", "finished"}
    page = open_page(shop)
    for one in listed:
        answer = shop.answer(f"/itc_db/conversations/{one['root']}")
        same = ("state", "counts", "seconds", "keys")  # a sentence may speak of just now
        assert [answer[name] for name in same] == [one[name] for name in same]
        page.goto(f"{shop.url}/#/conversations?event={one['root']}")
        expect(page.get_by_role("heading", level=1, name=one["keys"][0])).to_be_visible()
        settled(page)
        head = page.locator(".conv-head")
        state = answer["state"]
        expect(head.locator(".conv-state summary")).to_have_text(WORDS.get(state, state))
        counts = answer["counts"]
        facts = (
            f"{' so far' if answer['position'] else ':'} {counts['messages']} messages,"
            f" {counts['deliveries']} deliveries, {counts['participants']} participants"
        )
        expect(head).to_contain_text(facts)
        if answer["position"] is None:
            expect(head).to_contain_text(took(answer["seconds"]))
        of_messages(page, answer["messages"], state)


def test_page_and_command_line_have_the_sentences_of_the_api(
    shop: Served, open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page(shop)
    env = {"ITC_URL": shop.url, "ITC_USER": "admin", "ITC_PASSWORD": "admin"}
    failures = 0
    for one in conversations(shop):
        address = f"/itc_db/conversations/{one['root']}"
        words = ("conversation", one["root"])
        with ThreadPoolExecutor(1) as pool:  # Playwright's event loop runs in this thread
            command = commands.completed(words, env, tmp_path, 60)
            code, out, _ = pool.submit(asyncio.run, command).result()
        answer = shop.answer(address)
        sentence, state = answer["sentence"], answer["state"]
        assert (code, answer["via"]) == (0, "links")
        lines = out.splitlines()
        assert lines[:2] == [sentence, ": ".join(filter(None, (state, answer["reason"])))]
        page.goto(f"{shop.url}/#/conversations?event={one['root']}")
        head, names = page.locator(".conv-head"), answer["participants"]
        # What failed or waits is in the verdict and the facts, and not once more.
        shown = [in_short(one["text"], names) for one in answer["clauses"] if one["number"] is None]
        expect(head.locator(".conv-sentence")).to_have_text(". ".join(shown) + ".")
        for message in answer["messages"]:
            if (failed := message["failure_sentence"]) is not None:
                failures += 1
                first, then = message["failure_clauses"]
                assert (first["about"], then["about"]) == ("rejected", "went_on")
                verdict = f"{in_short(first['text'], names)} between "
                expect(head.locator(".conv-verdict")).to_contain_text(verdict)
                expect(head.locator(".conv-facts")).to_contain_text(
                    f"It was moved to queue {then['queues'][0]}"
                )
                [line] = [line for line in lines if line.lstrip().startswith("failed: ")]
                assert f"failed: {failed}".startswith(line.strip().removesuffix("…"))
    assert failures


def in_short(sentence: str, participants: list[dict[str, Any]]) -> str:
    """A sentence as the page has it, without users and places."""
    for participant in participants:
        sentence = sentence.replace(participant["name"], participant["name"].split("@")[0])
    return sentence


def of_messages(page: Page, messages: list[dict[str, Any]], state: str) -> None:
    rows = page.get_by_role("treeitem")
    expect(rows.first).to_be_visible()
    copies = sum(len(one["copies"]) for one in messages if len(one["copies"]) > 1)
    expect(rows).to_have_count(len(messages) + copies)
    detail = page.locator(".conv-detail")
    for message in [*messages[1:], messages[0]]:  # it begins with what failed or waits
        page.evaluate("hash => (location.hash = hash)", f"#/conversations?event={message['event']}")
        expect(detail).to_contain_text(f"#{message['event']}:")
        times = TIME.findall(detail.inner_text().partition(": ")[2])
        assert Counter(times) == times_of(message, state), message["type"]


def test_a_queues_page_has_the_numbers_of_the_api(shop: Served, open_page: OpenPage) -> None:
    traffic = shop.answer("/itc_db/queue", vhost=SHOP, queue="billing")
    assert traffic["waiting"] == 1
    stuck = shop.answer("/itc_db/conversations", vhost=SHOP, correlation_id=f"order-{STUCK}")
    [conversation] = stuck["items"]
    page = open_page(shop, f"#/queue?vhost={SHOP}&queue=billing")
    waits = page.locator(".verdict").first
    at, name = traffic["oldest_at"][11:19], f"OrderChecked of order-{STUCK}"
    expect(waits).to_have_text(
        re.compile(rf"^1 message waits: {name}, for [\dmins ]+, since {at}$")
    )
    for title, flows in (("publishes to", "publishers"), ("takes from", "receivers")):
        cells = page.get_by_role("group", name=f"Who {title} it").locator("tbody tr")
        expect(cells).to_have_count(len(traffic[flows]))
        for row, flow in zip(cells.all(), traffic[flows], strict=True):
            texts = row.locator("td").all_inner_texts()
            assert texts[0] == flow["participant"]["name"].split("@")[0]
            assert flow["dead_letters"] == 0  # so there is no column of them
            assert texts[2:] == [f"{flow['count']:,}", flow["last"][11:19]]
    times = page.get_by_role("group", name="How long its messages take")
    handling = times.get_by_role("row", name="Handling").locator(".at-second")
    expect(handling).to_have_text("too little to compare")  # three minutes' orders
    failed = shop.answer("/itc_db/failures", vhost=SHOP, queue="billing")
    expect(page.get_by_role("region", name="What failed in it")).to_contain_text(
        f"{failed['counted']} failures, the newest 5 below"
    )
    waits.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1, name=f"order-{STUCK}")).to_be_visible()
    position = conversation["position"]
    assert position["queue"] == "billing"
    expect(page.locator(".conv-state + span")).to_have_text(re.compile(r"nobody took it for \d+ "))


def test_a_queue_of_several_virtual_hosts_is_offered_where_messages_wait_first(
    shop: Served, open_page: OpenPage
) -> None:
    page = open_page(shop, "#/overview")
    box = page.get_by_role("textbox", name="What happened to")
    box.fill("queue:billing")
    box.press("Enter")
    offers = page.get_by_role("group", name="In several virtual hosts").locator("tbody tr")
    expect(offers).to_have_count(len(VHOSTS))
    assert {row.locator("td").first.inner_text() for row in offers.all()} == {*VHOSTS}
    expect(offers.first.locator("td").nth(1)).to_have_text("1")
    offers.first.get_by_role("link", name=SHOP, exact=True).click()
    verdict = page.locator(".verdict").first
    expect(verdict).to_contain_text("1 message waits: OrderChecked of order-")

    page.get_by_label("Queue", exact=True).select_option("")
    queues = page.get_by_role("group", name="Queues").locator("tbody tr")
    expect(queues).to_have_count(len(SERVICES))
    expect(queues.first).to_contain_text("billing")


def test_a_queue_that_no_event_names_has_an_empty_page(shop: Served, open_page: OpenPage) -> None:
    page = open_page(shop, f"#/queue?vhost={SHOP}&queue=nosuch")
    heading = f"No event of {SHOP} names a queue nosuch"
    expect(page.get_by_role("heading", name=heading)).to_be_visible()
    expect(page.locator("section.panel")).to_have_count(0)
    page.goto(f"{shop.url}/#/queue?queue=nosuch")
    heading = "None of the newest events names a queue nosuch"
    expect(page.get_by_role("heading", name=heading)).to_be_visible()
