"""Was a message ever here: over HTTP, and who may ask."""

from __future__ import annotations

from types import SimpleNamespace

import httpx2
import pytest

from app.api.whereabouts import Whereabouts
from app.broker.management import QueueInfo
from model.sound import Certainty
from tests.api.conftest import World
from tests.api.described import described
from tests.api.story import INVOICED, ORDERED, SHOP, STRAY, publish

PATH = "/itc_db/where"
ONE_TRACE = "/itc_db/%2F/undefined/undefined/undefined"
AFTER_QUARANTINE = {"vhost": "/", "since": "2026-01-02T03:04:06.5Z"}


@pytest.fixture
async def traced(world: World, client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    assert (await client.put(ONE_TRACE)).status_code == 201
    return client


async def where(client: httpx2.AsyncClient, text: str, **parameters: str) -> SimpleNamespace:
    answer = await client.get(PATH, params={"id": text, **parameters})
    assert answer.status_code == 200, answer.text
    return described(answer, (Whereabouts, Certainty))


async def test_a_text_of_a_body_leads_to_its_message(
    world: World, traced: httpx2.AsyncClient
) -> None:
    world.broker.queues["/", "mail"] = QueueInfo("mail", messages_ready=1)
    answer = await where(traced, "invoice")
    assert (answer.by, answer.word, answer.truncated) == ("text", "waiting", False)
    assert [each.event for each in answer.messages] == [INVOICED]
    assert answer.sentence.startswith(f"waiting: event {INVOICED}, published 2026-01-02")
    assert answer.sentence.endswith("handed over for 0 of 1 queue; it waits in mail")
    assert (answer.since, answer.complete) == ("2026-01-02T03:04:07.000000Z", True)


async def test_what_is_not_stored_since_the_broker_was_asked_may_hide_a_delivery(
    world: World, traced: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.broker.queues["/", "mail"] = QueueInfo("mail", messages_ready=0)
    assert (await where(traced, "invoice")).word == "died"
    moments: list[int] = []

    async def settle(vhost: str, at: int, seconds: float) -> int:
        moments.append(at)
        return moments[0]  # and then it lags

    monkeypatch.setattr(world.traces, "settle", settle)
    assert (await where(traced, "invoice")).word == "unknown"
    assert len(moments) == 2


async def test_of_several_messages_the_one_that_needs_somebody_counts(
    world: World, traced: httpx2.AsyncClient
) -> None:
    world.broker.queues["/", "billing"] = QueueInfo("billing", messages_ready=1)
    [newest] = await world.tellers["/"].tell([publish(SHOP, "order.new", "billing")])
    answer = await where(traced, "order.new", by="text")
    assert [(each.event, each.word) for each in answer.messages] == [
        (newest, "waiting"),
        (ORDERED, "handed_over"),
    ]
    assert answer.word == "waiting"
    assert answer.sentence.startswith(f"waiting: 1 of 2 messages; the newest: event {newest}")


async def test_a_delivery_without_its_publish_is_not_known(traced: httpx2.AsyncClient) -> None:
    answer = await where(traced, "unseen", **AFTER_QUARANTINE)
    assert (answer.word, answer.messages[0].event) == ("unknown", STRAY)
    assert "its publish is not stored" in answer.sentence


async def test_never_is_said_only_of_a_complete_record(
    world: World, traced: httpx2.AsyncClient
) -> None:
    beside = await where(traced, "nobody")
    assert (beside.word, beside.complete) == ("unknown", False)
    assert "the record of '/' has 1 gap in that time" in beside.sentence
    never = await where(traced, "nobody", **AFTER_QUARANTINE)
    assert (never.word, never.by, never.complete) == ("never_published", None, True)
    world.traces.settled["/"] = 0
    stopped = await where(traced, "nobody", **AFTER_QUARANTINE)
    assert (stopped.word, stopped.until) == ("unknown", None)


async def test_a_record_that_ends_before_the_period_says_so(
    world: World, traced: httpx2.AsyncClient
) -> None:
    world.traces.settled["/"] = 1_767_323_050_000_000
    period = {**AFTER_QUARANTINE, "until": "2026-01-02T05:00:00Z"}
    late = await where(traced, "nobody", **period)
    assert (late.word, "goes up to 2026-01-02 03:04:10" in late.sentence) == ("unknown", True)


async def test_a_body_that_is_cut_may_hide_a_text_and_no_id(
    world: World, traced: httpx2.AsyncClient
) -> None:
    await world.tellers["/"].tell([publish(SHOP, "large", "mail", body=b"x" * 2_000)])
    assert (await where(traced, "nobody", **AFTER_QUARANTINE)).word == "unknown"
    by_id = await where(traced, "nobody", by="message_id", **AFTER_QUARANTINE)
    assert by_id.word == "never_published"


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"id": ""},
        {"id": "a", "by": "colour"},
        {"id": "a", "since": "2026-01-02", "until": "2026-01-01"},
    ],
)
async def test_what_cannot_be_asked_is_refused(
    traced: httpx2.AsyncClient, wrong: dict[str, str]
) -> None:
    assert (await traced.get(PATH, params=wrong)).status_code == 400
    assert (await traced.get(PATH, params={"id": "a", "vhost": "none"})).status_code == 404
