"""Causes that a publish names: edges, and what is said of them in numbers.

Headers say which message. Which delivery of it led to a publish, and which of several messages with
one id, is known as far as deliveries can be told apart. In this order, those are meant:

1. on the publish's channel, else on its connection, else to its participant, and of a copy that a
   channel was handed again the last;
2. for a reply, those that were not answered yet (and likewise of what is published again);
3. where the participant was handed none, what it published itself;
4. else those to its program, where the policy takes programs apart;
5. else the publish, as the id came by a way outside the broker.

One is the cause. Of several deliveries of one message, the message is, that is its publish, and
each of them may be. So is the first of several messages where all others are this one, published
again, as a retry is: whichever is meant, it led there. Else none of several messages is for
certain: that is `ambiguous`. Whoever uses an id that another user's messages have is no reason to
take its message for the cause: of what several users publish under one id, channels do not decide.

At a place that several programs share, a delivery to somebody else there may be, as programs have
several connections, and perhaps no name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from app.tracker.events import Edge, NamedEvent, Reference
from app.tracker.fingerprint import has_broker_headers
from app.tracker.identity import Identity, SharedPlaces
from app.tracker.links.memory import (
    LOOK_BACK,
    LinkCount,
    LinkMemory,
    are_of_one_message,
    first_published,
)
from app.tracker.links.names import Key, Names
from app.tracker.links.rule import Rule
from app.tracker.links.rules import Rules
from app.tracker.participants import LiveParticipant, way_from
from app.tracker.records import Record
from model.words import EdgeKind, Way

# An enum's member by its name takes three times as long as a global.
_WAY_KNOWN, _WAY_MISSED, _WAY_HIDDEN = Way.known, Way.missed, Way.hidden
_KINDS = tuple(EdgeKind)  # by number, as those of rules
# Most events that one key may mean, each in the publish's clock and stored as its candidate.
MOST_CANDIDATES = 8
# A message is answered once, and published again once, for each time that it is handed over.
_SINGLE = (EdgeKind.reply, EdgeKind.forward)


class Linker:
    """The rules of a trace, and the events that they may speak of."""

    def __init__(
        self,
        rules: Rules,
        limit: int,
        numbered: Callable[[int], LiveParticipant | None],
        stamped: Callable[[], int],
        places: SharedPlaces,
    ) -> None:
        """Remember at most ``limit`` events.

        ``numbered`` gives a participant by its number, ``stamped`` how many events there were.
        """
        self.unread: Counter[str] = Counter()
        self._go_by(rules)
        self._memory = LinkMemory(limit)
        self.note, self.forget_before = self._memory.note, self._memory.forget_before
        self._limit = limit
        self._numbered = numbered
        self._stamped = stamped
        self._rule_starts: dict[
            str, int
        ] = {}  # how many events there were before a rule held, if any
        self._places = places
        self.counts: dict[str, LinkCount] = {}

    @property
    def has_forgotten(self) -> bool:
        """Tell whether something that could have been named had to make room."""
        return self._memory.has_forgotten

    @property
    def young(self) -> dict[str, int]:
        """The rules that hold since not long ago, and how many events there were before."""
        return {name: count for name, count in self._rule_starts.items() if self._is_young(name)}

    def take_up(self, rules: Rules) -> None:
        """Go by other rules from now on. What is counted for a rule goes with it."""
        old_rules = {rule.name: rule for rule in self._rules.rules}
        unchanged = {rule.name for rule in rules.rules if old_rules.get(rule.name) == rule}
        stamped = self._stamped()
        self.counts = {name: count for name, count in self.counts.items() if name in unchanged}
        new_rules = {
            rule.name: stamped for rule in rules.rules if stamped and rule.name not in unchanged
        }
        self._rule_starts = {
            name: count for name, count in self.young.items() if name in unchanged
        } | new_rules
        self._go_by(rules)

    def _go_by(self, rules: Rules) -> None:
        self._rules, self.read = rules, rules.read
        rules.refused = self.unread

    def restore(
        self,
        counts: dict[str, LinkCount],
        unread: Mapping[str, int],
        events: Iterable[NamedEvent],
        young: dict[str, int],
        *,
        has_forgotten: bool,
    ) -> None:
        self.counts = counts
        self.unread.update(unread)
        self._rule_starts = young
        self._memory.restore(events, has_forgotten=has_forgotten)

    @property
    def reads_bodies(self) -> bool:
        return self._rules.read_bodies

    def read_bodies_again(self) -> None:
        """Note that bodies were not looked into until now: such rules hold from here on."""
        if stamped := self._stamped():
            rules = self._rules.rules
            self._rule_starts |= {rule.name: stamped for rule in rules if rule.looks_into_bodies}

    def names_of(self, record: Record, message: Reference) -> Names:
        """The names in a delivery's message; ``message`` is the publish behind it.

        That has said it already, unless the broker has changed something on the way.
        """
        if message.names is None or has_broker_headers(record):
            return self.read(record)
        return message.names

    def published(self, record: Record) -> tuple[list[Reference], bool]:
        """Publishes with a message's id and body, newest first; and whether there were no others.

        Without an id, or where bodies are not looked into, none are known.
        """
        key = self._rules.message_key(record)
        if key is None:
            return [], False
        crowded = self._memory.crowded(key, 0)
        events = self._memory.newest(key) if crowded is None else crowded[1]
        publishes = [event.reference for event in events if not event.is_delivery]
        return publishes, not self.has_forgotten and not self.young

    def edges(
        self, names: Names, publisher: LiveParticipant, channel_key: int, connection: str
    ) -> tuple[Edge, ...]:
        """The causes that a publish names, as far as they are known, each once for each rule.

        And those that may be, where several are meant. Those that are not known are counted.
        """
        edges: list[Edge] = []
        links: list[tuple[list[NamedEvent], EdgeKind]] = []
        rules, memory, number = self._rules.rules, self._memory, publisher.number
        for rule_number, key in names.causes:
            rule = rules[rule_number]
            kind = _KINDS[rule.kind]
            namesakes = memory.newest(key)
            own_events = [
                event
                for event in namesakes
                if event.participant == number or event.connection == connection
            ]
            if len(own_events) > 1:
                own_events = [event for event in own_events if event.is_delivery] or own_events
            if len(own_events) == 1 and not rule.alone and _are_few(namesakes):  # nearly always
                (event,) = candidates = own_events
                way = _WAY_KNOWN if event.participant == number else self._way(event, publisher)
                edges.append(Edge(event.reference, rule.name, kind, way))
            else:
                publisher_place = publisher, channel_key, connection
                candidates, cause = self._resolve(
                    rule, key, namesakes, own_events, *publisher_place
                )
                candidates = _newest_of_each(candidates, number)
                if cause is None:
                    edges += self._candidates(rule, candidates, publisher)
                    if candidates:
                        self._count(rule.name).ambiguous += 1
                    elif rule.sure:
                        self._count_missing(rule.name)
                    continue
                way = self._way_to(cause, candidates, publisher)
                edges.append(Edge(cause, rule.name, kind, way))
                if candidates and candidates[0].reference is not cause:
                    edges += self._candidates(rule, candidates, publisher)
            count = self.counts.get(rule.name) or self._count(rule.name)
            count.found += 1
            if way is _WAY_KNOWN:
                count.known += 1
            elif way is _WAY_HIDDEN:
                count.hidden += 1
            if kind in _SINGLE:
                links.append((candidates, kind))
        for events, kind in links:
            for event in events:
                if event.is_delivery:
                    event.led_to |= 1 << kind
        if len(edges) > 1:
            first = {(id(edge.cause), edge.rule): edge for edge in reversed(edges)}
            edges = [edge for edge in edges if first[id(edge.cause), edge.rule] is edge]
        return tuple(edges)

    def sure_keys(self, names: Names) -> list[Key]:
        """The keys by which a publish surely names a cause."""
        return [key for rule, key in names.causes if self._rules[rule].sure]

    def is_early(self, names: Names, number: int, place: str | None) -> bool:
        """Tell whether a publish names what no event of its participant or place is known of.

        ``number`` is the participant's, 0 if it has not acted yet.
        """
        return not all(self._is_near(key, number, place) for key in self.sure_keys(names))

    def _is_near(self, key: Key, number: int, place: str | None) -> bool:
        crowded = self._memory.crowded(key, number)
        if crowded is not None and crowded[0]:
            return True
        return any(
            event.participant == number
            or (
                place is not None
                and (identity := self._identity_of(event)) is not None
                and identity.place == place
            )
            for event in self._memory.newest(key)
        )

    def _resolve(
        self,
        rule: Rule,
        key: Key,
        events: list[NamedEvent],
        own_events: list[NamedEvent],
        publisher: LiveParticipant,
        channel_key: int,
        connection: str,
    ) -> tuple[list[NamedEvent], Reference | None]:
        """The events that may be meant by a key, newest first, and the certain cause, if any.

        ``events`` are the newest with the key, ``own_events`` the publisher's or its connection's.
        """
        publishes = [event for event in events if not event.is_delivery]
        is_all = True
        crowded = self._memory.crowded(key, publisher.number)
        if crowded is not None:
            participant_events, publishes = crowded
            own_events = (
                [event for event in participant_events if event.is_delivery]
                or own_events
                or participant_events
            )
            is_all = len(participant_events) <= LOOK_BACK and bool(participant_events)
        is_alone = not (rule.alone and self._memory.is_ambiguous(key))
        is_copied = (
            len({identity and identity.user for identity in map(self._identity_of, publishes)}) > 1
        )
        if not own_events or is_copied:
            neighbours = [event for event in events if self._is_beside(event, publisher)]
            participant_events = [
                event for event in neighbours if self._is_of_program(event, publisher)
            ]
            own_events += [event for event in participant_events if event not in own_events]
            own_events = [event for event in own_events if event.is_delivery] or own_events
            if not own_events:
                return self._resolve_elsewhere(rule, key, events, publishes, neighbours)
        candidates = own_events
        if own_events[0].is_delivery and (not is_copied or _are_of_one(own_events)):
            on_channel = [event for event in own_events if event.channel_key == channel_key]
            candidates = (
                on_channel
                or [event for event in own_events if event.connection == connection]
                or own_events
            )
        if _KINDS[rule.kind] in _SINGLE:
            candidates = _open_events(candidates, own_events, 1 << rule.kind)
        if is_all and is_alone and len(candidates) == 1:
            return candidates, candidates[0].reference
        if not is_alone:
            return candidates, None
        if _are_of_one(candidates) if is_all else not self._memory.is_ambiguous(key):
            return candidates, _message_of(candidates)
        return candidates, first_published(candidates, events) if is_all else None

    def _resolve_elsewhere(
        self,
        rule: Rule,
        key: Key,
        events: list[NamedEvent],
        publishes: list[NamedEvent],
        neighbours: list[NamedEvent],
    ) -> tuple[list[NamedEvent], Reference | None]:
        """Take the place of `_meant` where the publisher's program has no event with the key."""
        handed = [event for event in neighbours if event.is_delivery]
        if self._memory.is_ambiguous(key):
            is_all = len(events) < LOOK_BACK and not rule.alone
            return [*handed, *publishes], first_published(events, events) if is_all else None
        cause = _message_of(events)
        return (events if cause is None else handed), cause

    def _candidates(
        self, rule: Rule, events: list[NamedEvent], publisher: LiveParticipant
    ) -> list[Edge]:
        return [
            Edge(event.reference, rule.name, EdgeKind.candidate, self._way(event, publisher))
            for event in events
        ]

    def _way_to(
        self, cause: Reference, candidates: list[NamedEvent], publisher: LiveParticipant
    ) -> Way:
        """The way in which a publisher knows of a certain cause, or of what may be beside it."""
        ways = [self._way(event, publisher) for event in candidates]
        if _WAY_KNOWN in ways or cause.clock.leq(publisher.stamp):
            return _WAY_KNOWN
        return _WAY_MISSED if _WAY_MISSED in ways else _WAY_HIDDEN

    def _is_beside(self, event: NamedEvent, publisher: LiveParticipant) -> bool:
        """Tell whether another's event is of the same user at the same place."""
        identity, owner = publisher.identity, self._identity_of(event)
        if owner is None or identity.place is None:
            return False
        return (identity.user, identity.place) == (owner.user, owner.place)

    def _is_of_program(self, event: NamedEvent, publisher: LiveParticipant) -> bool:
        """Tell whether an event beside a publisher is certainly of its program."""
        identity, owner = publisher.identity, self._identity_of(event)
        if owner is None or identity.place is None or not self._places.is_shared(identity.place):
            return owner is not None
        return identity.client is not None and identity.client == owner.client

    def _identity_of(self, event: NamedEvent) -> Identity | None:
        participant = self._numbered(event.participant)
        return None if participant is None else participant.identity

    def _count(self, rule: str) -> LinkCount:
        count = self.counts.get(rule)
        if count is None:
            count = self.counts[rule] = LinkCount()
        return count

    def _is_young(self, rule: str) -> bool:
        """Tell whether what a rule's messages name may have come before it held.

        For about as long as a message is remembered that it does read.
        """
        count = self._rule_starts.get(rule)
        return count is not None and self._stamped() - count < self._limit

    def _count_missing(self, rule: str) -> None:
        count = self._count(rule)
        if self._is_young(rule):
            count.early += 1
        elif self.has_forgotten:
            count.forgotten += 1
        else:
            count.unseen += 1

    def _way(self, event: NamedEvent, publisher: LiveParticipant) -> Way:
        """The way in which a publisher knows of an event that it names."""
        if event.participant == publisher.number or self._is_past_of(event, publisher):
            return _WAY_KNOWN
        owner = self._numbered(event.participant)
        if owner is None:
            return _WAY_HIDDEN
        return way_from(owner, publisher, self._places)

    def _is_past_of(self, event: NamedEvent, publisher: LiveParticipant) -> bool:
        """Tell whether another's event is before all that a participant does next, unlinked."""
        owner = self._numbered(event.participant)
        if owner is None:  # its interval may be another's by now
            return event.reference.clock.leq(publisher.stamp)
        return publisher.stamp.height_at(owner.interval) >= event.height


def _are_few(events: list[NamedEvent]) -> bool:
    """Tell whether these are all that have a key, and of one publish at most."""
    if len(events) < 3:
        return True
    return len(events) < LOOK_BACK and sum(not event.is_delivery for event in events) < 2


def _are_of_one(events: list[NamedEvent]) -> bool:
    """Tell whether all are of one message."""
    return all(are_of_one_message(events[0], event) for event in events[1:])


def _message_of(events: list[NamedEvent]) -> Reference | None:
    """The publish of a message that was handed over several times, where it is known."""
    return next((event.message for event in events if isinstance(event.message, Reference)), None)


def _newest_of_each(events: list[NamedEvent], number: int) -> list[NamedEvent]:
    """Of what is meant all of a participant, and of all others the newest, as many as may be."""
    newest: dict[object, NamedEvent] = {}
    for event in events:
        newest.setdefault(id(event) if event.participant == number else (event.participant,), event)
    return [*newest.values()][:MOST_CANDIDATES]


def _open_events(
    candidates: list[NamedEvent], own_events: list[NamedEvent], kind: int
) -> list[NamedEvent]:
    """Of events that each lead to one publish of a kind, those that have not yet.

    If all that are meant have, others may be meant that have not.
    """
    unlinked = [event for event in candidates if not event.led_to & kind]
    return unlinked or (
        candidates if all(event.led_to & kind for event in own_events) else own_events
    )
