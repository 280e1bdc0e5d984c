"""Histories whose messages name each other in their headers and bodies, for trackers to read."""

from __future__ import annotations

import json
from collections.abc import Sequence

import msgspec

from app.stored.capture import Batch
from app.tracker import Bounds, Policy, Tracker
from app.tracker.links import BUILT_IN, Origin, Rule, Rules, TraceRule
from app.tracker.records import Publish
from tests.contract.history import History

# What is named in headers, by a built-in rule, and in bodies, by one of somebody's own.
BY_HEADER = TraceRule(
    next(rule for rule in BUILT_IN if rule.name == "causation_id"), Origin.built_in
)
BY_BODY = TraceRule(
    Rule.from_json(
        {
            "name": "shipped-for",
            "kind": "parent",
            "child": "$message.payload#/caused_by",
            "parent": "$message.payload#/event/id",
        }
    ),
    Origin.own,
)
BOTH = (BY_HEADER, BY_BODY)


def rules_of(held: Sequence[TraceRule]) -> Rules:
    """As a trace has them, which finds events by no headers."""
    return Rules((each.rule for each in held), found_by={})


class NamingHistory(History):
    """A random history in which publishes have ids, and most of them name an earlier one."""

    def __init__(
        self, seed: int, rules: Sequence[TraceRule] = (), policy: Policy = Policy.channel
    ) -> None:
        super().__init__(seed, policy=policy)
        self._number = 0
        self.tracker = Tracker(policy, Bounds(), rules=rules_of(rules))

    def batch(
        self,
        records: int,
        window: bytes = b"window",
        rules: Sequence[TraceRule] | None = None,
    ) -> Batch:
        """As `History.batch`; ``rules`` are taken up before."""
        if rules is not None:
            self.tracker.take_up(rules_of(rules))
        made = super().batch(records, window)
        return made if rules is None else msgspec.structs.replace(made, link_rules=tuple(rules))

    def _publish(self) -> Publish:
        publish = super()._publish()
        self._number += 1
        earlier = self.random.randrange(self._number)
        body = {"event": {"id": self._number}, "caused_by": earlier or None}
        return msgspec.structs.replace(
            publish,
            properties={
                "message_id": f"m{self._number}",
                "content_type": "application/json",
                "headers": {"causation_id": f"m{self.random.randrange(self._number)}"},
            },
            body=json.dumps(body).encode() + b" " * (100 if self._number % 7 == 0 else 0),
        )
