from __future__ import annotations

from playwright.sync_api import expect

from tests.web.conftest import OpenPage
from tests.web.fake_server import Server


def test_flows_are_counted_from_the_events(demo: Server, open_page: OpenPage) -> None:
    page = open_page(demo, "#/topology?vhost=%2F&newest=5000")
    table = page.get_by_role("group", name="Queues to receivers")
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


def test_a_node_leads_to_its_events(demo: Server, open_page: OpenPage) -> None:
    page = open_page(demo, "#/topology?vhost=%2F")
    page.locator("a.flow-node.queues").filter(has_text="mail.out").click()
    expect(page.locator(".filter")).to_contain_text("mail.out")
    expect(page.locator("tr.row").first).to_be_visible()


def test_dead_letters_and_unmatched_deliveries_are_in_the_picture(
    demo: Server, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/topology?vhost=%2F&newest=5000")
    expect(page.locator("a.flow-node.exchanges").filter(has_text="dlx")).to_be_visible()
    expect(page.locator("a.flow-node.queues").filter(has_text="audit")).to_contain_text("unmatched")


def test_a_virtual_host_without_events_says_so(demo: Server, open_page: OpenPage) -> None:
    page = open_page(demo, "#/topology?vhost=empty")
    expect(page.get_by_text("Nothing has flowed yet")).to_be_visible()
