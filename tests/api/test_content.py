"""What messages hold is for those to whom the broker would hand them, whatever their tags."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.api.application import build
from app.api.signin.auth import BrokerAuthenticator
from app.api.signin.permissions import EVERYTHING_READ, ReadRights, pattern_of
from app.errors import RefusedError
from app.jobs.process import JobFailedError
from app.stored.failures import Failure, FailureKind, failure_page
from app.tracker import Publish
from model.times import Microseconds
from model.who import Who
from tests.api.conftest import World, make_world, served
from tests.api.fakes import FakeBroker, basic
from tests.api.story import ALONE, AUDITED, BILLED, INVOICED, ORDERED, SHOP, STRAY
from tests.api.test_failures import rejections
from tests.api.test_held_assertions import FILE, OF_SLASH, found
from tests.api.test_live import next_event, reader
from tests.api.test_proposals import propose, tell_orders
from tests.api.test_rights import (
    ASSERTION,
    CHAIN,
    COMPARISON,
    EXPECTATIONS,
    PATHS,
    PERIOD,
    ROUTES,
    SUCCESS,
    USERS,
)

ROOT = Path(__file__).parents[2]

# A side for every route: what messages hold is not in its answers; is left out of them; or is what
# its answers are made of, so that they are refused.
NOTHING, WITHHELD, REFUSED = "nothing", "withheld", "refused"
_LEFT_OUT = {
    ("GET", "/itc_db"),
    ("GET", "/itc_db/events/{event_id}"),
    ("GET", "/itc_db/events/{event_id}/causes"),
    ("GET", "/itc_db/events/{event_id}/effects"),
    ("GET", "/itc_db/events/{event_id}/deliveries"),
    ("GET", "/itc_db/chain/{a}/{b}"),
    ("GET", "/itc_db/touched"),
    ("GET", "/itc_db/live"),
    ("GET", "/itc_db/failures"),
    ("GET", "/itc_db/violations"),
    ("GET", "/itc_db/quarantine"),
}
_MADE_OF_IT = {
    ("GET", "/itc_db/where"),
    ("GET", "/itc_db/conversations"),
    ("GET", "/itc_db/conversations/{event_id}"),
    ("PUT", CHAIN),
    ("GET", CHAIN),
    ("PUT", PERIOD),
    ("GET", PERIOD),
    ("PUT", "/itc_db/spans"),
    ("PUT", "/itc_db/reports/assertions"),
    ("PUT", "/itc_db/correlations"),
    ("PUT", EXPECTATIONS),
    ("PUT", COMPARISON),
    ("GET", "/itc_db/reports/{report_id}"),
    ("GET", "/itc_db/proposals"),
    ("POST", "/itc_db/proposals/{proposal}/adopt"),
}
_WITHOUT_IT = {
    ("GET", "/itc_db/traces"),
    ("DELETE", "/itc_db"),
    ("GET", "/itc_db/participants"),
    ("PUT", "/itc_db/participants/{vhost}/{participant}"),
    ("DELETE", "/itc_db/participants/{vhost}/{participant}"),
    ("GET", "/itc_db/links"),
    ("PUT", "/itc_db/links/{vhost}/{name}"),
    ("DELETE", "/itc_db/links/{vhost}/{name}"),
    ("GET", "/itc_db/redactions"),
    ("PUT", "/itc_db/redactions/{vhost}/{name}"),
    ("DELETE", "/itc_db/redactions/{vhost}/{name}"),
    ("GET", "/itc_db/assertions"),
    ("PUT", "/itc_db/assertions/{vhost}"),
    ("DELETE", ASSERTION),
    ("GET", "/itc_db/hidden"),
    ("GET", "/itc_db/in_hand"),
    ("GET", "/itc_db/slow"),
    ("GET", "/itc_db/queue"),
    ("GET", "/itc_db/usual"),
    ("GET", "/itc_db/durations"),
    ("GET", "/itc_db/compare/{a}/{b}"),
    ("GET", "/itc_db/histogram"),
    ("GET", "/itc_db/certainty"),
    ("DELETE", CHAIN),
    ("DELETE", PERIOD),
    ("GET", "/itc_db/periods"),
    ("GET", "/itc_db/spans"),
    ("GET", "/itc_db/exports"),
    ("GET", "/itc_db/fields"),
    ("GET", "/itc_db/formats"),
    ("GET", "/itc_db/jobs"),
    ("GET", "/itc_db/jobs/{job_id}"),
    ("DELETE", "/itc_db/jobs/{job_id}"),
    ("GET", "/itc_db/jobs/{job_id}/progress"),
    ("PUT", "/itc_db/topology"),
    ("GET", "/itc_db/topology"),
    ("GET", "/itc_db/reports"),
    ("PUT", "/itc_db/archive"),
    ("PUT", "/itc_db/restamp"),
    ("POST", "/v1/traces"),
    ("GET", "/itc_db/whoami"),
    ("GET", "/itc_db/sign-in"),
    ("POST", "/itc_db/sign-in"),
    ("GET", "/metrics"),
    ("GET", "/metrics/queues"),
    ("GET", "/health/live"),
    ("GET", "/health/ready"),
    *(key for key in ROUTES if "undefined/undefined" in key[1] or "/touched/" in key[1]),
}
SIDES = {
    **dict.fromkeys(_WITHOUT_IT, NOTHING),
    **dict.fromkeys(_LEFT_OUT, WITHHELD),
    **dict.fromkeys(_MADE_OF_IT, REFUSED),
}

RECOMMENDED = r"^(?!itc\.trace(\.connections)?$|amq\.rabbitmq\.(trace|event)$)"

# A user's permission to read in some virtual hosts, and whether it may read all of `/`.
PERMISSIONS: dict[str, tuple[dict[str, str], bool]] = {
    "none": ({}, False),
    "of another virtual host": ({"shop": ".*"}, False),
    "of another queue": ({"/": "^stock$"}, False),
    "of nothing": ({"/": ""}, False),
    "of everything": ({"/": ".*"}, True),
    "of everything but ours": ({"/": RECOMMENDED}, True),
}
QUICK_TO_MONITOR = ("of nothing", "of everything but ours")
# What messages hold in the story: bodies, properties, and the body that could not be read.
HELD = ("größe", "delivery_mode", "/w==")


def test_every_route_takes_a_side(world: World) -> None:
    document = build(world.settings, world.services, web=None).openapi()
    routes = {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method in methods
        if method in ("get", "put", "post", "delete")
    }
    assert len(_WITHOUT_IT) + len(_LEFT_OUT) + len(_MADE_OF_IT) == len(SIDES)
    assert set(SIDES) == routes


@pytest.fixture
async def service(world: World) -> AsyncIterator[httpx2.AsyncClient]:
    """Nobody is signed in."""
    async with (
        served(world.app(), world.settings) as url,
        httpx2.AsyncClient(base_url=url) as client,
    ):
        yield client


# An administrator may ask for all that a monitor may, and more.
@pytest.mark.parametrize(
    ("tag", "permission"),
    [
        *(("administrator", permission) for permission in PERMISSIONS),
        *(
            pytest.param("monitoring", permission, marks=pytest.mark.long(2))
            for permission in PERMISSIONS
            if permission not in QUICK_TO_MONITOR
        ),
        *(("monitoring", permission) for permission in QUICK_TO_MONITOR),
    ],
)
async def test_permissions_decide_whatever_the_tag(
    world: World, service: httpx2.AsyncClient, tag: str, permission: str
) -> None:
    read, reads_all = PERMISSIONS[permission]
    headers = world.broker.add("ann", "secret", tag, "/", read=read)
    rights = next(rights for tags, rights in USERS.values() if tags == tag)
    shown: set[tuple[str, str]] = set()
    is_made = False
    for key, side in SIDES.items():
        path, right, _ = ROUTES[key]
        for made in () if is_made else PATHS.values():
            assert (await service.put(made, headers=basic("admin", "secret"))).is_success
        is_made = key[0] != "DELETE"
        may = right in rights and (side != REFUSED or reads_all)
        async with service.stream(key[0], path, headers=headers) as answer:
            assert answer.status_code == (SUCCESS.get(key, 200) if may else 401), key
            if "event-stream" in answer.headers.get("content-type", ""):
                continue  # it never ends
            text = (await answer.aread()).decode(errors="replace")
        if any(word in text for word in HELD):
            shown.add(key)
        if right in rights and not may:
            assert answer.json()["error"] == "not_authorised"
            assert "needs read permission for every queue" in answer.json()["reason"]
    assert {key for key in shown if SIDES[key] == NOTHING} == set()
    assert bool(shown) is reads_all
    if reads_all:
        assert shown >= {("GET", "/itc_db"), ("GET", "/itc_db/quarantine")}


BY_CONTENT = {
    "q": "x",
    "message_id": "x",
    "correlation_id": "x",
    "conversation": "x",
    "header.a": "x",
}


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        *(
            (path, {name: value})
            for path in (
                "/itc_db",
                "/itc_db/histogram",
                "/itc_db/events/1/causes",
                "/itc_db/events/1/effects",
                "/itc_db/conversations",
                "/itc_db/live",
            )
            for name, value in BY_CONTENT.items()
        ),
        ("/itc_db/failures", {"type": "order.new"}),
        ("/itc_db/failures", {"exception": "Timeout"}),
    ],
)
async def test_searching_in_content_needs_the_permission_to_read_it(
    world: World, service: httpx2.AsyncClient, path: str, asked: dict[str, str]
) -> None:
    nowhere = world.broker.add("ann", "secret", "monitoring", "/", "shop", read={"/": "^billing$"})
    there = world.broker.add("bob", "secret", "monitoring", "/", "shop", read={"/": ".*"})

    async def status(headers: dict[str, str], **more: str) -> int:
        async with service.stream("GET", path, params=asked | more, headers=headers) as answer:
            return answer.status_code

    assert [await status(nowhere), await status(nowhere, vhost="/")] == [401, 401]
    assert [await status(there, vhost="shop"), await status(there)] in ([401, 200], [404, 200])


async def test_without_a_virtual_host_a_search_is_where_one_may_read(
    world: World, service: httpx2.AsyncClient
) -> None:
    headers = world.broker.add("ann", "secret", "monitoring", "/", "secret", read={"secret": ".*"})

    async def vhosts(**asked: str) -> set[str]:
        answer = await service.get("/itc_db", params=asked, headers=headers)
        return {event["vhost"] for event in answer.json()}

    assert await vhosts(q="order.new") == {"secret"}
    assert await vhosts(routing_key="order.new") == {"/", "secret"}


async def shown(
    service: httpx2.AsyncClient, headers: dict[str, str], **asked: str
) -> dict[int, dict[str, Any]]:
    answer = await service.get("/itc_db", params={"vhost": "/", **asked}, headers=headers)
    assert answer.status_code == 200
    return {event["id"]: event for event in answer.json()}


async def test_a_message_is_shown_to_whom_one_of_its_queues_may_be_read(
    world: World, service: httpx2.AsyncClient
) -> None:
    everything = await shown(service, basic("admin", "secret"))
    for read, readable in {
        "^billing$": {ORDERED, BILLED},
        "audit": {ORDERED, AUDITED, STRAY},
        "^mail$": {INVOICED},
        "^orders$": {ALONE, ALONE + 2},  # routed nowhere, through an exchange that may be read
    }.items():
        headers = world.broker.add(read, "secret", "monitoring", "/", read={"/": read})
        for event_id, event in (await shown(service, headers)).items():
            whole = everything[event_id]
            one = await service.get(f"/itc_db/events/{event_id}", headers=headers)
            assert event.items() <= one.json().items()
            if event_id in readable:
                assert event == whole
                continue
            withheld = {"payload": None, "properties": None, "payload_encoding": "withheld"}
            assert event == whole | withheld


async def test_readers_of_the_same_with_other_rights_share_nothing(
    world: World, service: httpx2.AsyncClient
) -> None:
    headers = world.broker.add("ann", "secret", "monitoring", "/", "shop", read={})
    for first, second in ((basic("admin", "secret"), headers), (headers, basic("admin", "secret"))):
        for asked in first, second:
            events = await shown(service, asked, after="0")
            is_shown = any(event["payload"] == "größe" for event in events.values())
            assert is_shown is (asked is not headers)
    for asked, word in ((headers, "withheld"), (basic("admin", "secret"), "string")):
        async with reader(service, headers=asked, after=0) as events:
            assert json.loads((await next_event(events)).data)["payload_encoding"] == word


async def test_a_long_message_is_withheld_too(world: World, service: httpx2.AsyncClient) -> None:
    """What is read only while the answer is being sent."""
    from tests.api.story import publish

    headers = world.broker.add("ann", "secret", "monitoring", "/", read={})
    await world.tell(*[publish(SHOP, "long", "billing", body=b"x" * 1_000) for _ in range(500)])
    answer = await service.get("/itc_db", params={"page_size": 500}, headers=headers)
    assert {event["payload_encoding"] for event in answer.json()} == {"withheld"}


async def test_a_reader_whose_permission_is_taken_away_is_told_and_ended(tmp_path: Path) -> None:
    world = make_world(tmp_path, auth_cache_seconds=0.1)
    async with (
        served(world.app(), world.settings) as url,
        httpx2.AsyncClient(base_url=url, timeout=10) as client,
        reader(client, headers=basic("watcher", "secret")) as events,
    ):
        world.broker.accounts["watcher"].read.clear()
        dropped = await next_event(events)
    assert dropped.event == "dropped"
    assert "rights have changed" in dropped.data


async def test_types_and_exceptions_of_failures_are_content(
    world: World, service: httpx2.AsyncClient
) -> None:
    await rejections(world, 1)
    headers = world.broker.add("ann", "secret", "monitoring", "shop", read={"shop": "^orders$"})
    answer = await service.get("/itc_db/failures", params={"vhost": "shop"}, headers=headers)
    assert [each["type"] for each in answer.json()["items"]] == [None]
    assert [each["type"] for each in answer.json()["groups"]] == [None]
    assert answer.json()["items"][0]["queue"] == "orders"


def test_groups_of_failures_are_not_told_apart_by_what_is_withheld() -> None:
    def failure(event: int, type_: str, by: str) -> Failure:
        return Failure(
            event=event,
            message=None,
            vhost="shop",
            kind=FailureKind.died,
            queue="orders",
            reason="rejected",
            type=type_,
            exception=None,
            at=Microseconds(event),
            by=Who(1, by),
            handed_over=None,
            candidate=None,
            times=1,
            to=None,
            publisher=None,
            exchange="",
            routing_key="orders",
            correlation_id=f"order-{event}",
        )

    failures = [failure(3, "a", "x"), failure(2, "b", "y"), failure(1, "a", "x")]
    page = failure_page(failures, 9, None)
    assert [(each.type, each.count) for each in page.groups] == [("a", 2), ("b", 1)]
    withheld = [each.without_content() for each in failures]
    assert [each.correlation_id for each in withheld] == [None, None, None]
    [group] = failure_page(withheld, 9, None).groups
    assert (group.type, group.count, group.by) == (None, 3, ["x", "y"])
    assert (group.first_at, group.last_at, group.newest) == (1, 3, 3)


async def test_what_a_message_says_of_its_failure_is_neither_shown_nor_found_by(
    world: World, service: httpx2.AsyncClient
) -> None:
    """The queue where it failed, the way that it had been published, and whose body it has."""
    said = {
        "x-exception-message": "no stock",
        "x-original-exchange": "hidden-exchange",
        "x-original-routingKey": "hidden-key",
    }
    names = {"NServiceBus.FailedQ": "hidden-queue@host"}
    forwards = [
        Publish(SHOP, "", ("errors",), ("errors",), {"headers": headers}, b"")
        for headers in (said, names)
    ]
    await world.tellers["/"].tell(forwards)
    nobody = world.broker.add("ann", "secret", "monitoring", "/", read={})

    async def failures(headers: dict[str, str], **asked: str) -> httpx2.Response:
        asked |= {"vhost": "/", "kind": "error_queue"}
        return await service.get("/itc_db/failures", params=asked, headers=headers)

    whole, withheld = await failures(basic("admin", "secret")), await failures(nobody)
    hidden = ("hidden-queue", "hidden-exchange", "hidden-key", "no stock")
    assert [word in whole.text for word in hidden] == [True] * 4
    assert [word in withheld.text for word in hidden] == [False] * 4
    assert [answer.json()["counted"] for answer in (whole, withheld)] == [2, 2]
    for headers, count in ((basic("admin", "secret"), 1), (nobody, 0)):
        assert (await failures(headers, queue="hidden-queue")).json()["counted"] == count


async def test_what_proposals_go_by_is_for_those_who_may_read_it(
    world: World, service: httpx2.AsyncClient
) -> None:
    order, _, invoice = await tell_orders(world)
    [proposal, *_] = await propose(world)
    ways = [f"events/{invoice}/causes", f"events/{order}/effects", f"chain/{order}/{invoice}"]
    everything = world.broker.add("bob", "secret", "administrator", "/", read={"/": ".*"})
    nothing = world.broker.add("ann", "secret", "administrator", "/", read={"/": "^own"})
    for headers, status in ((nothing, 401), (everything, 200)):
        for way in (*ways, f"conversations/{invoice}"):
            for asked in ({"via": "likely"}, {"via": "likely", "proposal": proposal.id}):
                told = await service.get(f"/itc_db/{way}", params=asked, headers=headers)
                assert told.status_code == status
                assert ("because" in told.text) is (status == 200)
    adoption = f"/itc_db/proposals/{proposal.id}/adopt?vhost=/"
    assert (await service.post(adoption, headers=nothing)).status_code == 401
    assert "because" not in (await service.get("/itc_db/links?vhost=/", headers=nothing)).text
    assert (await service.post(adoption, headers=everything)).status_code == 204


async def test_what_a_report_compares_is_for_those_who_may_read_it(
    world: World, service: httpx2.AsyncClient
) -> None:
    asked = {"vhost": "/", "since": "2026-01-01", "until": "2026-01-02"}
    hidden = b"assertions: [{name: a, never_concurrent: [b, c], per: header.hidden}]"
    admin = basic("admin", "secret")
    nobody = world.broker.add("ann", "secret", "monitoring", "/", read={})
    where = "/itc_db/reports/assertions"
    made = await service.put(where, params=asked, content=hidden, headers=admin)
    assert made.is_success
    world.spark.fail = JobFailedError("the job broke off: KeyError: 'hidden'")
    other = hidden.replace(b"hidden", b"other")
    assert (await service.put(where, params=asked, content=other, headers=admin)).is_error
    for path in ("reports", "jobs", "jobs/1", "jobs/2", "jobs/1/progress", "jobs/2/progress"):
        for headers in (admin, nobody):
            told = await service.get(f"/itc_db/{path}", headers=headers)
            assert told.status_code == 200
            words = [word in told.text for word in ("hidden", "header.")]
            assert any(words) if headers is admin else not any(words), path


async def test_violations_do_not_say_of_what_message_they_are(
    world: World, service: httpx2.AsyncClient
) -> None:
    headers = world.broker.add("ann", "secret", "monitoring", "/", read={})
    await service.put(OF_SLASH, content=FILE, headers=basic("admin", "secret"))
    await found(world, "invoice-in-time", 1)
    answer = await service.get("/itc_db/violations", headers=headers)
    [one] = answer.json()["items"]
    assert (one["event"], one["type"], one["sentence"]) == (1, None, None)


# A read permission, and which of these names it matches, as PCRE over bytes does.
NAMES = ("", "orders", "orders.dead", "my-orders", "itc.trace", "größe", "amq.gen-1")
PATTERNS: dict[str, set[str]] = {
    ".*": set(NAMES),
    "^.*$": set(NAMES),
    "^": set(NAMES),
    "": {""},
    "^$": {""},
    "orders": {"orders", "orders.dead", "my-orders"},
    "^orders": {"orders", "orders.dead"},
    "^orders$": {"orders"},
    "^(orders|amq\\.gen-.*)$": {"orders", "amq.gen-1"},
    "(?i)^ORDERS$": {"orders"},
    "^gr..?.e$": set(),  # ö and ß are two bytes each
    "^gr....e$": {"größe"},
    "größe": {"größe"},
    "^(?!itc\\.)": set(NAMES) - {"itc.trace"},
    "^(?!itc\\.|orders(\\.dead)?$).*": {"", "my-orders", "größe", "amq.gen-1"},
    "^(?!orders$)orders": {"orders.dead"},
    RECOMMENDED: set(NAMES),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_matches_as_the_broker_has_it(pattern: str) -> None:
    judged = pattern_of(pattern)
    if judged.reads_all:
        assert PATTERNS[pattern] >= set(NAMES) - {"itc.trace"}
    else:
        assert {name for name in NAMES if judged.reads(name)} == PATTERNS[pattern]


@pytest.mark.parametrize(
    "pattern", [r"(?=a)b", r"a(?!b)", r"(a)\1", "(", r"\K", "^(?![ab])", "^(?!a)*b"]
)
def test_what_cannot_be_judged_lets_nothing_be_read(pattern: str) -> None:
    judged = pattern_of(pattern)
    assert not judged.reads_all
    assert not any(map(judged.reads, ("", "a", "b", "ab", "aa")))


def test_a_pattern_takes_linear_time() -> None:
    # Backtracking would take 2^250 steps.
    assert not pattern_of("^(a+)+$").reads("a" * 250 + "!")


def test_the_pattern_that_the_documents_recommend_lets_everything_be_read() -> None:
    text = (ROOT / "docs/operations.md").read_text()
    assert RECOMMENDED in re.findall(r"`'(.+?)'`", text)
    assert pattern_of(RECOMMENDED).reads_all
    assert not pattern_of(RECOMMENDED.replace("itc", "orders")).reads_all


async def content_of(broker: FakeBroker, authorization: bytes) -> ReadRights:
    authenticator = BrokerAuthenticator(broker, cache_seconds=10, cache_users=3, failures=3)
    return (await authenticator.user(authorization, "10.0.0.1")).content


async def test_what_the_broker_does_not_tell_is_not_permitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = FakeBroker()
    password = broker.add("ann", "secret", "monitoring", "/")["authorization"].encode()
    broker.tokens["token"] = "ann"
    assert (await content_of(broker, password)).cover("/")
    token = await content_of(broker, b"Bearer token")  # which may permit less
    assert not token.cover("/")
    assert "token" in str(token.refusal("ann", "/"))

    async def refused(user: str) -> frozenset[tuple[str, str]]:
        raise RefusedError("the service's own account is no administrator")

    monkeypatch.setattr(broker, "read_patterns", refused)
    assert not (await content_of(broker, password)).cover("/")
    monkeypatch.undo()

    account = broker.accounts["ann"]
    real = broker.whoami

    async def from_elsewhere(authorization: bytes) -> Any:
        user = await real(authorization)
        broker.accounts.pop("ann")  # as LDAP has users that the broker's database has not
        broker.accounts["other"] = account
        return user

    monkeypatch.setattr(broker, "whoami", from_elsewhere)
    monkeypatch.setattr(broker, "visible_vhosts", lambda authorization: broker.vhosts())
    unknown = await content_of(broker, password)
    assert not unknown.cover("/")
    assert "knows no user ann" in str(unknown.refusal("ann", "/"))


def test_without_sign_in_everything_is_read() -> None:
    assert EVERYTHING_READ.cover("any")
