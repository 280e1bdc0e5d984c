"""What happened to an order: found, told, and drawn in three ways with one selection."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.web import stories
from tests.web.conftest import DOUBT, OpenPage, change_answers
from tests.web.past import Past, demo_world, iso
from tests.web.service import Served, running
from tests.web.test_accessibility import settled, violations
from tests.web.test_space_time import Held

VIEWS = ("waterfall", "sequence")


class Told:
    """A server with an order that failed, one that went well, and a batch of 1,000 messages."""

    def __init__(self, server: Served, order: int, plain: int, batch: int) -> None:
        self.server, self.order, self.plain, self.batch = server, order, plain, batch
        self.world = server.world

    def answer(self, event: int, **query: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.server.answer(
            f"/itc_db/conversations/{event}", limit="5000", **query
        )
        return answer

    def event(self, kind: str, queue: str | None = None) -> int:
        """The first event of the order's message of a type: its publish, or from a queue."""
        return next(
            e.id
            for e in self.world.events[self.order - 1 :]
            if e.kind == kind and e.queue == queue and e.correlation_id == "order-1234"
        )


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    world = Past()
    batch = stories.tell_batch(world)
    plain = stories.tell_plain(world)
    order = stories.tell_order(world)
    with running(world) as server:
        yield Told(server, order, plain, batch)


def opened(told: Told, open_page: OpenPage, more: str = "", **options: Any) -> Page:
    """The order's conversation."""
    page = open_page(told.server, f"#/conversations?event={told.order}{more}", **options)
    settled(page)
    return page


def row(page: Page, name: str) -> Any:
    return page.get_by_role("treeitem", name=re.compile(f"^{re.escape(name)} "))


# ---- what consumers made of it ------------------------------------------------------------------


def settle(answer: dict[str, Any]) -> dict[str, Any]:
    """The order's answer, had the broker plugin told of billing's, the mailer's and a print."""
    first, mailed, printed = (
        next(each for m in answer["messages"] if m["type"] == kind for each in m["copies"])
        for kind in ("order.new", "payment.done", "receipt.print")
    )
    first["deliveries"][0] |= {"settlement": "returned", "settled_after": 0.3}
    first["deliveries"][1] |= {"settlement": "acknowledged", "settled_after": 1.2}
    mailed["deliveries"][0] |= {"settlement": "in_hand", "settled_after": None}
    printed["deliveries"][0] |= {"settlement": "rejected", "settled_after": 0.25}
    return answer


def test_what_is_known_exactly_is_drawn_beside_what_is_estimated(
    told: Told, open_page: OpenPage
) -> None:
    page = opened(told, open_page)
    legend = page.locator(".conv-legend")
    expect(legend).not_to_contain_text("not settled yet")
    change_answers(page, f"**/itc_db/conversations/{told.order}?*", settle)
    page.reload()
    expect(legend).to_contain_text("until it was settledhandling, not settled yet")
    held = row(page, "order.new").locator(".bar.settled")
    expect(held).to_have_count(2)
    expect(row(page, "order.new").locator(".bar.handled")).to_have_count(1)  # stock's
    scale = float(held.nth(1).get_attribute("width") or 0) / 1.2
    exact = float(held.nth(0).get_attribute("width") or 0)
    assert exact == pytest.approx(scale * 0.3, rel=0.01)
    expect(row(page, "payment.done").locator(".bar.held")).to_have_count(1)
    times = page.get_by_role("region", name="Where the time went")
    expect(times).to_contain_text("250 ms")
    expect(times).to_contain_text("held and rejected by stock")
    waits = page.get_by_role("region", name="What to do")
    expect(waits).to_contain_text("mailer has payment.done in hand since")
    row(page, "order.new").first.click()
    detail = page.locator(".conv-detail")
    expect(detail).to_contain_text("given back after 300 ms")
    again = r"again, back in its queue \(#\d+\), 580 ms waiting in billing"
    expect(detail).to_contain_text(re.compile(again))
    expect(detail).to_contain_text("acknowledged after 1.2 s")


def unusual(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Stock's handling took 50 ms before it became slower."""
    change = {"since": "2026-01-02T08:14:00Z", "quantile": "median", "chance": 1e-6}
    usual = {"count": 40, "median": 0.05, "p90": 0.1, "spans": 20}
    slower = change | {"before": 0.05, "after": 0.27}
    return [
        each | {"handling": {"usual": usual, "slower": slower}}
        if each["service"] == "stock"
        else each
        for each in items
    ]


def test_what_normally_follows_is_said_and_since_when_it_is_overdue(
    told: Told, open_page: OpenPage
) -> None:
    words = "Normally follows: invoice after order.new (1), overdue since "
    sentence = f"{words}2026-01-02 03:04:13 UTC"
    page = opened(told, open_page)
    expect(page.locator(".conv-head")).not_to_contain_text("Normally follows")
    change_answers(
        page,
        f"**/itc_db/conversations/{told.order}?*",
        lambda answer: answer | {"remaining": {"sentence": sentence}},
    )
    page.reload()
    expect(page.locator(".conv-head")).to_contain_text(words)


def test_what_took_longer_than_usual_says_since_when(told: Told, open_page: OpenPage) -> None:
    page = open_page(told.server)
    change_answers(page, "**/itc_db/usual?*", unusual)
    page.goto(f"{told.server.url}/#/conversations?event={told.order}")
    settled(page)
    slow = page.get_by_role("treeitem", name=re.compile("^order.new in stock.*usually 50 ms"))
    expect(slow).to_have_accessible_name(
        re.compile("stock, 275 ms, usually 50 ms, since 2026-01-02")
    )
    expect(slow.locator(".usual")).to_have_count(3)  # to the median, to nine of ten, beyond
    expect(row(page, "order.new in billing").locator(".usual")).to_have_count(0)
    expect(page.locator(".conv-legend")).to_contain_text(
        re.compile("usual: half within the first grey, 9 of 10 within bothclearly longer")
    )
    page.get_by_role("button", name="Share").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG").click()
    assert (
        ">usual: half within the first grey, 9 of 10 within both</text>"
        in download.value.path().read_text()
    )


# ---- what is asked of it ------------------------------------------------------------------------


def test_services_it_touched_are_seen_at_once_and_events_are_one_action_away(
    told: Told, open_page: OpenPage
) -> None:
    page = opened(told, open_page)
    touched = page.get_by_role("region", name="What it touched")
    expect(touched.locator(".tone-caused").first).to_be_visible()
    expect(touched.locator("li .number")).to_have_count(0)
    touched.get_by_role("button", name="Which events").click()
    touched.get_by_role("button", name=re.compile("^[0-9]+ caused")).click()
    expect(touched.locator("li .number").first).to_be_visible()
    assert "beyond=on" in page.url
    settled(page)
    assert not violations(page)
    page.get_by_role("link", name="← All conversations").click()
    expect(page.get_by_role("heading", name="Conversations").first).to_be_visible()
    assert "beyond" not in page.url


def test_the_banner_speaks_of_the_time_of_the_conversation(told: Told, open_page: OpenPage) -> None:
    banner = opened(told, open_page).get_by_role("region", name="What is known")
    expect(banner).to_contain_text("this conversation:")


@pytest.mark.parametrize(("outcome", "end"), [("done", r"to \d"), ("open", "to now")])
def test_the_banner_alone_says_how_certain_a_conversation_is(
    told: Told, open_page: OpenPage, outcome: str, end: str
) -> None:
    page = open_page(told.server)
    gap = {"id": 1, "after_event_id": 5, "before_event_id": None, "until": None}
    gap |= {"since": "2026-01-02T03:00:00.1Z", "reason": "tracing was off"}
    unsure = {"complete": False, "gaps": [gap], "sound": False, "doubts": [DOUBT], "quiet": 3}
    unsure["caveats"] = [f"Not sound: {DOUBT}", "Not followed: 3 events of quiet traffic"]
    change_answers(
        page,
        f"**/itc_db/conversations/{told.plain}?*",
        lambda answer: {
            **answer,
            **unsure,
            "outcome": outcome,
            "counts": {**answer["counts"], "waiting": 0},
        },
    )
    page.goto(f"{told.server.url}/#/conversations?event={told.plain}")
    banner = page.get_by_role("region", name="What is known")
    expect(banner.locator(".trust-part")).to_have_text(["incomplete, 1 gap", "not sound"])
    expect(banner).to_contain_text(re.compile(f"this conversation: .* {end}"))
    expect(page.get_by_role("status").filter(has_text=re.compile("complete|sound"))).to_have_count(
        0
    )
    banner.get_by_text("Why?").click()
    expect(banner).to_contain_text("tracing was off")
    expect(banner.locator(".sheet ul").first.locator("li")).to_have_text(
        [f"{caveat}." for caveat in unsure["caveats"]]
    )
    expect(page.get_by_text(f"{DOUBT}.")).to_have_count(1)


def test_a_list_tells_conversations_of_one_type_apart(told: Told, open_page: OpenPage) -> None:
    page = open_page(told.server, "#/conversations")
    found = page.get_by_role("row", name="failed")
    expect(found.get_by_text("order-1234", exact=True)).to_be_visible()


# ---- layout, as pure functions ------------------------------------------------------------------


def computed(page: Page, script: str, answer: dict[str, Any]) -> Any:
    """What a function over the page's modules makes of an answer."""
    return page.evaluate(
        f"""async (answer) => {{
          const model = await import("/app/conversations/model.js");
          const waterfall = await import("/app/conversations/waterfall-layout.js");
          const sequence = await import("/app/conversations/sequence-layout.js");
          const told = model.modelOf(answer);
          {script}
        }}""",
        answer,
    )


def test_rows_stand_below_what_led_to_them_and_fold(told: Told, open_page: OpenPage) -> None:
    page = open_page(told.server)
    rows = computed(
        page,
        """const flat = (rows) => rows.map(({ message, depth, sub, copies }) =>
             [depth, sub ? copies[0].queue : message.type]);
           const stock = [...told.messages.values()].find((one) => one.type === "stock.reserved");
           const rows = model.rowsOf(told);
           const fold = (...keys) => flat(model.unfoldedOf(rows, new Set(keys)));
           const way = rows.filter((row) => row.message === stock && !row.sub);
           return [flat(rows), fold(`${stock.event} `), fold(`${told.tops[0].event} billing`),
             rows.map((row) => row.led),
             flat(rows.filter(({ key }) => model.besideOf(rows, way).has(key)))];""",
        told.answer(told.order),
    )
    unfolded = [
        [0, "order.new"],
        [1, "billing"],
        [2, "payment.done"],  # by billing, for one of the times that it was handed the message
        [2, "receipt.print"],
        [1, "stock"],
        [2, "stock.reserved"],  # by stock
        [3, "order.shipped"],
        *([4, queue] for queue in ("mail.out", "audit")),
        [1, "audit"],
    ]
    all_rows, *folds, led, beside = rows
    assert all_rows == unfolded
    assert folds == [
        [one for one in unfolded if one[0] < 3],
        [one for one in unfolded if one[1] not in {"payment.done", "receipt.print"}],
    ]
    assert led == [4, 2, 0, 0, 2, 1, 0, 0, 0, 0]
    assert beside == [[1, "billing"]]


def test_the_parts_of_the_critical_path_add_up_to_its_length(
    told: Told, open_page: OpenPage
) -> None:
    answer = told.answer(told.order)
    parts = computed(open_page(told.server), "return model.partsOf(told);", answer)
    assert sum(part["seconds"] for part in parts) == pytest.approx(answer["seconds"])
    assert [(part["kind"], part["name"]) for part in parts[:3]] == [
        ("led", "billing"),
        ("rejected", "stock"),
        ("queued", "printer"),
    ]


def test_the_one_who_rejected_had_the_last_delivery_before_the_death(
    told: Told, open_page: OpenPage
) -> None:
    [failure] = computed(
        open_page(told.server),
        "return model.failuresOf(told).map(({ by }) => by.event);",
        told.answer(told.order),
    )
    assert failure == told.event("receipt.print", "printer")


def with_acts(told: Told) -> dict[str, Any]:
    """The order's conversation, where a printed receipt was rejected before it was handed on."""
    answer = told.answer(told.order)
    message = next(each for each in answer["messages"] if each["type"] == "receipt.print")
    [copy] = message["copies"]
    rejected, dead = copy["deliveries"]
    shop = answer["messages"][0]["participant"]
    since = rejected | {"event": 9_999, "participant": shop, "match": "redelivered"}
    since["redelivered"] = True
    since["acts"] = [{"cause": rejected["event"], "kind": "returned"}]
    copy["deliveries"] = [rejected, since, dead]
    dead["acts"] = [
        {"cause": rejected["event"], "kind": "rejected"},
        {"cause": told.order, "kind": "overflow"},
    ]
    return answer


def test_the_one_who_rejected_is_who_the_broker_s_act_says(told: Told, open_page: OpenPage) -> None:
    by, text, times = computed(
        open_page(told.server),
        """const words = await import("/app/conversations/words.js");
           const [failure] = model.failuresOf(told);
           const times = words.timesOf(failure.message, told);
           return [failure.by.event, words.summaryOf(told), times];""",
        with_acts(told),
    )
    printed = told.event("receipt.print", "printer")
    assert by == printed
    assert text == "order-1234 failed: receipt.print rejected by stock in queue printer"
    assert times[1].startswith(f"again, back in its queue (#{printed}), ")
    assert "held by stock and back in its queue, then shop" in times[1]
    acts = f"rejected by stock (#{printed}), pushed out of its queue (#{told.order})"
    assert times[2].startswith(
        f"dead letter, {acts}, 643 ms held and rejected by stock, then auditor"
    )


def test_what_died_is_drawn_from_who_rejected_it(told: Told, open_page: OpenPage) -> None:
    mermaid = computed(
        open_page(told.server),
        "return sequence.mermaidOf(sequence.sequenceOf(told));",
        with_acts(told),
    )
    lines = mermaid.splitlines()
    lanes = (re.match(r"  participant (p\d+) as (\w+)", line) for line in lines)
    short = {lane[2]: lane[1] for lane in lanes if lane}
    told_of = [line for line in lines if "receipt.print" in line]
    assert f"  {short['stock']}-->>{short['shop']}: receipt.print again" in "\n".join(told_of)
    assert any(line.startswith(f"  {short['stock']}--x") for line in told_of)
    died = "receipt.print died in printer: 643 ms held and rejected by stock"
    assert f"  Note over {short['stock']}: {died}" in told_of
    assert (
        f"  Note over {short['shop']}: receipt.print pushed out of printer by #35;{told.order}"
        in told_of
    )


def test_bars_lie_within_the_time_and_say_whose_they_are(told: Told, open_page: OpenPage) -> None:
    shapes = computed(
        open_page(told.server),
        """const x = waterfall.scaleOf({ from: 0, to: told.width }, 1000);
           return model.rowsOf(told).map((row) => [
             row.sub ? row.copies[0].queue : row.message.type,
             waterfall.rowShapes(row, x, told, 1000)]);""",
        told.answer(told.order),
    )
    by = {name: shape for name, shape in shapes if name != "audit"}
    for shape in by.values():
        for bar in shape["bars"]:
            assert bar["x"] >= 0
            assert bar["x"] + bar["width"] <= 1002
            assert 0 < bar["y"] < bar["y"] + bar["height"] < 30
        assert all(0 <= word["x"] <= 1000 for word in shape["words"])
    kinds = {name: [mark["kind"] for mark in shape["marks"]] for name, shape in by.items()}
    assert kinds["order.new"] == ["published"]
    assert kinds["billing"] == ["delivered", "redelivered"]
    assert kinds["receipt.print"] == ["published", "delivered", "died"]
    bars = {name: [bar["kind"] for bar in shape["bars"]] for name, shape in by.items()}
    assert bars["mail.out"] == ["waiting"]
    assert bars["stock"] == ["queued", "handled"]
    assert bars["billing"] == ["queued", "back", "handled"]  # again
    assert bars["receipt.print"] == ["queued", "rejected"]  # who rejects a message holds it
    words = {name: [word["text"] for word in shape["words"]] for name, shape in by.items()}
    assert words["stock"] == ["stock", "275 ms"]
    assert words["receipt.print"] == [
        "643 ms held and rejected by stock",
        "\N{RIGHTWARDS ARROW} auditor",
    ]
    assert re.fullmatch(r"\d+ days waiting, still", words["mail.out"][0])
    assert kinds["mail.out"] == ["torn", "open"]  # days, of which two seconds are drawn


def test_what_goes_on_is_compared_by_its_age_and_has_an_open_end(
    told: Told, open_page: OpenPage
) -> None:
    usual = {"queue": {"median": 0.046, "p90": 0.08}, "service": {"median": 0.2, "p90": 0.4}}
    drawn = computed(
        open_page(told.server),
        """const { usual, ...own } = answer;
           told.usual = new Map(["queue\\nmail.out", "service\\nmailer"].map((key) =>
             [key, { ...usual[key.split("\\n")[0]], since: null }]));
           const x = waterfall.scaleOf({ from: 0, to: told.width }, 1000);
           const shapes = model.rowsOf(told).map((row) => [row.sub
             ? row.copies[0].queue : row.message.type, waterfall.rowShapes(row, x, told, 1000)]);
           return shapes.filter(([name]) => ["mail.out", "payment.done"].includes(name)).map(
             ([, { bars, spans, label, marks }]) => {
               const open = bars.filter((bar) => bar.open);
               const ends = marks.filter(({ kind }) => kind === "open").map(({ x }) => x);
               const [rail] = spans.filter(({ height }) => height === 3);
               return [label, open.map((bar) => bar.x + bar.width), ends, rail.x + rail.width];
             });""",
        settle(told.answer(told.order)) | {"usual": usual},
    )
    (held, *of_held), (waits, *of_waits) = drawn
    assert re.fullmatch(r"\d+ days waiting, still, usually 46 ms", waits)
    assert re.search(r"\d+ days handling by mailer, still, usually 200 ms", held)
    for [open_], [end], red in (of_waits, of_held):
        assert open_ == end == red


@pytest.mark.parametrize("pixels", [80, 130, 170, 230, 320, 600, 1_000])
def test_words_stand_on_a_bar_or_beside_all_of_them(
    told: Told, open_page: OpenPage, pixels: int
) -> None:
    rows = computed(
        open_page(told.server),
        f"""const x = waterfall.scaleOf({{ from: 0, to: told.width }}, {pixels});
           return model.rowsOf(told)
             .map((row) => waterfall.rowShapes(row, x, told, {pixels}));""",
        settle(told.answer(told.order)),
    )
    letter = 6.1
    for row in rows:
        ends = [(bar["x"], bar["x"] + bar["width"]) for bar in row["bars"]]
        for word in row["words"]:
            wide = len(word["text"]) * letter
            left = word["x"] if word["anchor"] == "start" else word["x"] - wide
            assert 0 <= left <= left + wide <= pixels
            if word["on"] is None:
                begin, end = min(begin for begin, _ in ends), max(end for _, end in ends)
                assert left + wide <= begin or left >= end
            else:
                assert any(begin <= left and left + wide <= end for begin, end in ends)


def test_of_several_copies_only_the_one_that_failed_is_said_to_be_rejected(
    told: Told, open_page: OpenPage
) -> None:
    answer = told.answer(told.order)
    message = next(each for each in answer["messages"] if each["type"] == "receipt.print")
    for delivery in message["copies"][0]["deliveries"]:
        delivery["acts"] = []
    message["copies"].append(message["copies"][0] | {"queue": "elsewhere"})
    shapes = computed(
        open_page(told.server),
        """const x = waterfall.scaleOf({ from: 0, to: told.width }, 1000);
           return model.rowsOf(told)
             .filter((row) => row.sub && row.message.type === "receipt.print")
             .map((row) => waterfall.rowShapes(row, x, told, 1000).bars)
             .map((bars) => bars.map(({ kind }) => kind));""",
        answer,
    )
    assert shapes == [["queued", "rejected"], ["queued", "back"]]


@pytest.mark.parametrize(
    ("begin", "seconds", "pixels", "first"),
    [
        (0, 2.1, 1000, ["0", "0.5 s", "1.0 s"]),
        (0, 0.00042, 300, ["0", "200 µs"]),
        (0, 0.000005, 900, ["0", "1 µs", "2 µs"]),
        (0, 0.0052, 900, ["0", "1 ms", "2 ms"]),
        (3.2, 0.5, 900, ["3.2 s", "3.3 s"]),
        (75, 1, 900, ["75.0 s", "75.2 s"]),
        (0, 86_400, 700, ["0", "5 h 33 min"]),
    ],
)
def test_ticks_are_round_far_enough_apart_and_told_apart(
    told: Told, open_page: OpenPage, begin: float, seconds: float, pixels: int, first: list[str]
) -> None:
    drawn = open_page(told.server).evaluate(
        """async ([from, to, pixels]) => {
          const { axisOf } = await import("/app/conversations/waterfall-layout.js");
          return axisOf({ end: to, isBroken: false }, { from, to }, pixels);
        }""",
        [begin, begin + seconds, pixels],
    )
    labels, ticks = [tick["label"] for tick in drawn], [tick["at"] for tick in drawn]
    assert labels[: len(first)] == first
    assert len({*labels}) == len(labels)
    steps = {f"{b - a:.3g}" for a, b in itertools.pairwise(ticks)}
    assert len(steps) == 1
    [step] = steps
    assert re.fullmatch(r"[125](\.0+)?(e[+-]\d+)?|0\.0*[125]|[125]0*", step), step
    assert float(step) / seconds * pixels >= 100


def test_a_sequence_is_in_the_order_of_time_and_is_written_as_mermaid(
    told: Told, open_page: OpenPage
) -> None:
    steps, mermaid = computed(
        open_page(told.server),
        """const drawn = sequence.sequenceOf(told);
           const steps = drawn.steps.map((one) => [one.at, one.kind, one.type]);
           return [steps, sequence.mermaidOf(drawn)];""",
        told.answer(told.order),
    )
    lanes = re.findall(r"participant \w+ as (.*)", mermaid)
    assert len({*lanes}) == len(lanes)
    assert "queue mail.out" in lanes  # where a message waits: not who takes from it
    assert [step[0] for step in steps] == sorted(step[0] for step in steps)
    assert [step[1] for step in steps] == [
        *("sent", "sent", "sent", "sent", "again", "sent", "sent", "stays", "sent", "note", "dead"),
    ]
    assert mermaid.splitlines()[:3] == [
        "sequenceDiagram",
        "  participant p1 as shop",
        "  participant p2 as billing",
    ]
    assert "  p2-->>p2: order.new again (880 ms held by billing and back in its queue)" in mermaid
    assert (
        "  Note over p3: receipt.print died in printer: 643 ms held and rejected by stock"
        in mermaid
    )
    # From who rejected it, not from who had published it.
    assert "  p3--xp4: receipt.print, dead letter" in mermaid.splitlines()


# ---- finding ------------------------------------------------------------------------------------


def test_an_order_number_leads_from_the_overview_to_its_conversation(
    told: Told, open_page: OpenPage
) -> None:
    page = open_page(told.server)
    page.get_by_label("What happened to").fill("order-1234")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="order-1234")).to_be_visible()
    expect(page.locator(".conv-sentence")).to_have_text(
        "order.new led to 4 more messages so far. auditor has published nothing since it was"
        " handed a message here, but still may."
    )
    assert page.url.endswith(f"#/conversations?event={told.order}")


@pytest.mark.parametrize(
    "text", ["{message_id}", "message_id:{message_id}", "conversation:order-1234", "#{event}"]
)
def test_ids_of_every_kind_lead_there(told: Told, open_page: OpenPage, text: str) -> None:
    event = told.event("payment.done")
    page = open_page(told.server, "#/conversations")
    box = page.get_by_label("What happened to")
    box.fill(text.format(message_id=f"m-{event}", event=event))
    box.press("Enter")
    expect(page.get_by_role("heading", name="order-1234")).to_be_visible()
    if text.startswith("conversation:"):  # a key names no message of its own
        assert page.url.endswith(f"event={told.order}")
    else:
        assert page.url.endswith(f"event={event}")
        expect(page.locator("[role=treeitem][aria-selected=true]")).to_contain_text("payment.done")


def test_a_participant_is_found_by_the_name_that_the_page_shows(
    told: Told, open_page: OpenPage
) -> None:
    page = open_page(told.server, "#/conversations")
    page.get_by_label("What happened to").fill("participant:billing type:payment.done")
    page.keyboard.press("Enter")
    keys = page.get_by_role("group", name="Conversations, ").locator("td:nth-child(1)")
    expect(keys).to_have_text(["order-1234", "order-77"], use_inner_text=True)


def test_a_text_that_several_hold_leads_to_the_list_of_them(
    told: Told, open_page: OpenPage
) -> None:
    page = open_page(told.server)
    page.get_by_label("What happened to").fill("lamp outcome:failed")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="order-1234")).to_be_visible()  # only one failed
    page.go_back()
    page.get_by_label("What happened to").fill("lamp")
    page.keyboard.press("Enter")
    table = page.get_by_role("group", name="Conversations, ")
    types = table.locator("td:nth-child(5)")
    expect(types).to_have_text(["order.new", "order.new"])
    expect(page.get_by_label("What happened to")).to_have_value("lamp")
    expect(page.get_by_text("2, by text, newest first")).to_be_visible()


def test_the_list_is_filtered_and_the_address_has_the_filters(
    told: Told, open_page: OpenPage
) -> None:
    page = open_page(told.server, "#/conversations")
    rows = page.get_by_role("group", name="Conversations, ").locator("tbody tr")
    expect(rows).to_have_count(3)
    page.get_by_role("button", name="1 failed").click()
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("2.1 s")
    page.reload()
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="All 3").click()
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Duration from, s").fill("3")
    page.get_by_label("Duration from, s").press("Tab")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("batch.start")


def test_a_strip_counts_the_states_and_an_order_that_is_stuck_says_where_and_how_long(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = Past()
    for order in ("order-7", "order-8"):
        stories.tell_plain(world, order)
    retried = stories.Story(world, "order-9")
    placed = retried.publish(0, stories.SHOP, "order.new", ("billing",))
    for at, match in enumerate(("routed", "redelivered", "redelivered", "redelivered")):
        taken = retried.deliver(10 + at, stories.BILLING, placed, "billing", match)
    paid = retried.publish(90, stories.BILLING, "payment.done", ("audit",), taken)
    retried.deliver(95, stories.AUDITOR, paid, "audit")
    ago = 6 * 60_000  # ms
    stuck = stories.Story(world, "order-10")
    stuck.began = time.time_ns() // 1000
    waits = stuck.publish(-ago - 2_000, stories.SHOP, "order.new", ("stock",))

    server = serve(world)
    page = open_page(server, "#/conversations")
    rows = page.get_by_role("group", name="Conversations, ").locator("tbody tr")
    strip = page.get_by_role("group", name="State").get_by_role("button")
    expect(rows).to_have_count(4)
    expect(strip).to_have_text(["All 4", "2 finished", "1 retried", "1 waiting"])
    expect(rows.first).to_contain_text(re.compile(r"waiting in stock for \d+ min"))
    expect(rows.first).to_contain_text(re.compile(r"\d+ min \d+ s so far"))
    strip.filter(has_text="retried").click()
    expect(rows).to_have_count(1)
    expect(rows.locator(".badge.good")).to_have_text("retried, finished")
    expect(strip.first).to_have_text("All 4")
    rows.get_by_role("link").click()
    head = page.locator(".conv-head")
    expect(head.get_by_role("heading", name="What came back")).to_be_visible()
    head.locator(".conv-state summary").click()
    expect(head.locator(".conv-state li").first).to_have_text("Redelivered 3 times.")
    page.get_by_role("group", name="Follow").get_by_role("button", name="All possible").click()
    expect(head).to_contain_text("also of other orders: no state")
    expect(head.locator(".conv-state")).to_have_count(0)
    expect(head.get_by_role("heading", level=1)).to_have_text(re.compile(r"^order\.new #\d+$"))
    expect(page).to_have_title(re.compile(r"^order\.new #\d+ · all that it may have influenced ·"))
    expect(page.locator(".conv-sentence")).not_to_contain_text("led to")

    page.goto(f"{server.url}/#/conversations?event={waits}")
    expect(head.locator(".conv-state summary")).to_have_text("waiting")
    since = re.compile(r"order\.new waits in queue stock; nobody took it for \d+ min \d+ s, since ")
    expect(head.locator(".conv-state + span")).to_have_text(since)
    expect(head).to_contain_text(re.compile(r"\d+ min \d+ s ago: so far 1 message, 0 deliveries"))
    check = "Check that a consumer of queue stock runs: nobody took a message from it since "
    expect(head).to_contain_text(check)
    nothing = "Check the recording first: no message at all was recorded since "
    expect(head).to_contain_text(nothing)
    chip = head.locator(".conv-title .badge").first
    expect(chip).to_have_text("in /")
    newer = {"recorded_at": iso(time.time_ns() // 1000 - 60_000_000)}
    change_answers(page, re.compile(r"/itc_db\?"), lambda events: [one | newer for one in events])
    page.reload()
    expect(head).to_contain_text(check)
    expect(page.get_by_text(re.compile("^No message recorded since"))).to_be_visible()
    expect(head).not_to_contain_text(nothing)
    page.unroute(re.compile(r"/itc_db\?"))
    expect(page.locator(".conv-axis-time")).to_contain_text("5 min")
    first = page.get_by_role("region", name="Where the time goes").get_by_role("listitem").first
    expect(first).to_have_text(re.compile(r"^\d+ min \d+ s\s*waiting in stock, still$"))
    expect(page.locator(".conv-detail")).to_contain_text("waits in stock since ")
    expect(head).to_contain_text("it was dropped, or expired by its queue's own time")
    expect(page.locator(".waterfall")).not_to_contain_text("critical path")  # it has no end yet
    page.keyboard.press("Enter")
    lead = page.get_by_role("complementary", name=f"Event {waits}").locator(".drawer-lead")
    expect(lead).to_contain_text(
        re.compile(r"waiting: order\.new waits in queue stock; nobody took it for \d+ min")
    )
    page.keyboard.press("Escape")

    def came_back(answer: dict[str, Any]) -> dict[str, Any]:
        answer["position"]["returns"] = answer["messages"][0]["copies"][0]["returns"] = 2
        return answer

    change_answers(page, re.compile(rf"/conversations/{waits}\b"), came_back)
    page.reload()
    back = re.compile(r"in queue stock, where it came back twice; nobody took it again for \d+ min")
    expect(head.locator(".conv-state + span")).to_have_text(back)
    took = {"participant": None, "exchange": "", "count": 1, "dead_letters": 0}
    to_do = page.get_by_role("region", name="What to do")
    for last, step in (
        ("2100-01-01T00:00:00Z", "Check whether the message is still in queue stock: its consumer"),
        ("2000-01-01T00:00:00Z", "Check that the consumer runs: it has taken nothing from queue"),
    ):
        receivers = {"receivers": [{**took, "last": last}]}
        change_answers(page, "**/itc_db/queue?*", lambda answer, more=receivers: answer | more)
        page.reload()
        expect(to_do).to_contain_text(step)


def stuck_behind_many() -> Past:
    """An order that waits, and newer ones, more than a page of the list."""
    world = Past()
    stuck = stories.Story(world, "order-0")
    stuck.began = time.time_ns() // 1000
    stuck.publish(-6 * 60_000 - 2_000, stories.SHOP, "order.new", ("stock",))
    for number in range(60):
        stories.tell_plain(world, f"order-{number + 1}")
    return world


def test_what_waits_has_no_number_until_all_that_wait_are_counted(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    server = serve(stuck_behind_many())
    page = open_page(server)
    routes: list[Route] = []
    page.route(re.compile(r"/conversations\?.*state=waiting"), lambda route: routes.append(route))
    page.goto(f"{server.url}/#/conversations")
    strip = page.get_by_role("group", name="State").get_by_role("button")
    expect(strip.filter(has_text="waiting")).to_have_text("… waiting")
    expect(strip.first).to_have_text("All …")
    expect(strip.filter(has_text="finished")).to_have_text(re.compile(r"^\d+ finished$"))
    for route in routes:
        route.continue_()
    expect(strip.filter(has_text="waiting")).to_have_text(re.compile("^1 waiting"))
    expect(strip.first).to_have_text("All 51")


FAILED = {"counted": 149, "counted_all": True}


def test_an_order_that_is_stuck_behind_many_newer_ones_is_counted_and_named_on_the_overview(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    server = serve(stuck_behind_many())
    page = open_page(server, "#/conversations")
    strip = page.get_by_role("group", name="State").get_by_role("button")
    waiting = strip.filter(has_text="waiting")
    expect(waiting).to_have_text("1 waiting")
    expect(strip.first).to_have_text("All 51")
    counted = page.get_by_text("of the newest 50 conversations, and all that wait")
    expect(counted).to_have_text(re.compile("all that wait$"))  # nothing failed
    page.route("**/itc_db/failures*", lambda route: route.fulfill(json=FAILED))
    page.reload()
    for width in (390, 1440):
        page.set_viewport_size({"width": width, "height": 844})
        link = page.get_by_role("link", name="149 failures in all")
        expect(link).to_be_in_viewport(ratio=1)
    expect(strip.filter(has_text="failed")).to_have_text("failed")  # none of these
    page.unroute("**/itc_db/failures*")
    expect(page.get_by_text("order.new waits in stock")).to_be_visible()
    waiting.click()
    rows = page.get_by_role("group", name="Conversations, oldest first").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("order-0")
    expect(strip.first).to_have_text("All 51")
    page.goto(f"{server.url}/#/overview")
    longest = page.get_by_role("region", name="Waiting for longest")
    expect(longest).to_contain_text("1 with a message that no consumer took for 10 s or more")
    expect(longest).to_contain_text(re.compile(r"order-0\s*order\.new\s*stock.*\d+ min"))
    longest.get_by_role("link", name="order-0").click()
    expect(page.locator(".conv-head .conv-state summary")).to_have_text("waiting")


def test_a_list_that_arrives_while_one_types_leaves_what_is_typed(
    told: Told, open_page: OpenPage
) -> None:
    page = open_page(told.server, "#/conversations?state=failed")
    rows = page.get_by_role("group", name="Conversations, ").locator("tbody tr")
    expect(rows).to_have_count(1)
    page.route("**/itc_db/conversations?*", held := Held())
    page.get_by_role("button", name="All 3").click()
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Duration from, s").fill("3")
    held.let_go()
    expect(rows).to_have_count(3)
    page.get_by_label("Duration from, s").press("Tab")
    expect(rows).to_have_count(1)


def test_a_row_is_reached_and_opened_by_keyboard(told: Told, open_page: OpenPage) -> None:
    page = open_page(told.server, "#/conversations")
    settled(page)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".conv-sentence")).to_contain_text("led to 1 more message")


def test_older_ones_are_shown_when_asked_for(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    """And stay while new ones come."""
    world = demo_world(600)
    server = serve(world)
    page = open_page(server, "#/conversations?vhost=%2F&order=newest", hurry=True)
    rows = page.get_by_role("group", name="Conversations, ").locator("tbody tr")
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="Show older").click()
    expect(rows).to_have_count(100)
    panel = page.get_by_role("region", name="Conversations")
    expect(panel).to_contain_text("100 so far")
    expect(panel).to_contain_text("100 conversations looked at")
    world.grow("/", 60)
    listed = server.answer("/itc_db/conversations", vhost="/", limit="200")["items"]
    newest = [one["root"] for one in listed]
    expect(page.locator(f"#conversation-{newest[0]}")).to_be_attached()
    shown = rows.locator("a[id]").evaluate_all("all => all.map((a) => Number(a.id.slice(13)))")
    assert shown == newest[: len(shown)]
    assert len(shown) >= 100
    page.get_by_role("button", name="Show older").click()
    expect(page.get_by_role("button", name="Show older")).to_have_count(0)
    expect(rows).to_have_count(len(newest))
    expect(panel).to_contain_text(f"{len(newest)}, newest first")


def test_what_nobody_knows_is_said_with_a_way_on(told: Told, open_page: OpenPage) -> None:
    page = open_page(told.server)
    page.get_by_label("What happened to").fill("order-9999")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="No conversation has order-9999")).to_be_visible()
    whereabouts = page.get_by_role("status").filter(has_text="no message in '/' has 'order-9999'")
    expect(whereabouts).to_contain_text("Never published: ")
    expect(whereabouts).to_contain_text("the record is complete from")
    page.get_by_role("link", name="Look among the events").click()
    expect(page.get_by_label("Filter events")).to_have_value("order-9999")


def test_an_empty_store_says_how_conversations_begin(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = Past()
    world.start_trace("/")
    page = open_page(serve(world), "#/conversations")
    expect(page.get_by_role("heading", name="No conversations yet")).to_be_visible()


def test_an_unknown_event_and_a_failing_service_are_told(told: Told, open_page: OpenPage) -> None:
    page = open_page(told.server, "#/conversations?event=99999")
    expect(page.get_by_role("heading", name="There is no event #99999")).to_be_visible()

    def refuse(route: Route) -> None:
        route.fulfill(status=500, json={"error": "error", "reason": "the store is on fire"})

    page.route("**/itc_db/conversations**", refuse)
    page.locator("#page").get_by_role("link", name="All conversations").click()
    expect(page.get_by_text("The store is on fire.")).to_be_visible()
    page.unroute("**/itc_db/conversations**")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("link", name="batch-1")).to_be_visible()


def test_an_events_drawer_leads_to_its_conversation_first(told: Told, open_page: OpenPage) -> None:
    page = open_page(told.server, f"#/events?live=off&event={told.event('payment.done')}")
    first = page.locator(".drawer-head .drawer-line").nth(1).locator("a, button").first
    expect(first).to_have_text("Conversation")
    first.click()
    expect(page.get_by_role("heading", name="order-1234")).to_be_visible()
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text("payment.done")


# ---- the facts ----------------------------------------------------------------------------------


def test_facts_come_first_why_it_failed_and_where_the_time_went(
    told: Told, open_page: OpenPage
) -> None:
    page = opened(told, open_page)
    why = page.get_by_role("region", name="What to do")
    expect(why).to_contain_text(re.compile(r"Look into the log of stock, [\d:.]+ to [\d:.]+\."))
    moved = "It was moved to queue orders.dead, and auditor took it from there."
    expect(why).to_contain_text(moved)
    why.get_by_text("Put receipt.print back into printer …", exact=True).click()
    expect(why.locator("code")).to_contain_text("routing_key=printer")
    expect(why).to_contain_text("order.shipped still waits in mail.out")
    time = page.get_by_role("region", name="Where the time went").get_by_role("listitem")
    expect(time).to_have_text(
        [
            re.compile(r"1.4 s\s*67 %\s*waiting for billing, and handling until it published"),
            re.compile(r"643 ms\s*31 %\s*held and rejected by stock"),
            re.compile(r"50 ms\s*2 %\s*waiting in printer"),
        ]
    )
    why.get_by_role("button").first.click()
    expect(page.locator(".drawer h2")).to_have_text(f"#{told.event('receipt.print', 'printer')}")
    expect(why).to_contain_text("No other like it is recorded in /.")
    told_at = page.locator(".conv-head").get_by_text("rejected by stock")
    expect(told_at).to_have_count(2)  # the verdict, and where the time went
    verdict = page.locator(".conv-state + span")
    rejected = r"receipt.print rejected by stock in queue printer"
    at = r"(\d\d-\d\d )?\d\d:\d\d:\d\d\.\d{3}"
    ended = re.compile(rf"^{rejected} between {at} and {at}$")
    expect(verdict).to_have_text(ended)


def test_what_is_known_against_it_is_said(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = Past()
    order = stories.tell_order(world)
    world.traces["/"].gaps.append(
        {
            "id": 1,
            "after_event_id": order + 2,
            "before_event_id": order + 3,
            "since": iso(world.events[order].at),
            "until": iso(world.events[order].at),
            "reason": "the queue was full",
            "suspected": False,
            "declared": False,
        }
    )
    page = open_page(serve(world), f"#/conversations?event={order}")
    banner = page.get_by_role("region", name="What is known")
    expect(banner.locator(".trust-part").first).to_have_text("incomplete, 1 gap")
    banner.get_by_text("Why?").click()
    expect(banner).to_contain_text("the queue was full")


def test_a_message_whose_publish_was_not_observed_is_shown(
    demo: Served, open_page: OpenPage
) -> None:
    event = next(e.id for e in demo.world.events if e.match == "unmatched")
    page = open_page(demo, f"#/conversations?event={event}")
    expect(page.get_by_role("treeitem")).to_contain_text("not observed")
    page.goto(f"{demo.url}/#/conversations?event={event}&view=sequence")
    expect(page.locator(".conv-drawing").first).to_contain_text("not observed")


def test_put_together_by_another_way_it_may_be_larger(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = Past()
    story = stories.Story(world, "order-5")
    root = story.publish(0, 1, "order.new", ("billing",))
    billed = story.deliver(10, 2, root, "billing")
    story.publish(20, 2, "payment.done", (), billed, named=False)
    page = open_page(serve(world), f"#/conversations?event={root}")
    expect(page.get_by_role("treeitem")).to_have_count(1)
    page.get_by_role("button", name="Conversation", exact=True).click()
    expect(page.get_by_role("treeitem")).to_have_count(2)
    expect(page.locator(".conv-verdict")).to_contain_text("payment.done reached no queue")
    todo = page.get_by_role("region", name="What to do")
    expect(todo).to_contain_text("Bind a queue to exchange orders for routing key payment.done")
    assert "via=conversation" in page.url


# ---- two drawings, one selection ----------------------------------------------------------------


def test_a_link_shows_the_same_event_in_the_same_drawing(told: Told, open_page: OpenPage) -> None:
    event = told.event("payment.done", "ship")
    page = open_page(told.server, f"#/conversations?event={event}&view=sequence&panel=on")
    expect(page.locator("[role=option][aria-selected=true]")).to_contain_text("payment.done")
    expect(page.locator(".drawer h2")).to_have_text(f"#{event}")
    page.get_by_role("button", name="Waterfall").click()
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text("payment.done")
    page.go_back()
    expect(page.locator("[role=option][aria-selected=true]")).to_contain_text("payment.done")


def test_a_click_opens_the_event_at_the_side_and_escape_closes_only_that(
    told: Told, open_page: OpenPage
) -> None:
    page = opened(told, open_page)
    row(page, "stock.reserved").click(position={"x": 60, "y": 15})
    expect(page.locator(".drawer h2")).to_have_text(f"#{told.event('stock.reserved')}")
    bar = row(page, "payment.done").locator(".bar.handled")
    bar.click()
    expect(page.locator(".drawer h2")).to_have_text(f"#{told.event('payment.done', 'ship')}")
    page.keyboard.press("Escape")
    expect(page.locator(".drawer")).to_have_count(0)
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text("payment.done")


def test_events_of_one_conversation_are_chosen_without_asking_again(
    told: Told, open_page: OpenPage
) -> None:
    page = opened(told, open_page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("tree").press("Home")
    for _ in range(6):
        page.keyboard.press("ArrowDown")
    expect(page.get_by_role("treeitem", selected=True)).to_contain_text("order.shipped")
    page.get_by_role("button", name="Sequence").click()
    expect(page.locator("[role=option][aria-selected=true]")).to_contain_text("order.shipped")
    assert not [url for url in asked if "/conversations/" in url and "itc_db" in url]


def test_the_waterfall_by_keyboard(told: Told, open_page: OpenPage) -> None:
    page = opened(told, open_page)
    tree = page.get_by_role("tree")
    tree.focus()
    chosen = page.get_by_role("treeitem", selected=True)
    expect(chosen).to_contain_text("receipt.print")  # which failed
    page.keyboard.press("Home")
    for text in ("billing", "payment.done", "receipt.print", "stock", "stock.reserved"):
        page.keyboard.press("ArrowDown")
        expect(chosen).to_contain_text(text)
    assert tree.get_attribute("aria-activedescendant") == chosen.get_attribute("id")
    page.keyboard.press("ArrowLeft")
    expect(chosen).to_have_attribute("aria-expanded", "false")
    expect(chosen).to_contain_text("+1")
    expect(page.get_by_role("treeitem")).to_have_count(7)
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("treeitem")).to_have_count(10)
    page.keyboard.press("ArrowRight")
    expect(chosen).to_contain_text("order.shipped")
    page.keyboard.press("ArrowLeft")
    expect(chosen).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("ArrowLeft")
    expect(chosen).to_contain_text("stock.reserved")
    page.keyboard.press("End")
    expect(chosen).to_contain_text("audit")
    page.keyboard.press("Enter")
    expect(page.locator(".drawer h2")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".drawer")).to_have_count(0)


def test_folding_by_mouse_and_all_at_once(told: Told, open_page: OpenPage) -> None:
    page = opened(told, open_page)
    row(page, "stock.reserved").locator(".fold").click()
    expect(page.get_by_role("treeitem")).to_have_count(7)
    page.get_by_role("button", name="Unfold all").click()
    expect(page.get_by_role("treeitem")).to_have_count(10)
    page.get_by_role("button", name="Fold all", exact=True).click()
    expect(page.get_by_role("treeitem")).to_have_count(1)
    expect(page.get_by_role("treeitem")).to_contain_text("+4")
    page.get_by_role("button", name="Unfold all").click()
    expect(page.get_by_role("treeitem")).to_have_count(10)


def test_times_and_slack_are_under_the_pointer_and_below_for_the_chosen_row(
    told: Told, open_page: OpenPage
) -> None:
    page = opened(told, open_page)
    row(page, "stock.reserved").hover()
    tip = page.locator(".conv-tip")
    expect(tip).to_contain_text(
        "20 ms waiting in ship, then mailer, 1.6 s handling until it published"
    )
    expect(tip).to_contain_text("could be 1.3 s later without delaying the end")
    page.mouse.move(0, 0)
    expect(tip).to_have_count(0)
    page.get_by_role("tree").press("Home")
    expect(page.locator(".conv-detail")).to_contain_text("on the critical path")
    for _ in range(5):
        page.keyboard.press("ArrowDown")
    expect(page.locator(".conv-detail")).to_contain_text("could be 1.3 s later")


def test_the_time_axis_zooms_to_the_chosen_message_and_back(
    told: Told, open_page: OpenPage
) -> None:
    page = open_page(told.server, f"#/conversations?event={told.event('payment.done')}")
    bar = row(page, "payment.done").locator(".bar.handled")
    before = bar.bounding_box()
    assert before
    page.get_by_role("button", name="Zoom in").click()
    expect(page.locator(".conv-axis-time span").first).not_to_have_text("0")
    grown = "least => document.querySelector('.chosen .bar.handled')"
    grown += "?.getBoundingClientRect().width > least"
    page.wait_for_function(grown, arg=1.8 * before["width"])
    page.keyboard.press("f")
    expect(page.locator(".conv-axis-time span").first).to_have_text("0")


CUT = "all => all.filter(it => it.scrollWidth > it.clientWidth + 1).map(it => it.textContent)"


def test_on_a_phone_neither_drawing_cuts_a_name(told: Told, open_page: OpenPage) -> None:
    address = f"#/conversations?event={told.order}"
    page = open_page(told.server, address, width=390)
    expect(page.get_by_role("treeitem").first).to_be_visible()
    assert page.locator(".conv-row-name > .cut").evaluate_all(CUT) == []
    expect(page.locator(".conv-axis-time span").nth(2)).to_be_visible()
    page.goto(f"{told.server.url}/{address}&view=sequence")
    words = page.locator(".sequence .conv-list text")
    expect(words.first).to_be_visible()
    assert [each for each in words.all_text_contents() if "…" in each] == []
    times = page.locator(".sequence .conv-row svg text:first-of-type").all_text_contents()
    assert times
    assert all(re.fullmatch(r"\+[\d.]+ (ms|s|min)( \d+ s)?", each) for each in times)
    assert not [each for each in words.all_text_contents() if "waiting in" in each]
    expect(page.locator(".sequence .ground").first).to_be_visible()  # no lane crosses words
    boxes = [each.bounding_box() for each in page.locator(".sequence svg text").all()]
    assert all(box and box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)


def test_a_sequence_is_copied_as_mermaid_and_saved_as_svg_and_png(
    told: Told, open_page: OpenPage, tmp_path: Path
) -> None:
    page = opened(told, open_page, "&view=sequence")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Share").click()
    page.get_by_role("button", name="Mermaid").click()
    expect(page.get_by_text("Copied.")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("sequenceDiagram\n")
    assert re.search(r"order\.shipped \(\d+ days waiting, still\)", copied)

    with page.expect_download() as download:
        page.get_by_role("button", name="SVG").click()
    assert download.value.suggested_filename == f"conversation-{told.order}-sequence.svg"
    download.value.save_as(tmp_path / "sequence.svg")
    svg = (tmp_path / "sequence.svg").read_text()
    assert "order.new again (880 ms held" in svg
    assert "var(" not in svg
    with page.expect_download() as download:
        page.get_by_role("button", name="PNG").click()
    download.value.save_as(tmp_path / "sequence.png")
    png = (tmp_path / "sequence.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    size = re.search(r'width="([\d.]+)" height="([\d.]+)"', svg)
    assert size
    assert (width, height) == (2 * float(size[1]), 2 * float(size[2]))


def test_a_waterfall_is_a_picture_that_says_what_and_when_and_where(
    told: Told, open_page: OpenPage, tmp_path: Path
) -> None:
    page = open_page(told.server, f"#/conversations?event={told.order}", zone="Asia/Tokyo")
    settled(page)
    page.get_by_role("button", name="Share").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="SVG").click()
    download.value.save_as(tmp_path / "waterfall.svg")
    svg = (tmp_path / "waterfall.svg").read_text()
    for said in ("order-1234 \N{MIDDLE DOT} order.new", "(Asia/Tokyo)", page.url.split("?")[0]):
        assert said in svg
    assert ">643 ms held and rejected by stock</text>" in svg
    assert "var(" not in svg
    page.evaluate("delete window.ClipboardItem")
    page.get_by_role("button", name="Picture").click()
    expect(page.get_by_text("only over https or from localhost")).to_be_visible()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Sentence").click()
    expect(page.get_by_text("Copied.")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert (
        copied == "order-1234 failed: receipt.print rejected by stock in queue printer"
    )  # when is not known


def test_a_message_is_drawn_below_the_copy_that_led_to_it(told: Told, open_page: OpenPage) -> None:
    page = opened(told, open_page)
    items = page.get_by_role("treeitem")
    expect(items).to_have_count(10)
    answer = told.server.answer(f"/itc_db/conversations/{told.order}")
    causes = {one["event"]: f"{one['type']} from" for one in answer["messages"]}
    for one in answer["messages"]:
        for copy in one["copies"]:
            row_of = f"{one['type']} in {copy['queue']}," if len(one["copies"]) > 1 else None
            causes |= {each["event"]: row_of or causes[one["event"]] for each in copy["deliveries"]}
    above: list[str] = []  # the rows from the top to the present one
    under = {}
    read = "items => items.map(item => [Number(item.ariaLevel), item.ariaLabel])"
    for level, label in items.evaluate_all(read):
        above[level - 1 :] = [label]
        if " from " in label and level > 1:
            under[label.split(" from ")[0]] = above[-2]
    led = [one for one in answer["messages"] if one["cause"]]
    assert len(under) == len(led) == 4
    for one in led:
        # One that names a message stands below the copy that its publisher was handed.
        by_message = {
            "payment.done": "order.new in billing,",
            "receipt.print": "order.new in billing,",
        }
        assert under[one["type"]].startswith(by_message.get(one["type"], causes[one["cause"]]))
    assert under["stock.reserved"].startswith("order.new in stock,")


def test_the_last_row_with_an_event_is_the_end(told: Told, open_page: OpenPage) -> None:
    page = opened(told, open_page)

    def unheard(answer: dict[str, Any]) -> dict[str, Any]:
        first, second, *_ = answer["messages"]
        copies = [each | {"deliveries": []} for each in first["copies"]]
        second |= {"copies": copies, "cause": None}
        return answer | {"messages": [first | {"copies": []}, second]}

    second = told.answer(told.order)["messages"][1]["event"]
    change_answers(page, f"**/itc_db/conversations/{told.order}?*", unheard)
    page.reload()
    items = page.get_by_role("treeitem")
    expect(items.first).to_be_visible()
    assert items.count() > 2
    page.locator(".conv-list").focus()
    page.keyboard.press("End")
    expect(items.nth(1)).to_have_attribute("aria-selected", "true")
    expect(page).to_have_url(re.compile(f"event={second}$"))


def test_a_drawings_code_is_loaded_when_it_is_looked_at(told: Told, open_page: OpenPage) -> None:
    page = open_page(told.server)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    page.goto(f"{told.server.url}/#/conversations?event={told.order}")
    expect(page.get_by_role("treeitem")).to_have_count(10)
    assert "waterfall.js" in asked
    assert "sequence.js" not in asked
    page.get_by_role("button", name="Sequence").click()
    expect(page.locator(".conv-drawing").first).to_be_visible()
    assert "sequence.js" in asked


# ---- a thousand messages ------------------------------------------------------------------------


@pytest.mark.parametrize(("view", "role"), [("waterfall", "treeitem"), ("sequence", "option")])
def test_of_a_thousand_messages_only_rows_in_view_exist(
    told: Told, open_page: OpenPage, view: str, role: str
) -> None:
    page = open_page(told.server, f"#/conversations?event={told.batch}&view={view}")
    rows = page.locator(f"[role={role}]")
    expect(rows.first).to_be_visible()
    assert rows.count() < 60
    page.locator(".conv-list").focus()
    page.keyboard.press("End")
    expect(page.locator(f"[role={role}][aria-selected=true]")).to_be_in_viewport()
    assert rows.count() < 60
    page.keyboard.press("Home")
    expect(page.locator(f"[role={role}][aria-selected=true]")).to_contain_text("batch.start")


def test_what_does_not_fit_into_one_answer_is_loaded_when_asked_for(
    told: Told, open_page: OpenPage
) -> None:
    page = open_page(told.server)
    page.route(
        "**/itc_db/conversations/*",
        lambda route: route.continue_(url=route.request.url.replace("limit=5000", "limit=1200")),
    )
    page.goto(f"{told.server.url}/#/conversations?event={told.batch}")
    more = page.get_by_text(re.compile(r"^The first \d+ messages are shown"))
    expect(more).to_be_visible()
    page.get_by_role("button", name="Show more").click()
    expect(more).to_have_count(0)
    expect(page.get_by_role("tree", name="Messages, 1,002 rows")).to_be_visible()


# ---- for everybody ------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.long(12))])
def test_axe_finds_nothing(told: Told, open_page: OpenPage, theme: str, shots: Path) -> None:
    page = open_page(told.server, theme=theme, policy=False)
    found = {}
    addresses = {
        "list": "",
        "nothing": "?find=order-9999",
        "unknown": "?event=99999",
        **{view: f"?event={told.order}&view={view}" for view in VIEWS},
        "panel": f"?event={told.event('receipt.print')}&panel=on",
        "batch": f"?event={told.batch}",
    }
    for name, query in addresses.items():
        page.goto(f"{told.server.url}/#/conversations{query}")
        settled(page)
        found[name] = violations(page)
        page.screenshot(path=shots / f"conversation-{name}-{theme}.png")
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize("width", [800, 400])
def test_no_drawing_is_wider_than_the_window(
    told: Told, open_page: OpenPage, width: int, shots: Path
) -> None:
    page = open_page(told.server, width=width)
    for view in VIEWS:
        page.goto(f"{told.server.url}/#/conversations?event={told.order}&view={view}")
        settled(page)
        expect(page.locator(".conv-drawing, .conv-bars").first).to_be_visible()
        page.screenshot(path=shots / f"conversation-{view}-{width}.png")
        assert page.evaluate(
            """() => [document.documentElement, document.getElementById("page")]
                 .every((e) => e.scrollWidth <= e.clientWidth)"""
        ), view


def test_hostile_names_are_shown_as_text(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = Past()
    world.start_trace("/", 12, seed=3, hostile=True)
    world.grow("/", 120)
    root = next(e.id for e in world.events if not e.received and not e.prompt)
    server = serve(world)
    page = open_page(server)
    for query in ("", *(f"?event={root}&view={view}" for view in VIEWS)):
        page.goto(f"{server.url}/#/conversations{query}")
        settled(page)
        assert page.evaluate("window.pwned") is None
        assert "\u202e" not in page.locator("main").inner_text()


def test_names_that_look_like_patterns_are_shortened_as_they_stand(
    told: Told, open_page: OpenPage
) -> None:
    said = open_page(told.server).evaluate(
        """async () => {
          const { inShort, shortOf } = await import("/app/ui/names.js");
          const names = ["a$&b (guest@127.0.0.1)", "$'@10.0.0.7"];
          return inShort(names.join(" to "), names, shortOf(names));
        }"""
    )
    assert said == "a$&b to $'"


def test_a_phone_shows_states_in_the_first_screen_of_the_list(
    told: Told, open_page: OpenPage
) -> None:
    page = open_page(told.server, "#/conversations", width=390)
    expect(page.locator("td.place .badge").first).to_be_in_viewport(ratio=1)
    expect(page.get_by_label("Message type")).not_to_be_visible()
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Message type").fill("order.new")
    page.get_by_label("Message type").press("Enter")
    expect(page).to_have_url(re.compile("type=order.new"))
    page.reload()
    expect(page.get_by_label("Message type")).to_be_visible()  # what is set is shown
