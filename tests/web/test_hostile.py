"""Names and payloads full of markup, control characters, direction marks and emoji are text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import OpenPage
from tests.web.history import HOSTILE
from tests.web.past import Past
from tests.web.service import Served, running
from tests.web.stories import AUDITOR, BILLING, MAILER, SHOP, STOCK, Story
from tests.web.test_learn import judge

# Shop, billing, stock, mail and auditor; two queues, and messages of three types.
ARABIC = ("متجر", "فوترة", "مخزون", "بريد", "مدقق")
SHIPS, DEAD = "شحن", "رسائل.ميتة"
PLACED, RESERVED, PAID = "طلب.جديد", "المخزون.محجوز", "تم.الدفع"

ADDRESSES = [
    "#/overview",
    "#/events?event=40&live=off",
    "#/events?event=41&live=off",
    "#/chain?a=3&b=40",
    "#/space-time?event=40",
    "#/topology",
    "#/topology?by=participant",
    "#/learn?view=assertions",
    "#/admin",
]


@pytest.fixture(scope="module")
def hostile() -> Iterator[Served]:
    world = Past()
    world.vhosts = list(HOSTILE)
    for name in HOSTILE[:3]:
        world.start_trace(name, 12, hostile=True)
        world.grow(name, 300)
    asserted = {"name": "a", "every": HOSTILE[2], "leads_to": HOSTILE[3], "within": "30s"}
    world.traces[HOSTILE[0]].last_error = HOSTILE[4]
    with running(world) as server:
        body = json.dumps([asserted], ensure_ascii=False).encode()
        server.put(f"/itc_db/assertions/{quote(HOSTILE[0], safe='')}", body)
        judge(server, "a", 1, last=1, sentence=HOSTILE[4])
        yield server


def assert_unharmed(page: Page) -> None:
    assert page.evaluate("window.pwned") is None
    # The page itself has one picture, the logo, and one script, in the head.
    assert page.locator("img:not(.brand img)").count() == 0
    assert page.locator("body script").count() == 0
    raw = page.evaluate("document.body.innerText")
    assert "\u202e" not in raw
    assert "\x07" not in raw


def test_every_view_shows_it_as_text(hostile: Served, open_page: OpenPage) -> None:
    page = open_page(hostile)
    for address in ADDRESSES:
        page.goto(f"{hostile.url}/{address}")
        expect(page.locator(".loading")).to_have_count(0)
        assert_unharmed(page)


def test_the_words_themselves_are_there(hostile: Served, open_page: OpenPage) -> None:
    page = open_page(hostile, "#/events?live=off")
    expect(page.locator("tr.row").first).to_be_visible()
    text = page.locator("tbody").inner_text()
    assert "<img src=x onerror=" in text
    assert "⟨U+202E⟩gnp.exe" in text
    assert "tab⟨TAB⟩newline⟨LF⟩nul⟨NUL⟩bell⟨BEL⟩" in text
    assert "🧨" in text


def test_an_address_full_of_markup_is_text_as_well(hostile: Served, open_page: OpenPage) -> None:
    page = open_page(
        hostile, "#/events?queue=%3Cimg%20src%3Dx%20onerror%3D%22pwned%3D1%22%3E&event=%3Cb%3E"
    )
    expect(page.locator(".filter")).to_contain_text('<img src=x onerror="pwned=1">')
    assert_unharmed(page)


def test_a_name_from_right_to_left_leaves_the_time_behind_it_in_place(
    hostile: Served, open_page: OpenPage
) -> None:
    name, time, first, second = open_page(hostile).evaluate(
        """async () => {
          const { said, visible } = await import("/app/core/format.js");
          const line = document.createElement("p");
          document.body.append(line);
          const left = (text) => {
            const range = document.createRange();
            const from = line.textContent.indexOf(text);
            range.setStart(line.firstChild, from);
            range.setEnd(line.firstChild, from + text.length);
            return range.getBoundingClientRect().left;
          };
          const name = "\\u05ea\\u05d5\\u05e8";
          line.textContent = `in ${visible(name)} 204 ms`;
          const places = [left(name), left("204")];
          line.textContent = said(`${name} led to 1 more message. 1 died in ${name}-2`);
          return [...places, left(name), left("led to")];
        }"""
    )
    assert name < time
    assert first < second  # a sentence that begins with such a name


@pytest.fixture(scope="module")
def arabic() -> Iterator[Served]:
    """A shop of which every name is Arabic, and an order that failed."""
    world = Past()
    story = Story(world, "طلب-1234")
    people = story.trace.simulation.participants
    people[:] = [one._replace(user=name) for one, name in zip(people, ARABIC, strict=True)]
    root = story.publish(0, SHOP, PLACED, (ARABIC[1], ARABIC[2]))
    stocked = story.deliver(35, STOCK, root, ARABIC[2])
    reserved = story.publish(310, STOCK, RESERVED, (SHIPS,), stocked)
    story.deliver(330, MAILER, reserved, SHIPS)
    billed = story.deliver(900, BILLING, root, ARABIC[1], "redelivered")
    paid = story.publish(1400, BILLING, PAID, (SHIPS,), billed)
    story.deliver(1440, MAILER, paid, SHIPS)
    story.deliver(2103, AUDITOR, reserved, DEAD, "dead_lettered", SHIPS)
    Story(world, "طلب-77").publish(0, MAILER, PLACED, (ARABIC[1],))
    with running(world) as server:
        server.gap("/", **GAP)
        yield server


GAP = {
    "id": 1,
    "after_event_id": 9,
    "before_event_id": None,
    "since": "2026-01-02T03:00:04Z",
    "until": "2026-01-02T03:00:05Z",
    "reason": f"{ARABIC[3]} and {ARABIC[0]} were cut off",
    "suspected": False,
    "declared": False,
}
READ_BACKWARDS = [
    "#/overview",
    "#/conversations?vhost=%2F",
    "#/conversations?filter=failures",
    "#/conversations?event=1&beyond=on",
    "#/conversations?event=1&view=sequence&panel=on",
    f"#/queue?vhost=%2F&queue={SHIPS}",
    "#/topology?vhost=%2F&by=participant",
    "#/events?event=6&live=off",
    "#/chain?a=1&b=7&via=links",
    "#/space-time?vhost=%2F&event=6",
    "#/admin?vhost=%2F",
]
# What was made harmless twice shows the marks of the first time.
SPELLED_TWICE = """() => {
  const texts = [document.title, document.body.innerText];
  for (const one of document.querySelectorAll("[title], [aria-label]")) {
    texts.push(one.title, one.getAttribute("aria-label") ?? "");
  }
  return texts.filter((text) => /U\\+206[89]/.test(text));
}"""
LEFT_OF = """(element, text) => {
  const lines = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  while (lines.nextNode()) {
    const from = lines.currentNode.data.indexOf(text);
    if (from < 0) continue;
    const range = document.createRange();
    range.setStart(lines.currentNode, from);
    range.setEnd(lines.currentNode, from + text.length);
    return range.getBoundingClientRect().left;
  }
}"""


def test_no_arabic_name_is_spelled_twice_anywhere(arabic: Served, open_page: OpenPage) -> None:
    page = open_page(arabic)
    for address in READ_BACKWARDS:
        page.goto(f"{arabic.url}/{address}")
        expect(page.locator(".loading")).to_have_count(0)
        expect(
            page.locator("main").get_by_text(re.compile("[\u0600-\u06ff]")).first
        ).to_be_attached()
        assert page.evaluate(SPELLED_TWICE) == [], address


@pytest.mark.parametrize("width", [1440, 390])
def test_sentences_of_arabic_names_are_read_in_their_order(
    arabic: Served, open_page: OpenPage, width: int
) -> None:
    page = open_page(arabic, "#/conversations?event=1", width=width)
    verdict = [RESERVED, "rejected by", ARABIC[3], "between"]
    sentence = [PLACED, "led to", ARABIC[3], "published"]
    for place, words in ((".conv-verdict > span", verdict), (".conv-sentence", sentence)):
        line = page.locator(place)
        expect(line).to_contain_text(f"\u2068{words[2]}\u2069")
        line.evaluate("it => (it.style.whiteSpace = 'nowrap')")
        places = [line.evaluate(LEFT_OF, word) for word in words]
        assert places == sorted(places)
    page.goto(f"{arabic.url}/#/topology?vhost=%2F")
    node = page.locator(".flow-node.queues, .flow-list li", has_text=ARABIC[1]).first
    expect(node).to_be_visible()
    assert node.evaluate(LEFT_OF, ARABIC[1]) - node.bounding_box()["x"] < 20  # type: ignore[index]


def test_a_shortened_text_isolates_no_more_than_its_name(
    arabic: Served, open_page: OpenPage
) -> None:
    cut = open_page(arabic).evaluate(
        """async (name) => {
          const { said, shortened } = await import("/app/core/format.js");
          return [shortened(said(`in ${name}`), 7), shortened(said(`${name} and more`), 10)];
        }""",
        ARABIC[4],
    )
    assert cut == [f"in \u2068{ARABIC[4][:2]}\u2069…", f"\u2068{ARABIC[4]}\u2069 an…"]
