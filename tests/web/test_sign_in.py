from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Route, expect

from tests.web.conftest import OpenPage, change_answers, sign_in
from tests.web.past import Past, demo_world
from tests.web.service import USERS, Served


def test_a_wrong_password_is_refused_with_the_reason(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, user=None)
    sign_in(page, "admin", "wrong")
    expect(page.get_by_role("alert")).to_contain_text("The broker refuses these credentials")
    assert page.evaluate("sessionStorage.length") == 0


def test_a_user_without_the_tag_is_told_so(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, user=None)
    sign_in(page, "nobody", "nobody")
    expect(page.get_by_role("alert")).to_contain_text("Reading needs the tag monitoring")


def test_a_link_shows_what_it_names_after_signing_in(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/events?event=17&live=off", user=None)
    sign_in(page, "admin", "admin")
    expect(page.get_by_role("heading", name="#17")).to_be_visible()


def test_a_reload_stays_signed_in_and_signing_out_forgets(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, user=None)
    sign_in(page, "admin", "admin")
    expect(page.get_by_role("heading", name="All virtual hosts")).to_be_visible()
    page.reload()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("User name")).to_be_focused()
    page.reload()
    expect(page.get_by_label("User name")).to_be_visible()


def test_who_signs_in_next_sees_nothing_of_what_another_was_shown(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/events?live=off&vhost=%2F")
    expect(page.locator("tr.row").first).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    change_answers(page, re.compile(r"/itc_db\?"), lambda _: [])  # the next one may see none
    sign_in(page, "watch", "watch")
    expect(page.get_by_text("No events yet")).to_be_visible()
    expect(page.get_by_role("button", name="Sign out")).to_be_visible()


def test_names_and_passwords_of_any_letters_reach_the_server(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, user=None)
    with page.expect_request(
        lambda r: "whoami" in r.url and "authorization" in r.headers
    ) as request:
        sign_in(page, "jürgen", "pä:ß wörd")
    assert request.value.headers["authorization"] == "Basic asO8cmdlbjpww6Q6w58gd8O2cmQ="


def test_a_service_without_passwords_lets_in_at_once(
    serve: Callable[[Past], Served], open_page: OpenPage
) -> None:
    page = open_page(serve(demo_world(30, auth=False)), user=None)
    expect(page.get_by_role("heading", name="All virtual hosts")).to_be_visible()
    expect(page.get_by_role("button", name="Sign out")).to_have_count(0)


def test_who_may_only_look_cannot_start_stop_or_export(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "#/overview", user="watch")
    expect(page.get_by_role("button", name="Stop the trace of /")).to_be_disabled()
    page.goto(f"{demo.url}/#/admin")
    expect(page.get_by_text("read", exact=True)).to_be_visible()


def test_who_is_no_longer_known_is_asked_to_sign_in_again(
    serve: Callable[[Past], Served], open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = open_page(serve(demo_world(30)))
    expect(page.get_by_role("heading", name="All virtual hosts")).to_be_visible()

    # At the click itself: the page asks the service on its own, too, and would otherwise be
    # at the sign-in before the button is reached.
    def forget_then_send(route: Route) -> None:
        if route.request.method == "DELETE":
            monkeypatch.setitem(USERS, "admin", ("another password", ["administrator"]))
        route.continue_()

    page.route("**/itc_db/**", forget_then_send)
    page.get_by_role("button", name="Stop the trace of /").click()
    page.get_by_role("button", name="Stop the trace", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("The broker refuses these credentials")
    expect(page.get_by_label("User name")).to_be_visible()


def test_a_reload_in_an_outage_waits_for_its_end_and_stays_signed_in(
    demo: Served, open_page: OpenPage
) -> None:
    page = open_page(demo, "#/events?event=17&live=off", hurry=True)
    answer = {"error": "unavailable", "reason": "the broker does not answer"}
    page.route("**/whoami", lambda route: route.fulfill(status=503, json=answer))
    page.reload()
    expect(page.get_by_role("status")).to_contain_text("The broker does not answer. Connecting")
    page.unroute("**/whoami")
    expect(page.get_by_role("heading", name="#17")).to_be_visible()
