"""Deaths are counted once, whoever tells of them in whatever order; groups and spans add up."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.stored.failures import MOST_SPANS, SPANS, Failure, FailureKind, failure_page, over_time
from model.deaths import ReportedDeaths, deaths_of
from model.error_queues import LONGEST_EXCEPTION, exception_type, forward_of

QUEUES = ("orders", "retry", "dead")
REASONS = ("rejected", "expired")


def dying(walk: list[tuple[str, str]], begins: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """What ``x-death`` says after each death, as the broker writes it (3.10 to 3.13)."""
    told, said = [dict(entry) for entry in begins], []
    for queue, reason in walk:
        is_same = [(each["queue"], each["reason"]) == (queue, reason) for each in told]
        count = sum(each["count"] for each, same in zip(told, is_same, strict=True) if same)
        others = [each for each, same in zip(told, is_same, strict=True) if not same]
        told = [{"queue": queue, "reason": reason, "count": count + 1}, *others]
        said.append([dict(entry) for entry in told])
    return said


walks = st.lists(st.tuples(st.sampled_from(QUEUES), st.sampled_from(REASONS)), min_size=1)


@given(walks, walks | st.just([]), st.data())
def test_each_death_is_told_once_though_letters_repeat_and_some_are_not_seen(
    walk: list[tuple[str, str]], before: list[tuple[str, str]], data: st.DataObject
) -> None:
    carried = [*dying(before, []), []][len(before) - 1] if before else []
    letters = dying(walk, carried)
    # Each is handed over any number of times; the last one at least once.
    seen = [place for place in range(len(walk)) for _ in range(data.draw(st.integers(0, 2)))]
    seen.append(len(walk) - 1)
    told = ReportedDeaths(deaths_of({"headers": {"x-death": carried}}))
    news = [
        (death.queue, death.reason, death.count - before.count((death.queue, death.reason)))
        for place in seen
        for _, death in told.news(deaths_of({"headers": {"x-death": letters[place]}}))
    ]
    assert len(news) == len(set(news))
    # Of each queue and reason the last death is told of, as the one that it was.
    for queue, reason in {*walk}:
        last = walk.count((queue, reason))
        assert (queue, reason, last) in news
        assert all(1 <= n <= last for q, r, n in news if (q, r) == (queue, reason))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)
NAMES = (
    "x-death",
    "NServiceBus.FailedQ",
    "NServiceBus.ExceptionInfo.Message",
    "MT-Fault-Message",
    "MT-Fault-InputAddress",
    "x-exception-message",
    "x-exception-stacktrace",
    "rbs2-error-details",
    "reason_poisoned",
    "topic_poisoned",
    "rascal",
    "retry_info",
    "x-original-exchange",
    "x-original-routingKey",
    "queue",
)


@given(st.dictionaries(st.sampled_from(NAMES), json_values) | json_values)
def test_whatever_headers_say_is_read_or_left_out(headers: Any) -> None:
    properties = {"headers": headers}
    for death in deaths_of(properties):
        assert isinstance(death.count, int)
    forward = forward_of(properties, "", ("q",), b"{}")
    if forward is not None and forward.exception is not None:
        assert 0 < len(forward.exception) <= LONGEST_EXCEPTION
        assert exception_type(forward.exception) is not None


def failure(event: int, at: int, queue: str) -> Failure:
    return Failure(
        event=event,
        message=event,
        vhost="/",
        kind=FailureKind.died,
        queue=queue,
        reason="rejected",
        type="order",
        exception=None,
        at=at,
        by=None,
        handed_over=None,
        candidate=None,
        times=1,
        to=None,
        publisher=None,
        exchange="",
        routing_key="",
    )


times = st.integers(0, 4_000_000_000_000_000)


@given(st.lists(st.tuples(times, st.sampled_from(QUEUES)), max_size=40), st.integers(1, 10))
def test_groups_and_spans_have_every_failure_once(told: list[tuple[int, str]], limit: int) -> None:
    # Two failures to an event, newest first.
    failures = [failure(100 - n // 2, at, queue) for n, (at, queue) in enumerate(told)]
    page = failure_page(failures, limit, None)
    assert sum(group.count for group in page.groups) == len(failures)
    assert sum(span.count for span in page.over_time.counts) == len(failures)
    assert len({group.queue for group in page.groups}) == len(page.groups)
    assert len(page.items) >= min(limit, len(failures))
    if page.next is not None:
        assert page.items + [each for each in failures if each.event < page.next] == failures


@given(st.lists(times, min_size=1, max_size=20))
def test_spans_are_of_equal_length_and_not_many(at: list[int]) -> None:
    found_spans = over_time([failure(1, each, "q") for each in at])
    seconds, spans = found_spans.seconds, found_spans.counts
    assert len(spans) <= MOST_SPANS
    assert seconds in SPANS or seconds % SPANS[-1] == 0
    starts = [span.at for span in spans]
    assert starts == list(range(starts[0], starts[-1] + 1, seconds * 1_000_000))
    assert starts[0] <= min(at)
    assert max(at) < starts[-1] + seconds * 1_000_000
