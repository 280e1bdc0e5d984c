"""What would tie messages together: said, looked at, adopted and taken back in the page."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import expect

from app.stored.proposals import TraceCoverage, proposals_in
from tests.web.conftest import ARTEFACTS, OpenPage
from tests.web.past import Past
from tests.web.service import Served
from tests.web.stories import BILLING, MAILER, SHOP, Story
from tests.web.test_accessibility import settled, violations

RULE = {"name": "found-payload-order", "kind": "conversation", "child": "$message.payload#/order"}
SAYS = "order in the body ties messages together"


def propose(server: Served, event: int) -> None:
    """Keep a proposal as if it had been found, with an event as its example."""
    found = {
        "kind": "conversation",
        "rules": [RULE],
        "publishes": 5_181,
        "ambiguity": 1.0,
        "chance": 0.0,
        "agreement": None,
        "linked": 0,
        "examples": [{"publish": event, "delivery": 2, "value": "order-5"}],
    }
    seen = TraceCoverage(1, "/", 6_000, 5_943, 0, 3)
    proposals = proposals_in({"reactions": 5_943, "proposals": [found]})
    server.done(server.parts.store.proposals.put(seen, proposals))


def shop(serve: Callable[[Past], Served]) -> tuple[Served, int]:
    """A server with orders whose messages name nothing; and the last of the second."""
    world = Past()
    last = 0
    for number in (4, 5):
        story = Story(world, f"order-{number}")
        root = story.publish(0, SHOP, "order.new", ("billing",))
        story.deliver(15, BILLING, root, "billing")
        paid = story.publish(140, BILLING, "payment.done", ("mail",), named=False)
        story.deliver(152, MAILER, paid, "mail")
        last = story.publish(190, MAILER, "mail.sent", ("out",), named=False)
    server = serve(world)
    propose(server, last)
    return server, last


def test_it_is_said_looked_at_adopted_and_taken_back(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    server, last = shop(serve)
    page = open_page(server, hurry=True)
    said = page.locator(".proposal-line")
    expect(said).to_contain_text(
        f"5,181 of 5,943 publishes of / could be joined to what led to them: {SAYS}"
    )
    settled(page)
    assert not violations(page)
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=ARTEFACTS / "proposal-overview.png")

    page.goto(f"{server.url}/#/conversations?event={last}")
    expect(page.locator(".conv-head")).to_contain_text("1 message")
    expect(said).to_contain_text("and this conversation of 3 messages")
    page.screenshot(path=ARTEFACTS / "proposal-conversation.png")
    said.get_by_role("button", name="Show it so").click()
    expect(page.locator(".conv-head")).to_contain_text("3 messages")
    expect(page.get_by_text("Shown as it likely was")).to_contain_text("no links tell how often")
    assert "via=likely" in page.url
    settled(page)
    assert not violations(page)
    page.screenshot(path=ARTEFACTS / "proposal-likely.png")

    said.get_by_role("button", name="Join messages by").click()
    expect(said).to_contain_text("What is stored was read by it, too.")
    expect(page).to_have_url(re.compile("via=conversation"))
    expect(page.locator(".conv-head")).to_contain_text("3 messages")
    names = [each["name"] for each in server.answer("/itc_db/links", vhost="/")]
    assert RULE["name"] in names
    page.screenshot(path=ARTEFACTS / "proposal-adopted.png")
    said.get_by_role("button", name="Take back").click()
    expect(page.locator(".conv-head")).to_contain_text("1 message")
    names = [each["name"] for each in server.answer("/itc_db/links", vhost="/")]
    assert RULE["name"] not in names


def test_who_may_only_look_cannot_adopt_it(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    server, _ = shop(serve)
    page = open_page(server, user="watch")
    said = page.locator(".proposal-line")
    expect(said.get_by_role("button", name="Join messages by")).to_be_disabled()
    expect(said.get_by_role("link", name="Show it so")).to_be_visible()
