"""Places in a message whose values become keys, and what the keys are for.

Written for speed: with the built-in rules a message of a usual framework gives some ten keys, and
all of it is to take a few microseconds. So a header's or a property's value is read once for all
probes that look at it, and a digest begins as a copy of one that has taken in the space's name,
which takes half the time of a new one.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from app.tracker import _digests
from app.tracker.links import bodies
from app.tracker.links.expressions import (
    ENVELOPE,
    NOTHING,
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
from app.tracker.values import AMQP_1_0, readable
from model.error_queues import ErrorProfile, forward_of

MOST_KEYS = 64  # of one message, in each field of its names
MOST_CAUSES = 16  # that one publish can name; each is looked for, and its clock joined
MOST_IDS = 8  # by which one message can be named; each takes memory for as long as it can

_BODY_ENDS = 512  # bytes of a body's beginning and of its end that tell it from others

# What a key is for; a cause has its rule's number with it.
IDS, CONVERSATIONS, FOUND_BY, CAUSES, CALLED = range(5)
Use: TypeAlias = tuple[int, int]
Take: TypeAlias = Callable[[str], str | None]


def hasher(space: str, parts: int) -> blake2b:
    """The beginning of a digest, behind which come this many parts.

    No two spaces' begin alike. A single part follows as it is, several each behind its length.
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
        """The value at a place; None if there is none."""
        return finder(place)(self)

    @property
    def payload(self) -> Any:
        """The body's JSON, parsed when first asked for."""
        try:
            return self._payload
        except AttributeError:
            self._payload: Any = bodies.parse(self.record.body, self.refused)
            return self._payload


MOST_ADDRESSES = 4
_REPLY_TO = Expression(Source.property, ("reply_to",))


def _addresses(reply_to: Any) -> Any:
    """An address for replies, and the routing keys that it may mean.

    Spring's are ``exchange/key``, those of AMQP 1.0, JMS and STOMP ``/queues/key`` and the like.
    """
    if type(reply_to) is not str or "/" not in reply_to:
        return reply_to
    first, last = reply_to.partition("/")[2], reply_to.rpartition("/")[2]
    return [reply_to, *dict.fromkeys((first, last, unquote(last)))]


@lru_cache(maxsize=10_000)
def finder(place: Expression) -> Callable[[ProbedMessage], Any]:
    """The function that finds the value of a place in a message, or None."""
    name, *deeper = place.tokens
    if place.source is Source.payload:
        return lambda message: place.find(message.payload)
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


class Probe:
    """Places, the conditions under which they are looked at, and the uses of their keys."""

    def __init__(
        self,
        parts: tuple[Expression, ...],
        space: str,
        where: tuple[Condition, ...] = (),
        take: str | None = None,
        same_body: bool = False,
        body_begins: str = "",
    ) -> None:
        self.parts, self.same_body = parts, same_body
        self.where = where
        self.finders = [(finder(part), part.source is not Source.payload) for part in parts]
        self.addresses = [at for at, part in enumerate(parts) if part == _REPLY_TO]
        # Headers of which one has to be there: quick about most messages.
        self.needed = [
            frozenset(place.tokens[0] for place in each.of)
            for each in where
            if each.holds and all(place.source is Source.header for place in each.of)
        ]
        self.prefix = _prefix(space, len(parts) + same_body)
        self.begin = hasher(space, len(parts) + same_body).copy
        self.take = None if take is None else TAKES[take]
        self.body_begins = body_begins.encode()
        self.uses: list[Use] = []

    @property
    def is_plain(self) -> bool:
        """Tell whether its keys are of nothing but one header's or property's whole value."""
        (first, *more) = self.parts
        return not more and _is_whole(first) and self.take is None and not self.body_begins

    @property
    def looks_into_bodies(self) -> bool:
        """Tell whether it says anything of a message only with the whole body at hand."""
        begins = self.body_begins.decode()
        return needs_bodies(self.parts, self.where, begins, same_body=self.same_body)

    def may_speak(self, message: ProbedMessage) -> bool:
        """Tell whether its conditions are met."""
        if not self.where and not self.body_begins:
            return True
        for names in self.needed:
            if names.isdisjoint(message.headers):
                return False
        for condition in self.where:
            if not condition.is_met(message.find):
                return False
        return not self.body_begins or message.record.body.startswith(self.body_begins)

    def spoken(self, message: ProbedMessage) -> list[Key]:
        """The keys that a message gives, none if it does not meet the conditions."""
        return self.keys(message) if self.may_speak(message) else []

    def keys(self, message: ProbedMessage) -> list[Key]:
        """The keys that a message gives that meets the conditions."""
        if len(self.finders) > 1 or self.same_body:
            return self._joint_keys(message)
        found = self._values(0, message)
        if self.take is not None:
            taken = (self.take(value.decode("utf-8", "replace")) for value in found)
            found = [value.encode() for value in taken if value]
        return [self._digest(value) for value in found]

    def _joint_keys(self, message: ProbedMessage) -> list[Key]:
        """The keys of several places, each with one value; of an address for replies with all."""
        joint = [b""]
        for number in range(len(self.finders)):
            found = self._values(number, message)
            if len(found) != 1 and not (found and number in self.addresses):
                if found:
                    message.refused[TOO_MANY] += 1
                return []
            joint = [data + framed(value) for data in joint for value in found[:MOST_ADDRESSES]]
        if self.same_body:
            joint = [data + framed(ends(message.record.body)) for data in joint]
        return [self._digest(data) for data in joint]

    def _digest(self, data: bytes) -> Key:
        digest = self.begin()
        digest.update(data)
        return digest.digest()

    def _values(self, number: int, message: ProbedMessage) -> list[bytes]:
        find, of_table = self.finders[number]
        raw = find(message)
        return [] if raw is None else values(raw, message.refused, of_table=of_table)


FAILED: Key = hasher("failed", 0).digest()
"""The key under which publishes are found that say themselves that a message failed."""


class FailureProbe(Probe):
    """A probe for what a library says of a message that it puts into an error queue."""

    def __init__(self, profile: ErrorProfile) -> None:
        headers = tuple(Expression(Source.header, (name,)) for name in profile.says)
        type_ = Expression(Source.property, ("type",))
        says = Condition(headers) if headers else Condition((type_,), begins=profile.type)
        exchange = Expression(Source.property, ("exchange",))
        super().__init__((exchange,), "failed", (says,), body_begins=profile.body_begins)
        self.uses.append((FOUND_BY, 0))

    def keys(self, message: ProbedMessage) -> list[Key]:
        """The key of a publish that says so."""
        record = message.record
        if type(record) is not Publish:
            return []
        path = record.exchange, record.routing_keys
        return [] if forward_of(message.properties, *path, record.body) is None else [FAILED]


class Plain(NamedTuple):
    """A probe of one whole value, ready to be used.

    ``begin`` gives a digest to go on with; each header that is ``needed`` has to hold something.
    """

    begin: Callable[[], blake2b]
    needed: tuple[str, ...]
    where: tuple[Condition, ...]  # and further conditions
    same_body: bool
    uses: tuple[Use, ...]


class Group:
    """The probes that one header or property triggers."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.plain: list[Plain] = []
        self.others: list[Probe] = []
        # All of them, the others first, as the compiled reader takes them.
        self._compiled: tuple[list[Compiled], list[Compiled]] = ([], [])

    @property
    def compiled(self) -> tuple[Compiled, ...]:
        """Its probes for the compiled reader."""
        return tuple(itertools.chain.from_iterable(self._compiled))

    def add(self, probe: Probe, uses: tuple[Use, ...]) -> None:
        """Add a probe for some of its uses."""
        if not probe.is_plain:
            self.others.append(probe)
            self._compiled[0].append(_prepared(probe, tuple(probe.uses)))
            return
        self._compiled[1].append(_prepared(probe, uses))
        simple = [each for each in probe.where if _asks_for_one_header(each)]
        self.plain.append(
            Plain(
                probe.begin,
                tuple(each.of[0].tokens[0] for each in simple),
                tuple(each for each in probe.where if each not in simple),
                probe.same_body,
                uses,
            )
        )

    def add_elsewhere(self, probe: Probe) -> None:
        """Add a probe that looks elsewhere if this header is there."""
        self.others.append(probe)
        self._compiled[0].append((probe, tuple(probe.uses), False))


# A condition: places, each with whether it is a header; whether it holds; how what it is about
# begins. And a probe: the beginning of its digests, its conditions, whether the body counts, what
# takes the id out of a text, its uses; or one that is none of that, with its uses and whether it is
# plain, so that its values are read together with those of others.
_Condition: TypeAlias = tuple[tuple[tuple[bool, str], ...], bool, str]
Compiled: TypeAlias = (
    tuple[bytes, tuple[_Condition, ...], bool, Take | None, tuple[Use, ...]]
    | tuple[Probe, tuple[Use, ...], bool]
)


def _prepared(probe: Probe, uses: tuple[Use, ...]) -> Compiled:
    """A probe as the compiled reader takes it."""
    (first, *more) = probe.parts
    is_simple = not (more or probe.body_begins or (probe.take and probe.same_body))
    if not is_simple or not _is_whole(first):
        return probe, uses, probe.is_plain
    conditions: list[_Condition] = []
    for each in probe.where:
        if not all(_is_whole(place) for place in each.of):
            return probe, uses, probe.is_plain
        places = tuple((place.source is Source.header, place.tokens[0]) for place in each.of)
        conditions.append((places, each.holds, each.begins))
    return probe.prefix, tuple(conditions), probe.same_body, probe.take, uses


def _is_whole(place: Expression) -> bool:
    """Tell whether a place is the whole of a header or of a property."""
    return len(place.tokens) == 1 and (
        place.source is Source.header
        or (place.source is Source.property and place.tokens[0] not in ENVELOPE)
    )


def _asks_for_one_header(condition: Condition) -> bool:
    place = condition.of[0]
    return (
        condition.holds
        and not condition.begins
        and len(condition.of) == 1
        and place.source is Source.header
        and _is_whole(place)
    )


# What a message says, as the compiled reader has it: its names; their fields, the causes as a list,
# where rules have to decide; None where the message is to be read in Python.
Fields: TypeAlias = tuple[
    tuple[Key, ...],
    list[tuple[int, Key]],
    tuple[Key, ...],
    tuple[Key, ...],
    tuple[Key, ...],
]
Read: TypeAlias = Callable[[Record, Any], Names | Fields | None]


class Triggers:
    """The probes of publishes, or of deliveries, by what triggers them."""

    def __init__(self, probes: Iterable[Probe], *, causes: bool) -> None:
        """Take the probes; without ``causes`` only those with another use."""
        self.by_header: dict[str, Group] = {}
        self.by_property: dict[str, Group] = {}
        self.of_bodies: list[Probe] = []
        self.by_content_type = _ByContentType(self)
        for probe in probes:
            uses = tuple(use for use in probe.uses if causes or use[0] != CAUSES)
            if uses:
                self._add(probe, uses)
        self.read = self._compile()

    def _compile(self) -> Read:
        """The compiled reader of messages."""
        reader = _digests.Reader(
            {name: each.compiled for name, each in self.by_header.items()},
            {name: each.compiled for name, each in self.by_property.items()},
            self.by_content_type if self.of_bodies else None,
            NOTHING,
            SHORT,
            readable,
            AMQP_1_0,
            Names,
            NO_NAMES,
            MOST_IDS,
            MOST_KEYS,
        )
        return reader.read

    def _add(self, probe: Probe, uses: tuple[Use, ...]) -> None:
        """Have a probe triggered by what is rarest: a header that it needs or looks at.

        Else by a property, and by the body at last.
        """
        if probe.needed and not any(part.source is Source.header for part in probe.parts):
            for name in sorted(probe.needed[0]):
                if name not in self.by_header:
                    self.by_header[name] = Group(name)
                self.by_header[name].add_elsewhere(probe)
            return
        for source, groups in (
            (Source.header, self.by_header),
            (Source.property, self.by_property),
        ):
            for part in probe.parts:
                name = part.tokens[0]
                if part.source is source and (source is Source.header or name not in ENVELOPE):
                    if name not in groups:
                        groups[name] = Group(name)
                    groups[name].add(probe, uses)
                    return
        self.of_bodies.append(probe)


class _ByContentType(dict[Any, tuple[tuple[bytes, ...], list[Probe]]]):
    """The beginnings of bodies that are looked into, and by which probes, for each content type."""

    def __init__(self, triggers: Triggers) -> None:
        super().__init__()
        self._triggers = triggers

    def __missing__(self, content_type: Any) -> tuple[tuple[bytes, ...], list[Probe]]:
        if len(self) >= _REMEMBERED:
            self.clear()
        probes = [
            probe
            for probe in self._triggers.of_bodies
            if all(
                condition.is_met(lambda _: content_type)
                for condition in probe.where
                if condition.is_of_content_type
            )
        ]
        found = self[content_type] = tuple({p.body_begins: None for p in probes}), probes
        return found


_REMEMBERED = 1_000
