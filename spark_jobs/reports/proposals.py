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
from spark_jobs.reports.expectations import Expectation, Learnt, Thresholds, TypeOrder

MOST = 500
_LONGEST_NAME = 60


def proposals(learnt: Learnt, asked: Thresholds) -> list[ProposedAssertion]:
    """Effects and orders that held in the share asked for, as assertions; the surest first.

    Each with the share and the cases in which it held, as JSON and as an item of YAML.
    """
    found = [*_effects(learnt, asked), *_orders(learnt, asked)]
    found.sort(key=lambda one: (-one.share, -one.cases, one.assertion.name))
    taken: set[str] = set()
    return [_shown(one, _unused(one.assertion.name, taken)) for one in found[:MOST]]


class _Proposal(NamedTuple):
    """An assertion, and in which share of how many cases it held."""

    assertion: Assertion
    share: float
    cases: int
    held: int


def _shown(one: _Proposal, name: str) -> ProposedAssertion:
    assertion = replace(one.assertion, name=name)
    return ProposedAssertion(
        assertion=to_json(assertion),
        share=one.share,
        cases=one.cases,
        held=one.held,
        yaml=yaml_item(assertion),
    )


def _effects(learnt: Learnt, asked: Thresholds) -> Iterator[_Proposal]:
    for one in learnt.expectations:
        if one.cases >= asked.cases and one.share >= asked.share and one.type != one.effect:
            yield _proposal(_led(one), one.share, one.cases, one.led)


def _orders(learnt: Learnt, asked: Thresholds) -> Iterator[_Proposal]:
    for one in learnt.orders:
        if one.held >= asked.share * one.cases:
            yield _proposal(_ordered(one), one.held / one.cases, one.cases, one.held)


def _proposal(assertion: Assertion, share: float, cases: int, held: int) -> _Proposal:
    return _Proposal(assertion, round(share, 6), cases, held)


def _led(one: Expectation) -> Assertion:
    within = rounded_up(one.times.patience)
    what = LeadsTo(TypePattern(one.type), TypePattern(one.effect), within)
    return Assertion(_name(f"{one.type}-leads-to-{one.effect}"), what)


def _ordered(one: TypeOrder) -> Assertion:
    what = Precedence(TypePattern(one.type), TypePattern(one.after))
    return Assertion(_name(f"{one.type}-after-{one.after}"), what)


def rounded_up(microseconds: float) -> int:
    """A time for people that is not shorter (µs): 1, 2 or 5 of a power of ten, from 1 ms on."""
    milliseconds = max(microseconds / 1_000, 1.0)
    power = 10.0 ** math.floor(math.log10(milliseconds))
    step = next(step for step in (1, 2, 5, 10) if step * power >= milliseconds)
    return min(step * int(power) * 1_000, LONGEST)


def _name(text: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return words[:_LONGEST_NAME].strip("-") or "assertion"


def _unused(name: str, taken: set[str]) -> str:
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}-{number}"
    taken.add(found)
    return found
