"""Causes that a publish names: edges, and what is said of them in numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from app.tracker.events import Edge, NamedEvent, Reference
from app.tracker.fingerprint import has_broker_headers
from app.tracker.identity import SharedPlaces, way_between
from app.tracker.links.memory import LinkCount, LinkMemory
from app.tracker.links.names import Key, Names
from app.tracker.links.rules import Rules
from app.tracker.participants import Participant
from app.tracker.records import Record
from model.words import EdgeKind, Way

# An enum's member by its name takes three times as long as a global.
_KNOWN, _HIDDEN = Way.known, Way.hidden
_KINDS = tuple(EdgeKind)  # by number, as those of rules


class Linker:
    """The rules of a trace, and the events that they may speak of."""

    def __init__(
        self,
        rules: Rules,
        most: int,
        numbered: Callable[[int], Participant | None],
        stamped: Callable[[], int],
        places: SharedPlaces,
    ) -> None:
        """Remember at most ``most`` events.

        ``numbered`` gives a participant by its number, ``stamped`` how many events there were.
        """
        self.read = rules.read
        self._rules = rules
        self._memory = LinkMemory(most)
        self.note = self._memory.note
        self._most = most
        self._numbered = numbered
        self._stamped = stamped
        self._since: dict[str, int] = {}  # how many events there were before a rule held, if any
        self._places = places
        self.counts: dict[str, LinkCount] = {}

    @property
    def has_forgotten(self) -> bool:
        """Tell whether something that could have been named had to make room."""
        return self._memory.has_forgotten

    @property
    def young(self) -> dict[str, int]:
        """The rules that hold since not long ago, and how many events there were before."""
        return {name: since for name, since in self._since.items() if self._is_young(name)}

    def take_up(self, rules: Rules) -> None:
        """Go by other rules from now on. What is counted for a rule goes with it."""
        before = {rule.name: rule for rule in self._rules.rules}
        kept = {rule.name for rule in rules.rules if before.get(rule.name) == rule}
        stamped = self._stamped()
        self.counts = {name: count for name, count in self.counts.items() if name in kept}
        since = {rule.name: stamped for rule in rules.rules if stamped and rule.name not in kept}
        self._since = {name: at for name, at in self.young.items() if name in kept} | since
        self._rules, self.read = rules, rules.read

    def restore(
        self,
        counts: dict[str, LinkCount],
        named: Iterable[NamedEvent],
        young: dict[str, int],
        *,
        has_forgotten: bool,
    ) -> None:
        """Go on after a restart."""
        self.counts = counts
        self._since = young
        self._memory.restore(named, has_forgotten=has_forgotten)

    @property
    def reads_bodies(self) -> bool:
        """Tell whether messages' bodies are looked into."""
        return self._rules.read_bodies

    def read_bodies_again(self) -> None:
        """Note that bodies were not looked into until now: such rules hold from here on."""
        if stamped := self._stamped():
            rules = self._rules.rules
            self._since |= {each.name: stamped for each in rules if each.looks_into_bodies}

    def names_of(self, record: Record, message: Reference) -> Names:
        """The names in a delivery's message; ``message`` is the publish behind it.

        That has said it already, unless the broker has changed something on the way.
        """
        if message.names is None or has_broker_headers(record):
            return self.read(record)
        return message.names

    def edges(self, names: Names, publisher: Participant) -> tuple[Edge, ...]:
        """The causes that a publish names, as far as they are known, each once for each rule.

        Those that are not are counted.
        """
        found: list[Edge] = []
        rules, memory, number = self._rules.rules, self._memory, publisher.number
        for each, key in names.causes:
            rule = rules[each]
            event = memory.own(key, number)  # nearly always
            if event is None:
                event, _ = memory.of_others(key, publisher.identity.place, self._place_of)
            is_ambiguous = rule.alone and memory.is_ambiguous(key)
            if event is None or is_ambiguous:
                if rule.sure:
                    self._count_missing(rule.name, is_ambiguous=is_ambiguous)
                continue
            way = _KNOWN if event.participant == number else self._way(event, publisher)
            count = self.counts.get(rule.name) or self._count(rule.name)
            count.found += 1
            if way is _KNOWN:
                count.known += 1
            elif way is _HIDDEN:
                count.hidden += 1
            found.append(Edge(event.reference, rule.name, _KINDS[rule.kind], way))
        if len(found) > 1:
            first = {(id(edge.cause), edge.rule): edge for edge in reversed(found)}
            found = [edge for edge in found if first[id(edge.cause), edge.rule] is edge]
        return tuple(found)

    def wanted(self, names: Names) -> list[Key]:
        """The keys by which a publish surely names a cause."""
        return [key for rule, key in names.causes if self._rules[rule].sure]

    def is_early(self, names: Names, number: int, place: str | None) -> bool:
        """Tell whether a publish names what no event of its participant or place is known of.

        ``number`` is the participant's, 0 if it has not acted yet.
        """
        return any(
            not self._memory.find(key, number, place, self._place_of)[1]
            for key in self.wanted(names)
        )

    def forget_before(self, event_id: int) -> None:
        """Drop what retention has removed: events with smaller ids."""
        self._memory.forget_before(event_id)

    def _place_of(self, number: int) -> str | None:
        participant = self._numbered(number)
        return None if participant is None else participant.identity.place

    def _count(self, rule: str) -> LinkCount:
        count = self.counts.get(rule)
        if count is None:
            count = self.counts[rule] = LinkCount()
        return count

    def _is_young(self, rule: str) -> bool:
        """Tell whether what a rule's messages name may have come before it held.

        For about as long as a message is remembered that it does read.
        """
        since = self._since.get(rule)
        return since is not None and self._stamped() - since < self._most

    def _count_missing(self, rule: str, *, is_ambiguous: bool) -> None:
        count = self._count(rule)
        if is_ambiguous:
            count.ambiguous += 1
        elif self._is_young(rule):
            count.early += 1
        elif self.has_forgotten:
            count.forgotten += 1
        else:
            count.unseen += 1

    def _way(self, event: NamedEvent, publisher: Participant) -> Way:
        """The way in which a publisher knows of another's event that it names."""
        if self._is_past_of(event, publisher):
            return _KNOWN
        owner = self._numbered(event.participant)
        if owner is None:
            return _HIDDEN
        return way_between(owner.identity, publisher.identity, self._places)

    def _is_past_of(self, event: NamedEvent, publisher: Participant) -> bool:
        """Whether another's event happened before whatever a participant does next, unlinked."""
        owner = self._numbered(event.participant)
        if owner is None:  # its interval may be another's by now
            return event.reference.clock.leq(publisher.stamp)
        return publisher.stamp.height_at(owner.interval) >= event.height
