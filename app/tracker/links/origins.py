"""The rules of one trace: their makers, and which replaces which."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

import msgspec

from app.tracker.links.profiles import BUILT_IN
from app.tracker.links.rule import Rule, RuleError
from app.tracker.links.rules import MOST_RULES, Rules

LONGEST_RULE = 8_192  # bytes, of one that somebody sets


class Origin(enum.StrEnum):
    """The maker of a rule: this program, the file for all virtual hosts, or somebody for one."""

    built_in = "built_in"
    file = "file"
    own = "own"


class TraceRule(msgspec.Struct, frozen=True):
    """A rule of a trace."""

    rule: Rule
    origin: Origin


def of_all(rules: Iterable[Rule]) -> tuple[TraceRule, ...]:
    """The rules of all virtual hosts: the built-in ones, and those of the file."""
    built_in = frozenset(BUILT_IN)
    return tuple(
        TraceRule(rule, Origin.built_in if rule in built_in else Origin.file) for rule in rules
    )


def merge_rules(of_all: Sequence[TraceRule], own: Sequence[Rule]) -> tuple[TraceRule, ...]:
    """All rules of a virtual host, in the order in which they are numbered.

    One of its own replaces another of the same name, and the rest come behind. No more than
    `MOST_RULES` hold: a file may have grown since.
    """
    own_rules = {rule.name: TraceRule(rule, Origin.own) for rule in own}
    all_of_them = {
        rule.rule.name: rule for rule in of_all
    } | own_rules  # which keeps the first's place
    return tuple(all_of_them.values())[:MOST_RULES]


def rule_as_text(rule: Rule) -> str:
    """A rule as it is stored: equal rules are equal texts."""
    return msgspec.json.encode(rule.to_json()).decode()


def rule_from_text(text: str) -> Rule:
    """Read what `rule_as_text` wrote; raises `RuleError`, as for one of another version."""
    try:
        return Rule.from_json(msgspec.json.decode(text))
    except msgspec.MsgspecError as error:
        raise RuleError(f"a stored rule cannot be read: {error}") from error


def check_own(rules: Sequence[Rule], of_all: Sequence[TraceRule]) -> None:
    """Raise `RuleError` where these cannot all be a virtual host's own rules."""
    for rule in rules:
        size = len(rule_as_text(rule).encode())
        if size > LONGEST_RULE:
            raise RuleError(f"rule {rule.name!r} has {size} bytes, and at most {LONGEST_RULE}")
    Rules([*rules])  # not too many of them, and no name twice
    names = {rule.rule.name for rule in of_all} - {rule.name for rule in rules}
    if len(names) + len(rules) > MOST_RULES:
        raise RuleError(
            f"there are at most {MOST_RULES} rules in all: {len(names)} hold in every virtual "
            f"host, so this one has at most {MOST_RULES - len(names)} of its own"
        )
