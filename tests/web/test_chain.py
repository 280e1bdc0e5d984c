from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import expect

from tests.web import history
from tests.web.conftest import OpenPage
from tests.web.fake_server import Server
from tests.web.world import World, demo_world


def cause_and_effect(world: World) -> tuple[int, int]:
    """Two events with several others between them in the chain."""
    end = world.events[600]
    past = sorted(history.past(world.events, end))
    start = past[-40]
    return start, end.id


def concurrent_pair(world: World) -> tuple[int, int]:
    for later in range(100, 200):
        for earlier in range(later - 10, later):
            pair = world.events[earlier - 1], world.events[later - 1]
            if world.relation(*pair) == "concurrent":
                return earlier, later
    raise AssertionError("the history has no concurrent neighbours")


def test_from_two_pins_to_the_downloaded_chain(
    demo: Server, open_page: OpenPage, tmp_path: Path
) -> None:
    world = demo.world
    a, b = cause_and_effect(world)
    page = open_page(demo, f"#/events?event={a}&live=off")
    page.get_by_role("button", name="Pin as A").click()
    page.goto(f"{demo.url}/#/events?event={b}&live=off&a={a}")
    page.get_by_role("button", name="Pin as B").click()
    expect(page.get_by_role("region", name="Pinned events")).to_contain_text("happened before")
    page.get_by_role("link", name="Compare and chain").click()
    expect(page.locator(".pair-word")).to_have_text("happened before")

    page.get_by_role("button", name="Restore and export").click()
    between = history.past(world.events, world.events[b - 1]) & history.future(
        world.events[:b], world.events[a - 1]
    )
    expect(page.locator(".chain-step")).to_have_count(len(between))
    shown = [
        int(t.removeprefix("#")) for t in page.locator(".chain-step .number").all_inner_texts()
    ]
    assert shown == sorted(between)

    with page.expect_download() as download:
        page.get_by_role("button", name="Download", exact=True).first.click()
    assert download.value.suggested_filename == f"chain-{a}-{b}.jsonl"
    download.value.save_as(tmp_path / "chain.jsonl")
    lines = (tmp_path / "chain.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == sorted(between)


def test_the_job_is_in_the_address_and_a_reload_comes_back_to_it(
    demo: Server, open_page: OpenPage
) -> None:
    a, b = cause_and_effect(demo.world)
    page = open_page(demo, f"#/chain?a={a}&b={b}")
    page.get_by_label("Format").select_option(".csv")
    page.get_by_role("button", name="Restore and export").click()
    expect(page.get_by_text(f"chain-{a}-{b}.csv,")).to_be_visible()
    assert "job=" in page.url
    page.reload()
    expect(page.get_by_text(f"chain-{a}-{b}.csv,")).to_be_visible()


def test_progress_shows_and_a_job_can_be_cancelled(
    serve: Callable[[World], Server], open_page: OpenPage
) -> None:
    world = demo_world(800)
    world.job_seconds = 600
    a, b = cause_and_effect(world)
    page = open_page(serve(world), f"#/chain?a={a}&b={b}")
    page.get_by_role("button", name="Restore and export").click()
    expect(page.get_by_role("progressbar")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("The job was cancelled")).to_be_visible()
    page.get_by_role("link", name="Jobs", exact=True).click()
    expect(page.get_by_role("group", name="Jobs")).to_contain_text("cancelled")


def test_concurrent_events_have_no_chain_and_that_is_an_answer(
    demo: Server, open_page: OpenPage
) -> None:
    a, b = concurrent_pair(demo.world)
    page = open_page(demo, f"#/chain?a={a}&b={b}")
    expect(page.locator(".pair-word")).to_have_text("is concurrent with")
    expect(page.get_by_text("There is no chain between them")).to_be_visible()
    expect(page.get_by_text("they failed independently")).to_be_visible()


def test_swapping_turns_the_relation_round(demo: Server, open_page: OpenPage) -> None:
    a, b = cause_and_effect(demo.world)
    page = open_page(demo, f"#/chain?a={a}&b={b}")
    page.get_by_role("button", name="Swap").click()
    expect(page.locator(".pair-word")).to_have_text("happened after")


def test_a_chain_across_a_gap_says_that_it_may_not_be_complete(
    demo: Server, open_page: OpenPage
) -> None:
    end = demo.world.events[900]
    start = min(history.past(demo.world.events, end))
    page = open_page(demo, f"#/chain?a={start}&b={end.id}")
    expect(page.get_by_text("Not complete.")).to_be_visible()


def test_an_answer_that_is_not_sound_says_why_and_claims_less(
    serve: Callable[[World], Server], open_page: OpenPage
) -> None:
    world = demo_world(800)
    world.traces["/"].doubts.append("2 participants are connections that give no name")
    a, b = concurrent_pair(world)
    page = open_page(serve(world), f"#/chain?a={a}&b={b}&event={b}")
    expect(page.get_by_role("status").filter(has_text="Not sound.")).to_contain_text("give no name")
    expect(page.get_by_text("As far as is known, neither influenced")).to_be_visible()
    expect(page.get_by_text("No chain is known between them")).to_be_visible()
    expect(page.get_by_text("There may be one that was not recorded")).to_be_visible()
    expect(page.get_by_text("they failed independently")).to_have_count(0)
    drawer = page.get_by_role("complementary")
    expect(drawer.get_by_text("Not sound. 2 participants")).to_have_count(2)


def test_an_exports_result_has_its_own_caveats(
    serve: Callable[[World], Server], open_page: OpenPage
) -> None:
    world = demo_world(800)
    world.traces["/"].doubts.append("2 participants are connections that give no name")
    a, b = cause_and_effect(world)
    page = open_page(serve(world), f"#/chain?a={a}&b={b}")
    page.get_by_role("button", name="Restore and export").click()
    expect(page.locator(".chain-result").get_by_role("status")).to_contain_text("Not sound. 2")


def test_an_invalid_file_name_cannot_be_sent(demo: Server, open_page: OpenPage) -> None:
    a, b = cause_and_effect(demo.world)
    page = open_page(demo, f"#/chain?a={a}&b={b}")
    page.get_by_label("File name").fill("../../etc/passwd")
    expect(page.get_by_role("button", name="Restore and export")).to_be_disabled()
    expect(page.get_by_text("A plain name")).to_be_visible()


def test_who_may_only_look_is_told_why_there_is_no_export(
    demo: Server, open_page: OpenPage
) -> None:
    a, b = cause_and_effect(demo.world)
    page = open_page(demo, f"#/chain?a={a}&b={b}", user="watch")
    expect(page.get_by_text("Only an administrator may export")).to_be_visible()
    expect(page.get_by_role("button", name="Restore and export")).to_be_disabled()


def test_an_export_can_be_removed(serve: Callable[[World], Server], open_page: OpenPage) -> None:
    world = demo_world(800)
    a, b = cause_and_effect(world)
    page = open_page(serve(world), f"#/chain?a={a}&b={b}")
    page.get_by_role("button", name="Restore and export").click()
    page.get_by_role("button", name=f"Remove chain-{a}-{b}.jsonl").click()
    page.get_by_role("button", name="Delete the file").click()
    expect(page.get_by_text("None yet.")).to_be_visible()
    assert world.exports == {}


def test_one_event_that_caused_another_is_shown_with_the_way(
    demo: Server, open_page: OpenPage
) -> None:
    world = demo.world
    end = next(e for e in world.events[400:] if e.named)
    start = world.events[min(history.evident_past(world.events, end)) - 1]
    page = open_page(demo, f"#/chain?a={start.id}&b={end.id}")
    middle = page.locator(".pair-middle")
    expect(middle.get_by_text("caused", exact=True)).to_be_visible()
    expect(middle).to_contain_text("A caused B.")
    expect(page.locator(".pair-sentence")).to_contain_text(
        f"Event {start.id} caused event {end.id}, through"
    )
    way = page.get_by_role("region", name="Through")
    expect(way).to_contain_text("a shortest way: 1 message, 1 link")
    expect(way.locator("li")).to_have_text(
        [f"#{start.id}", f"message #{end.prompt}", f"parent causation_id #{end.id}"]
    )
    page.get_by_role("button", name="Swap").click()
    expect(middle).to_contain_text("B caused A.")
    expect(way.locator("li").first).to_have_text(f"#{start.id}")


def test_the_answer_is_no_more_than_is_evident(demo: Server, open_page: OpenPage) -> None:
    world = demo.world
    end = next(e for e in world.events[400:] if e.prompt and not e.named)
    page = open_page(demo, f"#/chain?a={end.prompt}&b={end.id}")
    middle = page.locator(".pair-middle")
    expect(middle.get_by_text("may have", exact=True)).to_be_visible()
    expect(middle).to_contain_text("A may have had a part in B.")
    expect(page.get_by_role("region", name="Through")).to_have_count(0)
    a, b = concurrent_pair(world)
    page.goto(f"{demo.url}/#/chain?a={a}&b={b}")
    expect(middle.get_by_text("cannot have", exact=True)).to_be_visible()
