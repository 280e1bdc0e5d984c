"""Reading of a message's names and causes, under all rules of a trace at once.

Every rule is taken apart into probes: places whose values become keys, and the keys' uses. A probe
is triggered by one header, by one property, or by the body's type, so a message without any of
these is done after three looks. Rules that make the same keys of the same places share a probe.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import astuple, replace

from app.tracker import packed
from app.tracker.links.expressions import Expression, Source, values
from app.tracker.links.names import Key, Names
from app.tracker.links.probes import (
    CALLED,
    CAUSES,
    CONVERSATIONS,
    ENCODED,
    FOUND_BY,
    IDS,
    MOST_CAUSES,
    MOST_IDS,
    MOST_KEYS,
    FailureProbe,
    Fields,
    Inquiry,
    OfBody,
    Probe,
    ProbedMessage,
    Triggers,
    framed,
    hasher,
)
from app.tracker.links.rule import Rule, RuleError
from app.tracker.records import Publish, Record
from app.tracker.values import readable
from model.bodies import decode_body
from model.error_queues import ERROR_PROFILES
from model.words import LinkKind

MOST_RULES = 200  # of a trace, the built-in ones among them
MOST_INDEXED = 100  # headers beyond those of the rules
LONGEST_HEADER = 255  # bytes, of a header's name in AMQP

NAMES_ITSELF, TOO_MANY_KEYS = "names itself", "too many keys"

# The space of the built-in rules' conversations, whichever carrier brought them.
CONVERSATION = "conversation"
MESSAGE_ID = "message_id"
# The inquiry that makes two trace messages one message, whatever changed on the way; `forward` has
# it too.
SAME_MESSAGE = Inquiry((Expression(Source.property, (MESSAGE_ID,)),), "forward", same_body=True)
# The rule of messages that the broker's own clients move.
MOVED_RULE = "forward-moved"
_FIELDS = (MESSAGE_ID, "correlation_id", CONVERSATION)
HEADER = "header."


def search_key(field: str, value: str) -> Key:
    """The key under which messages with this value are found.

    Fields are ``message_id``, ``correlation_id``, ``conversation`` and ``header.NAME``.

    :raises ValueError: for any other field.
    """
    if field not in _FIELDS and not (field.startswith(HEADER) and len(field) > len(HEADER)):
        raise ValueError(f"{field!r} is none of {', '.join(_FIELDS)} and {HEADER}NAME")
    digest = hasher(field, 1)
    digest.update(value.encode("utf-8", "surrogatepass"))
    return digest.digest()


class Rules:
    """The rules of a trace, numbered in their order.

    ``refused`` counts unread values by reason: bodies and values beyond the bounds, and messages
    that name themselves. ``read_bodies`` says whether bodies are read.
    """

    def __init__(
        self,
        rules: Iterable[Rule],
        *,
        indexed: Iterable[str] = (),
        found_by: Mapping[str, bool] | None = None,
    ) -> None:
        """Take the rules, and the names of ``indexed`` headers by which events are found.

        Events are found by the rules' headers, too, unless ``found_by`` names all: those of all
        traces, where a trace has rules of its own. It is another's ``indexed``: each with whether
        it holds an id of a message, which few messages share.

        :raises RuleError: for too many of either, and names that are there twice.
        """
        self.rules = tuple(rules)
        self.refused: Counter[str] = Counter()
        self.read_bodies = True
        indexed = tuple(dict.fromkeys(indexed))
        _check(self.rules, indexed)
        self._probes: dict[tuple[object, ...], Probe] = {}  # by what they ask
        for number, rule in enumerate(self.rules):
            self._take_apart(number, rule)
        self._use(SAME_MESSAGE, IDS)
        self._of_moved = next(
            (n for n, rule in enumerate(self.rules) if rule.name == MOVED_RULE), None
        )
        self.indexed = _header_uses(self.rules, indexed) if found_by is None else dict(found_by)
        for name, use in ((MESSAGE_ID, CALLED), ("correlation_id", FOUND_BY)):
            self._use(Inquiry((Expression(Source.property, (name,)),), name), use)
        for name in sorted(self.indexed):
            use = CALLED if self.indexed[name] else FOUND_BY
            self._use(Inquiry((Expression(Source.header, (name,)),), HEADER + name), use)
        self._probes |= {(name,): FailureProbe(profile) for name, profile in ERROR_PROFILES.items()}
        probes = self._probes.values()
        for probe in probes:
            probe.uses = list(dict.fromkeys(probe.uses))
        self._of_publishes = Triggers(probes, causes=True)
        self._of_deliveries = Triggers(probes, causes=False)

    def __len__(self) -> int:
        return len(self.rules)

    def for_cut_bodies(self) -> Rules:
        """The same rules for messages whose body is cut: probes that need it are left out."""
        rules = copy.copy(self)
        rules.read_bodies = False
        probes = [probe for probe in self._probes.values() if not probe.looks_into_bodies]
        rules._of_publishes = Triggers(probes, causes=True)
        rules._of_deliveries = Triggers(probes, causes=False)
        return rules

    def __getitem__(self, number: int) -> Rule:
        return self.rules[number]

    def read(self, record: Record) -> Names:
        """The names in a message. Only a publish has causes: a delivery has its publish.

        The body is read as it is stored: that of an AMQP 1.0 value as its text.
        """
        triggers = self._of_publishes if type(record) is Publish else self._of_deliveries
        fields = triggers.read(record, self)
        if type(fields) is Names:  # nearly always
            return fields
        fields = self._read_with_body(record, triggers) if fields is None else fields
        return self._decide(fields) if isinstance(fields, tuple) else fields

    def _read_with_body(self, record: Record, triggers: Triggers) -> Names | Fields:
        if record.body[0] in ENCODED or "content_encoding" in record.properties:
            record = readable(self._plain(record, triggers))
        fields = triggers.read_tables(record, self)
        of_body = triggers.of_body(record) if triggers.of_bodies else ()
        return self._with_body(fields, of_body, record) if of_body else fields

    def with_moved(self, record: Record, names: Names, client: str | None) -> Names:
        """The names in a message that a shovel or a federation link moves: it is its own cause.

        Without an id it is known by its body and properties, as one that this client was handed, or
        one that was not known by its name yet.
        """
        number, ids = self._of_moved, names.ids
        if number is None or not record.body or names.causes:
            return names
        keys = self._probes[SAME_MESSAGE].keys(self.look_into(record))
        keys = [key for key in keys if key in ids]
        if type(record) is not Publish:
            return names if keys else replace(names, ids=(*ids, _content_key(record, client)))
        keys = keys or [_content_key(record, owner) for owner in dict.fromkeys((client, None))]
        return replace(names, causes=tuple((number, key) for key in keys))

    def message_key(self, record: Record) -> Key | None:
        """The key of a message's id and body; None without an id, or where names are too many."""
        plain = readable(self._plain(record, self._of_deliveries))
        keys = self._probes[SAME_MESSAGE].keys(self.look_into(plain))
        return next((key for key in self.read(record).ids if key in keys), None)

    def _plain(self, record: Record, triggers: Triggers) -> Record:
        """A record whose body is plain text, if bodies are looked into."""
        if not triggers.of_bodies or not self.read_bodies:
            return record
        properties = record.properties
        body = decode_body(record.body, properties.get("content_encoding"), self.refused)
        body = (
            packed.json_body(body, properties.get("content_type"), self.refused) if body else body
        )
        return record if body == record.body else replace(record, body=body)

    def look_into(self, record: Record) -> ProbedMessage:
        return ProbedMessage(record, self.refused)

    def values_of(self, raw: Any) -> list[bytes]:
        """The values of a header or a property, for the compiled reader."""
        return values(raw, self.refused)

    def _with_body(
        self, names: Names | Fields, of_body: Sequence[OfBody], record: Record
    ) -> Fields:
        name_fields: tuple[Any, ...] = astuple(names) if isinstance(names, Names) else names
        fields: list[list[Any]] = [*map(list, name_fields)]
        message = self.look_into(record)
        for probe, uses in of_body:
            for key in probe.answer(message):
                for use, number in uses:
                    fields[use].append((number, key) if use == CAUSES else key)
        causes = fields[CAUSES]
        ids, _, conversations, found_by, message_ids = (
            tuple(dict.fromkeys(keys)) for keys in fields
        )
        return ids, tuple(causes), conversations, found_by, message_ids

    def _decide(self, fields: Fields) -> Names:
        """The names in these fields: not too many, and only causes that may be meant."""
        ids, causes, conversations, found_by, message_ids = fields
        if len(ids) > MOST_IDS:
            ids = self._refuse()
        return Names(
            ids,
            self._select_causes(causes, ids) if causes else (),
            conversations if len(conversations) <= MOST_KEYS else self._refuse(),
            found_by if len(found_by) <= MOST_KEYS else self._refuse(),
            message_ids if len(message_ids) <= MOST_KEYS else self._refuse(),
        )

    def _refuse(self) -> tuple[Key, ...]:
        """No keys, where there are more than a message may have."""
        self.refused[TOO_MANY_KEYS] += 1
        return ()

    def _select_causes(
        self, causes: tuple[tuple[int, Key], ...], ids: tuple[Key, ...]
    ) -> tuple[tuple[int, Key], ...]:
        """The causes that a message can mean, each under the first rule that names it.

        It cannot mean itself, unless it is published again. And if it surely is, its other names
        are those of the first publish, and only that is its cause.
        """
        rules = self.rules
        if len(causes) == 1:  # nearly always
            [(number, key)] = causes
            if key not in ids or rules[number].kind is LinkKind.forward:
                return causes
        numbers: dict[Key, int] = {}
        is_forward = False
        for number, key in sorted(causes):
            rule = rules[number]
            if rule.kind is LinkKind.forward:
                is_forward |= rule.sure
            elif key in ids:
                self.refused[NAMES_ITSELF] += 1
                continue
            numbers.setdefault(key, number)
        if len(numbers) > MOST_CAUSES:
            self._refuse()
            return ()
        return tuple(
            (number, key)
            for key, number in numbers.items()
            if not is_forward or rules[number].kind is LinkKind.forward
        )

    def _take_apart(self, number: int, rule: Rule) -> None:
        options = rule.take, rule.same_body, rule.body_begins
        child = Inquiry(rule.child, rule.shared_space, rule.where, *options)
        if rule.kind is LinkKind.conversation:
            self._use(child, CONVERSATIONS)
            if rule.shared_space != CONVERSATION and len(rule.child) == 1:
                self._use(child._replace(space=CONVERSATION), FOUND_BY)
            return
        self._use(child, CAUSES, number)
        self._use(Inquiry(rule.parent, rule.shared_space, rule.parent_where, *options), IDS)

    def _use(self, inquiry: Inquiry, use: int, number: int = 0) -> None:
        probe = self._probes.get(inquiry)
        if probe is None:
            probe = self._probes[inquiry] = Probe(inquiry)
        probe.uses.append((use, number))


def _content_key(record: Record, client: str | None) -> Key:
    """The key of a client's body, and of the properties that no shovel or link adds to."""
    properties = sorted(item for item in record.properties.items() if item[0] != "headers")
    digest = hasher("content", 2)
    digest.update(framed(repr((client, properties)).encode("utf-8", "surrogatepass")))
    digest.update(record.body)
    return digest.digest()


def _header_uses(rules: Iterable[Rule], indexed: Iterable[str]) -> dict[str, bool]:
    """The rules' headers, and others: each with whether it holds an id of a message.

    It does where rules compare it as a whole, and none takes it for a conversation's.
    """
    uses: dict[str, set[bool]] = {name: set() for name in indexed}
    for rule in rules:
        if rule.take is not None:
            continue
        names_one = rule.kind is not LinkKind.conversation and len(rule.child) == 1
        for place in rule.child + rule.parent:
            if place.source is Source.header:
                is_id = names_one and len(place.tokens) == 1
                uses.setdefault(place.tokens[0], set()).add(is_id)
    return {name: are_ids == {True} for name, are_ids in uses.items()}


def _check(rules: tuple[Rule, ...], indexed: tuple[str, ...]) -> None:
    if len(rules) > MOST_RULES:
        raise RuleError(f"there are {len(rules)} rules, and at most {MOST_RULES}")
    repeats = [name for name, count in Counter(rule.name for rule in rules).items() if count > 1]
    if repeats:
        raise RuleError(f"rule {repeats[0]!r} is there twice")
    if len(indexed) > MOST_INDEXED:
        raise RuleError(f"there are {len(indexed)} indexed headers, and at most {MOST_INDEXED}")
    for name in indexed:
        if not 0 < len(name.encode()) <= LONGEST_HEADER:
            raise RuleError(
                f"an indexed header's name has 1 to {LONGEST_HEADER} bytes: {name[:80]!r}"
            )
