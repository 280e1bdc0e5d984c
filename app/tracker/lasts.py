"""The last event of each channel, where channels share a participant that outlives them.

A service that opens a channel for each request is one participant under the policies `connection`
and `user`, and its channels would be remembered for ever. So retention removes, and the tracker
forgets, each channel whose events are all gone. With a participant for each channel the
participant's own last event says the same, and nothing is noted here.
"""

from __future__ import annotations

from app.tracker.events import Reference


class LastEvents:
    """Last events by their channel's key."""

    def __init__(self) -> None:
        # Plain ids as soon as the store has given them: a reference would keep its clock alive.
        self._ids: dict[int, int] = {}
        self._references: dict[int, Reference] = {}
        self._keys: dict[int, None] = {}

    def note(self, channel_key: int, event: Reference) -> None:
        self._references[channel_key] = event
        self._keys[channel_key] = None

    def restore(self, channel_key: int, event_id: int) -> None:
        self._ids[channel_key] = event_id

    def changes(self) -> list[int]:
        """Return the keys of the channels that were noted since the last call."""
        self._settle()
        keys, self._keys = list(self._keys), {}
        return keys

    def forget_before(self, event_id: int) -> set[int]:
        """Forget the channels whose last event has a smaller id, and return their keys."""
        self._settle()
        keys = {
            key
            for key, last in self._ids.items()
            if last < event_id and key not in self._references
        }
        for key in keys:
            del self._ids[key]
        return keys

    def _settle(self) -> None:
        stored = [(key, event.id) for key, event in self._references.items()]
        for key, event_id in stored:
            if event_id is not None:
                self._ids[key] = event_id
                del self._references[key]
