from __future__ import annotations

import datetime
import re
import time
from collections import Counter
from collections.abc import Callable
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import expect

from tests.web.conftest import OpenPage, change_answers
from tests.web.jobs import counted
from tests.web.past import Past, demo_world, iso
from tests.web.service import Served
from tests.web.test_accessibility import settled
from tests.web.test_space_time import Held


def test_flows_are_counted_from_the_events(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/topology?vhost=%2F&newest=5000")
    table = page.get_by_role("group", name="Queues to consumers")
    row = table.get_by_role("row").filter(has=page.get_by_role("link", name="stock", exact=True))
    expect(row).to_be_visible()
    stock = [e for e in demo.world.events if e.vhost == "/" and e.queue == "stock"]
    publishes = {e.id: e.at for e in demo.world.events if not e.received}
    waits = sorted((e.at - publishes[e.cause]) / 1e6 for e in stock if e.match == "routed")
    cells = row.get_by_role("cell").all_inner_texts()
    assert cells[:3] == ["stock", "stock", f"{len(stock):,}"]
    assert cells[4] == "0"
    median = waits[len(waits) // 2]
    assert cells[5] == (f"{median * 1000:.0f} ms" if median < 1 else f"{median:.1f} s")


def test_a_node_leads_to_its_events(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/topology?vhost=%2F")
    page.locator("a.flow-node.publishers").first.click()
    expect(page.locator(".filter").filter(has_text="published")).to_be_visible()
    expect(page.locator("tr.row").first).to_be_visible()


def test_dead_letters_and_unmatched_deliveries_are_in_the_picture(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/topology?vhost=%2F&newest=5000")
    expect(page.locator("path.dead")).to_have_count(1)
    expect(page.locator("a.flow-node.queues").filter(has_text="audit")).to_contain_text("unmatched")


def test_each_line_has_its_rate(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/topology?vhost=%2F&newest=5000")
    lines = page.locator(".flow-links > path:not(.dead)")
    expect(lines.first).to_be_attached()
    rates = page.locator(".flow-label .rate").all_text_contents()
    assert len(rates) == lines.count()
    events = [event for event in demo.world.events if event.vhost == "/"]
    seconds = (events[-1].at - events[0].at) / 1e6
    taken = Counter(event.queue for event in events if event.received)
    [audits] = [n for queue, n in taken.items() if queue == "audit"]
    assert f"{audits / seconds:.0f}/s" in rates


def test_a_virtual_host_without_events_says_so(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/topology?vhost=empty")
    expect(page.get_by_text("No messages yet")).to_be_visible()


NOTE_EMPTINESS = """() => {
  window.emptiness = 0;
  new MutationObserver(() => {
    if (document.body.innerText.includes("No messages yet")) window.emptiness += 1;
  }).observe(document.body, { childList: true, subtree: true, characterData: true });
}"""


def test_what_is_still_loading_is_never_called_empty(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/overview")
    page.evaluate(NOTE_EMPTINESS)
    page.evaluate("location.hash = '#/topology?vhost=%2F'")
    expect(page.locator("a.flow-node").first).to_be_visible()
    assert page.evaluate("window.emptiness") == 0


def test_a_period_is_counted_by_a_job_and_shown_from_then_on(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = Past()
    world.start_trace("/").simulation.now = time.time_ns() // 1000 - 1_000_000_000
    world.grow("/", 1500)
    page = open_page(serve(world), "#/topology?vhost=%2F")
    past = r"rates of the last 1,000 events, .* to .*, \d+ min ago"
    expect(page.get_by_text(re.compile(past))).to_be_visible()
    page.get_by_role("button", name="Count the last hour").click()
    expect(page.get_by_text("from all 1,500 events of")).to_be_visible()
    table = page.get_by_role("group", name="Publishers to consumers")
    first = counted(world, "/", 0, 2**62)["deliveries"][0]
    cells = table.get_by_role("row").nth(1).get_by_role("cell").all_inner_texts()
    assert cells[:5] == [
        first["publisher"],
        first["exchange"],
        first["queue"],
        first["receiver"],
        str(first["messages"]),
    ]
    assert all(cell.endswith("s") for cell in cells[9:12])
    page.reload()
    expect(page.get_by_text("from all 1,500 events of")).to_be_visible()
    page.get_by_label("Period", exact=True).select_option("last 5,000 events")
    expect(page.get_by_text("rates of the last 1,500 events")).to_be_visible()


def test_a_counted_period_says_what_it_lacks(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(1500)
    gaps = world.traces["/"].gaps
    server = serve(world)
    period = {"since": iso(world.events[0].at), "until": iso(world.events[900].at)}
    server.finished("/itc_db/topology", vhost="/", **period)
    page = open_page(server, "#/overview?vhost=%2F")
    lacking = {"complete": False, "gaps": gaps}
    change_answers(page, "**/itc_db/topology?*", lambda counted: counted | lacking)
    page.goto(f"{server.url}/#/topology?vhost=%2F")
    expect(page.get_by_text("Events may be missing: the period holds 1 gap.")).to_be_visible()
    page.locator("a.flow-node.publishers").first.click()
    expect(page.locator(".filter").filter(has_text="until")).to_be_visible()
    expect(page.locator("tr.row").first).to_be_visible()


def test_dead_letters_lead_from_the_queue_where_they_died(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/topology?vhost=%2F&newest=5000")
    expect(page.locator("path.dead")).to_have_count(1)
    dead = [e for e in demo.world.events if e.vhost == "/" and e.match == "dead_lettered"]
    row = page.get_by_role("group", name="Dead letters").get_by_role("row").nth(1)
    cells = row.get_by_role("cell").all_inner_texts()
    assert cells == ["stock", "rejected", "dlx", "dead.orders", str(len(dead))]
    stock = page.locator("a.flow-node.queues").filter(has_text="stock")
    again = [e for e in demo.world.events if e.queue == "stock" and e.match == "redelivered"]
    both = len(dead) + len([e for e in again if e.vhost == "/"])
    expect(stock).to_contain_text(f"✕ {both} failed")
    words = page.locator(".flow-label b").all_text_contents()
    assert words[0] == f"✕ {len(dead)}"  # to the next queue
    assert f"✕ {both} failed" in words[1:]
    drawing = page.get_by_role("region", name="Topology drawing")
    assert not re.search("rejected|redelivered|unroutable", drawing.inner_text())
    legend = page.get_by_role("list", name="Legend")
    expect(legend).to_contain_text("✕failed: unroutable, rejected or dead in another way, or")
    expect(legend).to_contain_text("no failure known")  # a line is not told who rejected


def test_time_in_programs_stands_beside_time_in_queues(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/topology?vhost=%2F&newest=5000")
    table = page.get_by_role("group", name="Queues to consumers")
    row = table.get_by_role("row").filter(has=page.get_by_role("link", name="billing", exact=True))
    # Those of the made-up history publish in the very moment; nobody names what came from stock.
    expect(row.get_by_role("cell").nth(8)).to_have_text("under 10 ms")
    row = table.get_by_role("row").filter(has=page.get_by_role("link", name="stock", exact=True))
    expect(row.get_by_role("cell").nth(8)).to_have_text("\u2013")


def test_colours_say_failures_or_waits(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/topology?vhost=%2F&newest=5000")
    stock = page.locator("a.flow-node.queues").filter(has_text="stock")
    expect(stock).to_have_class(re.compile("failures-[123]"))
    page.get_by_role("button", name="Waits").click()
    expect(stock).to_have_class(re.compile("waits-[1-4]"))
    expect(page.get_by_role("list", name="Legend")).to_contain_text(re.compile("median wait under"))


def test_any_period_can_be_looked_at(serve: Callable[[Past], Served], open_page: OpenPage) -> None:
    world = demo_world(1500)
    since, until = world.events[300].at // 1_000_000 + 1, world.events[1200].at // 1_000_000
    within = [e for e in world.events[:1500] if since <= e.at // 1_000_000 < until]
    page = open_page(serve(world), "#/topology?vhost=%2F")
    expect(page.get_by_role("textbox")).to_have_count(0)
    page.get_by_label("Period", exact=True).select_option("from … to …")
    for label, second in (("From", since), ("to", until)):
        field = page.get_by_label(label, exact=True)
        expect(field).to_have_attribute("placeholder", "YYYY-MM-DD hh:mm:ss")
        moment = datetime.datetime.fromtimestamp(second, datetime.UTC)
        field.fill(moment.strftime("%Y-%m-%dT%H:%M:%S"))
    page.get_by_role("button", name="Show this period").click()
    expect(page.get_by_text(f"rates of the last {len(within)} events")).to_be_visible()
    page.get_by_role("button", name="Count this period").click()
    expect(page.get_by_text(f"from all {len(within)} events of")).to_be_visible()
    page.get_by_label("Period", exact=True).select_option("last 1,000 events")
    expect(page).not_to_have_url(re.compile("since="))


def test_a_choice_made_before_the_first_answer_stays(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/overview")
    page.route("**/itc_db/topology?*", held := Held())
    page.goto(f"{demo.url}/#/topology?vhost=%2F")
    page.get_by_label("Period", exact=True).select_option("from … to …")
    held.let_go()
    expect(page.locator(".flow-label").first).to_be_visible()
    expect(page.get_by_label("From", exact=True)).to_be_visible()


@pytest.mark.parametrize(
    "address",
    [
        "#/topology?vhost=%2F&newest=5000",
        "#/queue?vhost=%2F&queue=stock",
        "#/overview",
        "#/admin",
        "#/conversations?vhost=%2F",
    ],
)
def test_each_column_of_numbers_sorts_the_largest_first(
    demo: Served, open_page: OpenPage, address: str
) -> None:
    page = open_page(demo, address)
    settled(page)
    read = """table => [...table.querySelectorAll("th")].flatMap((head, at) =>
      head.classList.contains("number") && head.querySelector("button") ? [at] : [])"""
    cells = """(table, at) => [...table.querySelectorAll("tbody tr:not(.under)")]
      .map(row => row.cells[at]?.innerText.replace(/[#,]/g, "") ?? "")"""
    sorted_columns = 0
    expect(page.locator(".list-scroll th.number button").first).to_be_visible()
    labels = page.locator(".list-scroll").evaluate_all("all => all.map(one => one.ariaLabel)")
    for label in labels:  # not by its place: one above may come once a message has waited for long
        table = page.get_by_role("group", name=label, exact=True).locator("table.list")
        for at in table.evaluate(read):
            head = table.locator("th").nth(at)
            head.locator("button").click()
            expect(head).to_have_attribute("aria-sort", "descending")
            texts = table.evaluate(cells, at)
            numbers = [int(text) for text in texts if text.isdecimal()]  # others have units
            assert numbers == sorted(numbers, reverse=True)
            sorted_columns += len(numbers) > 1
    assert sorted_columns > 0


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("#/topology?vhost=%2F&newest=5000", "tbody"),
        ("#/events?vhost=%2F&event={event}", "tr.row"),
        ("#/events?vhost=%2F&event={event}", ".drawer-who"),
        ("#/conversations?filter=failures&vhost=%2F", "[aria-label='Incidents']"),
        ("#/conversations?filter=failures&vhost=%2F", "[aria-label='Conversations that failed']"),
        ("#/conversations?event={event}", ".conv-row"),
        ("#/conversations?event={event}", ".touched-queues"),
    ],
)
def test_every_name_of_a_queue_leads_to_its_page(
    demo: Served, open_page: OpenPage, address: str, place: str
) -> None:
    event = next(
        e for e in demo.world.events if e.vhost == "/" and e.routed and "stock" in e.routed
    )
    page = open_page(demo, address.format(event=event.id) + "&beyond=on")
    links = page.locator(f"{place} a.queue")
    expect(links.first).to_be_visible()
    read = "links => links.map(link => [link.innerText, link.hash])"  # at once: rows may move
    for name, address in links.evaluate_all(read):
        query = parse_qs(address.partition("?")[2])
        assert (query["queue"], query["vhost"]) == ([name], ["/"])
    links.first.click()
    expect(page).to_have_url(re.compile("#/queue"))
    [name] = parse_qs(page.url.partition("?")[2])["queue"]
    expect(page.get_by_role("heading", level=1, name=name, exact=True)).to_be_visible()


def test_a_phone_lists_the_queues_with_who_publishes_and_who_consumes(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/topology?vhost=%2F&newest=5000", width=390)
    queues = page.get_by_role("list", name="Queues").get_by_role("listitem")
    expect(queues.first).to_be_in_viewport(ratio=1)
    expect(page.locator(".flow-node")).to_have_count(0)
    stock = queues.filter(has=page.get_by_role("link", name="stock", exact=True)).first
    words = r"stock.*/s.*✕ \d+ failed.* → stock.*✕ \d+ to dead\.orders"
    expect(stock).to_contain_text(re.compile(words, re.DOTALL))
    dead = queues.filter(has_text="dead letters of stock")
    expect(dead).to_have_count(1)
    expect(dead.get_by_role("link").first).to_have_text("dead.orders")
    stock.get_by_role("link").nth(1).click()
    expect(page).to_have_url(re.compile("#/events?.*type=published"))
    page.go_back()
    dead.get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1, name="dead.orders")).to_be_visible()


def test_a_phone_offers_the_ends_of_a_period_only_on_demand(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/topology?vhost=%2F", width=390)
    expect(page.get_by_label("From", exact=True)).not_to_be_visible()
    page.get_by_label("Period", exact=True).select_option("from … to …")
    expect(page.get_by_label("From", exact=True)).to_be_visible()


ARRANGE = """async () => {
  const { arrange } = await import("/app/topology/layout.js");
  const made = await import("/app/topology/flows.js");
  const { add, addDeath, addPublishes, emptyFlows, NOBODY } = made;
  const flows = emptyFlows();
  const traffic = { "celeryev.a": 900, busy: 90, idle: 10, stuck: 5, dead: 4, bad: 30, worse: 20 };
  for (const [queue, messages] of Object.entries(traffic)) {
    const who = queue === "worse" ? NOBODY : "shop";
    addPublishes(flows, { who, exchange: "", queue, messages });
    add(flows.nodes.queues, [queue], { messages });
  }
  for (const [queue, messages] of [["bad", 1], ["worse", 3]]) {
    addDeath(flows, { queue, reason: "rejected", exchange: "", to: "dead", messages });
  }
  const waiting = new Map([["stuck", { count: 2 }]]);
  const { columns } = arrange(flows, 1200, waiting, (queue) => queue.startsWith("celeryev."));
  return columns.slice(0, 2).map((nodes) => nodes.map(({ key }) => key));
}"""


def test_queues_that_fail_or_wait_are_first_and_those_of_a_library_last(
    demo: Served, open_page: OpenPage
) -> None:
    publishers, queues = open_page(demo).evaluate(ARRANGE)
    assert queues == ["worse", "bad", "stuck", "dead", "busy", "idle", "celeryev.a"]
    assert publishers == ["shop", ""]  # who was not observed is last


def test_a_trace_s_quiet_queues_are_those_of_a_library(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/overview")
    quiet = page.evaluate("""async () => {
      const { quietIn } = await import("/app/topology/flows.js");
      const trace = { quiet: ["queue:celeryev.*", "queue:a+b?", "exchange:celeryev"] };
      const names = ["celeryev.a", "celeryevXa", "celeryev", "a+b1", "aab1", "x.celeryev.a"];
      return [
        names.filter(quietIn(trace)),
        ["celeryev.a", ""].filter(quietIn({ quiet: [] })),
      ];
    }""")
    assert quiet == [["celeryev.a", "a+b1"], []]


@pytest.mark.parametrize("width", [1440, 1100])
def test_no_label_of_the_drawing_lies_under_a_line_or_on_another(
    demo: Served, open_page: OpenPage, width: int
) -> None:
    page = open_page(demo, "#/topology?vhost=%2F&newest=5000", width=width)
    labels = page.locator(".flow-label")
    expect(labels.first).to_be_visible()
    covered = """all => {
      const boxes = all.map((one) => one.getBoundingClientRect());
      const beside = (a, b) => a.left >= b.right || b.left >= a.right;
      const over = (a, b) => !beside(a, b) && a.top + 2 < b.bottom && b.top + 2 < a.bottom;
      const lines = document.querySelector(".flow-links");
      const nodes = [...document.querySelectorAll(".flow-node")];
      const places = nodes.map((one) => one.getBoundingClientRect());
      return [
        boxes.filter((a, i) => boxes.some((b, k) => k > i && over(a, b))).length,
        all.filter((one) => getComputedStyle(one).backgroundColor.endsWith(", 0)")).length,
        all.filter((one) => one.compareDocumentPosition(lines) !== 2).length,
        boxes.filter((a) => places.some((b) => over(a, b))).length,
      ];
    }"""
    assert labels.evaluate_all(covered) == [0, 0, 0, 0]


COVERED = """all => {
  const lines = [...document.querySelectorAll(".flow-links > path:not(.dead)")];
  const place = document.querySelector(".flow").getBoundingClientRect();
  const points = lines.map((line) => {
    const length = line.getTotalLength();
    return Array.from({ length: 400 }, (_, i) => line.getPointAtLength((i * length) / 399));
  });
  return all.map((label) => {
    const { left, right, top, bottom } = label.getBoundingClientRect();
    const isIn = ({ x, y }) => x > left - place.left && x < right - place.left
      && y > top - place.top + 2 && y < bottom - place.top - 2;
    return points.filter((those) => those.some(isIn)).length;
  });
}"""


def test_the_label_of_a_line_lies_on_no_other_line(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/topology?vhost=%2F&newest=5000")
    labels = page.locator(".flow-label:has(.rate)")
    expect(labels.first).to_be_visible()
    assert set(labels.evaluate_all(COVERED)) == {1}


def test_the_legend_lists_what_is_drawn(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/topology?vhost=%2F&newest=5000")
    legend = page.get_by_role("list", name="Legend")
    expect(legend).to_contain_text("✕failed")
    drawn = """all => [...new Set(all.map((one) =>
      /failures-\\d/.exec(one.getAttribute("class"))[0]))]"""
    lines = page.locator(".flow-links > [class*='failures-'], .flow-node[class*='failures-']")
    tones = lines.evaluate_all(drawn)
    keys = legend.locator("[class*='failures-']").evaluate_all(drawn)
    assert set(keys) == set(tones)
    assert 1 < len(keys) < 4
    change_answers(page, "**/itc_db/conversations?*", lambda page: page | {"items": []})
    expect(legend).to_contain_text("waiting now")
    page.reload()
    expect(legend).to_contain_text("✕failed")
    expect(legend).not_to_contain_text("waiting now")
