"""What the record teaches: reports that are started, listed, and drawn by their kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from app.stored.assertions import JudgingStep, NewViolation, ViolationKind
from tests.web.conftest import OpenPage
from tests.web.past import Past, demo_world
from tests.web.service import Served
from tests.web.test_accessibility import settled, violations

Serve = Callable[[Past], Served]

ASSERTIONS = b"""
- {name: in-time, every: order.new, leads_to: invoice, within: 30s}
- {name: approved, every: ship, after: approve}
- {name: calm, no: "*", causes_more_than: 100}
"""


PERIOD = {"vhost": "/", "since": "2026-01-02", "until": "2026-01-03"}
BEFORE = {"before_since": "2026-01-01", "before_until": "2026-01-02"}


def made(server: Served, kind: str) -> str:
    """A report that is there already; its id."""
    body = ASSERTIONS if kind == "assertions" else b""  # no other takes one
    path = "/itc_db/correlations" if kind == "correlations" else f"/itc_db/reports/{kind}"
    more = BEFORE if kind == "comparison" else {}
    server.finished(path, body, **PERIOD, **more)
    newest, *_ = server.answer("/itc_db/reports")
    return str(newest["id"])


def shown(serve: Serve, open_page: OpenPage, kind: str) -> Page:
    server = serve(demo_world(300))
    return open_page(server, f"#/learn?report={made(server, kind)}")


def test_expectations_are_drawn(serve: Serve, open_page: OpenPage) -> None:
    page = shown(serve, open_page, "expectations")
    panel = page.get_by_role("region", name="Expectations")
    expect(panel.get_by_role("heading", name="Out of the ordinary")).to_be_visible()
    expect(panel.get_by_text("order.new: no invoice").first).to_be_visible()
    row = panel.get_by_role("group", name="What leads to what").locator("tbody tr").first
    expect(row).to_contain_text("invoice")
    settled(page)
    assert violations(page) == []
    expect(row.locator("svg")).to_have_attribute(
        "aria-label", re.compile("^median .* 99 of 100 within")
    )
    flow = panel.locator(".small-flow").first
    expect(flow).to_contain_text("\N{MULTIPLICATION SIGN} 2")
    expect(flow.locator(".badge")).to_have_text("died billing rejected")
    expect(panel.locator("pre")).to_contain_text("assertions:")


def test_a_comparison_shows_what_changed(serve: Serve, open_page: OpenPage) -> None:
    panel = shown(serve, open_page, "comparison").get_by_role("region", name="Comparison")
    expect(panel).to_contain_text("Before is from")
    expect(panel.locator(".badge").first).to_be_visible()


def test_correlations_say_how_one_is_adopted(serve: Serve, open_page: OpenPage) -> None:
    panel = shown(serve, open_page, "correlations").get_by_role("region", name="Correlations")
    expect(panel.get_by_role("heading", name="1.")).to_contain_text("$message.header#/x-because")
    copy = panel.get_by_role("button", name="Copy the command")
    expect(copy).to_have_attribute("title", 'rabbitmq-itc correlate "/" --adopt 1')
    panel.get_by_text("What is no key, and why").click()
    expect(panel.get_by_text("as often by chance")).to_be_visible()


def test_assertions_show_where_they_do_not_hold(serve: Serve, open_page: OpenPage) -> None:
    page = shown(serve, open_page, "assertions")
    panel = page.get_by_role("region", name="Assertions", exact=True)
    expect(panel.get_by_role("heading", name="in-time")).to_contain_text("Violated")
    expect(panel.get_by_role("heading", name="calm")).to_contain_text("Unknown")
    panel.get_by_role("link", name="#1", exact=True).click()
    expect(page).to_have_url(re.compile(r"#/conversations\?event=1"))


def test_an_administrator_has_a_file_of_assertions_judged(
    serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(demo_world(300)), "#/learn")
    expect(page.get_by_text("No report yet")).to_be_visible()
    kinds = page.locator(".report-kinds dt")  # what each would say
    expect(kinds).to_have_text(["Expectations", "Comparison", "Correlations", "Assertions"])
    page.get_by_role("button", name="New report").click()
    form = page.get_by_role("group", name="New report")
    form.get_by_role("button", name="Assertions").click()
    form.get_by_label("What should hold").fill("- name: a")
    form.get_by_role("button", name="Start").click()
    expect(form.get_by_text("expected one of leads_to, after")).to_be_visible()
    form.get_by_label("What should hold").fill(ASSERTIONS.decode())
    form.get_by_role("button", name="Start").click()
    expect(page.get_by_role("region", name="Assertions", exact=True)).to_contain_text("in-time")
    expect(page.get_by_role("group", name="Reports").locator("tbody tr")).to_have_count(1)


@pytest.mark.parametrize("kind", ["expectations", "comparison", "correlations", "assertions"])
def test_a_reader_sees_reports_and_starts_none(
    serve: Serve, open_page: OpenPage, kind: str
) -> None:
    server = serve(demo_world(300))
    made(server, kind)
    page = open_page(server, "#/learn", user="watch")
    expect(page.get_by_role("group", name="Reports").locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("button", name="New report")).to_have_count(0)


HELD = b"""
- {name: in-time, every: order.new, leads_to: invoice, within: 30s}
- {name: approved, every: ship, after: approve}
- {name: calm, no: "*", causes_more_than: 100}
- {name: some-day, every: order.new, leads_to: parcel}
"""
VIEW = "#/learn?view=assertions"


def holding(serve: Serve) -> Served:
    """A service with assertions, of which two did not hold."""
    server = serve(demo_world(300))
    server.put("/itc_db/assertions/%2F", HELD)
    _, first, *_, second = publishes(server)
    judge(server, "in-time", first, ViolationKind.overdue, last=first)
    # There is a gap before it.
    judge(server, "approved", second, ViolationKind.unpreceded, last=second)
    judge(server, "calm", held=40)
    return server


def publishes(server: Served) -> list[int]:
    events = server.world.events
    return [each.id for each in events if each.vhost == "/" and not each.received]


def held(server: Served) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = server.answer("/itc_db/assertions", vhost="/")
    return answer


def judge(
    server: Served,
    name: str,
    event: int = 0,
    kind: ViolationKind = ViolationKind.overdue,
    *,
    last: int = 0,
    held: int = 0,
    sentence: str = "it does not hold",
    at: int | None = None,
) -> None:
    """As the watcher would: an assertion holds so often, and not for an event, if one is given."""

    async def judged() -> None:
        store = server.parts.store
        (one,) = [each for each in await store.assertions.list() if each.name == name]
        violation = NewViolation(
            event=event,
            last_id=last,
            root=None,
            kind=kind,
            type="order.new",
            recorded_at=server.world.events[event - 1].at if at is None else at,
            sentence=sentence,
        )
        found = JudgingStep(
            name=name,
            text=one.text,
            before=one.judged_id,
            judged_id=one.judged_id + 1,
            held=held,
            violations=(violation,) if event else (),
        )
        assert await store.assertions.note_judgement(one.trace_id, found)

    server.done(judged())


def rows(page: Page, label: str) -> Locator:
    return page.get_by_role("group", name=label, exact=True).locator("tbody tr")


def test_assertions_that_are_held_say_whether_each_holds(serve: Serve, open_page: OpenPage) -> None:
    page = open_page(holding(serve), VIEW)
    held = rows(page, "Live checks")
    expect(held).to_have_count(4)
    expect(held.nth(0)).to_contain_text("every: order.new · leads_to: invoice · within: 30s")
    for row, word in enumerate(("Violated", "Violated", "Holds", "Not judged")):
        expect(held.nth(row)).to_contain_text(word)
    expect(held.nth(3)).to_contain_text("A report judges it")


def test_violations_come_newest_first_and_open_their_conversation(
    serve: Serve, open_page: OpenPage
) -> None:
    server = holding(serve)
    newest = publishes(server)[-1]
    page = open_page(server, VIEW)
    found = rows(page, "Violations")
    expect(found.nth(0)).to_contain_text("Not preceded")
    expect(found.nth(0)).to_contain_text("not certain")
    expect(found.nth(1)).to_contain_text("Not in time")
    page.locator("main").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(found.nth(1).locator("a.violation")).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(rf"#/conversations\?event={newest}&vhost=%2F"))


def test_a_violation_that_is_found_appears_by_itself(serve: Serve, open_page: OpenPage) -> None:
    server = holding(serve)
    page = open_page(server, VIEW, hurry=True)
    expect(rows(page, "Violations")).to_have_count(2)
    event = publishes(server)[1]
    judge(server, "calm", event, ViolationKind.storm, last=event)
    expect(rows(page, "Violations")).to_have_count(3)
    expect(rows(page, "Live checks").nth(2)).to_contain_text("Violated")


def test_violations_of_one_assertion_alone_are_in_the_address(
    serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(holding(serve), VIEW)
    page.get_by_role("link", name="Where in-time did not hold: 1 event").click()
    expect(rows(page, "Violations")).to_have_count(1)
    expect(page).to_have_url(re.compile("assertion=in-time"))
    page.get_by_role("button", name="Remove the filter assertion").click()
    expect(rows(page, "Violations")).to_have_count(2)


def test_what_is_overdue_leads_to_the_failures_and_back(serve: Serve, open_page: OpenPage) -> None:
    page = open_page(holding(serve), VIEW)
    page.get_by_role("link", name="The failures of in-time").click()
    expect(page).to_have_url(re.compile("filter=failures.*kind=overdue.*reason=in-time"))
    failure = rows(page, "Conversations that failed")
    expect(failure).to_have_count(1)
    failure.get_by_role("link", name="in-time").click()
    expect(page).to_have_url(re.compile("#/learn.*assertion=in-time.*view=assertions"))
    expect(rows(page, "Violations")).to_have_count(1)


def test_an_administrator_sets_assertions_and_a_mistake_is_shown_where_it_is(
    serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(demo_world(300)), VIEW + "&vhost=%2F")
    expect(page.get_by_text("No assertion is held")).to_be_visible()
    page.get_by_role("button", name="Set assertions").click()
    box = page.get_by_label("What should hold")
    box.fill("- name: a\n  every: order.new\n  leads_to: invoice\n  within: soon\n")
    page.get_by_role("button", name="Set", exact=True).click()
    arrow = "4    within: soon\n" + " " * len("4    within: ") + "\N{UPWARDS ARROW} here"
    expect(page.locator(".mistake")).to_be_visible()
    assert page.locator(".mistake").text_content() == arrow
    expect(page.get_by_role("alert")).to_contain_text("Line 4, column 11")
    expect(box).to_be_focused()
    assert box.evaluate("e => e.value.slice(e.selectionStart, e.selectionEnd)") == "soon"
    page.keyboard.type("30s")
    expect(page.locator(".mistake")).to_have_count(0)
    page.get_by_role("button", name="Set", exact=True).click()
    expect(rows(page, "Live checks")).to_have_count(1)
    expect(rows(page, "Live checks")).to_contain_text("within: 30s")


def test_a_file_is_opened_and_what_is_held_is_what_is_changed(
    serve: Serve, open_page: OpenPage
) -> None:
    server = serve(demo_world(300))
    page = open_page(server, VIEW + "&vhost=%2F")
    page.get_by_role("button", name="Set assertions").click()
    page.get_by_label("Open a file").set_input_files(
        {"name": "shop.yaml", "mimeType": "text/yaml", "buffer": HELD}
    )
    page.get_by_role("button", name="Set", exact=True).click()
    expect(rows(page, "Live checks")).to_have_count(4)
    before = held(server)
    page.get_by_role("button", name="Change").click()
    expect(page.get_by_label("What should hold")).to_have_value(re.compile(r'  no: "\*"\n'))
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_label("What should hold")).to_have_count(0)
    assert held(server) == before  # the same texts, so all go on where they were


def test_an_assertion_is_removed_after_a_question(serve: Serve, open_page: OpenPage) -> None:
    server = holding(serve)
    page = open_page(server, VIEW)
    page.get_by_role("button", name="Remove in-time").click()
    question = page.get_by_role("alertdialog")
    question.get_by_role("button", name="No, leave it").click()
    assert "in-time" in [each["name"] for each in held(server)]
    page.get_by_role("button", name="Remove in-time").click()
    question.get_by_role("button", name="Remove").click()
    expect(rows(page, "Live checks")).to_have_count(3)
    expect(rows(page, "Violations")).to_have_count(2)  # what it found stays


def test_what_is_held_is_judged_over_a_period(serve: Serve, open_page: OpenPage) -> None:
    page = open_page(holding(serve), VIEW)
    page.get_by_role("button", name="New report").click()
    form = page.get_by_role("group", name="New report")
    expect(form.get_by_label("What should hold")).to_have_value(re.compile("in-time"))
    form.get_by_role("button", name="Start").click()
    report = page.get_by_role("region", name="Assertions", exact=True)
    expect(report.get_by_role("heading", name="in-time")).to_contain_text("Violated")
    report.get_by_role("link", name="#1", exact=True).click()
    expect(page).to_have_url(re.compile(r"#/conversations\?event=1"))


def test_a_reader_is_told_who_may_set_assertions(serve: Serve, open_page: OpenPage) -> None:
    page = open_page(holding(serve), VIEW, user="watch")
    expect(rows(page, "Live checks")).to_have_count(4)
    expect(page.get_by_text("Only an administrator of the broker may set")).to_be_visible()
    expect(page.get_by_role("button", name="Change")).to_have_count(0)
    expect(page.get_by_role("button", name="Remove")).to_have_count(0)


def test_where_nothing_is_judged_it_is_said(serve: Serve, open_page: OpenPage) -> None:
    server = holding(serve)
    server.world.traces["/"].state = "stopped"
    page = open_page(server, VIEW)
    expect(page.get_by_text("does not run: nothing new is judged there")).to_be_visible()
    page.goto(page.url.split("#")[0] + VIEW + "&vhost=empty")
    expect(page.get_by_text("This virtual host is not traced")).to_be_visible()


@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 800)])
def test_assertions_can_be_read_in_both_themes_and_in_narrow_windows(
    serve: Serve, open_page: OpenPage, shots: Path, theme: str, width: int
) -> None:
    page = open_page(holding(serve), VIEW, theme=theme, width=width, policy=False)
    page.get_by_role("button", name="Change").click()
    page.get_by_label("What should hold").fill("- name: a\n  every: b\n  leads_too: c\n")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.locator(".mistake")).to_be_visible()
    settled(page)
    assert violations(page) == []
    wide = "() => document.getElementById('page').scrollWidth - innerWidth"
    assert page.evaluate(wide) <= 0
    page.screenshot(path=shots / f"assertions-{theme}-{width}.png", full_page=True)


@pytest.mark.parametrize("kind", ["expectations", "assertions"])
def test_a_job_leads_to_its_report(serve: Serve, open_page: OpenPage, kind: str) -> None:
    server = serve(demo_world(300))
    made(server, kind)
    page = open_page(server, "#/jobs")
    page.get_by_role("link", name=kind).click()
    expect(page.get_by_role("region", name=kind.capitalize(), exact=True)).to_be_visible()


LOOK = """async () => {
  const { seenOf, typesNamed } = await import("/app/learn/seen.js");
  const asked = [];
  const event = (n, full) => ({
    id: 600 - n, type: "published", recorded_at: `2026-01-01T00:00:${10 + n % 50}Z`,
    exchange: "e", routing_keys: ["k"],
    properties: { content_type: "application/cloudevents+json" },
    payload: full ? '{"type": "order.new"}' : undefined,
  });
  const proposal = (every, share) => ({ assertion: { every, leads_to: "z" }, share, cases: 40 });
  const report = { id: 1, report: "expectations", vhost: "v", made_at: "2025-12-24T12:00:00Z",
    types: [], proposals: [proposal("a", 0.95), proposal("b", 1)] };
  window.fetch = async (address) => {
    const { pathname, searchParams: q } = new URL(address, location.href);
    asked.push(`${pathname.split("/")[2] ?? "events"} ${q.get("payload") ?? ""}`.trim());
    const events = Array.from({ length: 500 }, (_, n) => event(n, q.get("payload") === "full"));
    const one = pathname.endsWith("/1") ? report : [report];
    const answer = pathname.endsWith("itc_db") ? events : one;
    return new Response(JSON.stringify(answer));
  };
  const { types, proposals, events } = await seenOf("v");
  await seenOf("v");
  const named = typesNamed('[{"every": "a", "leads_to":"b"}, {"never_concurrent": ["c", "d"]}]');
  return [asked.filter((one) => one.startsWith("events")), types, events,
    proposals.map(({ assertion, made }) => `${assertion.every} ${made}`), named];
}"""


def test_what_is_seen_is_asked_for_with_few_bodies_and_once_a_minute(
    serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(demo_world(30)))
    asked, types, events, proposals, named = page.evaluate(LOOK)
    assert asked == ["events none"] * 4 + ["events full"]
    assert (types, events) == (["order.new"], 500)
    assert proposals == ["b 2025-12-24T12:00:00Z", "a 2025-12-24T12:00:00Z"]
    assert named == ["a", "b", "c", "d"]


def test_what_is_proposed_says_its_report_and_what_cannot_be_read_is_not_added(
    serve: Serve, open_page: OpenPage
) -> None:
    server = serve(demo_world(300))
    made(server, "expectations")
    page = open_page(server, VIEW)
    menu = page.get_by_role("button", name="From what is seen")
    menu.click()
    sheet = page.get_by_role("group", name="From what is seen")
    expect(sheet.get_by_role("listitem").first).to_contain_text("in the report of 2")
    sheet.get_by_text("Another", exact=True).click()
    sheet.get_by_role("combobox", name="Every").fill("order.new")
    sheet.get_by_role("combobox", name="Message type").fill("invoice")
    within = sheet.get_by_role("textbox", name="Within")
    add = sheet.get_by_role("button", name="Add")
    expect(add).to_be_enabled()
    for text in ("30 sec", ""):
        within.fill(text)
        expect(add).to_be_disabled()
    sheet.get_by_label("What holds").select_option("causes at most")
    expect(add).to_be_enabled()
    sheet.get_by_role("textbox", name="Messages").fill("")
    expect(add).to_be_disabled()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Set assertions").click()
    expect(menu).to_have_count(0)  # or Set would replace what is held from there
    page.get_by_role("button", name="Cancel").click()
    expect(menu).to_be_visible()
