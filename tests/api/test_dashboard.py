"""The dashboard's files: served as they are, and nothing beside them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from app.api.application import build
from app.main import web_folder
from tests.api.conftest import World, connected

FOLDER = Path(__file__).parents[2] / "web"


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    app = build(world.settings, world.services, web=web_folder())
    async with connected(app) as client:
        yield client


async def test_the_page_needs_no_sign_in(client: httpx.AsyncClient) -> None:
    page = await client.get("/")

    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.text == (FOLDER / "index.html").read_text()


async def test_the_page_keeps_to_its_own_policy(client: httpx.AsyncClient) -> None:
    page = (await client.get("/")).text

    assert not re.search(r"<script(?![^>]*\bsrc=)", page), "inline scripts do not run"
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", page), "inline styles do not apply"


@pytest.mark.parametrize("suffix", [".js", ".css", ".svg", ".woff2"])
async def test_each_kind_of_file_has_its_type(client: httpx.AsyncClient, suffix: str) -> None:
    file = next(FOLDER.rglob(f"*{suffix}"))
    answer = await client.get(f"/{file.relative_to(FOLDER).as_posix()}")

    assert answer.status_code == 200
    assert answer.content == file.read_bytes()
    kinds = {".js": "javascript", ".css": "text/css", ".svg": "svg", ".woff2": "font"}
    assert kinds[suffix] in answer.headers["content-type"]


async def test_a_file_is_asked_about_before_it_is_used_again(client: httpx.AsyncClient) -> None:
    first = await client.get("/index.html")
    again = await client.get("/index.html", headers={"if-none-match": first.headers["etag"]})

    assert first.headers["cache-control"] == "no-cache"
    assert again.status_code == 304


@pytest.mark.parametrize(
    "path",
    [
        "/nothing.js",
        "/..%2Fpyproject.toml",
        "/%2e%2e/pyproject.toml",
        "/app/..%2f..%2fpyproject.toml",
        "/%2Fetc%2Fpasswd",
        "//etc/passwd",
        "/app%5C..%5C..%5Cpyproject.toml",
    ],
)
async def test_nothing_beside_the_folder_is_served(client: httpx.AsyncClient, path: str) -> None:
    url = client.base_url.copy_with(raw_path=path.encode())
    answer = await client.get(url)

    assert answer.status_code == 404
    assert answer.json()["error"] == "Object Not Found"


async def test_files_are_not_written(client: httpx.AsyncClient) -> None:
    answer = await client.put("/index.html", content=b"x")

    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"
