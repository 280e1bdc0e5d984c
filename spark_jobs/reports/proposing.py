"""What was learnt, as assertions that somebody may adopt. Nothing here does I/O."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

from spark_jobs.reports.expecting import Asked, Expectation, Learnt, Order
from spark_jobs.reports.request import Json

MOST = 500
_LONGEST_NAME = 60
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"}


def proposals(learnt: Learnt, asked: Asked) -> list[Json]:
    """Effects and orders that held in the share asked for, as assertions; the surest first.

    Each with the share and the cases in which it held, as JSON and as an item of YAML.
    """
    found = [*_effects(learnt, asked), *_orders(learnt, asked)]
    found.sort(key=lambda one: (-one["share"], -one["cases"], one["assertion"]["name"]))
    taken: set[str] = set()
    for one in found[:MOST]:
        one["assertion"]["name"] = _unused(one["assertion"]["name"], taken)
        one["yaml"] = yaml_of(one["assertion"])
    return found[:MOST]


def _effects(learnt: Learnt, asked: Asked) -> Iterator[Json]:
    for one in learnt.expectations:
        if one.cases >= asked.cases and one.share >= asked.share and one.type != one.effect:
            yield _proposal(_led(one), one.share, one.cases, one.led)


def _orders(learnt: Learnt, asked: Asked) -> Iterator[Json]:
    for one in learnt.orders:
        if one.held >= asked.share * one.cases:
            yield _proposal(_ordered(one), one.held / one.cases, one.cases, one.held)


def _proposal(assertion: Json, share: float, cases: int, held: int) -> Json:
    return {"assertion": assertion, "share": round(share, 6), "cases": cases, "held": held}


def _led(one: Expectation) -> Json:
    return {
        "name": _name(f"{one.type}-leads-to-{one.effect}"),
        "every": one.type,
        "leads_to": one.effect,
        "within": duration(one.times.patience),
    }


def _ordered(one: Order) -> Json:
    name = _name(f"{one.type}-after-{one.after}")
    return {"name": name, "every": one.type, "after": one.after}


def duration(microseconds: float) -> str:
    """A time for people that is not shorter: 1, 2 or 5 of a power of ten, in ms or s."""
    milliseconds = max(microseconds / 1_000, 1.0)
    power = 10 ** math.floor(math.log10(milliseconds))
    rounded = next(step * power for step in (1, 2, 5, 10) if step * power >= milliseconds)
    return f"{rounded}ms" if rounded < 1_000 else f"{rounded // 1_000}s"


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


def yaml_of(assertion: Mapping[str, str]) -> str:
    """An assertion as an item of the list in a file of assertions."""
    lines = [f"{name}: {_scalar(value)}" for name, value in assertion.items()]
    return "\n".join(["  - " + lines[0], *("    " + line for line in lines[1:])]) + "\n"


def _scalar(text: str) -> str:
    """A text that YAML reads as just that; a JSON string is one of its quoted scalars."""
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if is_plain else json.dumps(text)
