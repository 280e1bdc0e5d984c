"""Finds the demo's own actions among the service's events, and checks the answers against them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from tools.demo.client import Event, EventFeed
from tools.demo.history import Action, History
from tools.servers import Broker, ServerError, wait_until

EVENT_SECONDS = 60.0
CONNECTION_SECONDS = 30.0
SETTLEMENTS_ARE_OFF = (
    "What became of deliveries is not known: settlements are off, as the broker has no plugin for "
    "them.\nThe demo's own broker has it where Erlang's compiler (erlc) is (docs/settlements.md)."
)


def connections(broker: Broker, names: Mapping[str, str]) -> dict[str, str]:
    """Return each connection's role by the broker's name for it, given those by the clients' own.

    A trace message names a connection by its two addresses alone; only the management API knows
    what the client calls itself.
    """
    found: dict[str, str] = {}

    def all_listed() -> bool:
        for connection in broker.api("GET", "connections"):
            role = names.get(connection.get("user_provided_name", ""))
            if role is not None:
                found[connection["name"]] = role
        return len(found) == len(names)

    wait_until(all_listed, CONNECTION_SECONDS, "the management API's list of our connections")
    return found


@dataclass
class Recorded:
    """The service's record of the demo's actions."""

    history: History
    roles: Mapping[str, str]  # connection -> role
    events: dict[Action, Event]

    @classmethod
    def collect(cls, history: History, roles: Mapping[str, str], feed: EventFeed) -> Recorded:
        """Read events until every action has one; raises `ServerError` naming those without."""
        recorded = cls(history, roles, {})
        until = time.monotonic() + EVENT_SECONDS
        while missing := [action for action in history.actions if action not in recorded.events]:
            if time.monotonic() > until:
                raise ServerError(f"{len(missing)} actions were not recorded{listed(missing)}")
            recorded._take(feed.more())
        return recorded

    def _take(self, events: Iterable[Event]) -> None:
        wanted = set(self.history.actions)
        for event in events:
            action = self.action(event)
            if action in wanted:
                self.events[action] = event

    def action(self, event: Event) -> Action | None:
        """Return the action that an event records; None if it is not one of ours."""
        role = self.roles.get(event["connection"])
        if role is None:
            return None
        return Action(role, event["type"], event["exchange"], event["queue"], event["payload"])

    def wrong_causes(self) -> list[Action]:
        """Return the deliveries that the service matched to the wrong publish."""
        return [
            action
            for action, event in self.events.items()
            if (cause := self.history.cause(action)) and event["cause"] != self.events[cause]["id"]
        ]

    def take_settlements(self, events: Iterable[Event]) -> None:
        """Take what became of deliveries from their events, read once they are settled."""
        now = {event["id"]: event for event in events}
        self.events = {action: now.get(each["id"], each) for action, each in self.events.items()}

    @property
    def settlements(self) -> str:
        """A sentence on what became of deliveries, or on why that is unknown."""
        how = Counter(event["settlement"] for event in self.events.values())
        if not how["acknowledged"]:
            return SETTLEMENTS_ARE_OFF
        deliveries = sum(event["type"] == "received" for event in self.events.values())
        held = max(_held(event) for event in self.events.values() if event["settled_at"])
        return (
            f"The consumers acknowledged {how['acknowledged']} of {deliveries} deliveries and "
            f"rejected {how['rejected']}; the slowest was held for {held:.2f} s."
        )

    def wrong_settlements(self) -> list[Action]:
        """Return the deliveries of which the service says that something else became of them."""
        return [
            action
            for action, event in self.events.items()
            if (said := event["settlement"])
            and said != ("rejected" if self.history.is_rejected(action) else "acknowledged")
        ]

    def faults_of(self, exported: Iterable[Event], expected: Iterable[Action]) -> list[str]:
        """Compare an export with the actions it should hold; one sentence per fault.

        Heartbeats of those who took part are in it, too: they are actions of theirs, and led to
        nothing.
        """
        exported = [event for event in exported if not event["quiet"]]
        ids = [int(event["id"]) for event in exported]
        wanted = {int(self.events[action]["id"]): action for action in expected}
        known = {int(event["id"]): action for action, event in self.events.items()}
        faults = [f"it lacks: {wanted[number]}" for number in wanted if number not in ids]
        faults += [
            f"it should not hold: {known.get(number, f'event {number}')}"
            for number in ids
            if number not in wanted
        ]
        if len(ids) != len(set(ids)):
            faults.append("it holds an event twice")
        return faults


def _held(event: Event) -> float:
    """Return the seconds from a delivery's trace to its settlement."""
    settled_at, recorded_at = (
        datetime.fromisoformat(event[name]) for name in ("settled_at", "recorded_at")
    )
    return max((settled_at - recorded_at).total_seconds(), 0)


def listed(actions: Iterable[Action]) -> str:
    """Return actions as lines to follow an error's text."""
    return "".join(f"\n  - {action}" for action in actions)
