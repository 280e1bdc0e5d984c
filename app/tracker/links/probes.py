"""Probes: places in a message whose values become keys, and the keys' uses.

With the built-in rules a message of a usual framework gives some ten keys, and all of it is to take
a few microseconds. So a compiled reader (`_names.pyx`) reads the text of single headers and
properties, and asks a `Probe` for everything else. A digest begins as a copy of one that has taken
in the space's name, which takes half the time of a new one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

import msgspec

from app.tracker import _names, packed
from app.tracker.links.expressions import (
    EMPTY_TEXTS,
    ENVELOPE,
    SHORT,
    TOO_MANY,
    Expression,
    Source,
    values,
)
from app.tracker.links.names import KEY_BYTES, NO_NAMES, Key, Names
from app.tracker.links.rule import Condition, needs_bodies
from app.tracker.links.takes import TAKES
from app.tracker.records import Publish, Record
from model import bodies
from model.error_queues import ErrorProfile, forward_of

_from_json = msgspec.json.Decoder().decode

# The first bytes of bodies that may be encoded; AMQP 1.0's sections begin with 0.
ENCODED = bytes(sorted(bodies.FIRST_BYTES | packed.FIRST_BYTES | {0}))
MOST_KEYS = 64  # of one message, in each field of its names
MOST_CAUSES = 16  # that one publish can name; each is looked for, and its clock joined
MOST_TYPES = 1_000  # of content, remembered
MOST_IDS = 8  # by which one message can be named; each takes memory for as long as it can

_BODY_ENDS = 512  # bytes of a body's beginning and of its end that tell it from others

# Uses of a key; a cause has its rule's number with it.
IDS, CAUSES, CONVERSATIONS, FOUND_BY, CALLED = range(5)  # in the order of the fields of `Names`
Use: TypeAlias = tuple[int, int]
Take: TypeAlias = Callable[[str], str | None]


def hasher(space: str, parts: int) -> blake2b:
    """The beginning of a digest of this many parts, each behind its length if there are several.

    No two spaces' begin alike.
    """
    return blake2b(_prefix(space, parts), digest_size=KEY_BYTES)


def _prefix(space: str, parts: int) -> bytes:
    name = space.encode()
    return b"%d:%b%d:" % (len(name), name, parts)


def framed(part: bytes) -> bytes:
    """One of several parts, behind its length."""
    return len(part).to_bytes(4, "big") + part


def ends(body: bytes) -> bytes:
    """The ends of a body, which tell it from others with the same message id, in constant time."""
    return b"%d:%b%b" % (len(body), body[:_BODY_ENDS], body[-_BODY_ENDS:])


class ProbedMessage:
    """A message under a probe; headers that are no table count as empty."""

    __slots__ = ("_payload", "_texts", "headers", "properties", "record", "refused")

    def __init__(self, record: Record, refused: Counter[str]) -> None:
        self.record, self.properties, self.refused = record, record.properties, refused
        headers = record.properties.get("headers")
        self.headers: dict[str, Any] = headers if type(headers) is dict else {}
        self._texts: dict[str, Any] = {}

    def find(self, place: Expression) -> Any:
        return finder(place)(self)

    @property
    def payload(self) -> Any:
        """The body's JSON, parsed once."""
        try:
            return self._payload
        except AttributeError:
            self._payload: Any = bodies.parse(self.record.body, self.refused, _from_json)
            return self._payload

    def unfold(self, text: str) -> Any:
        """The JSON of a text in the body; None where it is none, or one too many."""
        if text not in self._texts and len(self._texts) < MOST_TEXTS:
            octets = text.encode("utf-8", "surrogatepass")
            self._texts[text] = bodies.parse(octets, self.refused, _from_json)
        return self._texts.get(text)


MOST_TEXTS = 2  # of a body, that are read as JSON: each takes as long as the body at most
MOST_ADDRESSES = 4
_REPLY_TO = Expression(Source.property, ("reply_to",))


def _addresses(reply_to: Any) -> Any:
    """An address for replies, and the routing keys that it may mean.

    Spring writes ``exchange/key``; AMQP 1.0, JMS and STOMP ``/queues/key`` and the like.
    """
    if type(reply_to) is not str or "/" not in reply_to:
        return reply_to
    first, last = reply_to.partition("/")[2], reply_to.rpartition("/")[2]
    return [reply_to, *dict.fromkeys((first, last, unquote(last)))]


@lru_cache(maxsize=10_000)
def finder(place: Expression) -> Callable[[ProbedMessage], Any]:
    """The function that finds a place's value in a message, or None."""
    name, *deeper = place.tokens
    if place.source is Source.payload:
        return lambda message: place.find(message.payload, message.unfold)
    if place.source is Source.header:
        if deeper:
            return lambda message: place.find(message.headers)
        return lambda message: message.headers.get(name)
    if name == "exchange":
        return lambda message: message.record.exchange
    if name == "routing_key":
        return lambda message: (message.record.routing_keys or _NO_KEY)[0]
    if name == "reply_to":
        return lambda message: _addresses(message.properties.get(name))
    return lambda message: message.properties.get(name)


_NO_KEY = (None,)


class Inquiry(NamedTuple):
    """A probe's question: the values of places, where conditions hold. Fields as of `Rule`."""

    parts: tuple[Expression, ...]
    space: str
    conditions: tuple[Condition, ...] = ()
    take: str | None = None
    same_body: bool = False
    body_begins: str = ""


class Probe:
    """Asks messages an `Inquiry`, and knows the uses of their keys."""

    def __init__(self, inquiry: Inquiry) -> None:
        parts, space, conditions, take, same_body, body_begins = inquiry
        self.parts, self.same_body = parts, same_body
        self.conditions = conditions
        self.finders = [(finder(part), part.source is not Source.payload) for part in parts]
        self.addresses = [index for index, part in enumerate(parts) if part == _REPLY_TO]
        # Headers of which one has to be there: rules out most messages quickly.
        self.needed_headers = [
            frozenset(place.tokens[0] for place in condition.places)
            for condition in conditions
            if condition.holds and all(place.source is Source.header for place in condition.places)
        ]
        self.prefix = _prefix(space, len(parts) + same_body)
        self.begin = hasher(space, len(parts) + same_body).copy
        self.take = None if take is None else TAKES[take]
        self.body_begins = body_begins.encode()
        self.uses: list[Use] = []

    @property
    def looks_into_bodies(self) -> bool:
        """Tell whether it needs the whole body."""
        begins = self.body_begins.decode()
        return needs_bodies(self.parts, self.conditions, begins, same_body=self.same_body)

    def may_speak(self, message: ProbedMessage) -> bool:
        if not self.conditions and not self.body_begins:
            return True
        for names in self.needed_headers:
            if names.isdisjoint(message.headers):
                return False
        if not message.record.body.startswith(self.body_begins):  # before the body is parsed
            return False
        return all(condition.is_met(message.find) for condition in self.conditions)

    def answer(self, message: ProbedMessage) -> list[Key]:
        """The keys of a message; none if it does not meet the conditions."""
        return self.keys(message) if self.may_speak(message) else []

    def keys(self, message: ProbedMessage) -> list[Key]:
        """The keys of a message that meets the conditions."""
        of_body = framed(ends(message.record.body)) if self.same_body else b""
        if len(self.finders) > 1:
            return [self._digest(data + of_body) for data in self._join(message)]
        values = self._values(0, message)
        if self.take is not None:
            extracts = (self.take(value.decode("utf-8", "replace")) for value in values)
            values = [value.encode() for value in extracts if value]
        return [self._digest(framed(value) + of_body if of_body else value) for value in values]

    def _join(self, message: ProbedMessage) -> list[bytes]:
        """The joined values of several places, one of each, or all of an address for replies."""
        joint = [b""]
        for number in range(len(self.finders)):
            values = self._values(number, message)
            if len(values) != 1 and not (values and number in self.addresses):
                if values:
                    message.refused[TOO_MANY] += 1
                return []
            joint = [data + framed(value) for data in joint for value in values[:MOST_ADDRESSES]]
        return joint

    def _digest(self, data: bytes) -> Key:
        digest = self.begin()
        digest.update(data)
        return digest.digest()

    def _values(self, number: int, message: ProbedMessage) -> list[bytes]:
        find, of_table = self.finders[number]
        raw = find(message)
        return [] if raw is None else values(raw, message.refused, of_table=of_table)


FAILURE_KEY: Key = hasher("failed", 0).digest()
"""The key of publishes that say themselves that a message failed."""


class FailureProbe(Probe):
    """A probe for a library's marks on messages that it puts into an error queue."""

    def __init__(self, profile: ErrorProfile) -> None:
        headers = tuple(Expression(Source.header, (name,)) for name in profile.says)
        type_ = Expression(Source.property, ("type",))
        says = Condition(headers) if headers else Condition((type_,), begins=profile.type)
        exchange = Expression(Source.property, ("exchange",))
        super().__init__(Inquiry((exchange,), "failed", (says,), body_begins=profile.body_begins))
        self.uses.append((FOUND_BY, 0))

    def keys(self, message: ProbedMessage) -> list[Key]:
        """The key of a publish that says so."""
        record = message.record
        if type(record) is not Publish:
            return []
        path = record.exchange, record.routing_keys
        return [] if forward_of(message.properties, *path, record.body) is None else [FAILURE_KEY]


# A condition: places, each with whether it is a header; whether it holds; a beginning. And a probe:
# the beginning of its digests, its conditions, whether the body counts, the function that takes the
# id out of a text, its uses; or, without a beginning, the function from a `ProbedMessage` to keys.
_Condition: TypeAlias = tuple[tuple[tuple[bool, str], ...], bool, str]
Compiled: TypeAlias = tuple[
    bytes | None,
    tuple[_Condition, ...],
    bool,
    Take | Callable[[ProbedMessage], list[Key]] | None,
    tuple[Use, ...],
]
_Trigger: TypeAlias = tuple[Source, str]


def _compile(probe: Probe, uses: tuple[Use, ...], trigger: _Trigger) -> Compiled:
    """A probe as the compiled reader takes it for one trigger."""
    (first, *other_parts) = probe.parts
    is_elsewhere = (first.source, first.tokens[0]) != trigger
    places = [first, *(place for condition in probe.conditions for place in condition.places)]
    if is_elsewhere or other_parts or probe.body_begins or not all(map(_is_whole, places)):
        return None, (), False, probe.answer, uses
    conditions = tuple(
        (
            tuple((place.source is Source.header, place.tokens[0]) for place in condition.places),
            condition.holds,
            condition.begins,
        )
        for condition in probe.conditions
    )
    return probe.prefix, conditions, probe.same_body, probe.take, uses


def _is_whole(place: Expression) -> bool:
    """Tell whether a place is the whole of a header or of a property."""
    return len(place.tokens) == 1 and _is_named(place)


def _is_named(place: Expression) -> bool:
    """Tell whether a place is in a header or a property."""
    if place.source is Source.property:
        return place.tokens[0] not in ENVELOPE
    return place.source is Source.header


def triggers_of(probe: Probe) -> Sequence[_Trigger]:
    """A probe's triggers: the headers that it reads or needs, which are rarest, else a property.

    None for probes of the body alone.
    """
    looked_at = [(part.source, part.tokens[0]) for part in probe.parts if _is_named(part)]
    headers = [place for place in looked_at if place[0] is Source.header]
    if not headers and probe.needed_headers:
        return [(Source.header, name) for name in sorted(probe.needed_headers[0])]
    return (headers or looked_at)[:1]


# The fields of `Names`, where rules have to decide.
Fields: TypeAlias = tuple[
    tuple[Key, ...],
    tuple[tuple[int, Key], ...],
    tuple[Key, ...],
    tuple[Key, ...],
    tuple[Key, ...],
]
OfBody: TypeAlias = tuple[Probe, tuple[Use, ...]]


class Triggers:
    """The probes of publishes, or of deliveries, by their triggers.

    ``read`` gives the names in headers and properties, None where the body is to be looked into;
    ``read_tables`` those in headers and properties of any message.
    """

    def __init__(self, probes: Iterable[Probe], *, causes: bool) -> None:
        """Take the probes; without ``causes`` only those with another use."""
        by_source: dict[Source, defaultdict[str, list[Compiled]]] = {
            Source.header: defaultdict(list),
            Source.property: defaultdict(list),
        }
        self.of_bodies: list[OfBody] = []
        for probe in probes:
            uses = tuple(use for use in probe.uses if causes or use[0] != CAUSES)
            triggers = triggers_of(probe) if uses else ()
            for trigger in triggers:
                source, name = trigger
                by_source[source][name].append(_compile(probe, uses, trigger))
            if uses and not triggers:
                self.of_bodies.append((probe, uses))
        self.by_header, self.by_property = (
            {name: tuple(probes) for name, probes in groups.items()}
            for groups in by_source.values()
        )
        reader = _names.Reader(
            self.by_header,
            self.by_property,
            EMPTY_TEXTS,
            SHORT,
            Names,
            NO_NAMES,
            MOST_IDS,
            MOST_KEYS,
        )
        self._of_content_type = lru_cache(maxsize=MOST_TYPES)(self._choose)
        reader.look_into(ENCODED, self.of_content_type if self.of_bodies else None)
        self.read, self.read_tables = reader.read, reader.read_tables

    def of_body(self, record: Record) -> Sequence[OfBody]:
        """The probes of a record's body."""
        begins, probes = self.of_content_type(record.properties.get("content_type"))
        return probes if record.body.startswith(begins) else ()

    def of_content_type(self, content_type: Any) -> tuple[tuple[bytes, ...], Sequence[OfBody]]:
        """The beginnings of bodies to read of a content type, and their probes."""
        # A forged trace message's may be anything.
        return self._of_content_type(content_type if type(content_type) is str else None)

    def _choose(self, content_type: str | None) -> tuple[tuple[bytes, ...], Sequence[OfBody]]:
        probes = [
            probe
            for probe in self.of_bodies
            if all(
                condition.is_met(lambda _: content_type)
                for condition in probe[0].conditions
                if condition.is_of_content_type
            )
        ]
        return tuple({probe.body_begins: None for probe, _ in probes}), probes
