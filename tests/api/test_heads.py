"""Requests' heads: what anybody may send before signing in is small, and read in linear time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from fastapi import Request

from app.api.application import build
from app.api.dashboard import takes_gzip
from app.api.layers import bodies
from app.api.layers.paths import rebuilt_path
from app.api.parameters import check_parameters
from app.api.routes import events
from app.api.signin.auth import parse_user
from app.errors import BadRequestError, ItcError, NotAuthenticatedError
from tests.api.conftest import World, connected, make_world, served
from tests.api.fakes import basic

[LIST] = [each for each in events.router.routes if getattr(each, "name", "") == "list_events"]
WEB = Path(__file__).parents[2] / "web"
LIVE = b"GET /health/live HTTP/1.1\r\n"


def asked(query: bytes) -> Request:
    """A request for a list of events."""
    return Request({"type": "http", "query_string": query, "headers": [], "route": LIST})


async def sent(url: str, data: bytes, piece: int | None = None) -> bytes:
    """All that the server answers, its end included."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        for start in range(0, len(data), piece or len(data)):
            writer.write(data[start : start + (piece or len(data))])
            await writer.drain()
        return await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()


def best_of(times: int, work: Callable[[], object]) -> float:
    """The shortest of several: what else the machine does only prolongs it."""
    taken = []
    for _ in range(times):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def query_of(count: int) -> Request:
    query = "&".join(f"a{n}=" for n in range(count)).encode()
    return asked(query)


def test_names_of_parameters_are_counted_in_linear_time() -> None:
    def check(count: int) -> float:
        return best_of(5, lambda: asyncio.run(check_parameters(query_of(count))))

    assert check(8_000) < 3 * check(4_000) + 0.01


async def test_a_parameter_that_comes_twice_is_still_named() -> None:
    request = asked(b"a=&b=&a=&columns=&columns=")
    with pytest.raises(BadRequestError, match=r"^more than once in the query: a$"):
        await check_parameters(request)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("/health/live?" + "&".join(f"a{n}" for n in range(101)), "more than 100 parameters"),
        ("/health/live?" + "&" * 30_000, "more than 100 parameters"),
        ("/health/live?a=" + "%41" * 20_000, "the query has more than 40960 bytes"),
        ("/itc_db/" + "a" * 9_000, "the path has more than 8192 bytes"),
        ("/itc_db" + "/" * 9_000, "the path has more than 8192 bytes"),
    ],
)
async def test_a_long_target_is_refused_before_anybody_reads_it(
    world: World, monkeypatch: pytest.MonkeyPatch, target: str, reason: str
) -> None:
    def read(_: object) -> bytes:
        raise AssertionError("somebody decodes it")

    monkeypatch.setattr("app.api.layers.paths.unquote_to_bytes", read)
    async with served(world.app(), world.settings) as url:
        data = f"GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".encode()
        answer = await sent(url, data)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert reason.encode() in answer


async def test_the_longest_text_of_a_parameter_fits(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/itc_db", params={"q": "🐇" * 3_000})

    assert answer.status_code == 200


async def test_many_faults_make_no_large_answer(client: httpx2.AsyncClient) -> None:
    many = await client.get("/itc_db", params={f"unknown{n}": 1 for n in range(90)})
    columns = await client.get("/itc_db", params={"columns": ",".join(["x"] * 10_000)})
    long = await client.put(
        "/itc_db/shop/undefined/undefined/undefined", content=b'{"%b": 1}' % (b"x" * 60_000)
    )

    assert many.status_code == columns.status_code == long.status_code == 400
    assert many.json()["reason"].endswith("and 80 more")
    assert len(columns.content) < 1_500
    assert max(len(many.content), len(long.content)) < 20_000


def test_a_path_is_rebuilt_in_linear_time() -> None:
    def check(size: int) -> float:
        return best_of(5, lambda: [rebuilt_path(b"/%2f" * (size // 4)) for _ in range(20)])

    assert check(8_000) < 3 * check(4_000) + 0.01


@pytest.mark.parametrize("piece", [None, 1_000, 65_535, 65_537])
@pytest.mark.parametrize(
    "head",
    [
        LIVE + b"host: x\r\nx-a: " + b"y" * 70_000 + b"\r\n\r\n",
        LIVE + b"host: x\r\n" + 70 * (b"x-a: " + b"y" * 1_000 + b"\r\n") + b"\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        LIVE + b"host: x\r\n" + 101 * b"x-a: y\r\n" + b"\r\n",
        LIVE + b"host: x\r\nx-a: " + b"y" * 200_000,
    ],
    ids=["a header", "headers", "target", "many headers", "no end"],
)
async def test_a_head_that_is_too_large_is_refused_however_it_comes(
    world: World, head: bytes, piece: int | None
) -> None:
    async with served(world.app(), world.settings) as url:
        answer = await sent(url, head, piece)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b'"error":"bad_request"' in answer
    assert b"content-security-policy" in answer


@pytest.mark.parametrize("piece", [None, 1_000])
async def test_a_head_that_is_just_small_enough_is_answered_however_it_comes(
    world: World, piece: int | None
) -> None:
    head = LIVE + b"host: x\r\nconnection: close\r\n" + 60 * (b"x-a: %b\r\n" % (b"y" * 1_000))
    body = b"content-length: 60000\r\n\r\n" + b"z" * 60_000
    async with served(world.app(), world.settings) as url:
        alone = await sent(url, head + b"\r\n", piece)
        behind = await sent(url, LIVE + b"host: x\r\n" + body + head + b"\r\n", piece)

    assert alone.startswith(b"HTTP/1.1 200 ")
    assert behind.startswith(b"HTTP/1.1 400 ")  # for its body
    assert behind.count(b"HTTP/1.1 200 ") == 1


async def test_what_comes_behind_a_body_is_no_header(world: World) -> None:
    [(name, value)] = basic("admin", "secret").items()
    signing_in = f"{name}: {value}\r\n".encode()
    data = (
        b"PUT /itc_db/shop/undefined/undefined/undefined HTTP/1.1\r\nhost: x\r\n"
        b"connection: close\r\ntransfer-encoding: chunked\r\ntrailer: authorization\r\n\r\n"
        b"2\r\n{}\r\n0\r\n" + signing_in + b"\r\n"
    )
    async with served(world.app(), world.settings) as url:
        answer = await sent(url, data)

    assert answer.startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("access_log", [True, False])
async def test_a_query_that_is_not_percent_encoded_is_refused(
    tmp_path: Path, access_log: bool
) -> None:
    world = make_world(tmp_path, access_log=access_log)
    async with served(world.app(), world.settings) as url:
        answer = await sent(url, b"GET /health/live?a=\xc3\xbc HTTP/1.1\r\nhost: x\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    ("version", "hosts", "status"),
    [
        ("1.1", [], 400),
        ("1.1", ["localhost", "localhost"], 400),
        ("1.1", ["["], 400),
        ("1.1", ["a b"], 400),
        ("1.1", ["user@localhost"], 400),
        ("1.1", ["localhost/"], 400),
        ("1.1", ["localhost:http"], 400),
        ("1.1", ["localhost:15680"], 200),
        ("1.1", ["[::1]:15680"], 200),
        ("1.1", ["itc_1.example"], 200),
        ("1.0", [], 200),
        ("1.0", ["a", "a"], 400),
    ],
)
async def test_a_request_has_one_host(
    world: World, version: str, hosts: list[str], status: int
) -> None:
    lines = "".join(f"host: {host}\r\n" for host in hosts)
    data = f"GET /health/live HTTP/{version}\r\nconnection: close\r\n{lines}\r\n".encode()
    async with served(world.app(), world.settings) as url:
        answer = await sent(url, data)

    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


# Values that some parser of theirs trips over.
ODD = [
    "[",
    "http://[",
    "http://[::1",
    "//",
    "\xff",
    "\xa0",
    "\x01",
    "=?utf-8?q?=",
    "9" * 5_000,
    ",",
]
ODD += ["W/", '"', "bytes=" + "9" * 5_000 + "-", "Mon, 99 Foo 9999 99:99:99", "wait=" + "9" * 5_000]
ODD += ["2" * 300, "a=b; " * 1_000, "1e999", "\t", "%", "::ffff:[", "for=" + "[" * 100, ";q=" * 100]
NAMES = [
    *("host", "origin", "sec-fetch-site", "authorization", "prefer", "range", "if-range"),
    *("if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "accept"),
    *("accept-encoding", "cookie", "forwarded", "x-forwarded-for", "x-forwarded-proto", "via"),
    *("last-event-id", "content-type", "expect", "te", "upgrade", "x-requested-with"),
    *("access-control-request-method", "access-control-request-headers", "referer"),
]


@pytest.mark.parametrize(
    "settings",
    [
        {"cors_origins": "https://ops.example.org", "trusted_proxies": "127.0.0.1"},
        pytest.param({"auth": "none"}, marks=pytest.mark.long(5)),
        {"trusted_proxies": "*", "access_log": True},
    ],
    ids=["broker", "none", "behind a proxy"],
)
async def test_no_value_of_a_header_is_a_bug(
    tmp_path: Path, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "REQUEST_SECONDS", 1.0)
    world = make_world(tmp_path, **settings)
    [(_, value)] = basic("admin", "secret").items()
    export = "/itc_db/undefined/1/3/x.jsonl"
    async with served(build(world.settings, world.services, web=WEB), world.settings) as url:
        async with httpx2.AsyncClient(base_url=url, headers={"authorization": value}) as client:
            assert (await client.put(export)).status_code in (200, 201)
        for method, path in (
            ("GET", export),
            ("PUT", export),
            ("GET", "/app"),
            ("PATCH", "/itc_db"),
        ):
            for name in NAMES:
                requests = [
                    f"{method} {path} HTTP/1.1\r\nconnection: close\r\n"
                    + "".join(
                        f"{each}: {odd if each == name else usual}\r\n"
                        for each, usual in {
                            "host": "localhost",
                            "authorization": value,
                            "content-length": "0",
                            name: "",
                        }.items()
                    )
                    + "\r\n"
                    for odd in ODD
                ]
                answers = await asyncio.gather(*(sent(url, r.encode("latin-1")) for r in requests))
                for odd, answer in zip(ODD, answers, strict=True):
                    assert not answer.startswith(b"HTTP/1.1 5"), (method, path, name, odd, answer)
                    assert answer.startswith(b"HTTP/1.1 "), (method, path, name, odd, answer)


@pytest.mark.parametrize("origin", ["http://[", "http://", "//", "http://[::1", "", "localhost"])
async def test_an_origin_that_cannot_be_read_is_another(
    world: World, client: httpx2.AsyncClient, origin: str
) -> None:
    answer = await client.delete(
        "/itc_db/shop/undefined/undefined/undefined", headers={"origin": origin}
    )

    assert (answer.status_code, answer.json()["error"]) == (403, "cross_origin")
    assert world.broker.questions == 0


@pytest.mark.parametrize(
    "value",
    [
        "Bearer a b",
        "Bearer \x01",
        "Bearer " + "a" * 17_000,
        "Bearer a=b",
        "Basic " + "YTpi" * 4_000,
        basic("ops\n", "x")["authorization"],
        basic("ops", "x\x00")["authorization"],
        basic("ops", "\x7f")["authorization"],
        "Basic YTpi YTpi",
        "Negotiate YTpi",
        "x" * 15_000,
    ],
)
async def test_what_can_be_no_credentials_is_a_failed_sign_in(world: World, value: str) -> None:
    async with connected(world.app(), headers={"authorization": value}) as client:
        answers = [await client.get("/itc_db/traces") for _ in range(6)]

    assert [answer.status_code for answer in answers] == [401] * 5 + [429]
    assert world.broker.questions == 0


@pytest.mark.parametrize("value", [b"Bearer abc.DEF-1_2~3+/==", b"bearer  a", b"basic  YTpi"])
def test_what_can_be_credentials_is_asked_about(value: bytes) -> None:
    assert parse_user(value)


async def test_an_outage_does_not_tell_strangers_where_anything_is(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world.broker.down = True
    world.broker.outage = "the broker's management API at http://10.1.2.3:15672 does not answer"
    async with connected(world.app(), headers=basic("admin", "secret")) as client:
        answers = [await client.get("/itc_db/traces") for _ in range(3)]

    for answer in answers:
        assert (answer.status_code, answer.json()["error"]) == (503, "unavailable")
        assert "10.1.2.3" not in answer.text
    assert sum("10.1.2.3" in record.message for record in caplog.records) == 1


async def test_whether_guests_password_is_right_is_not_told_from_afar(world: World) -> None:
    world.broker.add("guest", "guest", "administrator", "/")
    authenticator = world.authenticator()
    told: dict[str, list[tuple[type, str]]] = {}
    for password, address in (("guest", "10.0.0.1"), ("wrong", "10.0.0.2")):
        value = basic("guest", password)["authorization"].encode()
        await asyncio.gather(authenticator.user(value, "127.0.0.1"), return_exceptions=True)
        before = world.broker.questions
        for _ in range(7):
            with pytest.raises(ItcError) as refused:
                await authenticator.user(value, address)
            told.setdefault(password, []).append((refused.type, str(refused.value)))
        assert world.broker.questions == before
    assert told["guest"] == told["wrong"]
    assert told["guest"][0][0] is NotAuthenticatedError
    assert told["guest"][-1][0] is not NotAuthenticatedError  # slowed down


@pytest.mark.parametrize(
    ("accepted", "taken"),
    [
        ("gzip", True),
        ("gzip, deflate, br", True),
        ("GZIP;q=0.001", True),
        ("br;q=1.0, gzip;q=0.8, *;q=0.1", True),
        ("*", True),
        ("x-gzip", True),
        ("*;q=0, gzip", True),
        ("gzip;q=0", False),
        ("gzip; q = 0.000", False),
        ("gzip;q=0, *", False),
        ("*;q=0", False),
        ("identity", False),
        ("notgzip", False),
        ("", False),
    ],
)
def test_a_coding_of_weight_nought_is_forbidden(accepted: str, taken: bool) -> None:
    assert takes_gzip(accepted) is taken
