"""What a browser asks for again, and what a page does that is older than an upgrade."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.web import service
from tests.web.benchmark import is_data, signed_in, transferred
from tests.web.conftest import OpenPage
from tests.web.past import demo_world
from tests.web.service import Served, running
from tests.web.test_files import FILES, PARTS, SCRIPTS, TABS


@pytest.mark.parametrize(
    ("tab", "shown"),
    [
        ("overview", ".figure"),
        ("events", "tr.row"),
        ("conversations", ".conv-list, #page table"),
        ("space-time", ".diagram canvas"),
    ],
)
def test_a_reload_asks_for_one_file_of_the_page(
    demo: Served, browser: Browser, tab: str, shown: str
) -> None:
    page = signed_in(browser, demo)
    page.goto(f"{demo.url}/#/{tab}")
    page.wait_for_selector(shown)
    with transferred(page) as found:
        page.reload()
        page.wait_for_selector(shown)
    page.close()
    files = [path for path in (urlsplit(url).path for url in found) if not is_data(path)]
    assert files == ["/"]


SAME = r"""
async (parts) => {
  const first = document.querySelector("script").src;
  for (const part of parts) await import(first.replace("app/main.js", part));
  const told = (value) => (typeof value === "function" ? String(value) : typeof value);
  const plainly = (text) => text.replace(/import\("[^"]*\/([\w-]+\.js)"\)/g, "import($1)")
    .replace(/^ *(?:\/\/.*|\/\*\*[^*]*(?:\*(?!\/)[^*]*)*\*\/)\n/gm, "").replace(/^\s*\n/gm, "");
  const list = (all) => Object.entries(all).sort().map(([name, it]) => [name, plainly(told(it))]);
  const found = { same: [], other: [] };
  for (const name of Object.keys(modules).filter((name) => name !== "app/main.js")) {
    const [joined, alone] = [list(modules[name]), list(await import(`/${name}`))];
    found[JSON.stringify(joined) === JSON.stringify(alone) ? "same" : "other"].push(name);
  }
  return found;
}
"""


def test_a_script_exports_the_same_alone_and_joined_with_others(
    demo: Served, open_page: OpenPage
) -> None:
    """The browser's own loader is the judge: what it makes of each file by its plain name.

    Comments on lines of their own are left out of joined scripts.
    """
    page = open_page(demo, "#/jobs")
    expect(page.locator("h1")).to_be_visible()
    parts = [*TABS]
    for part in parts:  # each after one that imports it
        targets = re.findall(r'import\("(.+?)"\)', FILES[part].decode())
        parts += sorted({(part.parent / target).resolve() for target in targets} - {*parts})
    parts += sorted(PARTS - {*parts})
    found = page.evaluate(SAME, [path.relative_to(service.WEB).as_posix() for path in parts])
    assert found["other"] == []
    ours = {path.relative_to(service.WEB).as_posix() for path in SCRIPTS}
    apart = {"app/main.js", "app/shell/reference.js"}  # these export nothing
    assert {name for name in found["same"] if name.startswith("app/")} == ours - apart


def test_a_page_that_is_older_than_an_upgrade_says_so_and_is_loaded_anew(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(service.WEB, tmp_path / "web"))
    monkeypatch.setattr(service, "WEB", folder)
    with running(demo_world(100)) as server:
        page = signed_in(browser, server)
        page.goto(f"{server.url}/#/overview")
        expect(page.get_by_role("heading", name="All virtual hosts")).to_be_visible()
        script = folder / "app" / "events" / "events-tab.js"
        script.write_text(script.read_text() + "\n")
        page.get_by_role("link", name="Events", exact=True).click()
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("the server has another version of this page by now")
        alert.get_by_role("button").click()
        expect(page.locator("tr.row").first).to_be_visible()
        page.close()


def test_a_page_whose_scripts_do_not_come_says_so(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where another service, of another version, answers for the one that the page is of."""
    with running(demo_world(100)) as server:
        page = signed_in(browser, server)
        page.route(re.compile(r"/-/"), lambda route: route.fulfill(status=404))
        page.goto(server.url)
        expect(page.get_by_text("Load it anew")).to_be_visible()
        page.close()


def test_below_a_path_of_a_proxy_it_finds_all_its_files(demo: Served, open_page: OpenPage) -> None:
    """Whatever the page names is relative: a proxy may serve it at /itc/."""
    page = open_page(demo, "#/admin")
    page.goto("about:blank")  # which asks for nothing any more; one stays signed in
    origin = demo.url

    def below(route: object) -> None:
        url = route.request.url.replace(f"{origin}/itc/", f"{origin}/")  # type: ignore[attr-defined]
        route.continue_(url=url)  # type: ignore[attr-defined]

    asked: list[str] = []
    page.on("request", lambda request: asked.append(urlsplit(request.url).path))
    page.route(f"{origin}/itc/**", below)
    page.goto(f"{origin}/itc/#/events")
    expect(page.locator("tr.row").first).to_be_visible()
    assert [path for path in asked if not path.startswith("/itc/")] == []


@pytest.mark.parametrize(
    ("address", "path", "shown"),
    [
        ("#/events?live=off", "/itc_db?", "tr.row"),
        ("#/events?live=off", "/itc_db/fields", "tr.row"),  # what that takes, unless it is known
        ("#/conversations?vhost=%2F", "/itc_db/conversations?", "tbody tr"),
        ("#/overview", "/itc_db/traces", ".figure"),
    ],
)
def test_what_is_shown_first_is_asked_for_before_it_is_known_who_is_signed_in(
    demo: Served, open_page: OpenPage, address: str, path: str, shown: str
) -> None:
    page = open_page(demo, address)
    expect(page.locator(shown).first).to_be_visible()
    if path == "/itc_db/fields":
        page.evaluate(
            "() => Object.keys(sessionStorage).filter((key) => key.startsWith('itc.fields'))"
            ".forEach((key) => sessionStorage.removeItem(key))"
        )
    held: list[Route] = []
    page.route("**/itc_db/whoami", lambda route: held.append(route))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_response(lambda response: path in response.url):
        page.reload()
    expect(page.get_by_text("Connecting")).to_be_visible()
    assert len(held) == 1
    held[0].continue_()
    expect(page.locator(shown).first).to_be_visible()
    later = ("before=", "state=waiting", "columns=recorded_at")  # which come behind the first
    assert len([url for url in asked if path in url and not any(e in url for e in later)]) == 1
