"""Who may do what: every route with every kind of user."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import datetime
from pathlib import Path

import httpx2
import pytest
from starlette.routing import BaseRoute, Mount, Route

from app.api.application import build
from app.jobs.reports import ReportKind, Reports
from app.main import web_folder
from model.times import microseconds_of
from tests.api.conftest import World, WorldBounds, connected, make_world, served
from tests.api.fakes import basic

OPEN, READ, WRITE = "open", "read", "write"
LISTS = "lists"  # what a user may not see is left out of the answer, not refused
SAME = "same"  # the answer is the same for everybody

_DAYS = ("2026-01-01", "2026-01-02")
_SINCE, _UNTIL = (microseconds_of(datetime.fromisoformat(day)) for day in _DAYS)
REPORT_ID = (
    Reports(Path()).request(ReportKind.correlations, "/", _SINCE, _UNTIL, "ann", {}).work["id"]
)

# (method, route) → (a request, the right it needs, what a user without the virtual host gets)
TRACE = "/itc_db/{vhost}/undefined/undefined/undefined"
CHAIN = "/itc_db/{vhost}/{from}/{to}/{file}"
ALIAS = "/itc_db/participants/{vhost}/{participant}"
REDACTION = "/itc_db/redactions/{vhost}/{name}"
LINK_RULE = "/itc_db/links/{vhost}/{name}"
ADOPTION = "/itc_db/proposals/{proposal}/adopt"
ASSERTION = "/itc_db/assertions/{vhost}/{name}"
TOUCHED = "/itc_db/touched/{event_id}/{file}"
PERIOD = "/itc_db/periods/{vhost}/{file}"
EXPECTATIONS, COMPARISON = "/itc_db/reports/expectations", "/itc_db/reports/comparison"
ROUTES: dict[tuple[str, str], tuple[str, str, int | str]] = {
    ("PUT", TRACE): ("/itc_db/%2F/undefined/undefined/undefined", WRITE, 404),
    ("GET", TRACE): ("/itc_db/%2F/undefined/undefined/undefined", READ, 404),
    ("DELETE", TRACE): ("/itc_db/%2F/undefined/undefined/undefined", WRITE, 404),
    ("GET", "/itc_db/traces"): ("/itc_db/traces", READ, LISTS),
    ("DELETE", "/itc_db"): ("/itc_db?vhost=/&keep_events=3&dry_run=true", WRITE, 404),
    ("GET", "/itc_db/participants"): ("/itc_db/participants?vhost=/", READ, 404),
    ("PUT", ALIAS): ("/itc_db/participants/%2F/1", WRITE, 404),
    ("DELETE", ALIAS): ("/itc_db/participants/%2F/1", WRITE, 404),
    ("GET", "/itc_db/links"): ("/itc_db/links?vhost=/", READ, 404),
    ("PUT", LINK_RULE): ("/itc_db/links/%2F/mine", WRITE, 404),
    ("DELETE", LINK_RULE): ("/itc_db/links/%2F/mine", WRITE, 404),
    ("GET", "/itc_db/redactions"): ("/itc_db/redactions?vhost=/", READ, 404),
    ("PUT", REDACTION): ("/itc_db/redactions/%2F/mine", WRITE, 404),
    ("DELETE", REDACTION): ("/itc_db/redactions/%2F/mine", WRITE, 404),
    ("GET", "/itc_db/proposals"): ("/itc_db/proposals?vhost=/", READ, 404),
    ("POST", ADOPTION): ("/itc_db/proposals/none/adopt?vhost=/", WRITE, 404),
    ("GET", "/itc_db/assertions"): ("/itc_db/assertions?vhost=/", READ, 404),
    ("PUT", "/itc_db/assertions/{vhost}"): ("/itc_db/assertions/%2F", WRITE, 404),
    ("DELETE", ASSERTION): ("/itc_db/assertions/%2F/mine", WRITE, 404),
    ("GET", "/itc_db/violations"): ("/itc_db/violations?vhost=/", READ, 404),
    ("GET", "/itc_db/failures"): ("/itc_db/failures?vhost=/", READ, 404),
    ("GET", "/itc_db/where"): ("/itc_db/where?id=a&vhost=/", READ, 404),
    ("GET", "/itc_db/in_hand"): ("/itc_db/in_hand", READ, LISTS),
    ("GET", "/itc_db/slow"): ("/itc_db/slow", READ, LISTS),
    ("GET", "/itc_db/durations"): ("/itc_db/durations?vhost=/", READ, 404),
    ("GET", "/itc_db/queue"): ("/itc_db/queue?vhost=/&queue=q", READ, 404),
    ("GET", "/itc_db/usual"): ("/itc_db/usual?vhost=/&at=2026-01-02T12:30:00Z", READ, 404),
    ("GET", "/itc_db/hidden"): ("/itc_db/hidden?vhost=/", READ, 404),
    ("GET", "/itc_db/quarantine"): ("/itc_db/quarantine", READ, LISTS),
    ("GET", "/itc_db"): ("/itc_db", READ, LISTS),
    ("GET", "/itc_db/events/{event_id}"): ("/itc_db/events/1", READ, 404),
    ("GET", "/itc_db/events/{event_id}/causes"): ("/itc_db/events/1/causes", READ, 404),
    ("GET", "/itc_db/events/{event_id}/effects"): ("/itc_db/events/1/effects", READ, 404),
    ("GET", "/itc_db/events/{event_id}/deliveries"): ("/itc_db/events/1/deliveries", READ, 404),
    ("GET", "/itc_db/compare/{a}/{b}"): ("/itc_db/compare/1/2", READ, 404),
    ("GET", "/itc_db/chain/{a}/{b}"): ("/itc_db/chain/1/2", READ, 404),
    ("GET", "/itc_db/conversations"): ("/itc_db/conversations", READ, LISTS),
    ("GET", "/itc_db/conversations/{event_id}"): ("/itc_db/conversations/1", READ, 404),
    ("GET", "/itc_db/histogram"): ("/itc_db/histogram", READ, LISTS),
    ("GET", "/itc_db/certainty"): ("/itc_db/certainty?vhost=/", READ, 404),
    ("GET", "/itc_db/touched"): ("/itc_db/touched?events=1", READ, 404),
    ("PUT", TOUCHED): ("/itc_db/touched/1/x.jsonl", WRITE, 404),
    ("GET", TOUCHED): ("/itc_db/touched/1/made.jsonl", READ, 404),
    ("DELETE", TOUCHED): ("/itc_db/touched/1/made.jsonl", WRITE, 404),
    ("PUT", PERIOD): ("/itc_db/periods/%2F/x.ocel.json", WRITE, 404),
    ("GET", PERIOD): ("/itc_db/periods/%2F/made.ocel.json", READ, 404),
    ("DELETE", PERIOD): ("/itc_db/periods/%2F/made.ocel.json", WRITE, 404),
    ("GET", "/itc_db/periods"): ("/itc_db/periods", READ, LISTS),
    ("GET", "/itc_db/spans"): ("/itc_db/spans", READ, LISTS),
    ("PUT", "/itc_db/spans"): ("/itc_db/spans?vhost=/", WRITE, 404),
    ("GET", "/itc_db/live"): ("/itc_db/live", READ, LISTS),
    ("PUT", CHAIN): ("/itc_db/undefined/1/3/x.jsonl", WRITE, 404),
    ("GET", CHAIN): ("/itc_db/undefined/1/3/made.jsonl", READ, 404),
    ("DELETE", CHAIN): ("/itc_db/undefined/1/3/made.jsonl", WRITE, 404),
    ("GET", "/itc_db/exports"): ("/itc_db/exports", READ, LISTS),
    ("GET", "/itc_db/fields"): ("/itc_db/fields", READ, LISTS),
    ("GET", "/itc_db/formats"): ("/itc_db/formats", READ, LISTS),
    ("GET", "/itc_db/jobs"): ("/itc_db/jobs", READ, LISTS),
    ("GET", "/itc_db/jobs/{job_id}"): ("/itc_db/jobs/1", READ, 404),
    ("DELETE", "/itc_db/jobs/{job_id}"): ("/itc_db/jobs/1", WRITE, 404),
    ("GET", "/itc_db/jobs/{job_id}/progress"): ("/itc_db/jobs/1/progress", READ, 404),
    ("PUT", "/itc_db/topology"): ("/itc_db/topology?vhost=/", WRITE, 404),
    ("GET", "/itc_db/topology"): ("/itc_db/topology?vhost=/", READ, 404),
    ("PUT", "/itc_db/correlations"): ("/itc_db/correlations?vhost=/", WRITE, 404),
    ("PUT", "/itc_db/reports/assertions"): ("/itc_db/reports/assertions?vhost=/", WRITE, 404),
    ("PUT", EXPECTATIONS): (f"{EXPECTATIONS}?vhost=/", WRITE, 404),
    ("PUT", COMPARISON): (f"{COMPARISON}?vhost=/", WRITE, 404),
    ("GET", "/itc_db/reports"): ("/itc_db/reports", READ, LISTS),
    ("GET", "/itc_db/reports/{report_id}"): (f"/itc_db/reports/{REPORT_ID}", READ, 404),
    ("PUT", "/itc_db/archive"): ("/itc_db/archive?vhost=/&keep_days=1", WRITE, 404),
    ("PUT", "/itc_db/restamp"): ("/itc_db/restamp?vhost=/", WRITE, 404),
    ("POST", "/v1/traces"): ("/v1/traces", WRITE, 404),
    ("GET", "/itc_db/whoami"): ("/itc_db/whoami", READ, LISTS),
    ("GET", "/metrics"): ("/metrics", READ, LISTS),
    ("GET", "/metrics/queues"): ("/metrics/queues", READ, LISTS),
    ("GET", "/itc_db/sign-in"): ("/itc_db/sign-in", OPEN, SAME),
    ("POST", "/itc_db/sign-in"): ("/itc_db/sign-in", OPEN, 400),
    ("GET", "/health/live"): ("/health/live", OPEN, LISTS),
    ("GET", "/health/ready"): ("/health/ready", OPEN, LISTS),
    ("GET", "/openapi.json"): ("/openapi.json", OPEN, SAME),
}

# What has to be there before it can be asked for, stopped or removed.
PATHS = {
    "a trace": ROUTES["PUT", TRACE][0],
    "an export": ROUTES["GET", CHAIN][0],
    "what an event touched": ROUTES["GET", TOUCHED][0],
    "a period's log": ROUTES["GET", PERIOD][0],
    "a topology": ROUTES["GET", "/itc_db/topology"][0],
    "a report": f"/itc_db/correlations?vhost=/&since={_DAYS[0]}&until={_DAYS[1]}",
    "an archive": ROUTES["PUT", "/itc_db/archive"][0],
}

# What a request that is granted is answered with, where that is not 200.
SUCCESS = {
    ("PUT", TRACE): 204,  # it runs
    ("DELETE", TRACE): 204,
    ("PUT", CHAIN): 201,
    ("PUT", "/itc_db/topology"): 201,
    ("PUT", "/itc_db/reports/{report}"): 201,
    ("PUT", "/itc_db/correlations"): 201,
    ("PUT", "/itc_db/reports/assertions"): 400,  # it says none
    ("PUT", EXPECTATIONS): 201,
    ("PUT", COMPARISON): 201,
    ("PUT", ALIAS): 400,  # it says no alias
    ("DELETE", ALIAS): 404,  # it has no alias
    ("POST", "/itc_db/sign-in"): 400,  # it brings no code
    ("PUT", REDACTION): 400,
    ("DELETE", REDACTION): 404,
    ("PUT", LINK_RULE): 400,
    ("POST", ADOPTION): 404,  # there is none
    ("DELETE", LINK_RULE): 404,  # there is none
    ("PUT", "/itc_db/assertions/{vhost}"): 400,  # it says none
    ("DELETE", ASSERTION): 404,
    ("DELETE", CHAIN): 204,
    ("PUT", TOUCHED): 201,
    ("DELETE", TOUCHED): 204,
    ("PUT", PERIOD): 201,
    ("DELETE", PERIOD): 204,
    ("PUT", "/itc_db/spans"): 409,  # no collector is set
    ("PUT", "/itc_db/restamp"): 409,  # it has an archive
    ("POST", "/v1/traces"): 404,  # it is off
    ("DELETE", "/itc_db/jobs/{job_id}"): 409,  # it has ended
}

# user → (tags, the rights that go with them); all of them see the virtual host /
USERS = {
    "nobody": ("", {OPEN}),
    "manager": ("management", {OPEN}),
    "policymaker": ("policymaker management", {OPEN}),
    "monitor": ("monitoring", {OPEN, READ}),
    "administrator": ("administrator", {OPEN, READ, WRITE}),
}

# Invalid credentials.
NOT_SIGNED_IN = {
    "no credentials": {},
    "wrong password": basic("administrator", "guess"),
    "unknown user": basic("unheard-of", "secret"),
    "wrong token": {"authorization": "Bearer forged"},
}


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx2.AsyncClient]:
    """A service with users of every kind; nobody is signed in."""
    for name, (tags, _) in USERS.items():
        world.broker.add(name, "secret", tags, "/")
    world.broker.add("stranger", "secret", "administrator", "shop")
    async with (
        served(world.app(), world.settings) as url,
        httpx2.AsyncClient(base_url=url) as client,
    ):
        yield client


async def statuses(
    client: httpx2.AsyncClient, headers: dict[str, str], maker: dict[str, str]
) -> dict[tuple[str, str], int]:
    """The status of every route; ``maker`` makes what it may ask for, and again what is removed."""
    found: dict[tuple[str, str], int] = {}
    is_made = False
    for (method, route), (path, _, _) in ROUTES.items():
        for made in () if is_made else PATHS.values():
            assert (await client.put(made, headers=maker)).is_success
        is_made = method != "DELETE"  # nothing else removes any of it
        async with client.stream(method, path, headers=headers) as answer:  # some never end
            found[method, route] = answer.status_code
    return found


def routes_of(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    """All routes, those of included routers too."""
    for route in routes:
        included = getattr(route, "original_router", None)
        yield from routes_of(included.routes) if included else [route]


def test_no_route_is_missing(world: World) -> None:
    app = build(world.settings, world.services, web_folder())
    routes, mounts = set(), []
    for route in routes_of(app.routes):
        if isinstance(route, Route):
            routes |= {(method, route.path) for method in route.methods or ()}
        else:
            mounts.append(route)

    assert routes - {("HEAD", "/openapi.json")} == set(ROUTES)
    # Besides there are the dashboard's files, the same for everybody.
    assert [mount.name for mount in mounts if isinstance(mount, Mount)] == ["dashboard"]
    assert len(mounts) == 1


@pytest.mark.parametrize("credentials", NOT_SIGNED_IN)
async def test_who_is_not_signed_in_gets_nothing(tmp_path: Path, credentials: str) -> None:
    # Guessing is slowed, which is another test's subject.
    world = make_world(tmp_path, WorldBounds(sign_in_failures=1_000))
    world.broker.add("administrator", "secret", "administrator", "/")
    async with (
        served(world.app(), world.settings) as url,
        httpx2.AsyncClient(base_url=url) as client,
    ):
        found = await statuses(client, NOT_SIGNED_IN[credentials], basic("admin", "secret"))

    assert found == {
        key: SUCCESS.get(key, 200) if right == OPEN else 401
        for key, (_, right, _) in ROUTES.items()
    }


@pytest.mark.parametrize("name", USERS)
async def test_a_tag_gives_its_rights_and_no_others(client: httpx2.AsyncClient, name: str) -> None:
    found = await statuses(client, basic(name, "secret"), basic("admin", "secret"))

    assert found == {
        key: SUCCESS.get(key, 200) if right in USERS[name][1] else 401
        for key, (_, right, _) in ROUTES.items()
    }


async def test_a_virtual_host_that_one_does_not_see_is_not_there(
    client: httpx2.AsyncClient,
) -> None:
    found = await statuses(client, basic("stranger", "secret"), basic("admin", "secret"))

    assert found == {
        key: 200 if unseen in (LISTS, SAME) else unseen for key, (_, _, unseen) in ROUTES.items()
    }


async def test_lists_tell_nothing_of_a_virtual_host_that_one_does_not_see(
    client: httpx2.AsyncClient,
) -> None:
    for path in PATHS.values():
        await client.put(path, headers=basic("admin", "secret"))
    for path, _, unseen in ROUTES.values():
        if unseen == LISTS and "live" not in path:
            answer = await client.get(path, headers=basic("stranger", "secret"))
            assert answer.status_code == 200
            for told in ('vhost="/"', '"vhost":"/"', '"/"', "orders", "billing", "made.jsonl"):
                assert told not in answer.text, path


async def test_nobody_is_let_in_while_the_broker_is_away(
    world: World, client: httpx2.AsyncClient
) -> None:
    world.broker.down = True
    found = {}
    for (method, route), (path, _, _) in ROUTES.items():
        answer = await client.request(method, path, headers=basic("administrator", "secret"))
        found[method, route] = answer.status_code

    needs_nobody = ("/health/live", "/openapi.json", "/itc_db/sign-in")
    assert found == {
        key: SUCCESS.get(key, 200) if key[1] in needs_nobody else 503 for key in ROUTES
    }


async def test_metrics_are_open_where_the_settings_say_so(tmp_path: Path) -> None:
    async with connected(make_world(tmp_path, metrics_open=True).app()) as client:
        assert (await client.get("/metrics")).status_code == 200
        assert (await client.get("/metrics/queues")).status_code == 200
        assert (await client.get("/itc_db/traces")).status_code == 401


async def test_an_open_service_lets_everybody_do_everything(tmp_path: Path) -> None:
    world = make_world(tmp_path, auth="none")
    async with (
        served(world.app(), world.settings) as url,
        httpx2.AsyncClient(base_url=url) as client,
    ):
        found = await statuses(client, {}, {})

    assert found == {key: SUCCESS.get(key, 200) for key in ROUTES}
