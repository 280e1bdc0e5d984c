"""Sending spans to a collector that is there, away, full, or says no."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from app.collector.sender import MOST_SPANS, CollectorError, RefusedSpans, Sender
from model.spans import Context, ExportedSpan, OtlpKind
from tests.collector import StandIn, collecting


@pytest.fixture
def standing() -> Iterator[StandIn]:
    with collecting() as collector:
        yield collector


@pytest.fixture
async def sender(standing: StandIn) -> AsyncIterator[Sender]:
    sender = Sender({"url": standing.url, "shown": "collector", "headers": {"x-key": "secret"}})
    yield sender
    await sender.close()


def spans(count: int) -> list[ExportedSpan]:
    return [
        ExportedSpan(
            "shop",
            Context(b"t" * 16, number.to_bytes(8)),
            None,
            False,
            "publish orders",
            OtlpKind.producer,
            1,
            1,
            {"itc.event.id": number},
        )
        for number in range(1, count + 1)
    ]


async def test_requests_are_packed_protobuf_with_the_headers_that_were_set(
    standing: StandIn, sender: Sender
) -> None:
    assert await sender.send(spans(MOST_SPANS + 1), "/") == (0, "")
    assert len(standing.requests) == 2
    headers, _ = standing.requests[0]
    assert headers["path"] == "/v1/traces"
    assert headers["content-type"] == "application/x-protobuf"
    assert (headers["content-encoding"], headers["x-key"]) == ("gzip", "secret")
    assert len(standing.spans) == MOST_SPANS + 1


async def test_refusals_are_counted(standing: StandIn, sender: Sender) -> None:
    standing.refuses = 7
    assert await sender.send(spans(10), "/") == RefusedSpans(7, "too old")


async def test_a_span_that_a_collector_does_not_take_holds_up_no_other(
    standing: StandIn, sender: Sender
) -> None:
    standing.statuses = [(400, {}), (413, {}), (400, {})]
    assert await sender.send(spans(4), "/") == RefusedSpans(1, "400: not now")
    assert [context[1][-1] for context in standing.spans] == [2, 3, 4]


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_who_takes_nothing_at_all_has_refused_no_span(
    standing: StandIn, sender: Sender, status: int
) -> None:
    standing.statuses = [(status, {})] * 100
    with pytest.raises(CollectorError, match=f"collector answers {status}: not now"):
        await sender.send(spans(MOST_SPANS), "/")
    assert standing.tries < 15


@pytest.mark.parametrize("status", [302, 401, 404, 429, 500, 503])
async def test_other_answers_are_an_outage_after_which_nothing_is_dropped(
    standing: StandIn, sender: Sender, status: int
) -> None:
    standing.statuses = [(status, {"retry-after": "9999", "location": "http://other/"})]
    with pytest.raises(CollectorError, match=f"collector answers {status}: not now") as error:
        await sender.send(spans(1), "/")
    assert error.value.pause == 60
    assert standing.tries == 1


async def test_a_collector_that_is_away_is_named_without_its_password() -> None:
    url = "http://me:secret@127.0.0.1:9/v1/traces?token=secret"
    sender = Sender({"url": url, "shown": "http://127.0.0.1:9", "headers": {}})
    with pytest.raises(CollectorError, match="cannot be reached") as error:
        await sender.check()
    await sender.close()
    assert "secret" not in str(error.value)
