"""Proposals of assertions that somebody may adopt. Nothing here does I/O."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from model.assertions.assertion import Assertion, LeadsTo, Precedence, TypePattern
from model.assertions.language import LONGEST, to_json, yaml_item
from model.reports.learning import ProposedAssertion
from spark_jobs.reports.expectations import Expectation, Norms, Thresholds, TypeOrder

MOST_PROPOSALS = 500
_LONGEST_NAME = 60


def proposals(norms: Norms, thresholds: Thresholds) -> list[ProposedAssertion]:
    """Effects and orders that held often enough, as assertions; the surest first."""
    drafts = [*_effects(norms, thresholds), *_orders(norms, thresholds)]
    drafts.sort(key=lambda draft: (-draft.share, -draft.cases, draft.assertion.name))
    names: set[str] = set()
    return [
        _to_report(draft, _free_name(draft.assertion.name, names))
        for draft in drafts[:MOST_PROPOSALS]
    ]


class _Proposal(NamedTuple):
    """An assertion, and the share and number of the cases in which it held."""

    assertion: Assertion
    share: float
    cases: int
    hits: int


def _to_report(draft: _Proposal, name: str) -> ProposedAssertion:
    assertion = replace(draft.assertion, name=name)
    return ProposedAssertion(
        assertion=to_json(assertion),
        share=draft.share,
        cases=draft.cases,
        held=draft.hits,
        yaml=yaml_item(assertion),
    )


def _effects(norms: Norms, thresholds: Thresholds) -> Iterator[_Proposal]:
    for expectation in norms.expectations:
        if (
            expectation.cases >= thresholds.cases
            and expectation.share >= thresholds.share
            and expectation.type != expectation.effect
        ):
            yield _proposal(
                _effect_assertion(expectation),
                expectation.share,
                expectation.cases,
                expectation.hits,
            )


def _orders(norms: Norms, thresholds: Thresholds) -> Iterator[_Proposal]:
    for order in norms.orders:
        if order.hits >= thresholds.share * order.cases:
            yield _proposal(
                _order_assertion(order), order.hits / order.cases, order.cases, order.hits
            )


def _proposal(assertion: Assertion, share: float, cases: int, hits: int) -> _Proposal:
    return _Proposal(assertion, round(share, 6), cases, hits)


def _effect_assertion(expectation: Expectation) -> Assertion:
    patience = round_up(expectation.times.patience)
    claim = LeadsTo(TypePattern(expectation.type), TypePattern(expectation.effect), patience)
    return Assertion(_name(f"{expectation.type}-leads-to-{expectation.effect}"), claim)


def _order_assertion(order: TypeOrder) -> Assertion:
    claim = Precedence(TypePattern(order.type), TypePattern(order.predecessor))
    return Assertion(_name(f"{order.type}-after-{order.predecessor}"), claim)


def round_up(microseconds: float) -> int:
    """A time for people that is not shorter (µs): 1, 2 or 5 of a power of ten, from 1 ms on."""
    milliseconds = max(microseconds / 1_000, 1.0)
    power = 10.0 ** math.floor(math.log10(milliseconds))
    step = next(step for step in (1, 2, 5, 10) if step * power >= milliseconds)
    return min(step * int(power) * 1_000, LONGEST)


def _name(text: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return words[:_LONGEST_NAME].strip("-") or "assertion"


def _free_name(name: str, names: set[str]) -> str:
    number, candidate = 1, name
    while candidate in names:
        number += 1
        candidate = f"{name}-{number}"
    names.add(candidate)
    return candidate
