"""Sending requests with spans to a collector, which may be slow, away or full.

A request that fails for a while is repeated a few times; then the job ends with a sentence. Spans
have ids that stay the same, so whoever asks again loses nothing and doubles nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import httpx2

from model.jobs import Problem
from model.otlp import refusals_in
from model.texts import storable
from spark_jobs.errors import JobError
from spark_jobs.interchange.period_request import Collector

Send: TypeAlias = Callable[[bytes, int], tuple[int, str]]
"""Sends a packed body, given how many spans were sent before; returns how many were refused, and
why."""

MOST_TRIES = 5
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds
TIMEOUT = httpx2.Timeout(30.0, connect=5.0)
MOST_ANSWER = 65_536  # bytes of an answer that are read
HEADERS = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
# Statuses after which, by the protocol, a request may be repeated.
FOR_A_WHILE = frozenset({429, 502, 503, 504})


@contextmanager
def open_sender(
    collector: Collector,
    tell: Callable[[], None],
    pause: Callable[[float], None] = time.sleep,
) -> Iterator[Send]:
    """A function that sends requests to a collector.

    ``tell`` is called every second while it waits, and raises if the job is cancelled. What cannot
    be sent raises `JobError` (outage where it may pass).
    """
    # trust_env: neither a proxy for the outside world nor a .netrc applies here.
    with httpx2.Client(timeout=TIMEOUT, trust_env=False, follow_redirects=False) as client:

        def send(body: bytes, spans_sent: int) -> tuple[int, str]:
            wait, reason = FIRST_PAUSE, ""
            for attempt in range(MOST_TRIES):
                if attempt:
                    _wait(wait, tell, pause)
                answer, reason, retry_after = _post(client, collector, body, spans_sent)
                if answer is not None:
                    return refusals_in(answer)
                wait = min(retry_after or wait * (2 if attempt else 1), LONGEST_PAUSE)
            raise JobError(
                Problem.outage,
                f"The collector at {collector.shown} {reason}, {MOST_TRIES} times in a row, after"
                f" {spans_sent} spans. Ask again once it is there: the same spans have the same"
                " ids.",
            )

        yield send


def _post(
    client: httpx2.Client, collector: Collector, body: bytes, spans_sent: int
) -> tuple[bytes | None, str, float | None]:
    """The answer, or None, why, and after how many seconds to ask again if it says so."""
    try:
        with client.stream(
            "POST", collector.url, content=body, headers={**HEADERS, **collector.headers}
        ) as response:
            answer = _read_head(response)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        return None, f"cannot be reached ({type(error).__name__})", None
    if response.status_code in FOR_A_WHILE:
        return None, f"answers {response.status_code}", _seconds(response)
    if not response.is_success:
        raise JobError(
            Problem.failed,
            f"The collector at {collector.shown} refuses spans with {response.status_code}, after"
            f" {spans_sent} of them{_quote(response, answer)}.",
        )
    return answer, "", None


def _read_head(response: httpx2.Response) -> bytes:
    answer = b""
    for part in response.iter_bytes():
        answer += part
        if len(answer) >= MOST_ANSWER:
            break
    return answer[:MOST_ANSWER]


def _quote(response: httpx2.Response, answer: bytes) -> str:
    """The beginning of an answer that is text."""
    kind = response.headers.get("content-type", "")
    if not kind.startswith(("text/plain", "application/json")):
        return ""
    text = " ".join(storable(answer).split())[:200]
    return f": {text}" if text else ""


def _seconds(response: httpx2.Response) -> float | None:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdecimal() and len(text) < 6 else None


def _wait(seconds: float, tell: Callable[[], None], pause: Callable[[float], None]) -> None:
    while seconds > 0:
        tell()
        pause(min(seconds, 1.0))
        seconds -= 1.0
