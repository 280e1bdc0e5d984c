"""The rules of links as a trace has them: those that hold, and those that are to."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from app.tracker.links import Origin, TraceRule
from model.described import INNER


class HeldRule(msgspec.Struct, frozen=True):
    """A rule that holds, and the first event that was read by it."""

    rule: TraceRule
    from_event_id: int


class RuleState(enum.StrEnum):
    """Whether messages are read by a rule.

    What is set or removed holds, or does not, as soon as the trace has taken it up: after some
    seconds where it runs.
    """

    holds = "holds"
    set = "set"  # and does not hold yet
    removed = "removed"  # and holds still


class ListedRule(msgspec.Struct, frozen=True):
    """A rule of a virtual host."""

    of_trace: Annotated[TraceRule, INNER]
    state: Annotated[
        RuleState,
        "Whether messages are read by it: `set` is to hold, and `removed` to hold no more, once "
        "the trace has taken it up.",
    ]
    from_event_id: Annotated[
        int | None, "The first event that was read by it; `null` while it does not hold."
    ]

    @property
    def name(self) -> str:
        """The rule's name."""
        return self.of_trace.rule.name

    @property
    def origin(self) -> Origin:
        """Built in, of the file for all virtual hosts, or this one's own."""
        return self.of_trace.origin

    @property
    def rule(self) -> dict[str, Any]:
        """As one writes it."""
        return self.of_trace.rule.to_json()


def listed(wanted: Sequence[TraceRule], held: Sequence[HeldRule]) -> list[ListedRule]:
    """All rules of a trace in order, those behind that are to hold no more."""
    since = {each.rule: each.from_event_id for each in held}
    gone = [each for each in held if each.rule not in set(wanted)]
    return [
        *(
            ListedRule(each, RuleState.holds if each in since else RuleState.set, since.get(each))
            for each in wanted
        ),
        *(ListedRule(each.rule, RuleState.removed, each.from_event_id) for each in gone),
    ]
