"""Causes that messages name: rules, the keys they read, and who was meant by a key."""

from app.tracker.links.names import Names
from app.tracker.links.origins import Origin, TraceRule, check_own, merge_rules, of_all
from app.tracker.links.profiles import BUILT_IN
from app.tracker.links.rule import SPANS_RULE, Rule, RuleError
from app.tracker.links.rules import Rules, search_key

__all__ = [
    "BUILT_IN",
    "SPANS_RULE",
    "Names",
    "Origin",
    "Rule",
    "RuleError",
    "Rules",
    "TraceRule",
    "check_own",
    "merge_rules",
    "of_all",
    "search_key",
]
