"""From the span that sent a message to the message that its consumer handled."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.store.spans.ancestry import MOST_STEPS, Ancestry, Carrier, ancestry
from app.stored.spans import Span, SpanKind, SpanLink

SENT = b"sent"  # what the message carries
MESSAGE = Carrier(1, 1, is_publish=True)


def span(
    context: bytes,
    parent: bytes | None,
    kind: SpanKind = SpanKind.internal,
    *,
    remote: bool | None = False,
    service: str | None = "orders",
    links: Iterable[bytes] = (),
    links_remote: bool | None = True,
) -> Span:
    named = tuple(SpanLink(each, links_remote) for each in links)
    return Span(context, parent, remote, kind, 1, 2, service, named)


def walked(
    spans: Iterable[Span], carried: Iterable[bytes] = (b"from",), start: bytes = SENT
) -> Ancestry:
    """The walk through all that there is."""
    known: dict[bytes, Span | None] = {each.context: each for each in spans}
    carriers: dict[bytes, list[Carrier]] = {}
    seen: dict[bytes, Span | None] = {}
    way = ancestry(start, seen, carriers)
    while True:
        try:
            of_spans, of_carriers = next(way)
        except StopIteration as end:
            found: Ancestry = end.value
            return found
        seen |= {each: known.get(each) for each in of_spans}
        carriers |= {each: [MESSAGE] if each in carried else [] for each in of_carriers}


PRODUCER = span(SENT, b"work", SpanKind.producer)
WORK = span(b"work", b"consumer")
CONSUMER = span(b"consumer", b"from", SpanKind.consumer, remote=True)


def test_a_producers_ancestor_that_consumed_tells_of_the_message() -> None:
    walk = walked([PRODUCER, WORK, CONSUMER])
    assert (walk.handled, walk.consumer) == ((b"from",), b"consumer")


def test_a_library_without_producers_spans_sends_from_the_consumers() -> None:
    assert walked([CONSUMER], start=b"consumer").handled == (b"from",)


def test_links_lead_to_messages_as_parents_do_and_to_several() -> None:
    consumer = span(b"consumer", None, SpanKind.consumer, links=[b"from", b"other", b"lost"])
    walk = walked([PRODUCER, WORK, consumer], carried=[b"from", b"other"])
    assert walk.handled == (b"from", b"other")


def test_the_consumer_is_the_nearest_that_received() -> None:
    process = span(b"work", b"consumer", SpanKind.consumer)  # within the one that received
    assert walked([PRODUCER, process, CONSUMER]).handled == (b"from",)


def test_a_producers_parent_is_not_what_it_handled() -> None:
    """A message sent without a span of its own carries the consumer's: nobody has handled it."""
    walk = walked([PRODUCER, WORK, CONSUMER], carried=[b"work", b"consumer"])
    assert walk == Ancestry()


def test_a_local_parent_is_not_what_it_handled() -> None:
    process = span(b"work", b"consumer", SpanKind.consumer, remote=False)
    receive = span(b"consumer", None, SpanKind.consumer, links=[b"from"])
    walk = walked([PRODUCER, process, receive], carried=[b"consumer", b"from"])
    assert walk.handled == (b"from",)


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("remote", [True, False, None])
@pytest.mark.parametrize(
    "sender",
    [
        None,
        span(b"from", None, SpanKind.producer),
        span(b"from", None, SpanKind.producer, service=None),
        span(b"from", None, SpanKind.consumer),
        span(b"from", None, SpanKind.consumer, service="shop"),
    ],
    ids=["unknown", "producer", "nameless", "consumer", "elsewhere"],
)
def test_whether_another_process_sent_it_has_to_be_clear(
    sender: Span | None, remote: bool | None, linked: bool
) -> None:
    consumer = span(
        b"consumer",
        None if linked else b"from",
        SpanKind.consumer,
        remote=remote,
        links=[b"from"] if linked else [],
        links_remote=remote,
    )
    walk = walked([PRODUCER, WORK, consumer, *([sender] if sender else [])])
    if remote or (linked and remote is None):
        expected = True  # it says so
    elif sender is None:
        assert walk.waits_for == b"from"
        return
    elif sender.service == "shop":
        expected = True
    else:  # .NET's client flags what it has read from a message as its own
        expected = sender.kind is SpanKind.producer and (linked or remote is None)
    assert walk.handled == ((b"from",) if expected else ())
    assert expected or walk == Ancestry()


def test_what_was_handled_and_is_not_stored_is_not_passed() -> None:
    """Whatever led to that message led to this one too, but through it."""
    before = span(b"from", b"early", SpanKind.producer)
    early = span(b"early", b"first", SpanKind.consumer, remote=True)
    walk = walked([PRODUCER, WORK, CONSUMER, before, early], carried=[b"first"])
    assert walk == Ancestry()


def test_calls_between_services_are_passed() -> None:
    server = span(b"work", b"client", SpanKind.server, remote=True, service="stock")
    client = span(b"client", b"consumer", SpanKind.client)
    assert walked([PRODUCER, server, client, CONSUMER]).handled == (b"from",)


def test_a_trace_that_begins_without_a_consumer_has_no_message_before() -> None:
    assert walked([PRODUCER, span(b"work", None, SpanKind.server)]) == Ancestry()


def test_parents_that_go_round_in_circles_end() -> None:
    circle = [PRODUCER, WORK, span(b"consumer", b"work")]
    assert walked(circle) == Ancestry()


def test_very_many_parents_are_too_far() -> None:
    chain = [span(b"%d" % n, b"%d" % (n + 1)) for n in range(MOST_STEPS + 2)]
    assert walked(chain, start=b"0") == Ancestry()


def test_a_message_does_not_lead_to_itself() -> None:
    consumer = span(b"consumer", SENT, SpanKind.consumer, remote=True, links=[SENT])
    assert walked([PRODUCER, WORK, consumer], carried=[SENT]) == Ancestry()


kinds = st.sampled_from(list(SpanKind))
names = st.sampled_from([b"a", b"b", b"c", b"d", SENT])


@st.composite
def forests(draw: st.DrawFn) -> list[Span]:
    return [
        span(
            context,
            draw(st.one_of(st.none(), names.filter(lambda each: each != context))),  # noqa: B023
            draw(kinds),
            remote=draw(st.sampled_from([None, True, False])),
            service=draw(st.sampled_from(["orders", "shop", None])),
            links=draw(st.lists(names.filter(lambda each: each != context), max_size=2)),  # noqa: B023
        )
        for context in draw(st.lists(names, unique=True))
    ]


@given(forests(), st.sets(names), st.randoms(use_true_random=False))
def test_the_order_in_which_spans_arrive_changes_nothing(
    spans: list[Span], carried: set[bytes], order: random.Random
) -> None:
    """What is said while some are missing stays: the rest is waited for."""
    last = walked(spans, carried)
    arrived: list[Span] = []
    for each in order.sample(spans, len(spans)):
        early = walked(arrived, carried)
        if early.waits_for is None:
            assert early == last
        arrived.append(each)
