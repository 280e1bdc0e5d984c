"""Chains, exports and jobs over HTTP, with Spark's place taken by a fake."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import httpx2
import pytest

from app.api.routes.submitting import preference_of
from app.errors import OutageError, QuotaError
from app.jobs.exports import Export
from app.stored.jobs import Job
from model.exports import ChainSummary
from model.jobs import Served
from tests.api.conftest import World, WorldBounds, connected, make_world
from tests.api.described import conforms, described
from tests.api.story import AUDITED, INVOICED, ORDERED

URL = f"/itc_db/undefined/{ORDERED}/{INVOICED}/order.jsonl"
ASYNC = {"prefer": "respond-async"}
SECRET = 8


def files(world: World) -> list[str]:
    """Everything under the export folder."""
    return sorted(path.name for path in world.settings.exports.rglob("*") if path.is_file())


async def ended(client: httpx2.AsyncClient, job_id: int) -> dict[str, object]:
    while True:
        job = (await client.get(f"/itc_db/jobs/{job_id}")).json()
        if job["state"] not in ("queued", "running"):
            return job
        await asyncio.sleep(0)


async def test_a_chain_is_made_downloaded_and_removed(
    world: World, client: httpx2.AsyncClient
) -> None:
    made = await client.put(URL)
    summary = made.json()
    conforms(summary, (ChainSummary, Served))
    listed = (await client.get("/itc_db/exports")).json()
    download = await client.get(made.headers["location"])
    removed = await client.delete(URL)

    assert made.status_code == 201
    assert made.headers["location"] == summary["location"] == URL
    assert (summary["relation"], summary["events"], summary["vhost"]) == ("before", 1, "/")
    assert set(made.json()["seconds"]) >= {"queued", "plan", "spark"}
    [export] = listed
    conforms(export, Export)
    assert export["file"] == "order.jsonl"
    assert listed[0]["location"] == URL
    assert download.content == b'{"id": 1}\n'
    assert download.headers["content-type"] == "application/x-ndjson"
    assert download.headers["content-disposition"] == 'attachment; filename="order.jsonl"'
    assert download.headers["x-content-type-options"] == "nosniff"
    assert removed.status_code == 204
    assert (await client.get(URL)).status_code == 404
    assert (await client.delete(URL)).status_code == 404
    assert files(world) == []


async def test_a_part_of_an_export_can_be_asked_for(client: httpx2.AsyncClient) -> None:
    await client.put(URL)
    part = await client.get(URL, headers={"range": "bytes=1-4"})

    assert (part.status_code, part.content) == (206, b'"id"')


@pytest.mark.parametrize(
    ("wrong", "status", "word"),
    [("bytes=a-b", 400, "bad_request"), ("bytes=900-", 416, "range_not_satisfiable")],
)
async def test_an_invalid_range_is_refused_like_everything_else(
    client: httpx2.AsyncClient, wrong: str, status: int, word: str
) -> None:
    await client.put(URL)
    refused = await client.get(URL, headers={"range": wrong})

    assert (refused.status_code, refused.json()["error"]) == (status, word)
    assert refused.headers.get("content-range") == ("bytes */10" if status == 416 else None)


@pytest.mark.parametrize("unit", ["lines=1-2", "seconds=0-", "lines"])
async def test_a_part_in_a_unit_that_nobody_knows_is_the_whole(
    client: httpx2.AsyncClient, unit: str
) -> None:
    await client.put(URL)
    answer = await client.get(URL, headers={"range": unit})

    assert (answer.status_code, answer.content) == (200, b'{"id": 1}\n')


EARLY, LATE = "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 2100 23:59:59 GMT"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"if-none-match": "TAG"}, 304),
        ({"if-none-match": "W/TAG"}, 304),
        ({"if-none-match": '"other", TAG'}, 304),
        ({"if-none-match": "*"}, 304),
        ({"if-none-match": '"other"'}, 200),
        ({"if-none-match": '"other"', "if-modified-since": LATE}, 200),  # the tag counts
        ({"if-none-match": "TAG", "range": "bytes=0-1"}, 304),
        ({"if-modified-since": "TIME"}, 304),
        ({"if-modified-since": EARLY}, 200),
        ({"if-modified-since": "yesterday"}, 200),
        ({"if-match": "TAG"}, 200),
        ({"if-match": "*"}, 200),
        ({"if-match": "W/TAG"}, 412),  # a weak one never matches here
        ({"if-match": '"other"'}, 412),
        ({"if-match": '"other"', "if-none-match": "TAG"}, 412),
        ({"if-match": "TAG", "if-unmodified-since": EARLY}, 200),
        ({"if-unmodified-since": EARLY}, 412),
        ({"if-unmodified-since": "TIME"}, 200),
        ({"if-range": "TAG", "range": "bytes=0-1"}, 206),
        ({"if-range": "TIME", "range": "bytes=0-1"}, 206),
        ({"if-range": '"other"', "range": "bytes=0-1"}, 200),
        ({"if-range": "W/TAG", "range": "bytes=0-1"}, 200),
    ],
)
async def test_an_exports_tag_and_time_can_be_conditions(
    client: httpx2.AsyncClient, headers: dict[str, str], status: int
) -> None:
    await client.put(URL)
    whole = await client.get(URL)
    own = {"TAG": whole.headers["etag"], "TIME": whole.headers["last-modified"]}
    for word, value in own.items():
        headers = {name: each.replace(word, value) for name, each in headers.items()}
    answer = await client.get(URL, headers=headers)

    assert answer.status_code == status
    if status == 304:
        assert (answer.content, answer.headers["etag"]) == (b"", own["TAG"])
    if status == 412:
        assert answer.json()["error"] == "precondition_failed"


async def test_concurrent_events_are_an_answer(world: World, client: httpx2.AsyncClient) -> None:
    url = f"/itc_db/undefined/{INVOICED}/{AUDITED}/x.jsonl"
    answer = await client.put(url)

    assert answer.status_code == 200
    assert "location" not in answer.headers
    assert (answer.json()["relation"], answer.json()["file"]) == ("concurrent", None)
    assert (answer.json()["events"], answer.json()["location"]) == (0, None)
    conforms(answer.json(), (ChainSummary, Served))
    assert answer.json()["answer"] == "cannot have"
    assert answer.json()["seconds"].keys() == {"queued", "start", "plan", "total"}
    assert files(world) == []
    assert world.spark.runs == 0

    waited = await client.put(url, headers=ASYNC)
    job = described(waited, Job)
    assert (waited.status_code, job.state) == (202, "succeeded")
    assert job.result is not None
    assert (job.result.job, job.result.relation) == (job.id, "concurrent")
    assert (await ended(client, job.id))["result"] == waited.json()["result"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"/itc_db/undefined/{ORDERED}/{ORDERED}/x.jsonl", 400),
        (f"/itc_db/undefined/{ORDERED}/99/x.jsonl", 404),
        (f"/itc_db/undefined/99/{ORDERED}/x.jsonl", 404),
        (f"/itc_db/undefined/{ORDERED}/{SECRET}/x.jsonl", 404),
        (f"/itc_db/undefined/0/{ORDERED}/x.jsonl", 400),
        (f"/itc_db/undefined/a/{ORDERED}/x.jsonl", 400),
        (f"/itc_db/undefined/{ORDERED}/{INVOICED}/x.exe", 400),
        (f"/itc_db/undefined/{ORDERED}/{INVOICED}/.hidden.jsonl", 400),
        (f"/itc_db/undefined/{ORDERED}/{INVOICED}/%2E%2E", 400),
        (f"/itc_db/undefined/{ORDERED}/{INVOICED}/..%2F..%2Fetc%2Fpasswd", 400),
        (f"/itc_db/undefined/{ORDERED}/{INVOICED}/a%5Cb.jsonl", 400),
        (f"/itc_db/undefined/{ORDERED}/{INVOICED}/a%00b.jsonl", 400),
        (f"/itc_db/undefined/{ORDERED}/{INVOICED}/a%0D%0Ax: y.jsonl", 400),
        (f"/itc_db/undefined/{ORDERED}/{INVOICED}/a b.jsonl", 400),
        (f"/itc_db/undefined/{ORDERED}/{INVOICED}/%C3%BC.jsonl", 400),
        (f"/itc_db/undefined/{ORDERED}/{INVOICED}/{'a' * 300}", 400),
    ],
)
@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE"])
async def test_an_invalid_request_is_refused_and_nothing_is_written(
    world: World, client: httpx2.AsyncClient, method: str, path: str, status: int
) -> None:
    # The path as it is: the client would interpret dots and backslashes itself.
    url = client.base_url.copy_with(raw_path=path.replace(" ", "%20").encode())
    answer = await client.request(method, url)

    assert answer.status_code == status
    assert set(answer.json()) == {"error", "reason"}
    assert world.spark.runs == 0
    assert files(world) == []


PLACES = {"vhost": "/", "from": str(ORDERED), "to": INVOICED, "file": "order.jsonl"}


async def test_the_events_own_virtual_host_may_stand_in_the_path(
    client: httpx2.AsyncClient,
) -> None:
    own = URL.replace("undefined", "%2F")
    made = await client.put(own, json=PLACES)
    download = await client.get(own)

    assert (made.status_code, made.headers["location"]) == (201, URL)
    assert download.content == b'{"id": 1}\n'
    assert (await client.delete(own)).status_code == 204


@pytest.mark.parametrize(
    ("path", "body", "reason"),
    [
        ("shop", None, "these events are of the virtual host '/', not of 'shop'"),
        ("%2F", PLACES | {"to": 2}, f"body.to: the path says '{INVOICED}'"),
        ("undefined", PLACES, "body.vhost: the path says 'undefined'"),
        ("%2F", PLACES | {"format": "csv"}, "body.format: Extra inputs are not permitted"),
    ],
)
async def test_another_virtual_host_than_the_events_and_another_body_than_the_path_are_refused(
    world: World, client: httpx2.AsyncClient, path: str, body: object, reason: str
) -> None:
    answer = await client.put(URL.replace("undefined", path), json=body)

    assert (answer.status_code, answer.json()["reason"]) == (400, reason)
    assert world.spark.runs == 0


async def test_an_export_is_not_another_virtual_host_s(client: httpx2.AsyncClient) -> None:
    await client.put(URL)
    other = URL.replace("undefined", "shop")

    assert (await client.get(other)).status_code == 400
    assert (await client.delete(other)).status_code == 400
    assert (await client.get(URL)).status_code == 200


@pytest.mark.parametrize("via", ["links", "conversation", "any", None])
async def test_a_chain_is_asked_for_along_something(
    world: World, client: httpx2.AsyncClient, via: str | None
) -> None:
    made = await client.put(URL, params={} if via is None else {"via": via})
    summary = made.json()
    conforms(summary, (ChainSummary, Served))
    [job] = (await client.get("/itc_db/jobs")).json()

    assert made.status_code == 201
    assert (summary["via"], summary["answer"]) == (via or "any", "may have")
    assert summary["sentence"] == world.spark.sentence
    asked = {"from": ORDERED, "to": INVOICED, "file": "order.jsonl"}
    assert job["request"] == (asked if via in ("any", None) else {**asked, "via": via})


async def test_along_anything_else_is_refused(world: World, client: httpx2.AsyncClient) -> None:
    refused = await client.put(URL, params={"via": "magic"})

    assert (refused.status_code, refused.json()["error"]) == (400, "bad_request")
    assert world.spark.runs == 0


async def test_where_nothing_evident_leads_there_is_no_chain_and_a_sentence(
    world: World, client: httpx2.AsyncClient
) -> None:
    world.spark.finds = False
    world.spark.sentence = "event 1 may have caused event 3, but no link or message says so"
    answer = await client.put(URL, params={"via": "links"})

    assert answer.status_code == 200
    assert (answer.json()["relation"], answer.json()["file"]) == ("before", None)
    assert (answer.json()["answer"], answer.json()["location"]) == ("may have", None)
    assert answer.json()["sentence"] == world.spark.sentence
    assert files(world) == []


async def test_chains_along_this_and_that_are_two_jobs_of_one_file(
    world: World, client: httpx2.AsyncClient
) -> None:
    world.spark.go.clear()
    jobs = [
        (await client.put(URL, params={"via": via}, headers=ASYNC)).json()
        for via in ("links", "conversation", "links")
    ]
    unfinished = await client.get(URL)
    world.spark.go.set()
    for job in jobs:
        assert (await ended(client, job["id"]))["state"] == "succeeded"

    assert jobs[0]["id"] == jobs[2]["id"] != jobs[1]["id"]
    assert unfinished.status_code == 409
    assert world.spark.runs == 2


async def test_events_of_two_virtual_hosts_have_no_chain(world: World) -> None:
    seer = world.broker.add("seer", "secret", "administrator", "/", "secret")
    async with connected(world.app(), headers=seer) as client:
        answer = await client.put(f"/itc_db/undefined/{ORDERED}/{SECRET}/x.jsonl")

    assert (answer.status_code, answer.json()["error"]) == (400, "bad_request")
    assert world.spark.runs == 0


async def test_a_client_that_does_not_wait_follows_the_job(
    world: World, client: httpx2.AsyncClient
) -> None:
    world.spark.go.clear()
    accepted = await client.put(URL, headers=ASYNC)
    job = described(accepted, Job)
    running = (await client.get(accepted.headers["location"])).json()
    unfinished = await client.get(URL)
    world.spark.go.set()
    done = await ended(client, job.id)

    assert accepted.status_code == 202
    assert accepted.headers["location"] == f"/itc_db/jobs/{job.id}"
    assert accepted.headers["preference-applied"] == "respond-async"
    assert vars(job.request) == {"from": ORDERED, "to": INVOICED, "file": "order.jsonl"}
    assert running["state"] in ("queued", "running")
    assert (unfinished.status_code, unfinished.json()["error"]) == (409, "conflict")
    assert done["state"] == "succeeded"
    assert done["result"]["location"] == URL
    assert (await client.get(URL)).status_code == 200


async def test_a_client_that_waits_a_while_gets_the_job_after_it(
    world: World, client: httpx2.AsyncClient
) -> None:
    world.spark.go.clear()
    accepted = await client.put(URL, headers={"prefer": "wait=1"})
    world.spark.go.set()
    done = await client.put(URL, headers={"prefer": "wait=60"})

    assert accepted.status_code == 202
    assert done.status_code == 201


async def test_the_same_request_joins_the_job_that_runs(
    world: World, client: httpx2.AsyncClient
) -> None:
    world.spark.go.clear()
    first = (await client.put(URL, headers=ASYNC)).json()
    second = (await client.put(URL, headers=ASYNC)).json()
    other = (await client.put(URL.replace("order", "other"), headers=ASYNC)).json()
    world.spark.go.set()

    assert first["id"] == second["id"] != other["id"]
    assert (await ended(client, other["id"]))["state"] == "succeeded"
    assert world.spark.runs == 2


async def test_a_job_that_fails_says_why(world: World, client: httpx2.AsyncClient) -> None:
    world.spark.fail = OutageError("no Java was found: install a runtime of version 17")
    answer = await client.put(URL)
    [job] = (await client.get("/itc_db/jobs", params={"state": "failed"})).json()

    assert (answer.status_code, answer.json()["error"]) == (500, "job_failed")
    assert answer.json()["reason"] == job["error"] == str(world.spark.fail)
    assert (await client.get(URL)).status_code == 404


async def test_a_job_is_cancelled(world: World, client: httpx2.AsyncClient) -> None:
    world.spark.go.clear()
    waiting = asyncio.create_task(client.put(URL))
    await asyncio.wait_for(world.spark.running.wait(), 10)
    [job] = (await client.get("/itc_db/jobs", params={"state": "running"})).json()
    cancelled = await client.delete(f"/itc_db/jobs/{job['id']}")
    answer = await waiting
    again = await client.delete(f"/itc_db/jobs/{job['id']}")

    assert cancelled.status_code == 204
    assert (answer.status_code, answer.json()["error"]) == (409, "conflict")
    assert (again.status_code, again.json()["error"]) == (409, "conflict")
    assert files(world) == []


async def test_jobs_are_followed_as_they_go(world: World, client: httpx2.AsyncClient) -> None:
    world.spark.go.clear()
    job = (await client.put(URL, headers=ASYNC)).json()
    asyncio.get_running_loop().call_later(0.05, world.spark.go.set)
    async with client.stream("GET", f"/itc_db/jobs/{job['id']}/progress") as answer:
        told = httpx2.EventSource(answer)
        states = [json.loads(event.data)["state"] async for event in told]

    assert states[-1] == "succeeded"
    assert states == sorted(states, key=["queued", "running", "succeeded"].index)


async def test_a_full_queue_says_so(tmp_path: Path) -> None:
    world = make_world(tmp_path, WorldBounds(jobs=1))
    world.spark.go.clear()
    async with connected(world.app(), auth=("admin", "secret")) as client:
        answers = [
            await client.put(URL.replace("order", f"order{n}"), headers=ASYNC) for n in range(4)
        ]
        world.spark.go.set()

    assert {answer.status_code for answer in answers} == {202, 429}


@pytest.mark.parametrize("path", ["/itc_db/jobs/1", "/itc_db/jobs/1/progress"])
async def test_jobs_and_exports_of_others_virtual_hosts_are_not_there(
    world: World, path: str
) -> None:
    stranger = world.broker.add("stranger", "secret", "administrator", "shop")
    async with connected(world.app(), auth=("admin", "secret")) as client:
        assert (await client.put(URL)).status_code == 201
        assert (await client.get(path)).status_code == 200
        client.auth = None
        client.headers.update(stranger)
        assert (await client.get(path)).status_code == 404
        assert (await client.delete("/itc_db/jobs/1")).status_code == 404
        assert (await client.get("/itc_db/jobs")).json() == []
        assert (await client.get("/itc_db/exports")).json() == []
        assert (await client.get(URL)).status_code == 404
        assert (await client.delete(URL)).status_code == 404
    assert "order.jsonl" in files(world)


async def test_formats_are_listed(client: httpx2.AsyncClient) -> None:
    formats = (await client.get("/itc_db/formats")).json()

    assert {".jsonl", ".json", ".csv", ".txt", ".parquet"} <= {one["extension"] for one in formats}


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [
        (None, None),
        ("respond-async", 0.0),
        ("Respond-Async", 0.0),
        ("return=minimal, respond-async", 0.0),
        ("wait=5", 5.0),
        ("respond-async, wait=5", 5.0),
        ("wait=0", 0.0),
        ("wait = 100000", 60.0),
        ("respond-asynchronously", None),
        ("wait=-1", None),
        ("", None),
    ],
)
def test_a_preference_is_a_time(prefer: str | None, seconds: float | None) -> None:
    preference = preference_of(prefer)

    assert (None if preference is None else preference.seconds) == seconds


@pytest.mark.parametrize(
    ("prefer", "applied"),
    [
        ("respond-async", "respond-async"),
        ("wait=0", "wait=0"),
        ("wait=5", "wait=5"),
        ('wait="5"', "wait=5"),
        ("wait=100000", "wait=60"),
        ("respond-async, wait=5", "respond-async, wait=5"),
        ("wait=5; x=y, wait=9", "wait=5"),
    ],
)
def test_what_is_applied_of_a_preference_is_named(prefer: str, applied: str) -> None:
    preference = preference_of(prefer)

    assert preference is not None
    assert preference.applied == applied


async def test_a_client_that_does_not_wait_is_told_that_it_does_not(
    world: World, client: httpx2.AsyncClient
) -> None:
    world.spark.go.clear()
    accepted = await client.put(URL, headers={"prefer": "wait=0"})
    world.spark.go.set()
    done = await client.put(URL)

    assert (accepted.status_code, accepted.headers["preference-applied"]) == (202, "wait=0")
    assert (done.status_code, done.headers.get("preference-applied")) == (201, None)


async def job_under_way(world: World, client: httpx2.AsyncClient) -> int:
    world.spark.go.clear()
    job = (await client.put(URL, headers=ASYNC)).json()
    await world.spark.running.wait()
    return int(job["id"])


async def test_a_put_that_waits_for_its_job_ends_when_rights_are_taken_away(tmp_path: Path) -> None:
    world = make_world(tmp_path, auth_cache_seconds=1e-3)
    async with connected(world.app(), auth=("admin", "secret")) as client:
        world.spark.go.clear()
        waiting = asyncio.create_task(client.put(URL))
        await world.spark.running.wait()
        world.broker.add("admin", "secret", "administrator", "shop")
        answer = await asyncio.wait_for(waiting, 10)
        world.spark.go.set()

    assert (answer.status_code, answer.json()["reason"]) == (
        401,
        "your rights have changed: sign in again",
    )


async def test_who_follows_a_job_is_let_go_when_rights_are_taken_away(tmp_path: Path) -> None:
    world = make_world(tmp_path, auth_cache_seconds=1e-3)
    async with connected(world.app(), auth=("admin", "secret")) as client:
        job = await job_under_way(world, client)
        waiting = asyncio.create_task(client.get(f"/itc_db/jobs/{job}/progress"))
        for _ in range(20):
            await asyncio.sleep(0)
        world.broker.add("admin", "secret", "administrator", "shop")
        answer = await asyncio.wait_for(waiting, 10)
        world.spark.go.set()

    assert "your rights have changed" in answer.text
    assert "event: dropped" in answer.text


@pytest.mark.parametrize(("files", "size"), [(1, 1 << 30), (10_000, 1)])
async def test_exports_have_a_quota(tmp_path: Path, files: int, size: int) -> None:
    world = make_world(tmp_path, WorldBounds(exports=files), exports_max_bytes=size)
    async with connected(world.app(), auth=("admin", "secret")) as client:
        first = await client.put(URL)
        runs = world.spark.runs
        second = await client.put(URL.replace("order", "another"))
        asked_first = await client.put(URL.replace("order", "third"), headers=ASYNC)
        anew = await client.put(URL)  # in the place of itself
        await client.delete(URL)
        after = await client.put(URL.replace("order", "another"))

    assert (first.status_code, anew.status_code, after.status_code) == (201, 201, 201)
    assert (second.status_code, second.json()["error"]) == (507, "insufficient_storage")
    assert "ITC_EXPORTS_MAX" in second.json()["reason"]
    assert asked_first.status_code == 507
    assert runs == 1


async def test_an_export_that_is_too_much_fails_and_is_counted_nowhere(tmp_path: Path) -> None:
    world = make_world(tmp_path, exports_max_bytes=1)
    async with connected(world.app(), auth=("admin", "secret")) as client:
        world.spark.fail = QuotaError("The exports take 2 files")
        failed = await client.put(URL)
        metrics = (await client.get("/metrics")).text

    assert (failed.status_code, failed.json()["error"]) == (500, "job_failed")
    assert "itc_exports 0.0" in metrics
    assert "itc_exports_bytes 0.0" in metrics


async def test_the_metrics_say_what_exports_take(world: World, client: httpx2.AsyncClient) -> None:
    await client.put(URL)
    metrics = (await client.get("/metrics")).text

    kept = sum(path.stat().st_size for path in world.settings.exports.rglob("*.*"))
    assert "itc_exports 1.0" in metrics
    assert f"itc_exports_bytes {float(kept)}" in metrics
