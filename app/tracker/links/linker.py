"""Causes that a publish names: edges, and their counts.

Headers say which message. Which delivery of it led to a publish, and which of several messages with
one id, is known as far as deliveries can be told apart. In this order, these are meant:

1. deliveries on the publish's channel, else on its connection, else to its participant, and of a
   copy that a channel was handed again the last;
2. for a reply, those without one yet (and likewise for a message that is published again);
3. without deliveries to the participant, its own publishes;
4. else deliveries to its program, where the policy takes programs apart;
5. else the publish, as the id came by a way outside the broker.

One is the cause. Of several deliveries of one message, its publish is, and each of them may be. So
is the first of several messages where all others repeat it, as retries do. Else none of several
messages is for certain: that is `ambiguous`. Where several users publish under one id, channels do
not decide: using another user's id makes nobody's message a cause.

At a place that several programs share, a delivery to somebody else may be the cause, as programs
have several connections, and perhaps no name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from app.tracker.events import Edge, NamedEvent, Reference
from app.tracker.identity import Identity, SharedPlaces
from app.tracker.links.memory import (
    LOOK_BACK,
    LinkCount,
    LinkMemory,
    are_of_one_message,
    first_published,
    message_identity,
)
from app.tracker.links.names import Key, Names
from app.tracker.links.rule import Rule
from app.tracker.links.rules import Rules
from app.tracker.participants import LiveParticipant, awareness_from
from app.tracker.records import Record
from model.words import Awareness, EdgeKind

# An enum's member by its name takes three times as long as a global.
_WAY_KNOWN, _WAY_MISSED, _WAY_HIDDEN = Awareness.known, Awareness.missed, Awareness.hidden
_KINDS = tuple(EdgeKind)  # by number, as those of rules
# Candidates of one key: each is stored, and in the publish's clock.
MOST_CANDIDATES = 8
# A message is answered once, and published again once, for each handover.
_SINGLE = (EdgeKind.reply, EdgeKind.forward)


class Linker:
    """The rules of a trace, and the events that messages may name."""

    def __init__(
        self,
        rules: Rules,
        limit: int,
        numbered: Callable[[int], LiveParticipant | None],
        stamped: Callable[[], int],
        places: SharedPlaces,
    ) -> None:
        """Remember at most ``limit`` events.

        ``numbered`` gives a participant by its number, ``stamped`` the number of events so far.
        """
        self.unread: Counter[str] = Counter()
        self._go_by(rules)
        self.memory = LinkMemory(limit)
        self.forget_before = self.memory.forget_before
        self._limit = limit
        self._numbered = numbered
        self._stamped = stamped
        self._rule_starts: dict[str, int] = {}  # the number of events before a rule held, if any
        self._places = places
        self.counts: dict[str, LinkCount] = {}

    @property
    def has_forgotten(self) -> bool:
        """Tell whether an event that could be named had to make room."""
        return self.memory.has_forgotten

    @property
    def young(self) -> dict[str, int]:
        """The rules that do not hold for long yet, with the number of events before."""
        return {name: count for name, count in self._rule_starts.items() if self._is_young(name)}

    def take_up(self, rules: Rules) -> None:
        """Go by other rules from now on. The counts of dropped rules go."""
        old_rules = {rule.name: rule for rule in self._rules.rules}
        unchanged = {rule.name for rule in rules.rules if old_rules.get(rule.name) == rule}
        stamped = self._stamped()
        self.counts = {name: count for name, count in self.counts.items() if name in unchanged}
        starts = {name: count for name, count in self.young.items() if name in unchanged}
        if stamped:
            starts |= {rule.name: stamped for rule in rules.rules if rule.name not in unchanged}
        self._rule_starts = starts
        self._go_by(rules)

    def _go_by(self, rules: Rules) -> None:
        self._rules, self.read, self.with_moved = rules, rules.read, rules.with_moved
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
        self.memory.restore(events, has_forgotten=has_forgotten)

    @property
    def reads_bodies(self) -> bool:
        return self._rules.read_bodies

    def read_bodies_again(self) -> None:
        """Note that bodies were not read until now: such rules hold from here on."""
        if stamped := self._stamped():
            rules = self._rules.rules
            self._rule_starts |= {rule.name: stamped for rule in rules if rule.looks_into_bodies}

    def publishes_like(self, record: Record) -> tuple[list[Reference], bool]:
        """Publishes with a message's id and body, newest first; and whether these are all.

        None are known without an id, or where bodies are not read.
        """
        key = self._rules.message_key(record)
        if key is None:
            return [], False
        crowded = self.memory.crowd_of(key, 0)
        events = self.memory.newest(key) if crowded is None else crowded[1]
        publishes = [event.reference for event in events if not event.is_delivery]
        return publishes, not self.has_forgotten and not self.young

    def edges(
        self, names: Names, publisher: LiveParticipant, channel_key: int, connection: str
    ) -> tuple[Edge, ...]:
        """The causes that a publish names, each once for each rule, and candidates.

        Unknown causes are counted.
        """
        edges: list[Edge] = []
        links: list[tuple[list[NamedEvent], EdgeKind]] = []
        rules, memory, number = self._rules.rules, self.memory, publisher.number
        for rule_number, key in names.causes:
            rule = rules[rule_number]
            kind = _KINDS[rule.kind]
            namesakes = memory.newest(key)
            if rule.joint:
                edges += self._joint_edges(rule, namesakes, publisher)
                continue
            local = [
                event
                for event in namesakes
                if event.participant == number or event.connection == connection
            ]
            if len(local) > 1:
                local = [event for event in local if event.is_delivery] or local
            if len(local) == 1 and not rule.alone and _are_few(namesakes):  # nearly always
                (event,) = candidates = local
                way = (
                    _WAY_KNOWN if event.participant == number else self._awareness(event, publisher)
                )
                edges.append(Edge(event.reference, rule.name, kind, way))
            else:
                candidates, cause = self._resolve(
                    rule, key, namesakes, local, publisher, channel_key, connection
                )
                candidates = _newest_of_each(candidates, number)
                if cause is None:
                    edges += self._candidates(rule, candidates, publisher)
                    if candidates:
                        self._count(rule.name).ambiguous += 1
                    elif rule.sure:
                        self._count_missing(rule.name)
                    continue
                way = self._awareness_of(cause, candidates, publisher)
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

    def _joint_edges(
        self, rule: Rule, events: list[NamedEvent], publisher: LiveParticipant
    ) -> list[Edge]:
        """An edge from each message that has a key: from its newest delivery, if it has any."""
        causes: dict[int, NamedEvent] = {}
        for event in sorted(events, key=lambda event: not event.is_delivery):
            causes.setdefault(message_identity(event), event)
        edges, count = [], self._count(rule.name) if causes else LinkCount()
        for event in causes.values():
            way = self._awareness(event, publisher)
            edges.append(Edge(event.reference, rule.name, _KINDS[rule.kind], way))
            count.found += 1
            count.known += way is _WAY_KNOWN
            count.hidden += way is _WAY_HIDDEN
        return edges

    def sure_keys(self, names: Names) -> list[Key]:
        """The keys by which a publish surely names a cause."""
        return [key for rule, key in names.causes if self._rules[rule].sure]

    def is_early(self, names: Names, number: int, place: str | None) -> bool:
        """Tell whether a publish names an event that its participant and place have not met.

        ``number`` is the participant's, 0 if it has not acted yet.
        """
        return not all(self._is_near(key, number, place) for key in self.sure_keys(names))

    def _is_near(self, key: Key, number: int, place: str | None) -> bool:
        crowded = self.memory.crowd_of(key, number)
        if crowded is not None and crowded[0]:
            return True
        return any(
            event.participant == number
            or (
                place is not None
                and (identity := self._identity_of(event)) is not None
                and identity.place == place
            )
            for event in self.memory.newest(key)
        )

    def _resolve(
        self,
        rule: Rule,
        key: Key,
        events: list[NamedEvent],
        local: list[NamedEvent],
        publisher: LiveParticipant,
        channel_key: int,
        connection: str,
    ) -> tuple[list[NamedEvent], Reference | None]:
        """The events that may be meant by a key, newest first, and the certain cause, if any.

        ``events`` are the newest with the key, ``local`` the publisher's or its connection's.
        """
        publishes = [event for event in events if not event.is_delivery]
        is_all = True
        crowded = self.memory.crowd_of(key, publisher.number)
        if crowded is not None:
            acts, publishes = crowded
            local = [event for event in acts if event.is_delivery] or local or acts
            is_all = 0 < len(acts) <= LOOK_BACK
        is_alone = not (rule.alone and self.memory.is_ambiguous(key))
        owners = map(self._identity_of, publishes)
        is_copied = len({owner and owner.user for owner in owners}) > 1
        if not local or is_copied:
            neighbours = [event for event in events if self._is_beside(event, publisher)]
            acts = [event for event in neighbours if self._is_of_program(event, publisher)]
            local += [event for event in acts if event not in local]
            local = [event for event in local if event.is_delivery] or local
            if not local:
                return self._resolve_elsewhere(rule, key, events, publishes, neighbours)
        candidates = local
        if local[0].is_delivery and (not is_copied or _are_of_one(local)):
            on_channel = [event for event in local if event.channel_key == channel_key]
            on_connection = [event for event in local if event.connection == connection]
            candidates = on_channel or on_connection or local
        if _KINDS[rule.kind] in _SINGLE:
            candidates = _open_events(candidates, local, 1 << rule.kind)
        if is_all and is_alone and len(candidates) == 1:
            return candidates, candidates[0].reference
        if not is_alone:
            return candidates, None
        if _are_of_one(candidates) if is_all else not self.memory.is_ambiguous(key):
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
        """Do what `_resolve` does where the publisher's program has no event with the key."""
        handed = [event for event in neighbours if event.is_delivery]
        if self.memory.is_ambiguous(key):
            is_all = len(events) < LOOK_BACK and not rule.alone
            return [*handed, *publishes], first_published(events, events) if is_all else None
        cause = _message_of(events)
        return (events if cause is None else handed), cause

    def _candidates(
        self, rule: Rule, events: list[NamedEvent], publisher: LiveParticipant
    ) -> list[Edge]:
        return [
            Edge(event.reference, rule.name, EdgeKind.candidate, self._awareness(event, publisher))
            for event in events
        ]

    def _awareness_of(
        self, cause: Reference, acts: list[NamedEvent], publisher: LiveParticipant
    ) -> Awareness:
        """The way in which a publisher knows of a certain cause, or of ``acts`` of its message."""
        ways = [self._awareness(event, publisher) for event in acts]
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
        """Tell whether a rule's messages may name events from before it held."""
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

    def _awareness(self, event: NamedEvent, publisher: LiveParticipant) -> Awareness:
        if event.participant == publisher.number or self._is_past_of(event, publisher):
            return _WAY_KNOWN
        owner = self._numbered(event.participant)
        if owner is None:
            return _WAY_HIDDEN
        return awareness_from(owner, publisher, self._places)

    def _is_past_of(self, event: NamedEvent, publisher: LiveParticipant) -> bool:
        """Tell whether another's event is in a participant's past without a link."""
        owner = self._numbered(event.participant)
        if owner is None:  # its interval may be another's by now
            return event.reference.clock.leq(publisher.stamp)
        return publisher.stamp.height_at(owner.interval) >= event.height


def _are_few(events: list[NamedEvent]) -> bool:
    """Tell whether these are all events of a key, with at most one publish."""
    if len(events) < 3:
        return True
    return len(events) < LOOK_BACK and sum(not event.is_delivery for event in events) < 2


def _are_of_one(events: list[NamedEvent]) -> bool:
    return all(are_of_one_message(events[0], event) for event in events[1:])


def _message_of(events: list[NamedEvent]) -> Reference | None:
    return next((event.message for event in events if isinstance(event.message, Reference)), None)


def _newest_of_each(events: list[NamedEvent], number: int) -> list[NamedEvent]:
    """All events of the participant, and the newest of each other, up to `MOST_CANDIDATES`."""
    newest: dict[object, NamedEvent] = {}
    for event in events:
        newest.setdefault(id(event) if event.participant == number else (event.participant,), event)
    return [*newest.values()][:MOST_CANDIDATES]


def _open_events(
    candidates: list[NamedEvent], local: list[NamedEvent], kind: int
) -> list[NamedEvent]:
    """Candidates that have not led to a publish of this kind yet, else all ``local`` events."""
    unlinked = [event for event in candidates if not event.led_to & kind]
    return unlinked or (candidates if all(event.led_to & kind for event in local) else local)
