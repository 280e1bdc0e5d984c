"""The API as a page, made from the OpenAPI document in the browser."""

from __future__ import annotations

import re
import shlex
import subprocess

import httpx2
from playwright.sync_api import expect

from tests.web.conftest import OpenPage, sign_in
from tests.web.service import USERS, Served


def test_every_operation_and_object_can_be_read_and_found(
    demo: Served, open_page: OpenPage
) -> None:
    document = httpx2.get(f"{demo.url}/openapi.json").json()
    titles = [
        f"{method.upper()} {path}"
        for path, operations in document["paths"].items()
        for method in operations
    ]
    page = open_page(demo, "docs", user=None)
    sign_in(page, "watch", USERS["watch"][0])

    expect(page.get_by_role("heading", level=2)).to_have_text(
        [*titles, *document["components"]["schemas"]]
    )
    asked = document["paths"]["/itc_db"]["get"]["parameters"]
    panel = page.get_by_role("region", name="GET /itc_db", exact=True)
    expect(panel.locator("td:first-child")).to_have_text([each["name"] for each in asked])
    said = [each["description"].replace("`", "") for each in asked]
    expect(panel.locator("td:last-child")).to_have_text(said)
    page.get_by_role("link", name="EventPage").first.click()
    expect(page.get_by_role("heading", name="EventPage", exact=True)).to_be_in_viewport()
    page.get_by_label("Find").fill("whoami")
    expect(page.get_by_role("heading", level=2).first).to_have_text("GET /itc_db/whoami")
    expect(page.get_by_role("status")).to_contain_text(f"1 of {len(titles)} operations")


def test_its_commands_ask_what_they_say(demo: Served, open_page: OpenPage) -> None:
    page = open_page(demo, "docs", user=None)
    sign_in(page, "admin", "admin")
    commands = page.locator("pre")
    expect(commands.first).to_be_visible()
    asked = [each for each in commands.all_inner_texts() if " -X " not in each]
    assert len(asked) > 30
    for command in asked:
        if "/live" in command:
            continue
        words = shlex.split(command.replace("-u admin ", "-u admin:admin "))
        answer = subprocess.run([*words, "-sS", "-w", "\n%{http_code}"], capture_output=True)
        status = answer.stdout.decode().rsplit("\n", 1)[-1]
        assert re.fullmatch("20.|404", status), f"{command}: {status}"  # not yet made
