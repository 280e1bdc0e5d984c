"""The dashboard's files: served as they are, and nothing beside them."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest
from starlette.types import Message

from app.api import scripts
from app.api.application import build
from app.api.dashboard import Dashboard
from app.api.scripts import Scripts
from app.main import web_folder
from tests.api.conftest import World, connected

FOLDER = Path(__file__).parents[2] / "web"


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx2.AsyncClient]:
    app = build(world.settings, world.services, web=web_folder())
    async with connected(app) as client:
        yield client


def version_of(page: httpx2.Response) -> str:
    """The prefix of all that a page names, ``-/DIGEST/``."""
    [version] = {*re.findall(r' (?:href|src)="(-/[0-9a-f]{16}/)?', page.text)}
    assert version
    return str(version)


async def test_the_page_needs_no_sign_in(client: httpx2.AsyncClient) -> None:
    page = await client.get("/")

    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    version = version_of(page)
    assert page.text.replace(version, "") == (FOLDER / "index.html").read_text()


async def test_the_page_keeps_to_its_own_policy(client: httpx2.AsyncClient) -> None:
    page = (await client.get("/")).text

    assert not re.search(r"<script(?![^>]*\bsrc=)", page), "inline scripts do not run"
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=", page), "inline styles do not apply"


@pytest.mark.parametrize("suffix", [".js", ".css", ".svg", ".woff2", ".inter"])
async def test_each_kind_of_file_has_its_type(client: httpx2.AsyncClient, suffix: str) -> None:
    file = next(FOLDER.rglob(f"*{suffix}"))
    answer = await client.get(f"/{file.relative_to(FOLDER).as_posix()}")

    assert answer.status_code == 200
    assert answer.content == file.read_bytes()
    kinds = {".js": "javascript", ".css": "text/css", ".svg": "svg", ".woff2": "font"}
    kinds[".inter"] = "text/plain"  # a licence
    assert kinds[suffix] in answer.headers["content-type"]


async def test_a_file_is_asked_about_before_it_is_used_again(client: httpx2.AsyncClient) -> None:
    first = await client.get("/index.html")
    again = await client.get("/index.html", headers={"if-none-match": first.headers["etag"]})

    assert first.headers["cache-control"] == "no-cache"
    assert again.status_code == 304


async def test_text_is_compressed_for_clients_that_accept_it(client: httpx2.AsyncClient) -> None:
    file = FOLDER / "app" / "main.js"
    packed = await client.get("/app/main.js", headers={"accept-encoding": "gzip, br"})
    plain = await client.get("/app/main.js", headers={"accept-encoding": "identity"})

    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.content == plain.content == file.read_bytes()
    assert packed.headers["content-type"] == plain.headers["content-type"]
    assert packed.headers["etag"] != plain.headers["etag"], "a cache must not mix them up"
    assert packed.headers["vary"] == plain.headers["vary"] == "accept-encoding"
    for answer, encoding in ((packed, "gzip"), (plain, "identity")):
        headers = {"accept-encoding": encoding, "if-none-match": answer.headers["etag"]}
        assert (await client.get("/app/main.js", headers=headers)).status_code == 304


async def test_what_is_compressed_already_and_parts_of_a_file_stay_as_they_are(
    client: httpx2.AsyncClient,
) -> None:
    takes = {"accept-encoding": "gzip"}
    font = await client.get("/vendor/inter.woff2", headers=takes)
    part = await client.get("/app/main.js", headers=takes | {"range": "bytes=0-9"})

    unknown = await client.get("/app/main.js", headers={"range": "lines=0-9"})

    assert "content-encoding" not in font.headers
    assert unknown.status_code == 200
    assert part.status_code == 206
    assert part.content == (FOLDER / "app" / "main.js").read_bytes()[:10]


async def test_a_changed_file_is_compressed_again(world: World, tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    page.write_text("first")
    async with connected(build(world.settings, world.services, web=tmp_path)) as client:
        first = await client.get("/", headers={"accept-encoding": "gzip"})
        page.write_text("second one")
        second = await client.get("/", headers={"accept-encoding": "gzip"})

    assert (first.text, second.text) == ("first", "second one")


@pytest.mark.parametrize("page", ["/", "/docs"])
@pytest.mark.parametrize("encoding", ["gzip", "identity"])
async def test_what_a_page_names_is_kept_for_good(
    client: httpx2.AsyncClient, page: str, encoding: str
) -> None:
    takes = {"accept-encoding": encoding}
    asked = await client.get(page, headers=takes)
    version = version_of(asked)
    named = re.findall(rf'"{version}([^"]+)"', asked.text)

    assert asked.headers["cache-control"] == "no-cache"
    assert "style/index.css" in named
    for name in named:
        answer = await client.get(f"/{version}{name}", headers=takes)
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        if name.endswith(".js"):  # with what it needs
            assert len(answer.content) > 50_000 > (FOLDER / name).stat().st_size
            assert "javascript" in answer.headers["content-type"]
        else:
            assert answer.content == (FOLDER / name).read_bytes()
        assert ("content-encoding" in answer.headers) == (
            encoding == "gzip" and not name.endswith("woff2")
        )


async def test_no_two_versions_meet_in_a_page(world: World, tmp_path: Path) -> None:
    """Of the version before nothing is served that was changed, nor anything once it is known."""
    (tmp_path / "index.html").write_text('<link rel="stylesheet" href="main.css">')
    for name in ("main.css", "other.js"):
        (tmp_path / name).write_text(f"export const of = '{name}';")
    async with connected(build(world.settings, world.services, web=tmp_path)) as client:
        before = await client.get("/")
        known = {"if-none-match": before.headers["etag"]}
        assert (await client.get("/", headers=known)).status_code == 304
        (tmp_path / "other.js").write_text("export const of = 'another version';")
        changed = await client.get(f"/{version_of(before)}other.js")
        after = await client.get("/", headers=known)
        unchanged = await client.get(f"/{version_of(before)}main.css")
        new = await client.get(f"/{version_of(after)}other.js")

    assert [one.status_code for one in (changed, after, unchanged, new)] == [404, 200, 404, 200]
    assert "immutable" not in changed.headers["cache-control"]
    assert version_of(before) != version_of(after)
    assert new.text == "export const of = 'another version';"


async def test_scripts_that_are_joined_otherwise_are_another_version(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an upgrade that changes nothing but how they are joined."""
    async with connected(build(world.settings, world.services, web=FOLDER)) as client:
        before = await client.get("/")
    function = scripts._function
    monkeypatch.setattr(scripts, "_function", lambda *of: f"{function(*of)}\n")
    async with connected(build(world.settings, world.services, web=FOLDER)) as upgraded:
        after = await upgraded.get("/")
        old = await upgraded.get(f"/{version_of(before)}app/main.js")

    assert version_of(before) != version_of(after)
    assert old.status_code == 404


@pytest.mark.parametrize(
    "text",
    [
        'import "./b.js";',
        'import * as all from "./b.js";',
        'import a, { b } from "./b.js";',
        "const a = 1;export const { b } = { b: 2 };",
        'export * from "./b.js";',
    ],
)
def test_a_form_of_import_or_export_that_cannot_be_joined_is_refused(text: str) -> None:
    page = b'<script type="module" src="a.js"></script>'
    files = {"index.html": page, "b.js": b"export const b = 1;"}
    with pytest.raises(ValueError, match=r"a\.js"):
        Scripts(files | {"a.js": text.encode()})
    meant = b'import { b as a } from "./b.js";\nimport("./c.js"); import.meta.url;'
    assert b"const { b: a } = modules" in Scripts(files | {"a.js": meant}).bundles["a.js"]


def test_comments_on_lines_of_their_own_stay_behind_and_lines_keep_their_numbers() -> None:
    page = b'<script type="module" src="a.js"></script>'
    script = (
        b"// of all\n/**\n * two * of / them\n */\nexport const at = 'http://x'; // its place\n"
    )
    licence = b"/** (c) others */ export const b = 1;\n// theirs\n"
    joined = Scripts(
        {
            "index.html": page,
            "a.js": b'import { b } from "./vendor/b.js";\n' + script,
            "vendor/b.js": licence,
        }
    ).bundles["a.js"]
    own = joined[joined.index(b'modules["a.js"] ??=') :].decode().splitlines()
    assert [line.strip() for line in own[1:5]] == [""] * 4
    assert own[5] == "const at = 'http://x'; // its place"
    assert b"(c) others" in joined
    assert b"// theirs" in joined


async def test_services_of_one_version_name_the_same(world: World, tmp_path: Path) -> None:
    """So that a page of one is served by another."""
    shutil.copytree(FOLDER, tmp_path / "web")  # as another machine has it
    os.utime(tmp_path / "web" / "index.html", (0, 0))
    async with connected(build(world.settings, world.services, web=tmp_path / "web")) as client:
        copied = await client.get("/")
    async with connected(build(world.settings, world.services, web=FOLDER)) as client:
        page = copied.text.partition('src="')[2].partition('"')[0]
        assert (await client.get(f"/{page}")).status_code == 200


async def test_no_page_and_nothing_beside_the_folder_has_a_version(
    client: httpx2.AsyncClient,
) -> None:
    version = version_of(await client.get("/"))

    names = ("index.html", "docs", "", "app", "../../index.html.js", "..%2f..%2fpyproject.toml")
    for name in (*names, "%2Fetc%2Fpasswd"):
        assert (await client.get(f"/{version}{name}")).status_code == 404, name
    assert (await client.get("/-/0123456789abcdef/app/main.js")).status_code == 404


async def test_no_answer_of_the_api_is_compressed(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/openapi.json", headers={"accept-encoding": "gzip"})

    assert len(answer.content) > 10_000
    assert "content-encoding" not in answer.headers


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
async def test_nothing_beside_the_folder_is_served(client: httpx2.AsyncClient, path: str) -> None:
    url = client.base_url.copy_with(raw_path=path.encode())
    answer = await client.get(url)

    assert answer.status_code == 404
    assert answer.json()["error"] == "Object Not Found"


async def test_files_are_not_written(client: httpx2.AsyncClient) -> None:
    answer = await client.put("/index.html", content=b"x")

    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"


async def test_a_slow_reader_of_a_file_holds_no_descriptor_of_it() -> None:
    """Else clients that take two descriptors each would use up what is reserved for the service."""
    folder = web_folder()
    assert folder is not None
    held: list[str] = []

    async def send(message: Message) -> None:
        held.extend(open_files())

    async def receive() -> Message:
        return {"type": "http.request"}

    scope = {"type": "http", "method": "GET", "path": "/index.html", "headers": []}
    await Dashboard(folder)(scope, receive, send)
    assert held
    assert not [name for name in held if name.startswith(str(folder))]


def open_files() -> Iterator[str]:
    """What this process has open."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            yield str(descriptor.readlink())


@pytest.mark.parametrize(
    ("method", "path", "status", "allow"),
    [
        ("GET", "/itc_db/restamp", 405, "PUT"),
        ("HEAD", "/itc_db/restamp", 405, "PUT"),
        ("PUT", "/itc_db/nothing/of/this/kind/at/all", 404, None),
        ("POST", "/itc_db/nothing", 404, None),
        ("POST", "/index.html", 405, "GET, HEAD"),
        ("GET", "/nothing", 404, None),
    ],
)
async def test_a_path_without_a_route_for_a_method_is_told_from_one_that_is_not_there(
    client: httpx2.AsyncClient, method: str, path: str, status: int, allow: str | None
) -> None:
    answer = await client.request(method, path)

    assert (answer.status_code, answer.headers.get("allow")) == (status, allow)
