"""The diagram: its arithmetic checked against plain searches, and its use by mouse and keys."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from collections.abc import Callable, Sequence
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, Route, expect

from tests.web import history
from tests.web.conftest import OpenPage, change_answers
from tests.web.past import Past, demo_world, iso
from tests.web.service import WEB, Served

SPACE_TIME = "#/space-time?vhost=%2F"
LOAD = """
  const { Model, NONE } = await import("/app/spacetime/model.js");
  const { Edges, layOut } = await import("/app/spacetime/layout.js");
  const causality = await import("/app/spacetime/causality.js");
  const page = async (cursor) => (await fetch(`/itc_db?vhost=%2F&page_size=500&${cursor}`,
    {headers: {authorization: sessionStorage.getItem("itc.authorization")}})).json();
"""


@pytest.fixture(scope="module")
def world(demo: Served) -> Past:
    return demo.world


def _until_painted(page: Page) -> None:
    """Wait until what was asked for is in its place and painted: layout, its watcher, a frame."""
    frame = "await new Promise(requestAnimationFrame);"
    page.evaluate(f"async () => {{ {3 * frame} }}")


def run(page: Page, script: str, argument: Any = None) -> Any:
    return page.evaluate("async (argument) => {" + LOAD + script + "}", argument)


def test_columns_are_the_same_whichever_way_they_were_loaded(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo)
    same = run(
        page,
        """
        const forwards = new Model(), both = new Model();
        for (const after of [0, 500, 1000]) forwards.append(await page(`after=${after}`));
        both.append(await page("after=700"));
        both.prepend((await page("before=701")).reverse());
        both.prepend((await page("before=201")).reverse());
        both.append(await page("after=1200"));
        const columns = ["id", "cause", "before", "participant", "lamport", "received", "match"];
        return columns.filter((c) => String(forwards[c].slice(0, forwards.length)) !==
          String(both[c].slice(0, both.length))).concat(forwards.length - both.length);
        """,
    )
    assert same == [0]


def test_past_future_and_chain_are_those_of_the_history(
    demo: Served, open_page: OpenPage, world: Past
) -> None:
    page = open_page(demo)
    numbers = [10, 300, 444, 800]
    found = run(
        page,
        """
        const model = new Model();
        for (const after of [0, 500]) model.append(await page(`after=${after}`));
        const ids = (marks, wanted) =>
          [...marks].flatMap((mark, i) => (wanted.includes(mark) ? [model.id[i]] : []));
        return argument.map((id) => {
          const marks = causality.pastAndFuture(model, model.indexOf(id));
          const chain = causality.chain(model, model.indexOf(id), model.indexOf(900));
          return {past: ids(marks, [1, 2]), future: ids(marks, [2, 3]), chain: ids(chain, [4])};
        });
        """,
        numbers,
    )
    for number, sets in zip(numbers, found, strict=True):
        event, end = world.events[number - 1], world.events[899]
        future = history.future(world.events[:1000], event)
        assert set(sets["past"]) == history.past(world.events, event)
        assert set(sets["future"]) == future
        assert set(sets["chain"]) == (
            future & history.past(world.events, end) if end.id in future else set()
        )


@pytest.mark.parametrize("side", ["append", "prepend"])
def test_a_quiet_delivery_joins_nothing(demo: Served, open_page: OpenPage, side: str) -> None:
    page = open_page(demo)
    found = run(
        page,
        """
        const events = await page("after=0");
        const quiet = events.find((event) => event.cause);
        const model = new Model();
        model[argument](events.map((event) => ({ ...event, quiet: event === quiet })));
        const loud = events.find((event) => event.cause && event !== quiet);
        return [quiet, loud].map(({ id }) => {
          const index = model.indexOf(id);
          return [model.cause[index] !== NONE, model.describe(index).cause !== null];
        });
        """,
        side,
    )
    assert found == [[False, False], [True, True]]


@pytest.mark.parametrize("kind", ["lamport", "time"])
def test_every_arrow_that_touches_the_window_is_found(
    demo: Served, open_page: OpenPage, kind: str
) -> None:
    page = open_page(demo)
    differences = run(
        page,
        """
        const model = new Model();
        for (const after of [0, 500, 1000]) model.append(await page(`after=${after}`));
        const rows = layOut(model, argument);
        const edges = new Edges(model.cause, rows);
        const found = new Int32Array(10000);
        const wrong = [];
        let crossing = 0;
        for (let top = 0; top < rows.height; top += rows.height / 40) {
          const bottom = top + 12;
          const n = edges.within(top, bottom, found);
          const got = new Set([...found.subarray(0, n)].map((e) => edges.to[e]));
          for (let i = 0; i < model.length; i += 1) {
            if (model.cause[i] === NONE) continue;
            const y1 = rows.y[model.cause[i]], y2 = rows.y[i];
            const touches = y1 <= bottom && y2 >= top;
            if (touches && y1 < top && y2 > bottom) crossing += 1;
            if (touches !== got.has(i)) wrong.push([top, i]);
          }
        }
        return [wrong, crossing > 0];
        """,
        kind,
    )
    assert differences == [[], True]


@pytest.mark.parametrize("kind", ["lamport", "time"])
def test_no_effect_stands_above_its_cause(demo: Served, open_page: OpenPage, kind: str) -> None:
    page = open_page(demo)
    wrong = run(
        page,
        """
        const model = new Model();
        for (const after of [0, 500]) model.append(await page(`after=${after}`));
        const { y } = layOut(model, argument);
        let wrong = 0;
        for (let i = 0; i < model.length; i += 1) {
          const origins = [model.cause[i], model.before[i]].filter((j) => j !== NONE);
          if (origins.some((j) => y[j] >= y[i])) wrong += 1;
        }
        return wrong;
        """,
        kind,
    )
    assert wrong == 0


def press(page: Page, *keys: str) -> None:
    """Presses keys before anything can be drawn in between."""
    page.evaluate(
        """keys => { for (const key of keys) document.body.dispatchEvent(
             new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true })) }""",
        keys,
    )


class Held:
    """Requests that get no answer until `let_go`."""

    def __init__(self) -> None:
        self.routes: list[Route] = []
        self.open = False

    def __call__(self, route: Route) -> None:
        if self.open:
            route.continue_()
        else:
            self.routes.append(route)

    def let_go(self) -> None:
        self.open = True
        for route in self.routes:
            route.continue_()


IN_VIEW = "parseInt(document.querySelector('.diagram-title > .small').innerText.replace(',', ''))"


def in_view(page: Page) -> int:
    return int(page.evaluate(IN_VIEW))


def test_a_linked_event_is_shown_lit_and_its_neighbours_are_a_key_away(
    demo: Served, open_page: OpenPage, world: Past
) -> None:
    event = next(e for e in world.events[700:] if e.match == "routed")
    page = open_page(demo, f"{SPACE_TIME}&event={event.id}")
    expect(page.locator(".drawer h2")).to_have_text(f"#{event.id}")
    expect(page.locator(".diagram-legend")).to_contain_text("may have led to it")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".drawer h2")).to_have_text(f"#{event.cause}")
    page.keyboard.press("ArrowRight")
    first_effect = next(e.id for e in world.events if e.cause == event.cause)
    expect(page.locator(".drawer h2")).to_have_text(f"#{first_effect}")
    page.keyboard.press("ArrowUp")
    before = world.events[first_effect - 1].prev
    expect(page.locator(".drawer h2")).to_have_text(f"#{before}")


def test_keys_are_obeyed_quicker_than_the_page_is_drawn(
    demo: Served, open_page: OpenPage, world: Past
) -> None:
    event = next(e for e in world.events[700:] if e.match == "routed")
    first_effect = next(e.id for e in world.events if e.cause == event.cause)
    page = open_page(demo, f"{SPACE_TIME}&event={event.id}")
    expect(page.locator(".diagram-legend")).to_contain_text("may have led to it")
    press(page, "ArrowLeft", "ArrowRight", "ArrowUp")
    before = world.events[first_effect - 1].prev
    expect(page.locator(".drawer h2")).to_have_text(f"#{before}")


def test_keys_lead_to_what_is_not_fetched_yet(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(8_000)
    server = serve(world)
    # Far from both ends: at first only the five hundred events on either side are loaded.
    cause, effect = next(
        (e.cause, e.id) for e in world.events[4_000:] if e.cause and e.id - e.cause > 20
    )
    first_effect = next(e.id for e in world.events if e.cause == cause)
    page = open_page(server, "#/jobs")
    window = "**/itc_db?*page_size=500*"
    page.route(window, held := Held())
    page.evaluate(f"location.hash = '{SPACE_TIME}&rows=time&event={effect}'")
    expect(page.locator(".drawer h2")).to_have_text(f"#{effect}")
    for key, event_id in {
        "ArrowLeft": cause,
        "ArrowRight": first_effect,
        "ArrowUp": world.events[first_effect - 1].prev,
        "ArrowDown": first_effect,
    }.items():
        page.keyboard.press(key)
        expect(page.locator(".drawer h2")).to_have_text(f"#{event_id}")
    held.let_go()
    expect(page.locator(".diagram-legend")).to_contain_text("may have led to it")


def test_an_event_chosen_while_others_are_fetched_is_still_shown(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(12_000)
    page = open_page(serve(world), "#/jobs")
    window = "**/itc_db?*after=6000*"
    page.route(window, held := Held())
    with page.expect_request(window):
        page.evaluate(f"location.hash = '{SPACE_TIME}&rows=time&event=6000'")
    expect(page.locator(".drawer h2")).to_have_text("#6000")
    page.evaluate("location.hash = location.hash.replace('event=6000', 'event=1000')")
    expect(page.locator(".drawer h2")).to_have_text("#1000")
    held.let_go()
    expect(page.locator(".diagram-legend")).to_contain_text("may have led to it")
    page.wait_for_function("() => /at=(9|10)\\d\\d\\b/.test(location.hash)")


def _point_at_a_dot(page: Page) -> str:
    """Move the pointer over the diagram until a dot is under it; return its event's number."""
    canvas = page.locator(".diagram-canvas")
    box = canvas.bounding_box()
    assert box is not None
    for y in range(8, int(box["height"]), 12):
        for lane in range(12):
            canvas.hover(position={"x": 92 + (lane + 0.5) * (box["width"] - 92) / 12, "y": y})
            tips = page.locator(".tip strong").all_inner_texts()
            if len(tips) == 1:  # an arrow has two: its ends, and how long it took
                return tips[0]
    raise AssertionError("no dot under the pointer anywhere")


def test_clicking_a_dot_chooses_its_event(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, f"{SPACE_TIME}&rows=lamport&list=on&lanes=all")
    expect(page.locator(".view-list tbody tr").first).to_be_visible()
    _until_painted(page)  # the list takes its place, which moves what is in view
    number = page.locator(".view-list tbody tr").first.get_by_role("link").inner_text()
    page.keyboard.press("ArrowDown")  # chooses the first in view, so that its place is known
    expect(page.locator(".drawer h2")).to_have_text(number)
    page.keyboard.press("Escape")
    expect(page.locator(".drawer")).to_have_count(0)
    _until_painted(page)
    tip = _point_at_a_dot(page)
    page.mouse.down()
    page.mouse.up()
    expect(page.locator(".drawer h2")).to_have_text(tip)


def test_a_dot_that_leaves_the_pointer_takes_its_tip_along(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, f"{SPACE_TIME}&rows=lamport&lanes=all")
    expect(page.locator(".diagram-title")).to_contain_text("loaded events in view")
    _until_painted(page)
    tip = _point_at_a_dot(page)
    page.keyboard.press("Home")
    expect(page.locator(".tip").get_by_text(tip, exact=True)).to_have_count(0)


def test_zoom_pan_and_fit_change_what_is_in_view_and_the_address(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, f"{SPACE_TIME}&rows=time")
    expect(page.locator(".diagram-title")).to_contain_text("loaded events in view")
    near = in_view(page)
    for _ in range(6):
        page.keyboard.press("-")
    page.wait_for_function(f"n => {IN_VIEW} > n", arg=near * 3)
    # Until nothing moves any more, neither the drawing nor the address that follows it.
    page.wait_for_function(
        f"""() => {{
             const now = `${{location.hash}} ${{{IN_VIEW}}}`;
             const still = now === window.before;
             window.before = now;
             return still && /zoom=/.test(now) && /at=/.test(now);
           }}""",
        polling=1000,
    )
    address = page.url
    there = in_view(page)
    page.reload()
    expect(page.locator(".diagram-title")).to_contain_text("loaded events in view")
    assert page.url == address
    page.wait_for_function(f"n => Math.abs({IN_VIEW} - n) < n / 4", arg=there)


def test_moving_up_loads_the_past_until_there_is_none(
    demo: Served, open_page: OpenPage, world: Past
) -> None:
    page = open_page(demo, f"{SPACE_TIME}&rows=time")
    expect(page.locator(".diagram-title")).to_contain_text("loaded events in view")
    mine = sum(e.vhost == "/" for e in world.events)
    for _ in range(12):
        page.keyboard.press("Home")
        if page.locator(".diagram-title").get_by_text(f"of {mine:,} loaded").is_visible():
            break
        page.wait_for_load_state("networkidle")
    expect(page.locator(".diagram-title")).to_contain_text(f"of {mine:,} loaded")
    expect(page.get_by_label("Load more of the past")).to_be_disabled()
    expect(page.get_by_label("Load more of the past")).to_contain_text(f"{mine:,} loaded")


def test_what_is_in_view_stays_there_when_the_past_is_loaded_above_it(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo)
    before, after = run(
        page,
        """
        const { Scene } = await import("/app/spacetime/scene.js");
        const scene = new Scene(new Model());
        scene.view.resize(1300, 760);
        scene.model.append(await page("after=700"));
        scene.layOut();
        scene.view.top = scene.rows.height / 2;
        const before = scene.middle();
        scene.model.prepend((await page("before=701")).reverse());
        scene.layOut();
        return [before, scene.middle()];
        """,
    )
    assert after["id"] == before["id"]
    assert after["fromTop"] == pytest.approx(before["fromTop"])


def test_groups_fold_into_one_lane_and_that_is_in_the_address(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, f"{SPACE_TIME}&lanes=all")
    expect(page.locator(".lane-label")).to_have_count(12)
    page.get_by_role("button", name="auditor").click()
    expect(page.locator(".lane-label")).to_have_count(11)
    page.reload()
    expect(page.locator(".lane-label")).to_have_count(11)
    page.get_by_label("Group by").select_option("none")
    expect(page.locator(".lane-label")).to_have_count(12)
    expect(page.locator(".lane-label").first).to_contain_text(re.compile(r"^\w+@10\."))


def test_with_two_pins_the_chain_is_lit_and_listed_as_such(
    demo: Served, open_page: OpenPage, world: Past
) -> None:
    end = world.events[600]
    start = sorted(history.past(world.events, end))[-30]
    page = open_page(demo, f"{SPACE_TIME}&a={start}&b={end.id}&at={end.id}&list=on&rows=time")
    expect(page.locator(".diagram-legend")).to_contain_text("chain from A to B")
    between = history.past(world.events, end) & history.future(
        world.events[: end.id], world.events[start - 1]
    )
    rows = page.locator(".view-list tbody tr")
    expect(rows.first).to_be_visible()
    listed = {
        int(row[0].removeprefix("#")): row[-1]
        for row in rows.evaluate_all("rows => rows.map(r => [...r.cells].map(c => c.innerText))")
    }
    assert set(listed.values()) == {"in the chain", "outside"}
    assert {n for n, word in listed.items() if word == "in the chain"} == between & set(listed)


def test_links_of_the_chain_are_drawn_apart(demo: Served, open_page: OpenPage, world: Past) -> None:
    end = next(e for e in world.events[400:] if e.named)
    start = min(history.evident_past(world.events, end))
    page = open_page(demo, f"{SPACE_TIME}&a={start}&b={end.id}&at={end.id}")
    legend = page.locator(".diagram-legend")
    expect(legend.locator(".key.chain.link")).to_have_count(1)
    heard = next(e for e in world.events[400:] if e.prompt and not e.named)
    page.goto(f"{demo.url}/{SPACE_TIME}&a={heard.prompt}&b={heard.id}&at={heard.id}")
    expect(legend).to_contain_text("chain from A to B")
    expect(legend.locator(".key.chain.link")).to_have_count(0)


def test_a_link_lights_its_ends_where_no_message_joins_them(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo)
    found = run(
        page,
        """
        const { Scene } = await import("/app/spacetime/scene.js");
        const model = new Model();
        const named = {
          5: [{ cause: 2, rule: "a" }, { cause: 2, rule: "b" }],
          11: [{ cause: 999, rule: "a" }],
        };
        const events = (await page("after=0")).slice(0, 20).map((event) => ({
          ...event,
          cause: event.id === 9 ? 5 : null,
          participant: event.id,
          links: named[event.id] ?? [],
        }));
        model.append(events.slice(3));
        const alone = [...model.links.cause];
        model.prepend(events.slice(0, 3));
        const scene = new Scene(model);
        scene.layOut();
        scene.light({ selected: NONE, chainEnds: [1, 8] });
        const lit = () => [...scene.marks].flatMap((mark, i) => (mark ? [model.id[i]] : []));
        const chain = [lit(), scene.chainLinked];
        scene.light({ selected: 4, chainEnds: null });
        const { from, to } = scene.links;
        return [alone, ...chain, lit(), [...from, ...to], model.describe(4).links];
        """,
    )
    assert found == [[-1, -1], [2, 5, 9], True, [2, 5, 9], [1, 4], [{"cause": 2}]]


def test_what_the_broker_did_is_drawn_and_said(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo)
    found = run(
        page,
        """
        const { stepText } = await import("/app/ui/marks.js");
        const model = new Model();
        const act = { cause: 2, rule: null, kind: "rejected" };
        model.append((await page("after=0")).slice(0, 9).map((event) => ({
          ...event,
          links: event.id === 5 ? [act] : [],
        })));
        const link = { how: "link", kind: "parent", rule: "a" };
        const steps = [model.links.stepOf(1, 4), link, { how: "overflow" }, { how: "message" }];
        const { effect, cause, hasActs } = model.links;
        return [[...effect], [...cause], hasActs, ...steps.map(stepText)];
        """,
    )
    assert found == [
        *([4], [1], True, "rejected", "parent a", "pushed out of its queue", "message"),
    ]


def test_a_quiet_publish_joins_nothing_that_it_names(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo)
    found = run(
        page,
        """
        const model = new Model();
        const events = (await page("after=0")).slice(0, 9);
        model.append(events.map((event) => ({ ...event, quiet: true, links: [{ cause: 1 }] })));
        return model.links.length;
        """,
    )
    assert found == 0


def test_links_of_all_events_in_view_are_drawn_and_said(
    demo: Served, open_page: OpenPage, world: Past
) -> None:
    event = next(e for e in world.events[600:] if e.named)
    page = open_page(demo, f"{SPACE_TIME}&event={event.id}&list=on")
    expect(page.locator(".diagram-legend .key.link")).to_have_count(1)
    row = page.locator(".view-list tr").filter(has=page.get_by_role("link", name=f"#{event.id}"))
    expect(row.locator("td").nth(4)).to_have_text(f"#{event.prompt}")
    press(page, "ArrowLeft")
    expect(page.locator(".drawer h2")).to_have_text(f"#{event.prompt}")
    press(page, "ArrowRight")
    expect(page.locator(".drawer h2")).to_have_text(f"#{event.id}")


def test_a_link_to_a_distant_event_leads_there(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(12_000)
    page = open_page(serve(world), f"{SPACE_TIME}&rows=time")
    expect(page.locator(".diagram-title")).to_contain_text("loaded events in view")
    page.evaluate("location.hash = location.hash.replace(/at=[^&]*&/, '') + '&event=1000'")
    expect(page.locator(".drawer h2")).to_have_text("#1000")
    expect(page.locator(".diagram-legend")).to_contain_text("may have led to it")
    expect(page.locator(".diagram-title")).to_contain_text("#1")
    page.wait_for_function("() => /at=(9|10)\\d\\d\\b/.test(location.hash)")


def test_a_chain_whose_end_is_not_loaded_can_be_loaded(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    world = demo_world(2_500)
    end = world.events[2_499]
    start = min(history.past(world.events, end))
    page = open_page(serve(world), f"{SPACE_TIME}&rows=time&a={start}&b={end.id}&at={end.id}")
    page.get_by_role("button", name=f"Load up to #{start}").click()
    expect(page.locator(".diagram-legend")).to_contain_text("chain from A to B")


@pytest.mark.parametrize("width", [1440, 390])
def test_pinned_events_open_the_view_on_their_chain(
    serve: Callable[[Past], Served], open_page: OpenPage, width: int
) -> None:
    """Also where another virtual host is busier, and one of the two is far from the other."""
    world = demo_world(2_500)
    world.start_trace("busy")
    world.grow("busy", 3_000)
    of_demo = [e for e in world.events if e.vhost == "/"]
    end = of_demo[1_200]
    start = min(history.past(of_demo, end))
    page = open_page(serve(world), f"#/space-time?a={start}&b={end.id}", width=width)
    expect(page.locator(".diagram-legend")).to_contain_text("chain from A to B")
    expect(page.get_by_role("heading", level=1, name="Space-time")).to_be_visible()
    expect(page.get_by_role("button", name="Load up to")).to_have_count(0)
    page.wait_for_url(re.compile(r"vhost=%2F.*at=|at=.*vhost=%2F"))
    page.goto(f"{page.url.partition('#')[0]}#/space-time?a={start}&b={end.id}&vhost=busy")
    expect(page.get_by_role("button", name="Load up to")).to_be_visible()


def test_a_phone_shows_the_whole_chain_of_two_pinned_events(
    demo: Served, open_page: OpenPage
) -> None:
    end = next(e for e in demo.world.events[400:] if e.prompt)
    page = open_page(demo, f"#/space-time?a={end.prompt}&b={end.id}&list=on", width=390)
    page.wait_for_url(re.compile("at="))
    rows = page.locator(".view-list tbody tr").filter(has_text="in the chain")
    for number in (end.prompt, end.id):
        link = page.get_by_role("link", name=f"#{number}", exact=True)
        expect(rows.filter(has=link)).to_have_count(1)


def test_new_events_are_followed(serve: Callable[[Past], Served], open_page: OpenPage) -> None:
    world = demo_world(200)
    page = open_page(serve(world), f"{SPACE_TIME}&live=on&rows=time")
    expect(page.get_by_role("button", name="Live")).to_be_visible()
    expect(page.locator(".diagram-title")).to_contain_text("of 200 loaded")
    world.grow("/", 25)
    expect(page.locator(".diagram-title")).to_contain_text("of 225 loaded")
    expect(page.locator(".diagram-title")).to_contain_text(f"to #{len(world.events)}")


def test_participants_without_a_name_yet_are_lanes_all_the_same(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    page = open_page(serve(demo_world(100)), "#/overview")
    page.route("**/itc_db/participants*", lambda route: route.fulfill(body=json.dumps([])))
    page.keyboard.press("4")
    page.get_by_role("link", name="Space-time", exact=True).click()
    expect(page.get_by_role("button", name="unknown")).to_be_visible()
    expect(page.locator(".lane-label").first).to_be_visible()


def pressed(page: Page, name: str) -> str:
    return page.get_by_role("group", name=name).locator("[aria-pressed=true]").inner_text()


def test_rows_are_the_wall_clock_unless_asked_and_the_toggle_says_what_is_drawn(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, SPACE_TIME)
    drawing = page.locator(".diagram-canvas")
    expect(drawing).to_have_attribute("aria-label", re.compile("by time"))
    assert pressed(page, "Rows") == "By time"
    page.get_by_role("button", name="By cause", exact=True).click()
    expect(drawing).to_have_attribute("aria-label", re.compile("by cause"))
    assert pressed(page, "Rows") == "By cause"
    page.reload()
    expect(drawing).to_have_attribute("aria-label", re.compile("by cause"))
    assert pressed(page, "Rows") == "By cause"


def test_lanes_without_anything_in_view_are_folded_away(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    page = open_page(serve(demo_world(1_500, participants=20)), SPACE_TIME)
    foot = page.locator(".diagram-title")
    expect(foot).to_contain_text(re.compile("lanes? without events in view (is|are) hidden"))
    few = page.locator(".lane-label").count()
    assert few < 20
    listed = page.evaluate("document.querySelector('.diagram-canvas').ariaLabel")
    assert f"of {few} lanes" in listed
    page.get_by_role("button", name="All", exact=True).click()
    expect(page.locator(".lane-label")).to_have_count(20)
    expect(foot).not_to_contain_text("hidden")


def test_who_comes_into_view_has_a_lane_at_once(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo)
    wrong = run(
        page,
        """
        const { Scene } = await import("/app/spacetime/scene.js");
        const { paint, palette } = await import("/app/spacetime/painter.js");
        const scene = new Scene(new Model());
        scene.folding = true;
        scene.view.resize(900, 200);
        for (const after of [0, 500]) scene.model.append(await page(`after=${after}`));
        scene.layOut();
        const context = new OffscreenCanvas(900, 200).getContext("2d");
        const colours = palette();
        let wrong = 0, folded = 0;
        for (let top = 0; top < scene.rows.height - 10; top += 7) {
          scene.view.top = top;
          if (top % 3 === 0) scene.foldLanes();
          folded += scene.foldedAway;
          paint(context, scene, colours);
          const lanes = scene.inView(500).map((i) => scene.laneOf[scene.model.participant[i]]);
          wrong += lanes.filter((lane) => lane === NONE).length;
        }
        return [wrong, folded > 0];
        """,
    )
    assert wrong == [0, True]


def test_a_gap_is_where_it_was_and_nowhere_else(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo)
    found = run(
        page,
        """
        const { Scene } = await import("/app/spacetime/scene.js");
        const scene = new Scene(new Model());
        scene.model.append(await page("after=700"));
        scene.atNewest = false;
        scene.gapEvents = [{after: 300, before: 301}, {after: 750, before: 751},
          {after: 900, before: 905}, {after: 5000, before: null}];
        scene.layOut();
        const row = (id) => scene.rows.y[scene.model.indexOf(id)];
        return [scene.gaps.map(({ from, to }) => [from, to]),
          [[row(750), row(751)], [row(900), row(905)]]];
        """,
    )
    assert found[0] == found[1]


def test_a_gap_after_a_chain_is_not_in_its_picture(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, SPACE_TIME)
    expect(page.locator(".diagram-title")).to_contain_text("loaded events in view")
    counts = run(
        page,
        """
        // The page's own, which knows the traces.
        const { Stage } = modules["app/spacetime/stage.js"];
        const events = await page("after=500");
        const gapsOf = async (last) => {
          const chain = { events: events.filter(({ id }) => id <= last), ids: [], pins: [] };
          const stage = new Stage("/", chain, true);
          stage.open();
          await stage.loader.running;
          stage.layOut();
          const { length } = stage.scene.gaps;
          stage.close();
          return length;
        };
        return [await gapsOf(750), await gapsOf(751)];
        """,
    )
    assert counts == [0, 1]


def hover_an_arrow(page: Page) -> str:
    """Moves the pointer onto some arrow, and gives what the tip says."""
    canvas = page.locator(".diagram-canvas")
    box = canvas.bounding_box()
    assert box is not None
    for x in range(140, int(box["width"]) - 60, 23):
        for y in range(40, int(box["height"]) - 40, 60):
            canvas.hover(position={"x": x, "y": y})
            if page.locator(".tip strong").count() >= 2:
                return page.locator(".tip").inner_text()
    raise AssertionError("no arrow under the pointer anywhere")


def test_an_arrow_says_its_type_its_ends_and_how_long_it_took(
    demo: Served, open_page: OpenPage, world: Past
) -> None:
    page = open_page(demo, f"{SPACE_TIME}&at=1400")
    expect(page.locator(".diagram-title")).to_contain_text("loaded events in view")
    ends = re.match(r"#(\d+) → #(\d+)\s+(.*)", hover_an_arrow(page))
    assert ends is not None
    cause, effect = (world.events[int(number) - 1] for number in ends.groups()[:2])
    took = (effect.at - cause.at) / 1e6
    shown = (
        "under 10 ms" if took < 0.01 else f"{took * 1000:.0f} ms" if took < 1 else f"{took:.1f} s"
    )
    expect(page.locator(".tip")).to_contain_text(shown)
    expect(page.locator(".tip")).to_contain_text(world.who(cause).name)
    expect(page.locator(".tip .strong")).to_contain_text(cause.key or cause.exchange)


def lanes(page: Page) -> list[str]:
    titles = page.locator(".lane-label").evaluate_all("labels => labels.map(l => l.title)")
    return [str(title) for title in titles]


def test_messages_in_view_are_named_by_their_type_and_else_by_their_routing_key(
    demo: Served, open_page: OpenPage, world: Past
) -> None:
    page = open_page(demo, "#/jobs")
    asked = re.compile(r"/itc_db\?.*properties")

    def typed(answer: Any) -> Any:
        some = [each for each in answer if each["routing_keys"] != ["order.new"]]
        return [each | {"properties": {"type": "Renamed"}} for each in some]

    change_answers(page, asked, typed)
    with page.expect_response(asked):
        page.evaluate(f"location.hash = '{SPACE_TIME}&at=1400'")
    expect(page.locator(".diagram-title")).to_contain_text("loaded events in view")
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    with page.expect_download() as saving:
        page.get_by_label("Save what is in view as a picture").select_option("SVG")
    texts = re.findall(r"<text[^>]*>([^<]*)", saving.value.path().read_text())
    assert {"Renamed", "order.new"} <= set(texts)


def test_a_chain_is_drawn_alone_and_fitted_or_among_all_events(
    demo: Served, open_page: OpenPage, world: Past
) -> None:
    end = world.events[900]
    start = sorted(history.past(world.events, end))[-40]
    between = history.past(world.events, end) & history.future(
        world.events[: end.id], world.events[start - 1]
    )
    page = open_page(demo, f"#/space-time?chain={start},{end.id}&list=on")
    expect(page.get_by_text(f"event {start} happened before event {end.id}")).to_be_visible()
    foot = page.locator(".diagram-title")
    expect(foot).to_contain_text(f"{len(between)} of {len(between)} loaded events in view")
    rows = page.locator(".view-list tbody tr")
    expect(rows).to_have_count(len(between))
    assert {int(text[1:]) for text in rows.locator("a").all_inner_texts()} == between
    assert set(lanes(page)) == {world.who(world.events[n - 1]).name for n in between}
    page.get_by_role("button", name="Only these lanes").click()
    expect(page.locator(".diagram-legend")).to_contain_text("the chain")
    expect(foot).to_contain_text("of 1,000 loaded")
    expect(rows.filter(has_text="in the chain")).to_have_count(len(between))
    assert rows.filter(has_text="outside").count() > 0
    page.get_by_role("link", name="All events").click()
    expect(page.get_by_role("button", name="Only these lanes")).to_have_count(0)


def test_concurrent_events_have_no_chain_to_draw(
    demo: Served, open_page: OpenPage, world: Past
) -> None:
    a = world.events[800]
    past = history.past(world.events, a)
    b = next(e for e in reversed(world.events[:800]) if e.id not in past)
    page = open_page(demo, f"#/space-time?chain={b.id},{a.id}")
    expect(page.get_by_role("heading", name="No events between them")).to_be_visible()
    expect(page.get_by_text("neither can have influenced the other")).to_be_visible()


CERTAIN = {"complete": True, "gaps": [], "sound": True, "doubts": [], "quiet": 0, "caveats": []}


def test_a_conversation_is_drawn_with_its_lanes(
    demo: Served, open_page: OpenPage, world: Past
) -> None:
    publish = next(e for e in world.events[300:] if not e.received and len(e.routed or ()) > 1)
    deliveries = [e for e in world.events[publish.id :] if e.cause == publish.id]
    people = {e.participant: world.who(e).name for e in [publish, *deliveries]}
    conversation = {
        "event": publish.id,
        "root": publish.id,
        "vhost": "/",
        "sentence": "order.new led to 2 more messages in 2.1 s",
        "outcome": "open",
        "counts": {"waiting": 0},
        "began_at": iso(publish.at),
        "participants": [{"number": n, "name": name} for n, name in people.items()],
        "messages": [
            {
                "event": publish.id,
                "type": "OrderPlaced",
                "exchange": publish.exchange,
                "routing_key": publish.key,
                "participant": publish.participant,
                "at": iso(publish.at),
                "cause": None,
                "how": None,
                "causes": [],
                "copies": [
                    {
                        "queue": e.queue,
                        "deliveries": [
                            {
                                "event": e.id,
                                "participant": e.participant,
                                "at": iso(e.at),
                                "match": e.match,
                                "queue": e.queue,
                            }
                        ],
                    }
                    for e in deliveries
                ],
            }
        ],
        "truncated": False,
        "next": None,
        **CERTAIN,
    }
    page = open_page(demo, "#/jobs")
    page.route("**/itc_db/conversations/*", lambda route: route.fulfill(json=conversation))
    page.evaluate(f"location.hash = '#/space-time?conversation={deliveries[0].id}&list=on'")
    expect(page.get_by_text("order.new led to 2 more messages")).to_be_visible()
    expect(page.locator(".view-list tbody tr")).to_have_count(1 + len(deliveries))
    expect(page.locator(".lane-label")).to_have_count(len({*people.values()}))
    assert set(lanes(page)) == set(people.values())
    assert "OrderPlaced" in hover_an_arrow(page)


def test_every_sign_is_explained(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, SPACE_TIME)
    expect(page.locator(".diagram-title")).to_contain_text("loaded events in view")
    page.keyboard.press("g")
    legend = page.get_by_role("region", name="Legend")
    for words in (
        "publish",
        "delivery",
        "dead-lettered",
        "link",
        "message that waits",
        "gap",
        "silence",
        "shop",
    ):
        expect(legend).to_contain_text(words)
    page.keyboard.press("g")
    expect(legend).to_have_count(0)


@pytest.mark.parametrize(("kind", "begins"), [("SVG", b"<svg "), ("PNG", b"\x89PNG")])
def test_what_is_in_view_is_saved_as_a_picture(
    demo: Served, open_page: OpenPage, kind: str, begins: bytes
) -> None:
    page = open_page(demo, f"{SPACE_TIME}&event=1400")
    expect(page.locator(".diagram-legend")).to_contain_text("may have led to it")
    with page.expect_download() as saving:
        page.get_by_label("Save what is in view as a picture").select_option(kind)
    body = saving.value.path().read_bytes()
    assert saving.value.suggested_filename.endswith(f".{kind.lower()}")
    assert body.startswith(begins)
    if kind == "SVG":
        texts = [element.text for element in ElementTree.fromstring(body).iter() if element.text]
        assert any("shop@" in text for text in texts)


def test_what_is_left_behind_is_as_if_it_had_never_been_loaded(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo)
    different = run(
        page,
        """
        const long = new Model(), short = new Model();
        for (const after of [0, 500, 1000]) long.append(await page(`after=${after}&links=true`));
        for (const after of [700, 1200]) short.append(await page(`after=${after}&links=true`));
        long.keepNewest(short.length);
        const columns = ["id", "cause", "before", "participant", "lamport", "at", "received"];
        const links = ["effect", "cause", "causeId"];
        return [
          ...columns.filter((c) => String(long[c].slice(0, long.length)) !==
            String(short[c].slice(0, short.length))),
          ...links.filter((c) => String(long.links[c]) !== String(short.links[c])),
          ...[...short.lastOf].filter(([who, index]) => long.lastOf.get(who) !== index),
          long.lastOf.size - short.lastOf.size, short.links.length > 0,
        ];
        """,
    )
    assert different == [0, True]


def test_more_than_40_lanes_are_one_a_service_until_somebody_chooses(
    demo: Served, open_page: OpenPage
) -> None:
    counts = open_page(demo).evaluate(
        """async () => {
          const { arrange } = await import("/app/spacetime/layout.js");
          const { Services } = await import("/app/spacetime/services.js");
          const lanes = (many, collapsed, first = []) => {
            const participants = Array.from({ length: many }, (_, n) =>
              ({ participant: n + 1, name: `p${n}`, user: `service-${n % 5}` }));
            const numbers = participants.map(({ participant }) => participant);
            const model = { lastOf: new Map(numbers.map((number) => [number, 0])) };
            const services = new Services();
            services.know(participants);
            const places = new Map(numbers.map((number) => [number, number]));
            const scene = { model, participants, services, places, grouping: "service", collapsed };
            const { lanes } = arrange({ ...scene, first: new Set(first) }, numbers);
            return [lanes.length, lanes[0].title];
          };
          return [lanes(40, null), lanes(41, null), lanes(41, new Set()), lanes(41, null, [7])];
        }"""
    )
    folded = "service-0: 9 participants"
    assert counts == [[40, "p0"], [5, folded], [41, "p0"], [4 + 8, "p6"]]


def colours() -> list[list[tuple[float, float, float]]]:
    """Of the light and of the dark theme, those of the services, as OKLab has them."""
    pairs = re.findall(
        r"--service-\d+: light-dark\((#\w{6}), (#\w{6})\)",
        (WEB / "style" / "index.css").read_text(),
    )
    return [[oklab(pair[theme]) for pair in pairs] for theme in (0, 1)]


def oklab(colour: str) -> tuple[float, float, float]:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    medium = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * long + 0.793617785 * medium - 0.0040720468 * short,
        1.9779984951 * long - 2.428592205 * medium + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * medium - 0.808675766 * short,
    )


def test_services_beside_each_other_have_colours_that_one_tells_apart(
    demo: Served, open_page: OpenPage
) -> None:
    """Whatever the order: in each theme two that are neighbours are further apart than a glance."""
    orders = [random.Random(seed).sample(range(30), 30) for seed in range(40)]
    found = open_page(demo).evaluate(
        """async (orders) => {
          const { Services } = await import("/app/spacetime/services.js");
          const participants = Array.from({ length: 30 }, (_, n) =>
            ({ participant: n + 1, client: `service-${n}` }));
          const services = new Services();
          return orders.map((order) => {
            services.know(participants);
            const names = order.map((n) => `service-${n}`);
            services.tellApart(names);
            return names.map((name) => services.colorOf(name));
          });
        }""",
        orders,
    )
    for theme in colours():
        assert len(theme) == 10
        for drawn in found:
            for left, right in itertools.pairwise(drawn):
                assert math.dist(theme[left - 1], theme[right - 1]) > 0.1


def test_who_receives_stands_near_who_sends(demo: Served, open_page: OpenPage) -> None:
    """As near, in all, as in the best of all orders, within a tenth."""
    graphs = []
    for seed in range(25):
        chance = random.Random(seed)
        pairs = itertools.combinations(range(7), 2)
        graphs.append([(*pair, chance.randint(1, 9)) for pair in pairs if chance.random() < 0.35])
    rows = open_page(demo).evaluate(
        """async (graphs) => {
          const { placesOf } = await import("/app/spacetime/order.js");
          return graphs.map((graph) => {
            const model = { length: 0, participant: [], cause: [] };
            const add = (who, cause) => {
              model.participant.push(who);
              model.cause.push(cause);
              model.length += 1;
            };
            for (const [a, b, weight] of graph) {
              for (let n = 0; n < weight; n += 1) {
                add(a, -1);
                add(b, model.length - 1);
              }
            }
            const places = placesOf(model, Array.from({ length: 7 }, (_, n) => n), () => "");
            return [...places.keys()].sort((a, b) => places.get(a) - places.get(b));
          });
        }""",
        graphs,
    )

    def length(row: Sequence[int], graph: list[tuple[int, int, int]]) -> int:
        return sum(weight * abs(row.index(a) - row.index(b)) for a, b, weight in graph)

    assert all(sorted(row) == [*range(7)] for row in rows)
    best = sum(min(length(r, g) for r in itertools.permutations(range(7))) for g in graphs)
    assert sum(map(length, rows, graphs)) <= 1.1 * best


LANES = """async () => {
  const { Scene } = await import("/app/spacetime/scene.js");
  const model = { length: 0, participant: [], cause: [], lastOf: new Map(), nameOf: String };
  const send = (from, to) => {
    for (const [who, cause] of [[from, -1], [to, model.length]]) {
      model.participant.push(who);
      model.cause.push(cause);
      model.lastOf.set(who, model.length);
      model.length += 1;
    }
  };
  for (let n = 0; n < 30_000; n += 1) send(n % 5, 9 - n % 5); // each publish beside its delivery
  const named = (numbers) => numbers.map((n) => ({ participant: n, client: `s${n}`, user: "u" }));
  const scene = new Scene(model);
  scene.participants = named([...model.lastOf.keys()]);
  const row = () => {
    scene.arrange();
    return [...scene.lanes].map(({ title }) => Number(title));
  };
  const first = row();
  const { places } = scene;
  scene.participants = named([...model.lastOf.keys()]); // as they are after each refresh
  row();
  const same = scene.places === places;
  model.lastOf.delete(9); // left behind, while another came
  model.participant = model.participant.map((who) => (who === 9 ? 10 : who));
  model.lastOf.set(10, 1);
  scene.participants = named([...model.lastOf.keys()]);
  const swapped = row();
  const colors = () => JSON.stringify([...scene.services.colors]);
  const before = colors();
  scene.folding = true;
  scene.shown = new Set([0, 4, 6, 8]);
  row();
  return [first, same, swapped, before === colors()];
}"""


def test_lanes_and_colours_stay_while_events_come_and_lanes_are_folded_away(
    demo: Served, open_page: OpenPage
) -> None:
    first, same, swapped, same_colours = open_page(demo).evaluate(LANES)
    places = {who: place for place, who in enumerate(first)}
    assert all(abs(places[n] - places[9 - n]) == 1 for n in range(5))
    assert same
    assert [who for who in swapped if who != 10] == [who for who in first if who != 9]
    assert abs(swapped.index(10) - swapped.index(0)) == 1
    assert same_colours


def test_a_thousand_lanes_fit(serve: Callable[[Past], Served], open_page: OpenPage) -> None:
    world = Past()
    world.start_trace("/", 1000)
    world.grow("/", 9000)
    page = open_page(serve(world), f"{SPACE_TIME}&group=none&lanes=all")
    expect(page.locator(".load-more")).to_contain_text("500 loaded")
    page.get_by_label("Load more of the past").select_option("20000")
    expect(page.locator(".load-more")).to_contain_text("9,000 loaded")
    page.evaluate(NOTE_LANES)
    page.get_by_role("button", name="Fit all loaded events").click()
    _until_painted(page)
    first, last, lanes = page.evaluate("window.lanesDrawn()")
    assert lanes > 900
    box = page.locator(".diagram-canvas").bounding_box()
    assert box is not None
    assert first >= 92  # behind the labels of rows
    assert last <= box["width"]
    expect(page.locator(".diagram-title")).to_contain_text("9,000 of 9,000 loaded events in view")


NOTE_LANES = """() => {
  const move = CanvasRenderingContext2D.prototype.moveTo;
  const lanes = new Set();
  CanvasRenderingContext2D.prototype.moveTo = function (x, y) {
    if (y === 0) lanes.add(x);
    return move.call(this, x, y);
  };
  window.lanesDrawn = () => [Math.min(...lanes), Math.max(...lanes), lanes.size];
}"""


def test_a_lane_does_not_say_again_what_stands_above_it(demo: Served, open_page: OpenPage) -> None:
    labels = open_page(demo).evaluate(
        """async () => {
          const { arrange } = await import("/app/spacetime/layout.js");
          const { Services } = await import("/app/spacetime/services.js");
          const people = [["stock", "guest", "stock (guest@10.0.0.1)"],
            ["stock", "guest", "stock (guest@10.0.0.1) #2"],
            ["shop", "shop", "shop (shop@10.0.0.2)"],
            [null, "auditor", "auditor@10.0.0.3"]];
          const participants = people.map(([client, user, name], n) =>
            ({ participant: n + 1, client, user, name }));
          const services = new Services();
          services.know(participants);
          const model = { lastOf: new Map(participants.map((who) => [who.participant, 0])) };
          const places = new Map(participants.map((who, n) => [who.participant, n]));
          const scene = { model, participants, services, places, grouping: "service" };
          const more = { collapsed: null, first: new Set() };
          const { lanes } = arrange({ ...scene, ...more }, places.keys());
          return lanes.map(({ label }) => label);
        }"""
    )
    assert labels == ["guest@10.0.0.1", "guest@10.0.0.1 #2", "10.0.0.2", "10.0.0.3"]
