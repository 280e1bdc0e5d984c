"""Which conversations' spans are sent, by a text of rules."""

from __future__ import annotations

import random

import pytest

from model.sampling import is_on, is_sampled, share_of, span_shares

RULES = span_shares("%2F/audit=off, %2F/pay%2Cments=1, %2F=0.25, shop=.01, other=off")


@pytest.mark.parametrize(
    ("vhost", "exchange", "share"),
    [
        ("/", "audit", None),
        ("/", "pay,ments", 1.0),
        ("/", "", 0.25),
        ("shop", "audit", 0.01),
        ("other", "audit", None),
        ("nowhere", "audit", None),
    ],
)
def test_the_first_rule_that_fits_holds(vhost: str, exchange: str, share: float | None) -> None:
    assert share_of(RULES, vhost, exchange) == share


def test_a_share_alone_is_for_all() -> None:
    assert share_of(span_shares("0.5"), "any", "one") == 0.5
    assert share_of(span_shares("*/audit=off,1"), "any", "audit") is None
    assert span_shares("") == ()


def test_a_virtual_host_of_which_nothing_can_be_sent_is_off() -> None:
    assert [is_on(RULES, vhost) for vhost in ("/", "shop", "other", "nowhere")] == [
        True,
        True,
        False,
        False,
    ]
    assert is_on(span_shares("other/audit=1,other=off"), "other")
    assert not is_on(span_shares("*/audit=off"), "any")


@pytest.mark.parametrize("text", ["2", "-1", "0.5.1", "shop=", "shop", "a b=1", "%zz=1", "/x=1"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        span_shares(text)


def test_a_trace_in_a_share_is_in_every_larger_one() -> None:
    chance = random.Random(1)
    traces = [chance.randbytes(16) for _ in range(5_000)]
    shares = (0.0, 0.01, 0.25, 1.0)
    kept = [{trace for trace in traces if is_sampled(trace, share)} for share in shares]
    sizes = [len(part) for part in kept]
    assert sizes == [0, pytest.approx(50, rel=0.5), pytest.approx(1250, 0.1), 5000]
    assert kept[0] <= kept[1] <= kept[2] <= kept[3]
