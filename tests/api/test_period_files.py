"""Exports of periods over HTTP: made as jobs, downloaded, listed, removed; spans sent."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from app.errors import OutageError
from app.jobs.exports import PeriodFile
from app.secret_url import SecretUrl
from app.settings import Settings
from model.interchange import PERIOD_FORMATS, ConversationCounts, PeriodSummary, SentCounts
from model.jobs import Served
from spark_jobs.interchange.writers_job import WRITERS
from tests.api.conftest import World, WorldBounds, connected
from tests.api.described import conforms
from tests.api.test_chains import ASYNC, ended

URL = "/itc_db/periods/%2F/day.ocel.json"
PERIOD = "since=2026-01-01&until=2026-01-02"


def files(world: World) -> list[str]:
    return sorted(path.name for path in world.settings.exports.glob("*/*"))


async def test_a_period_is_written_downloaded_listed_and_removed(
    world: World, client: httpx2.AsyncClient
) -> None:
    made = await client.put(f"{URL}?{PERIOD}&via=conversation")
    summary = made.json()
    conforms(summary, (PeriodSummary, Served, ConversationCounts))
    download = await client.get(URL)
    manifest = await client.get(f"{URL}.manifest.json")
    [listed] = (await client.get("/itc_db/periods")).json()
    chains = (await client.get("/itc_db/exports")).json()
    removed = await client.delete(URL)

    assert (made.status_code, made.headers["location"], summary["location"]) == (201, URL, URL)
    assert (summary["since"], summary["via"]) == ("2026-01-01T00:00:00.000000Z", "conversation")
    assert (download.content, download.headers["content-type"]) == (b"{}\n", "application/json")
    assert manifest.json()["events"] == 3
    conforms(listed, PeriodFile)
    assert listed["location"] == URL
    assert (listed["vhost"], listed["file"], listed["complete"]) == ("/", "day.ocel.json", True)
    assert chains == []
    assert removed.status_code == 204
    assert (await client.get(URL)).status_code == 404
    assert (files(world), (await client.get("/itc_db/periods")).json()) == ([], [])


async def test_what_is_damaged_is_not_listed(world: World, client: httpx2.AsyncClient) -> None:
    await client.put(URL)
    [manifest] = world.settings.exports.glob("*/*.manifest.json")
    for text in ("", "[]", '{"vhost": "/"}', "\ud800"):
        manifest.write_bytes(text.encode(errors="surrogatepass"))
        assert (await client.get("/itc_db/periods")).json() == []


async def test_the_job_gets_the_rules_of_links_and_shows_none(
    world: World, client: httpx2.AsyncClient
) -> None:
    rule = {"kind": "conversation", "child": "$message.payload#/order"}
    await client.put("/itc_db/links/%2F/by-order", json=rule)
    world.spark.go.clear()
    job = (await client.put(URL, headers=ASYNC)).json()
    world.spark.go.set()
    done: Any = await ended(client, job["id"])
    assert job["request"].keys() == {"vhost", "since", "until", "via", "file"}
    assert (done["kind"], done["state"]) == ("period", "succeeded")
    work = world.spark.works[-1]
    assert work["rules"][-1] == {
        "name": "by-order",
        "kind": "conversation",
        "child": ["$message.payload#/order"],
        "origin": "own",
    }
    assert work["until"] - work["since"] == 3_600_000_000


async def test_a_file_that_is_being_made_is_not_there_yet(
    world: World, client: httpx2.AsyncClient
) -> None:
    world.spark.go.clear()
    job = (await client.put(URL, headers=ASYNC)).json()
    early = await client.get(URL)
    other = await client.get("/itc_db/periods/%2F/other.ocel.json")
    world.spark.go.set()
    await ended(client, job["id"])
    assert (early.status_code, other.status_code) == (409, 404)


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("/itc_db/periods/%2F/x.json", 400),
        ("/itc_db/periods/%2F/x.ocel.json.manifest.json", 400),
        ("/itc_db/periods/%2F/.ocel.json", 400),
        ("/itc_db/periods/%2F/..%2Fx.ocel.json", 400),
        (f"/itc_db/periods/%2F/x.ocel.json?via=any&{PERIOD}", 400),
        ("/itc_db/periods/%2F/x.ocel.json?since=2026-01-02&until=2026-01-01", 400),
        ("/itc_db/periods/%2F/x.ocel.json?since=yesterday", 400),
        ("/itc_db/periods/nowhere/x.ocel.json", 404),
        ("/itc_db/spans?vhost=nowhere", 404),
        ("/itc_db/spans?vhost=/", 409),
        ("/itc_db/spans?vhost=/&url=http://elsewhere", 400),
    ],
)
async def test_what_cannot_be_written_is_refused(
    world: World, client: httpx2.AsyncClient, url: str, status: int
) -> None:
    assert (await client.put(url)).status_code == status
    assert (files(world), world.spark.runs) == ([], 0)


async def test_there_is_no_more_than_the_bounds_of_exports(world: World) -> None:
    world.bounds = WorldBounds(exports=1)
    async with connected(world.app(), auth=("admin", "secret")) as bounded:
        assert (await bounded.put(URL)).status_code == 201
        assert (await bounded.put(URL)).status_code == 201  # in its own place
        full = await bounded.put("/itc_db/periods/%2F/two.otlp.json")
    assert full.status_code == 507


async def test_readers_download_and_do_not_write(world: World) -> None:
    async with connected(world.app(), auth=("watcher", "secret")) as client:
        assert (await client.put(URL)).status_code == 401
        assert (await client.put("/itc_db/spans?vhost=/")).status_code == 401
        assert (await client.put(URL, auth=("admin", "secret"))).status_code == 201
        assert (await client.get(URL)).status_code == 200
        assert (await client.delete(URL)).status_code == 401


SET = {
    "otlp_export_url": SecretUrl("http://me:secret@collector:4318?token=hidden"),
    "otlp_export_headers": "x-key=hidden, x-scope = a=b",
}


async def test_spans_are_sent_where_the_setting_says(world: World) -> None:
    world.settings = Settings.model_validate({**world.settings.model_dump(), **SET})
    async with connected(world.app(), auth=("admin", "secret")) as client:
        sent = await client.put(f"/itc_db/spans?vhost=/&{PERIOD}")
        again = await client.put(f"/itc_db/spans?vhost=/&{PERIOD}&url=http://elsewhere")
        jobs = await client.get("/itc_db/jobs")
    summary = sent.json()
    conforms(summary, (PeriodSummary, Served, SentCounts))
    assert (sent.status_code, summary["spans"], summary["location"]) == (201, 7, None)
    assert again.status_code == 400  # only the setting says where to
    assert world.settings.collector == {
        "url": "http://me:secret@collector:4318/v1/traces?token=hidden",
        "shown": "http://collector:4318/v1/traces",
        "headers": {"x-key": "hidden", "x-scope": "a=b"},
    }
    for text in (sent.text, jobs.text):
        assert not {"secret", "hidden"} & {*text.replace('"', " ").split()}
        assert "collector:4318" not in text


async def test_a_collector_that_is_down_fails_the_job_which_can_be_repeated(world: World) -> None:
    world.settings = Settings.model_validate({**world.settings.model_dump(), **SET})
    async with connected(world.app(), auth=("admin", "secret")) as client:
        world.spark.fail = OutageError("The collector at x cannot be reached.")
        failed = await client.put(f"/itc_db/spans?vhost=/&{PERIOD}")
        world.spark.fail = None
        again = await client.put(f"/itc_db/spans?vhost=/&{PERIOD}")
    assert (failed.status_code, again.status_code) == (500, 201)
    assert failed.json()["reason"] == "The collector at x cannot be reached."


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("otlp_export_url", "collector:4318"),
        ("otlp_export_url", "ftp://collector"),
        ("otlp_export_url", "http://"),
        ("otlp_export_headers", "no sign"),
        ("otlp_export_headers", "=x"),
        ("otlp_export_headers", "a=x\r\nb: c"),
        ("otlp_export_headers", "a="),
    ],
)
def test_settings_that_no_collector_can_have_are_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=r"expected|not a URL"):
        Settings.model_validate({name: value})


def test_a_path_that_the_setting_says_is_kept() -> None:
    settings = Settings.model_validate({"otlp_export_url": "https://collector/otlp/traces"})
    assert settings.collector == {
        "url": "https://collector/otlp/traces",
        "shown": "https://collector/otlp/traces",
        "headers": {},
    }


def test_each_format_has_who_writes_it() -> None:
    assert PERIOD_FORMATS.keys() == WRITERS.keys()
