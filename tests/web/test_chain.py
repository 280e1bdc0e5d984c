from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.web import history
from tests.web.conftest import DOUBT, OpenPage, cast_doubt, change_answers
from tests.web.past import Past, demo_world
from tests.web.service import Served


def cause_and_effect(world: Past) -> tuple[int, int]:
    """Two events with several others between them in the chain."""
    end = world.events[600]
    past = sorted(history.past(world.events, end))
    start = past[-40]
    return start, end.id


def concurrent_pair(world: Past) -> tuple[int, int]:
    for later in range(100, 200):
        for earlier in range(later - 10, later):
            pair = world.events[earlier - 1], world.events[later - 1]
            if world.relation(*pair) == "concurrent":
                return earlier, later
    raise AssertionError("the history has no concurrent neighbours")


def listed(page: Page) -> list[int]:
    return [int(t.removeprefix("#")) for t in page.locator(".chain-step .number").all_inner_texts()]


def menu(page: Page) -> Locator:
    chain = page.get_by_role("region", name="Chain", exact=True)
    return chain.get_by_role("button", name="Export", exact=True)


def export(page: Page) -> None:
    menu(page).click()
    page.get_by_role("button", name="Restore and export").click()


def test_from_two_pins_to_the_downloaded_chain(
    demo: Served, open_page: OpenPage, tmp_path: Path
) -> None:
    world = demo.world
    a, b = cause_and_effect(world)
    page = open_page(demo, f"#/events?event={a}&live=off")
    page.get_by_role("button", name="Pin as A").click()
    page.goto(f"{demo.url}/#/events?event={b}&live=off&a={a}")
    page.get_by_role("button", name="Pin as B").click()
    relation = page.locator(".pins-relation")
    expect(relation).to_have_text(re.compile("^(caused|may have had a part in)$"))
    verdict = relation.inner_text()  # the same in both places
    page.get_by_role("link", name="Compare and chain").click()
    expect(page.locator(".pair-word")).to_have_text(verdict)

    between = history.past(world.events, world.events[b - 1]) & history.future(
        world.events[:b], world.events[a - 1]
    )
    expect(page.locator(".chain-step")).to_have_count(len(between))
    assert listed(page) == sorted(between)

    export(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download", exact=True).first.click()
    assert download.value.suggested_filename == f"chain-{a}-{b}.jsonl"
    download.value.save_as(tmp_path / "chain.jsonl")
    lines = (tmp_path / "chain.jsonl").read_text().splitlines()
    assert [json.loads(line)["id"] for line in lines] == sorted(between)


def test_the_job_is_in_the_address_and_a_reload_comes_back_to_it(
    demo: Served, open_page: OpenPage
) -> None:
    a, b = cause_and_effect(demo.world)
    page = open_page(demo, f"#/chain?a={a}&b={b}")
    menu(page).click()
    page.get_by_label("Format").select_option(".csv")
    page.get_by_role("button", name="Restore and export").click()
    expect(page.get_by_text(f"chain-{a}-{b}.csv,")).to_be_visible()
    assert "job=" in page.url
    page.reload()
    expect(page.get_by_text(f"chain-{a}-{b}.csv,")).to_be_visible()


def test_progress_shows_and_a_job_can_be_cancelled(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(800)
    world.job_seconds = 600
    a, b = cause_and_effect(world)
    page = open_page(serve(world), f"#/chain?a={a}&b={b}")
    export(page)
    expect(page.get_by_role("progressbar")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("The job was cancelled")).to_be_visible()
    page.get_by_role("button", name="Jobs: ").click()
    page.get_by_role("link", name="All jobs and exports").click()
    expect(page.get_by_role("group", name="Jobs")).to_contain_text("cancelled")


def test_concurrent_events_have_no_chain_and_that_is_an_answer(
    demo: Served, open_page: OpenPage
) -> None:
    a, b = concurrent_pair(demo.world)
    page = open_page(demo, f"#/chain?a={a}&b={b}")
    expect(page.locator(".pair-word")).to_have_text("is concurrent with")
    expect(page.get_by_text("There is no chain between them")).to_be_visible()
    expect(page.get_by_text("they failed independently")).to_be_visible()
    page.goto(f"{demo.url}/#/events?a={a}&b={b}")
    page.get_by_role("button", name="Save the chain").click()
    expect(page.get_by_text("No chain to save.")).to_contain_text("neither can have influenced")
    unsure = {"answer": "unknown", "sentence": "they are concurrent as far as is known"}
    change_answers(page, "**/itc_db/chain/*/*?*", lambda said: said | unsure)
    page.get_by_role("button", name="Save the chain").click()
    expect(page.get_by_text("No chain to save. They are concurrent as far")).to_be_visible()


def test_swapping_turns_the_relation_round(demo: Served, open_page: OpenPage) -> None:
    a, b = cause_and_effect(demo.world)
    page = open_page(demo, f"#/chain?a={a}&b={b}")
    page.get_by_role("button", name="Swap").click()
    verdict = re.compile("^(was caused by|may be a result of)$")
    expect(page.locator(".pair-word")).to_have_text(verdict)


def test_a_chain_across_a_gap_says_that_it_may_not_be_complete(
    demo: Served, open_page: OpenPage
) -> None:
    end = demo.world.events[900]
    start = min(history.past(demo.world.events, end))
    page = open_page(demo, f"#/chain?a={start}&b={end.id}")
    known = page.get_by_role("region", name="What is known")
    expect(known.locator(".trust-part").first).to_have_text("incomplete, 1 gap")
    expect(page.get_by_role("status").filter(has_text="Not complete:")).to_have_count(0)


def test_an_answer_that_is_not_sound_says_why_and_claims_less(
    demo: Served, open_page: OpenPage
) -> None:
    a, b = concurrent_pair(demo.world)
    page = open_page(demo)
    cast_doubt(page)
    page.goto(f"{demo.url}/#/chain?a={a}&b={b}&event={b}")
    known = page.get_by_role("region", name="What is known")
    expect(known).to_contain_text("between A and B:")
    expect(known).to_contain_text("not sound")
    expect(page.get_by_role("status").filter(has_text="Not sound:")).to_have_count(0)
    known.get_by_text("Why?").click()
    expect(known).to_contain_text("give no name")
    expect(page.locator(".pair-word")).to_have_text("has no known relation to")
    expect(page.get_by_text("No chain is known between them")).to_be_visible()
    expect(page.get_by_text("There may be one that was not recorded")).to_be_visible()
    expect(page.get_by_text("they failed independently")).to_have_count(0)
    drawer = page.get_by_role("complementary")
    expect(drawer.get_by_text("Not sound: 2 participants")).to_have_count(2)


def test_behind_a_delivery_whose_publish_was_not_seen_it_is_unknown(
    demo: Served, open_page: OpenPage
) -> None:
    a, b = concurrent_pair(demo.world)
    page = open_page(demo)
    why = "the publish of delivery 7 from queue 'q' was not seen"
    change_answers(
        page, "**/itc_db/compare/**", lambda said: {**said, "answer": "unknown", "sentence": why}
    )
    change_answers(page, "**/itc_db/touched?*", lambda said: {**said, "unknown": 3})
    page.goto(f"{demo.url}/#/chain?a={a}&b={b}")
    middle = page.locator(".pair-middle")
    expect(middle).to_have_text("has no known relation toSwap")
    expect(page.locator(".pair-sentence")).to_contain_text("queue 'q' was not seen")
    expect(page.get_by_text("they failed independently")).to_have_count(0)
    expect(page.get_by_role("button", name="3 unknown")).to_be_visible()


def test_an_exports_result_has_its_own_caveats(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(800)
    a, b = cause_and_effect(world)
    server = serve(world)
    server.parts.spark.doubts = [DOUBT]
    page = open_page(server, f"#/chain?a={a}&b={b}")
    export(page)
    expect(page.locator(".chain-result").get_by_role("status")).to_contain_text("Not sound: 2")


def test_an_invalid_file_name_cannot_be_sent(demo: Served, open_page: OpenPage) -> None:
    a, b = cause_and_effect(demo.world)
    page = open_page(demo, f"#/chain?a={a}&b={b}")
    menu(page).click()
    page.get_by_label("File name").fill("../../etc/passwd")
    expect(page.get_by_role("button", name="Restore and export")).to_be_disabled()
    expect(page.get_by_text("A plain name")).to_be_visible()


def test_who_may_only_look_is_told_why_there_is_no_export(
    demo: Served, open_page: OpenPage
) -> None:
    a, b = cause_and_effect(demo.world)
    page = open_page(demo, f"#/chain?a={a}&b={b}", user="watch")
    menu(page).click()
    expect(page.get_by_text("Only an administrator may export")).to_be_visible()
    expect(page.get_by_role("button", name="Restore and export")).to_be_disabled()


def test_an_export_can_be_removed(serve: Callable[[Past], Served], open_page: OpenPage) -> None:
    world = demo_world(800)
    a, b = cause_and_effect(world)
    server = serve(world)
    page = open_page(server, f"#/chain?a={a}&b={b}")
    export(page)
    page.get_by_role("button", name=f"Remove chain-{a}-{b}.jsonl").click()
    page.get_by_role("button", name="Delete the file").click()
    expect(page.get_by_text("None yet. Export above writes one")).to_be_visible()
    assert server.answer("/itc_db/exports") == []


def test_one_event_that_caused_another_is_shown_with_the_way(
    demo: Served, open_page: OpenPage
) -> None:
    world = demo.world
    end = next(e for e in world.events[400:] if e.named)
    start = world.events[min(history.evident_past(world.events, end)) - 1]
    page = open_page(demo, f"#/chain?a={start.id}&b={end.id}")
    middle = page.locator(".pair-middle")
    expect(middle.get_by_text("caused", exact=True)).to_be_visible()
    expect(page.locator(".pair-sentence")).to_contain_text(
        f"Event {start.id} caused event {end.id}, through"
    )
    way = page.get_by_role("region", name="Through")
    expect(way).to_contain_text("a shortest way: 1 message, 1 link")
    expect(way.locator("li")).to_have_text(
        [
            re.compile(rf"^#{start.id} shop"),
            re.compile(rf"^message\s+#{end.prompt} billing"),
            re.compile(rf"^parent causation_id\s+#{end.id} billing"),
        ]
    )
    page.get_by_role("button", name="Swap").click()
    expect(middle).to_contain_text("was caused by")
    expect(way.locator("li").first).to_have_text(re.compile(rf"^#{start.id} shop"))


def test_the_way_says_what_the_broker_did(demo: Served, open_page: OpenPage) -> None:
    world = demo.world
    end = next(e for e in world.events[400:] if e.named)
    start = world.events[min(history.evident_past(world.events, end)) - 1]

    def acted(answer: dict[str, Any]) -> dict[str, Any]:
        """The link at the end, as if the broker had done it."""
        for step in (answer.get("path") or []) + (answer.get("steps") or []):
            if step["how"] == "link":
                step |= {"how": "rejected", "rule": None, "kind": None}
        return answer

    page = open_page(demo)
    change_answers(page, "**/itc_db/compare/**", acted)
    change_answers(page, "**/itc_db/chain/**", acted)
    page.goto(f"{demo.url}#/chain?a={start.id}&b={end.id}")
    way = page.get_by_role("region", name="Through")
    expect(way).to_contain_text("a shortest way: 1 message, 1 act of the broker")
    expect(way.locator("li").last).to_have_text(re.compile(rf"^rejected\s+#{end.id} billing"))
    expect(page.locator(".chain-step").last).to_contain_text(f"rejected from #{end.prompt}")
    drawing = page.get_by_role("group", name="The chain, drawn")
    expect(drawing.locator(".arrow.link title").first).to_have_text("rejected")
    expect(page.locator(".chain-drawing .diagram-legend")).to_contain_text(
        "link, or what the broker did"
    )


def test_the_way_to_a_dead_letter_goes_by_whoever_rejected_it(demo: Served) -> None:
    dead = next(e for e in demo.world.events if e.vhost == "/" and e.match == "dead_lettered")
    answer = demo.answer(f"/itc_db/conversations/{dead.id}", limit="5000")
    copies = [copy for message in answer["messages"] for copy in message["copies"]]
    deliveries = [delivery for copy in copies for delivery in copy["deliveries"]]
    [act] = next(each["acts"] for each in deliveries if each["event"] == dead.id)
    path = demo.answer(f"/itc_db/compare/{dead.cause}/{dead.id}")["path"]
    assert act["kind"] == "rejected"
    assert [(step["cause"], step["how"]) for step in path] == [
        (dead.cause, "message"),
        (act["cause"], "rejected"),
    ]


def test_the_answer_is_no_more_than_is_evident(demo: Served, open_page: OpenPage) -> None:
    world = demo.world
    end = next(e for e in world.events[400:] if e.prompt and not e.named)
    page = open_page(demo, f"#/chain?a={end.prompt}&b={end.id}")
    middle = page.locator(".pair-middle")
    expect(middle).to_have_text("may have had a part inSwap")
    expect(page.get_by_role("region", name="Through")).to_have_count(0)
    a, b = concurrent_pair(world)
    page.goto(f"{demo.url}/#/chain?a={a}&b={b}")
    expect(middle).to_have_text("is concurrent withSwap")


def test_the_chain_is_there_at_once_for_whoever_may_only_look(
    demo: Served, open_page: OpenPage
) -> None:
    world = demo.world
    end = next(e for e in world.events[400:] if e.named)
    start = world.events[min(history.evident_past(world.events, end)) - 1]
    page = open_page(demo, f"#/chain?a={start.id}&b={end.id}", user="watch")
    ids = history.chain(world.events, start, end, "links")
    steps = page.locator(".chain-step")
    expect(steps).to_have_count(len(ids))
    assert listed(page) == ids
    expect(steps.first).to_contain_text(world.who(start).name.split("@")[0])
    expect(steps.first).to_contain_text("the chain begins here")
    expect(steps.nth(1)).to_contain_text(f"message from #{start.id}, ")
    expect(steps.last).to_contain_text(f"parent causation_id from #{end.prompt}, ")


def test_how_wide_the_chain_is_is_chosen_and_stands_in_the_address(
    demo: Served, open_page: OpenPage
) -> None:
    world = demo.world
    end = next(e for e in world.events[400:] if e.named)
    start = world.events[min(history.evident_past(world.events, end)) - 1]
    page = open_page(demo, f"#/chain?a={start.id}&b={end.id}")
    by = page.get_by_role("group", name="Chain by")
    expect(by.get_by_role("button", name="Links")).to_have_attribute("aria-pressed", "true")
    by.get_by_role("button", name="All possible").click()
    ids = history.chain(world.events, start, end, "any")
    expect(page.locator(".chain-step")).to_have_count(len(ids))
    assert "via=any" in page.url
    page.reload()
    expect(by.get_by_role("button", name="All possible")).to_have_attribute("aria-pressed", "true")
    with page.expect_request(f"**/undefined/{start.id}/{end.id}/*?via=any"):
        export(page)


def test_where_nothing_evident_leads_there_the_list_says_so(
    demo: Served, open_page: OpenPage
) -> None:
    end = next(e for e in demo.world.events[400:] if e.prompt and not e.named)
    page = open_page(demo, f"#/chain?a={end.prompt}&b={end.id}&via=links")
    expect(page.get_by_text("No known step leads from one to the other")).to_be_visible()
    page.get_by_role("link", name="what a participant did later").click()
    assert "via=conversation" in page.url


def test_a_long_chain_is_cut_and_goes_on_when_asked(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(1100)
    end = next(e for e in reversed(world.events[:1100]) if e.match == "routed")
    start = world.events[min(history.past(world.events, end)) - 1]
    page = open_page(serve(world), f"#/chain?a={start.id}&b={end.id}&via=any")
    cut = page.get_by_text(re.compile(r"The first 200 of \d+ are shown"))
    expect(cut).to_be_visible()
    # What the broker did comes on top of what the history knows of.
    known = len(history.chain(world.events, start, end, "any"))
    found = int(re.findall(r"of (\d+) are", cut.text_content() or "")[0])
    assert 200 < known <= found < 1000
    expect(page.locator(".chain-step")).to_have_count(200)
    page.get_by_role("button", name="Show up to 1,000").click()
    expect(page.locator(".chain-step")).to_have_count(found)
    expect(page.get_by_text("are shown.")).to_have_count(0)


def test_it_is_drawn_with_a_lane_for_each_participant_and_the_shortest_way_marked(
    demo: Served, open_page: OpenPage
) -> None:
    world = demo.world
    end = next(e for e in world.events[400:] if e.named)
    start = world.events[min(history.evident_past(world.events, end)) - 1]
    ids = history.chain(world.events, start, end, "links")
    names = dict.fromkeys(world.who(world.events[number - 1]).name for number in ids)
    page = open_page(demo, f"#/chain?a={start.id}&b={end.id}")
    drawing = page.get_by_role("group", name="The chain, drawn")
    expect(drawing.locator("li")).to_have_text([name.split("@")[0] for name in names])
    expect(drawing.locator(".dot")).to_have_count(len(ids))
    expect(drawing.locator(".arrow.on-the-way")).to_have_count(2)
    expect(page.locator(".chain-step.on-the-way")).to_have_count(3)
    drawing.locator(f"[data-event='{end.prompt}'] .sign").click()
    expect(page.locator(".drawer h2")).to_have_text(f"#{end.prompt}")
    expect(page.locator(".chain-step[aria-current]")).to_contain_text(f"#{end.prompt}")


def test_an_event_of_the_chain_opens_beside_it_by_keyboard(
    demo: Served, open_page: OpenPage
) -> None:
    a, b = cause_and_effect(demo.world)
    page = open_page(demo, f"#/chain?a={a}&b={b}")
    page.locator(".chain-step").nth(2).focus()
    page.keyboard.press("Enter")
    drawer, list_ = page.locator(".drawer"), page.locator(".chain-list")
    expect(drawer).to_be_visible()
    left, right = list_.bounding_box(), drawer.bounding_box()
    assert left
    assert right
    assert left["x"] + left["width"] <= right["x"], "the event covers the list"
    page.keyboard.press("Escape")
    expect(drawer).to_have_count(0)


def test_the_link_to_space_time_names_the_chain_first_event_first(
    demo: Served, open_page: OpenPage
) -> None:
    a, b = cause_and_effect(demo.world)
    page = open_page(demo, f"#/chain?a={b}&b={a}")
    chain = page.get_by_role("region", name="Chain", exact=True)
    link = chain.get_by_role("link", name="Space-time")
    expect(link).to_have_attribute("href", re.compile(rf"#/space-time\?.*chain={a}%2C{b}.*&via="))


def test_what_is_known_is_said_of_the_chain_and_not_of_everything(
    demo: Served, open_page: OpenPage
) -> None:
    a, b = cause_and_effect(demo.world)  # before the gap
    page = open_page(demo, f"#/chain?a={a}&b={b}")
    known = page.get_by_role("region", name="What is known")
    expect(known).to_contain_text("between A and B:")
    expect(known.locator(".trust-part").first).to_have_text("complete")


def test_the_menu_closes_by_escape_and_gives_the_focus_back(
    demo: Served, open_page: OpenPage
) -> None:
    a, b = cause_and_effect(demo.world)
    page = open_page(demo, f"#/chain?a={a}&b={b}")
    menu(page).focus()
    page.keyboard.press("Enter")
    page.get_by_label("File name").focus()
    page.keyboard.press("Escape")
    expect(page.get_by_label("File name")).to_have_count(0)
    expect(menu(page)).to_be_focused()
