"""What a message says of itself and of its causes, under all rules of a trace at once.

Every rule is taken apart into probes: places whose values become keys, and what the keys are for.
A probe is triggered by one header, by one property, or by the body's type, so a message without any
of these is done after three looks. Rules that make the same keys of the same places share a probe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

from app.tracker.links import bodies
from app.tracker.links.expressions import (
    ENVELOPE,
    TOO_MANY,
    Expression,
    Source,
    values,
)
from app.tracker.links.names import NO_NAMES, Key, Names
from app.tracker.links.rule import Condition, Rule, RuleError
from app.tracker.links.takes import TAKES
from app.tracker.records import Publish, Record
from model.words import LinkKind

KEY_BYTES = 16
MOST_RULES = 200  # of a trace, the built-in ones among them
MOST_INDEXED = 100  # headers beyond those of the rules
LONGEST_HEADER = 255  # bytes, of a header's name in AMQP
MOST_KEYS = 64  # of one message, in each field of its names

NAMES_ITSELF, TOO_MANY_KEYS = "names itself", "too many keys"

# Under which the built-in rules' conversations are found, whichever carrier brought them.
CONVERSATION = "conversation"
MESSAGE_ID = "message_id"
_FIELDS = (MESSAGE_ID, "correlation_id", CONVERSATION)
HEADER = "header."

_BODY_ENDS = 512  # bytes of a body's beginning and of its end that tell it from others


def search_key(field: str, value: str) -> Key:
    """The key under which messages with this value are found.

    Fields are ``message_id``, ``correlation_id``, ``conversation`` and ``header.NAME``.

    :raises ValueError: for any other field.
    """
    if field not in _FIELDS and not (field.startswith(HEADER) and len(field) > len(HEADER)):
        raise ValueError(f"{field!r} is none of {', '.join(_FIELDS)} and {HEADER}NAME")
    return _digest(_prefix(field, 1) + value.encode("utf-8", "surrogatepass"))


def _prefix(space: str, parts: int) -> bytes:
    """What comes before the values in a digest; no two spaces' begin alike."""
    name = space.encode()
    return b"%d:%b%d:" % (len(name), name, parts)


def _framed(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part


def _digest(data: bytes) -> Key:
    return blake2b(data, digest_size=KEY_BYTES).digest()


def _ends(body: bytes) -> bytes:
    """What tells a body from others that have the same message id, in constant time."""
    return b"%d:%b%b" % (len(body), body[:_BODY_ENDS], body[-_BODY_ENDS:])


class _Message:
    """A message that is looked into."""

    __slots__ = ("_payload", "headers", "properties", "record", "refused")

    def __init__(
        self,
        record: Record,
        properties: dict[str, Any],
        headers: dict[str, Any],
        refused: Counter[str],
    ) -> None:
        self.record, self.properties, self.headers = record, properties, headers
        self.refused = refused

    def find(self, place: Expression) -> Any:
        """What stands at a place; None if nothing does."""
        source, tokens = place.source, place.tokens
        if source is Source.header:
            return self.headers.get(tokens[0]) if len(tokens) == 1 else place.find(self.headers)
        if source is Source.payload:
            return place.find(self.payload)
        name = tokens[0]
        if name not in ENVELOPE:
            return self.properties.get(name)
        if name == "exchange":
            return self.record.exchange
        return self.record.routing_keys[0] if self.record.routing_keys else None

    @property
    def payload(self) -> Any:
        """The body's JSON, parsed when first asked for."""
        try:
            return self._payload
        except AttributeError:
            self._payload: Any = bodies.parse(self.record.body, self.refused)
            return self._payload


class _Probe:
    """Places whose values become keys; what the keys are for is said by the other attributes."""

    __slots__ = (
        "body_begins",
        "causes",
        "found_by",
        "ids",
        "is_conversation",
        "needed",
        "parts",
        "prefix",
        "same_body",
        "take",
        "where",
    )

    def __init__(
        self,
        parts: tuple[Expression, ...],
        space: str,
        where: tuple[Condition, ...] = (),
        take: str | None = None,
        same_body: bool = False,
        body_begins: str = "",
    ) -> None:
        self.parts, self.where, self.same_body = parts, where, same_body
        # Headers of which one has to be there, to be quick about most messages.
        self.needed = tuple(
            frozenset(place.tokens[0] for place in each.of)
            for each in where
            if each.holds and all(place.source is Source.header for place in each.of)
        )
        self.prefix = _prefix(space, len(parts) + same_body)
        self.take = None if take is None else TAKES[take]
        self.body_begins = body_begins.encode()
        self.causes: tuple[int, ...] = ()  # numbers of rules
        self.ids = self.is_conversation = self.found_by = False

    def keys(self, message: _Message) -> list[Key]:
        """The keys that a message gives."""
        for headers in self.needed:
            if headers.isdisjoint(message.headers):
                return []
        for condition in self.where:
            if not condition.is_met(message.find):
                return []
        if self.body_begins and not message.record.body.startswith(self.body_begins):
            return []
        if len(self.parts) == 1 and not self.same_body:
            return [_digest(self.prefix + value) for value in self._values(0, message)]
        framed = [self.prefix]
        for number in range(len(self.parts)):
            found = self._values(number, message)
            if len(found) != 1:
                if found:
                    message.refused[TOO_MANY] += 1
                return []
            framed.append(_framed(found[0]))
        if self.same_body:
            framed.append(_framed(_ends(message.record.body)))
        return [_digest(b"".join(framed))]

    def _values(self, number: int, message: _Message) -> Sequence[bytes]:
        place = self.parts[number]
        of_table = place.source is not Source.payload
        found = values(message.find(place), message.refused, of_table=of_table)
        if self.take is None or number or not found:
            return found
        taken = (self.take(value.decode("utf-8", "replace")) for value in found)
        return [value.encode() for value in taken if value]


_Probes: TypeAlias = tuple[_Probe, ...]


class _Triggers:
    """The probes of publishes, or of deliveries, by what triggers them."""

    def __init__(self) -> None:
        self.by_header: dict[str, _Probes] = {}
        self.by_property: dict[str, _Probes] = {}
        self.of_bodies: _Probes = ()
        self.by_content_type = _ByContentType(self)

    def add(self, probe: _Probe) -> None:
        """Have a probe triggered by a header if it looks at one, and by the body at last."""
        for part in probe.parts:
            if part.source is Source.header:
                name = part.tokens[0]
                self.by_header[name] = (*self.by_header.get(name, ()), probe)
                return
        for part in probe.parts:
            if part.source is Source.property and part.tokens[0] not in ENVELOPE:
                name = part.tokens[0]
                self.by_property[name] = (*self.by_property.get(name, ()), probe)
                return
        self.of_bodies = (*self.of_bodies, probe)


class _ByContentType(dict[Any, tuple[tuple[bytes, ...], _Probes]]):
    """How bodies begin that are looked into, and by which probes, for each content type."""

    def __init__(self, triggers: _Triggers) -> None:
        super().__init__()
        self._triggers = triggers

    def __missing__(self, content_type: Any) -> tuple[tuple[bytes, ...], _Probes]:
        if len(self) >= _REMEMBERED:
            self.clear()
        probes = tuple(
            probe
            for probe in self._triggers.of_bodies
            if all(
                condition.is_met(lambda _: content_type)
                for condition in probe.where
                if condition.is_of_content_type
            )
        )
        found = self[content_type] = tuple({p.body_begins: None for p in probes}), probes
        return found


_REMEMBERED = 1_000


class Rules:
    """The rules of a trace, numbered in their order.

    ``refused`` counts, by reason, what was asked for and not read: bodies and values beyond the
    bounds, and messages that name themselves.
    """

    def __init__(self, rules: Iterable[Rule], *, indexed: Iterable[str] = ()) -> None:
        """Take the rules, and the names of ``indexed`` headers by which events are found.

        :raises RuleError: for too many of either, and names that are there twice.
        """
        self.rules = tuple(rules)
        self.refused: Counter[str] = Counter()
        indexed = tuple(dict.fromkeys(indexed))
        _check(self.rules, indexed)
        self._probes: dict[tuple[object, ...], _Probe] = {}
        looked_at: dict[str, None] = dict.fromkeys(indexed)
        for number, rule in enumerate(self.rules):
            self._take_apart(number, rule)
            if rule.take is None:
                places = rule.child + rule.parent
                looked_at |= {p.tokens[0]: None for p in places if p.source is Source.header}
        self.indexed = frozenset(looked_at)
        for name in (MESSAGE_ID, "correlation_id"):
            self._probe((Expression(Source.property, (name,)),), name).found_by = True
        for name in looked_at:
            self._probe((Expression(Source.header, (name,)),), HEADER + name).found_by = True
        self._of_publishes, self._of_deliveries = _Triggers(), _Triggers()
        for probe in self._probes.values():
            self._of_publishes.add(probe)
            if probe.ids or probe.is_conversation or probe.found_by:
                self._of_deliveries.add(probe)

    def __len__(self) -> int:
        return len(self.rules)

    def __getitem__(self, number: int) -> Rule:
        return self.rules[number]

    def read(self, record: Record) -> Names:
        """What a message says. Only a publish has causes: a delivery has its publish."""
        properties = record.properties
        is_publish = type(record) is Publish
        triggers = self._of_publishes if is_publish else self._of_deliveries
        headers = properties.get("headers")
        if headers and type(headers) is dict and not triggers.by_header.keys().isdisjoint(headers):
            by_header = triggers.by_header
            probes = [probe for name in headers if name in by_header for probe in by_header[name]]
        else:
            probes = []
        by_property = triggers.by_property
        for name in properties:
            if name in by_property:
                probes += by_property[name]
        if triggers.of_bodies and record.body:
            begins, of_bodies = triggers.by_content_type[properties.get("content_type")]
            if begins and record.body.startswith(begins):
                probes += of_bodies
        if not probes:
            return NO_NAMES
        if type(headers) is not dict:
            headers = {}
        message = _Message(record, properties, headers, self.refused)
        return self._names(probes, message, is_publish=is_publish)

    def _names(self, probes: Iterable[_Probe], message: _Message, *, is_publish: bool) -> Names:
        ids: dict[Key, None] = {}
        causes: dict[Key, int] = {}
        conversations: dict[Key, None] = {}
        found_by: dict[Key, None] = {}
        for probe in probes:
            keys = probe.keys(message)
            if not keys:
                continue
            if probe.ids:
                ids.update(dict.fromkeys(keys))
            if probe.is_conversation:
                conversations.update(dict.fromkeys(keys))
            if probe.found_by:
                found_by.update(dict.fromkeys(keys))
            if probe.causes and is_publish:
                for key in keys:
                    causes[key] = min(probe.causes[0], causes.get(key, probe.causes[0]))
        for found in (ids, conversations, found_by, causes):
            if len(found) > MOST_KEYS:
                self.refused[TOO_MANY_KEYS] += 1
                found.clear()
        return Names(
            tuple(ids),
            self._meant(causes, ids) if causes else (),
            tuple(conversations),
            tuple(found_by),
        )

    def _meant(self, causes: dict[Key, int], ids: dict[Key, None]) -> tuple[tuple[int, Key], ...]:
        """The causes without what a message cannot mean, by the number of the rule.

        It cannot mean itself, unless it is the same message again. And if it surely is, whatever
        else it names is what the first one named: its cause is that it came before.
        """
        rules = self.rules
        named = []
        is_forward = False
        for key, number in causes.items():
            rule = rules[number]
            if rule.kind is LinkKind.forward:
                is_forward |= rule.sure
            elif key in ids:
                self.refused[NAMES_ITSELF] += 1
                continue
            named.append((number, key))
        if is_forward:
            named = [each for each in named if rules[each[0]].kind is LinkKind.forward]
        named.sort()
        return tuple(named)

    def _take_apart(self, number: int, rule: Rule) -> None:
        child = self._probe(
            rule.child, rule.shared_space, rule.where, rule.take, rule.same_body, rule.body_begins
        )
        if rule.kind is LinkKind.conversation:
            child.is_conversation = True
            if rule.shared_space != CONVERSATION and len(rule.child) == 1:
                self._probe(
                    rule.child,
                    CONVERSATION,
                    rule.where,
                    rule.take,
                    body_begins=rule.body_begins,
                ).found_by = True
            return
        child.causes = (*child.causes, number)
        self._probe(
            rule.parent,
            rule.shared_space,
            rule.parent_where,
            rule.take,
            rule.same_body,
            rule.body_begins,
        ).ids = True

    def _probe(
        self,
        parts: tuple[Expression, ...],
        space: str,
        where: tuple[Condition, ...] = (),
        take: str | None = None,
        same_body: bool = False,
        body_begins: str = "",
    ) -> _Probe:
        """The probe of these places, a new one if none is there."""
        made_of = (parts, space, where, take, same_body, body_begins)
        probe = self._probes.get(made_of)
        if probe is None:
            probe = self._probes[made_of] = _Probe(
                parts, space, where, take, same_body, body_begins
            )
        return probe


def _check(rules: tuple[Rule, ...], indexed: tuple[str, ...]) -> None:
    if len(rules) > MOST_RULES:
        raise RuleError(f"there are {len(rules)} rules, and at most {MOST_RULES}")
    twice = [name for name, count in Counter(rule.name for rule in rules).items() if count > 1]
    if twice:
        raise RuleError(f"rule {twice[0]!r} is there twice")
    if len(indexed) > MOST_INDEXED:
        raise RuleError(f"there are {len(indexed)} indexed headers, and at most {MOST_INDEXED}")
    for name in indexed:
        if not 0 < len(name.encode()) <= LONGEST_HEADER:
            raise RuleError(
                f"an indexed header's name has 1 to {LONGEST_HEADER} bytes: {name[:80]!r}"
            )
