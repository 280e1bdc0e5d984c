"""Acts of the demo's roles, and what may have caused what, found without any clock.

The demo judges the service by this: a plain graph walk over actions that it carried out itself.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Action:
    """One publish or delivery, as both the demo and the service can name it.

    ``type`` is ``published`` or ``received``; ``queue`` is None for a publish. Payloads are unique
    to a message, so that no two actions are equal.
    """

    role: str
    type: str
    exchange: str
    queue: str | None
    payload: str

    def __str__(self) -> str:
        where = self.exchange or "the default exchange"
        what = f"to {where}" if self.queue is None else f"from {self.queue}"
        return f"{self.role} {self.type} {what}: {self.payload}"


class History:
    """Actions in the order in which each role took them, with their direct predecessors."""

    def __init__(self) -> None:
        self._predecessors: dict[Action, list[Action]] = {}
        self._last_of_role: dict[str, Action] = {}
        self._publish_of: dict[str, Action] = {}
        self._rejection_of: dict[str, Action] = {}

    def __len__(self) -> int:
        return len(self._predecessors)

    @property
    def actions(self) -> list[Action]:
        """All of them; each comes after its causes."""
        return list(self._predecessors)

    def published(self, role: str, exchange: str, payload: str) -> Action:
        """Note that a role is about to hand a message to an exchange."""
        action = Action(role, "published", exchange, None, payload)
        self._publish_of[payload] = action
        return self._add(action, [])

    def received(self, role: str, exchange: str, queue: str, payload: str) -> Action:
        """Note that a role was handed a message; ``exchange`` as the delivery names it.

        Whoever rejected it has led to that, too: its dead letter is what is handed over then.
        """
        causes = [self._publish_of[payload]]
        if payload in self._rejection_of:
            causes.append(self._rejection_of[payload])
        return self._add(Action(role, "received", exchange, queue, payload), causes)

    def rejected(self, delivery: Action) -> None:
        """Note that a role is about to reject what it was handed."""
        self._rejection_of[delivery.payload] = delivery

    def is_rejected(self, delivery: Action) -> bool:
        """Tell whether a role has rejected this delivery."""
        return self._rejection_of.get(delivery.payload) == delivery

    def cause(self, action: Action) -> Action | None:
        """Return the publish behind a delivery; None for a publish."""
        return self._publish_of[action.payload] if action.type == "received" else None

    def _add(self, action: Action, causes: list[Action]) -> Action:
        before = self._last_of_role.get(action.role)
        self._predecessors[action] = causes + ([before] if before else [])
        self._last_of_role[action.role] = action
        return action

    def past(self, action: Action) -> set[Action]:
        """Return the action and everything that may have led to it."""
        found = {action}
        waiting = [action]
        while waiting:
            for predecessor in self._predecessors[waiting.pop()]:
                if predecessor not in found:
                    found.add(predecessor)
                    waiting.append(predecessor)
        return found

    def chain(self, first: Action, last: Action) -> list[Action]:
        """Return every action that ``first`` may have led to and that may have led to ``last``."""
        return [
            action
            for action in self.actions
            if action in self.past(last) and first in self.past(action)
        ]
