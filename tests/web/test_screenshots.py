"""The pictures in the documents: one for each tab, and small ones that show the same."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser

from tests.web.conftest import OpenPage
from tests.web.screenshots import FOLDER, SHOWN, VIEWS, pixels, small
from tests.web.service import Served

WEB = Path(__file__).parents[2] / "web"


def test_there_is_a_picture_of_each_view() -> None:
    page = (WEB / "app" / "shell" / "views.js").read_text()
    views = {*re.findall(r'^  "?([\w-]+)"?: \(\) => import\(', page, re.MULTILINE)}
    assert views
    views |= {"failures"}  # a saved filter of the conversations
    assert {*VIEWS} == {*SHOWN} == views == {path.stem for path in FOLDER.iterdir()}


def test_a_small_picture_shows_what_the_large_one_shows(open_page: OpenPage, demo: Served) -> None:
    page = open_page(demo, "#/overview", width=1200)
    page.get_by_text("running").first.wait_for()
    large = page.screenshot()
    picture = small(large)
    assert len(picture) < len(large) / 2

    before, after = pixels(large).astype(int), _with_palette(picture, page.context.browser)
    assert before.shape == after.shape
    off = np.abs(before - after).max(axis=2)
    assert np.mean(off > 16) < 0.001, "of the pixels differ so that one may see it"


def _with_palette(picture: bytes, browser: Browser | None) -> np.ndarray:
    """The picture's pixels as a browser decodes them."""
    assert browser
    height, width = (int.from_bytes(picture[at : at + 4], "big") for at in (20, 16))
    page = browser.new_page(viewport={"width": width, "height": height})
    encoded = ",".join(map(str, picture))
    page.set_content(
        "<style>body { margin: 0 } img { display: block }</style><img>"
        f"<script>const shown = new Blob([new Uint8Array([{encoded}])], {{type: 'image/png'}});"
        "document.querySelector('img').src = URL.createObjectURL(shown);</script>"
    )
    page.wait_for_function("document.querySelector('img').naturalWidth > 0")
    decoded = pixels(page.screenshot()).astype(int)
    page.context.close()
    return decoded
