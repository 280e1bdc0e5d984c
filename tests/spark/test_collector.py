"""Sending spans to a collector that is there, away, full, or says no."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from model.jobs import Problem
from spark_jobs.errors import JobError
from spark_jobs.interchange.collector import LONGEST_PAUSE, MOST_TRIES, open_sender
from spark_jobs.interchange.period_request import Collector
from tests.collector import StandIn, collecting

NOTHING = gzip.compress(b"")


@pytest.fixture
def standing() -> Iterator[StandIn]:
    with collecting() as collector:
        yield collector


def send(
    standing: StandIn, pauses: list[float] | None = None, *, times: int = 1
) -> list[tuple[int, str]]:
    pause = (pauses if pauses is not None else []).append
    where = Collector(standing.url, "collector:4318", {"x-key": "secret"})
    with open_sender(where, lambda: None, pause) as sender:
        return [sender(NOTHING, 1_000 * k) for k in range(times)]


def test_requests_are_packed_protobuf_with_the_headers_that_were_set(standing: StandIn) -> None:
    assert send(standing, times=2) == [(0, ""), (0, "")]
    headers, _ = standing.requests[0]
    assert headers["path"] == "/v1/traces"
    assert headers["content-type"] == "application/x-protobuf"
    assert (headers["content-encoding"], headers["x-key"]) == ("gzip", "secret")


def test_what_it_refused_is_told(standing: StandIn) -> None:
    standing.refuses = 7
    assert send(standing) == [(7, "too old")]


def test_a_collector_that_is_full_for_a_while_is_asked_again(standing: StandIn) -> None:
    pauses: list[float] = []
    standing.statuses = [(503, {}), (429, {"retry-after": "3"}), (502, {"retry-after": "soon"})]
    assert send(standing, pauses) == [(0, "")]
    assert (standing.tries, sum(pauses), max(pauses)) == (4, 1 + 3 + 6, 1.0)


def test_it_does_not_wait_longer_than_it_should(standing: StandIn) -> None:
    pauses: list[float] = []
    standing.statuses = [(503, {"retry-after": "99999"})]
    send(standing, pauses)
    assert sum(pauses) == LONGEST_PAUSE


def test_after_some_tries_the_job_ends_with_a_sentence(standing: StandIn) -> None:
    standing.statuses = [(503, {})] * MOST_TRIES
    with pytest.raises(JobError, match="collector:4318 answers 503, 5 times") as failed:
        send(standing)
    assert (failed.value.problem, standing.tries) == (Problem.outage, MOST_TRIES)
    assert "secret" not in str(failed.value)


def test_nobody_there_is_said_without_the_address_that_has_a_password() -> None:
    where = Collector("http://me:secret@127.0.0.1:9/v1/traces", "http://127.0.0.1:9")
    with (
        open_sender(where, lambda: None, lambda seconds: None) as sender,
        pytest.raises(JobError, match=r"cannot be reached.*after 40 spans") as failed,
    ):
        sender(NOTHING, 40)
    assert "secret" not in f"{failed.value} {where}"


@pytest.mark.parametrize("status", [301, 400, 401, 404, 413, 500])
def test_what_would_not_pass_is_not_tried_again(standing: StandIn, status: int) -> None:
    standing.statuses = [(status, {"location": "http://127.0.0.1:9"})]
    with pytest.raises(JobError, match=f"refuses spans with {status}.*: not now") as failed:
        send(standing)
    assert (failed.value.problem, standing.tries) == (Problem.failed, 1)


def test_a_job_that_is_cancelled_does_not_wait(standing: StandIn) -> None:
    def cancelled() -> None:
        raise JobError(Problem.cancelled, "The job was cancelled.")

    standing.statuses = [(503, {})] * 2
    with (
        open_sender(Collector(standing.url, "x"), cancelled) as sender,
        pytest.raises(JobError, match="cancelled"),
    ):
        sender(NOTHING, 0)
    assert standing.tries == 1
