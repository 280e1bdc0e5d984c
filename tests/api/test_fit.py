"""What the service says of its own policy, and of causes that came by no way through the broker."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.tracker import Policy, Publish
from model.sound import Evidence
from tests.api.conftest import World, connected
from tests.api.test_cli import Command, run, url  # noqa: F401  fixtures
from tests.contract.outbox import NUDGE, PUBLISHER, RULE, order, tell, tracker_by

NAMELESS = Publish(PUBLISHER, "", ("other",), (), {}, b"names nothing")


async def shop(world: World, policy: Policy) -> list[int]:
    """The ids of a nudge, two orders and a message of the shop that names nothing."""
    trace = await world.store.traces.create("shop", policy)
    records = [*NUDGE, *order(1), *order(2), NAMELESS]
    return await tell(world.store, trace.id, tracker_by(policy), records)


@pytest.fixture
async def client(world: World) -> AsyncIterator[httpx2.AsyncClient]:
    async with connected(world.app(), auth=("admin", "secret")) as client:
        yield client


async def test_what_a_message_without_a_name_may_have_had_is_unknown_where_the_policy_misses_it(
    client: httpx2.AsyncClient, world: World
) -> None:
    ids = await shop(world, Policy.channel)
    handled, named, nameless = ids[3], ids[4], ids[-1]
    caused = (await client.get(f"/itc_db/compare/{handled}/{named}")).json()
    assert (caused["relation"], caused["answer"]) == ("before", "caused")
    apart = (await client.get(f"/itc_db/compare/{ids[7]}/{ids[6]}")).json()
    assert (apart["relation"], apart["sound"]) == ("after", False)
    other = (await client.get(f"/itc_db/compare/{ids[5]}/{nameless}")).json()
    assert (other["relation"], other["answer"], other["sound"]) == ("concurrent", "unknown", False)
    [doubt] = other["doubts"]
    assert "of 2 causes that shop@10.0.0.7 #2 name by causation_id, 2 had reached another" in doubt
    assert doubt.endswith("To see it, run rabbitmq-itc restamp shop --participant client")
    for walk in ("causes", "effects"):
        answer = (await client.get(f"/itc_db/events/{handled}/{walk}")).json()
        assert (answer["sound"], len(answer["doubts"])) == (False, 1)


async def test_an_outbox_makes_no_answer_unsound(client: httpx2.AsyncClient, world: World) -> None:
    ids = await shop(world, Policy.client)
    said = (await client.get(f"/itc_db/compare/{ids[5]}/{ids[-1]}")).json()
    assert (said["relation"], said["answer"], said["sound"]) == ("concurrent", "cannot have", True)


async def test_participants_show_what_their_messages_say(
    client: httpx2.AsyncClient, world: World
) -> None:
    await shop(world, Policy.channel)
    listed = (await client.get("/itc_db/participants", params={"vhost": "shop"})).json()
    evidence = {who["name"]: who["evidence"] for who in listed}
    assert evidence["shop@10.0.0.7 #2"] == {
        "reactions": 3,
        "explained": 2,
        "known": 0,
        "missed": 2,
        "hidden": 0,
        "spanned": 0,
        "coverage": pytest.approx(2 / 3),
        "coverage_by_spans": 0.0,
        "sentence": Evidence(3, 2).sentence,
        "fit": 0.0,
    }
    assert evidence["customer@10.0.0.5 #1"]["coverage"] is None


async def test_traces_show_coverage_and_fit_by_rule_and_in_all(client: httpx2.AsyncClient) -> None:
    await client.put("/itc_db/%2F/undefined/undefined/undefined")
    [trace] = (await client.get("/itc_db/traces")).json()
    assert trace["links"]["celery-parent"] == {
        "found": 4,
        "known": 2,
        "missed": 1,
        "hidden": 1,
        "unseen": 1,
        "forgotten": 0,
        "ambiguous": 0,
        "early": 0,
        "coverage": 0.8,
        "fit": pytest.approx(2 / 3),
    }
    assert (trace["evidence"]["coverage"], trace["evidence"]["missed"]) == (0.8, 1)


async def test_metrics_have_coverage_and_fit(client: httpx2.AsyncClient) -> None:
    await client.put("/itc_db/%2F/undefined/undefined/undefined")
    text = (await client.get("/metrics")).text
    found = {
        (sample.name, sample.labels.get("way")): sample.value
        for metric in text_string_to_metric_families(text)
        for sample in metric.samples
        if sample.name.startswith(("itc_links_", "itc_causes_found_total"))
    }
    assert 'itc_causes_unread_total{reason="body not JSON",vhost="/"} 2.0' in text
    assert found == {
        ("itc_links_coverage_ratio", None): 0.8,
        ("itc_links_fit_ratio", None): pytest.approx(2 / 3),
        ("itc_causes_found_total", "known"): 2,
        ("itc_causes_found_total", "missed"): 1,
        ("itc_causes_found_total", "hidden"): 1,
    }


async def test_hidden_ways_are_counted(client: httpx2.AsyncClient, world: World) -> None:
    ids = await shop(world, Policy.client)
    answer = (await client.get("/itc_db/hidden", params={"vhost": "shop"})).json()
    assert answer == {
        "vhost": "shop",
        "links": 2,
        "truncated": False,
        "ways": [
            {
                "rule": RULE,
                "from": {"number": 2, "name": "shop@10.0.0.7"},
                "to": {"number": 3, "name": "relay@10.0.0.9"},
                "links": 2,
                "first_at": "2026-01-02T03:04:10.000000Z",
                "last_at": "2026-01-02T03:04:14.000000Z",
                "last_effect": ids[9],
            }
        ],
    }
    none = (await client.get("/itc_db/hidden", params={"vhost": "/"})).json()
    assert (none["links"], none["ways"]) == (0, [])


async def test_hidden_ways_are_of_a_virtual_host_that_the_user_sees(
    client: httpx2.AsyncClient,
) -> None:
    assert (await client.get("/itc_db/hidden")).status_code == 400
    assert (await client.get("/itc_db/hidden", params={"vhost": "secret"})).status_code == 404
    assert (await client.get("/itc_db/hidden", params={"vhost": "shop"})).status_code == 404


async def test_the_command_shows_ways(run: Command, world: World) -> None:  # noqa: F811
    await shop(world, Policy.client)
    ways = await run("hidden", "shop")
    told = await run("hidden", "shop", "--json")
    assert ways.out.splitlines()[1].split() == [
        *(RULE, "shop@10.0.0.7", "relay@10.0.0.9"),
        *("2", "2026-01-02T03:04:14.000000Z"),
    ]
    assert told.json["items"][0]["links"] == 2
