"""Redaction: fields of messages that are replaced before anything else sees them.

A rule names places as rules of links do, and more: the token ``*`` stands for every element of an
array or every field of an object. Each value there becomes a keyed digest, or nothing. The digest
is that of the value as rules of links compare it, whatever its place: so equal values stay equal,
and links by them hold; who lacks the key cannot try values out. A publish and its deliveries are
replaced alike, so that they match as before.

A body that no rule can be read in is left out whole: a digest of it stays where there is a key.
"""

from __future__ import annotations

import binascii
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from hashlib import blake2b, sha256
from typing import Any, Final, Literal, get_args

import msgspec
from msgspec.structs import replace

from app.tracker import packed
from app.tracker.digest import digest
from app.tracker.links.expressions import (
    EMPTY_TEXTS,
    ENVELOPE,
    Expression,
    ExpressionError,
    Source,
)
from app.tracker.records import LARGE, Record, Unreadable
from app.tracker.streams import BROKER_HEADERS
from app.tracker.values import AMQP_1_0, as_text
from model import bodies

Keep = Literal["digest", "nothing"]

MOST_RULES = 50  # of a virtual host
MOST_PLACES = 64  # of all of them: each is looked for in every message
MOST_SWEEPS = 8  # places with `*`: each may look at a whole body
FORMER_RULES = 8  # sets of rules by which messages are recognised that come again
DIGEST_BYTES = 16
MARK: Final = "redacted:"
UNREAD: Final = "left out"
_WHOLE = f"message: {UNREAD}"
# Needed by the service itself: where a message went, and how its body is to be read.
_NEEDED = ENVELOPE | {"reply_to", "type", "content_type", "content_encoding"}
_EVERY = "*"
_INDEX = re.compile(r"0|-?[1-9][0-9]{0,8}").fullmatch
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}").fullmatch
_BEFORE = "\ufeff \t\r\n"  # a byte order mark, and white space
_GONE: Any = object()
_FAULTS = (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError)

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_canonical = msgspec.json.Encoder(order="deterministic").encode


class RedactionError(ValueError):
    """An invalid rule of redaction; the message names the rule and what is wrong."""


class Redaction(msgspec.Struct, frozen=True):
    """A rule: the ``places`` in messages, and what is kept of the values there."""

    name: str
    places: tuple[Expression, ...]
    keep: Keep = "digest"

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Redaction:
        """Read a rule as `to_json` writes it; one place may stand without a list around it.

        :raises RedactionError: says which rule, and what is wrong with it.
        """
        name = fields.get("name")
        if not isinstance(name, str) or not _NAME(name):
            raise RedactionError(
                "a rule's name is of 1 to 64 letters, digits, '.', '_' and '-', "
                f"not {str(name)[:80]!r}"
            )
        for field in sorted(map(str, set(fields) - {"name", "places", "keep"})):
            raise _wrong(name, field[:80], "there is no such field")
        places = fields.get("places")
        texts = places if isinstance(places, list) else [places]
        if not 0 < len(texts) <= MOST_PLACES:
            raise _wrong(name, "places", f"name 1 to {MOST_PLACES} places")
        keep = fields.get("keep", "digest")
        if keep not in get_args(Keep):
            raise _wrong(name, "keep", f"{str(keep)[:80]!r} is none of digest, nothing")
        return cls(name, tuple(_field(name, text) for text in texts), keep)

    def to_json(self) -> dict[str, Any]:
        """The rule as one writes it."""
        return {"name": self.name, "places": [*map(str, self.places)], "keep": self.keep}


def check_redactions(rules: Sequence[Redaction], *, has_key: bool) -> None:
    """Raise `RedactionError` where these cannot all hold."""
    places = [place for rule in rules for place in rule.places]
    for things, count, most in (
        ("rules of redaction", len(rules), MOST_RULES),
        ("places in them", len(places), MOST_PLACES),
        (f"places with {_EVERY!r}", sum(_EVERY in place.tokens for place in places), MOST_SWEEPS),
    ):
        if count > most:
            raise RedactionError(f"a virtual host has at most {most} {things}, not {count}")
    for rule in rules:
        if rule.keep == "digest" and not has_key:
            raise _wrong(
                rule.name,
                "keep",
                "a digest needs a key, and ITC_REDACTION_KEY is not set: set it, or keep nothing",
            )


def redaction_sentence(rules: Sequence[Redaction], *, has_key: bool) -> str:
    """The sentence on a trace that has rules of redaction."""
    names = ", ".join(rule.name for rule in rules)
    sentence = f"values are replaced before they are stored, by these rules: {names}"
    if has_key or all(rule.keep == "nothing" for rule in rules):
        return sentence
    return f"{sentence}; they are left out, as ITC_REDACTION_KEY is not set for their digests"


def _wrong(name: str, field: str, reason: object) -> RedactionError:
    return RedactionError(f"rule {name!r}: {field}: {reason}")


def _field(name: str, text: Any) -> Expression:
    if not isinstance(text, str):
        raise _wrong(name, "places", "write places such as $message.payload#/card")
    try:
        place = Expression.parse(text)
    except ExpressionError as error:
        raise _wrong(name, "places", error) from error
    first = place.tokens[0]
    needed = _NEEDED if place.source is Source.property else BROKER_HEADERS
    if place.source is not Source.payload and (first in needed or first == _EVERY):
        raise _wrong(name, "places", f"{place} is needed as it is, to match and to read messages")
    return place


class Redactor:
    """The rules of a trace at work.

    ``former`` are the sets of rules before them, by which a message that comes again is recognised.
    """

    def __init__(
        self, rules: Sequence[Redaction], key: str, former: Sequence[Sequence[Redaction]] = ()
    ) -> None:
        self.rules = tuple(rules)
        self._key = sha256(key.encode()).digest() if key else b""
        self._of_body = [rule for rule in rules if _fields_in(rule, Source.payload)]
        self._of_properties = [rule for rule in rules if len(_fields_in(rule)) < len(rule.places)]
        self._former = [Redactor(each, key) for each in former]

    def recognise(self, message: Record | Unreadable, stored: Collection[bytes]) -> bytes:
        """The digest by which a message is recognised: one that is ``stored``, if any of it is."""
        present = digest(self.redact(message))
        for former in self._former if present not in stored else ():
            past = digest(former.redact(message))
            if past in stored:
                return past
        return present

    def redact(self, message: Record | Unreadable) -> Record | Unreadable:
        """A message without the values; the message itself where it has none of them."""
        if not self.rules:
            return message
        if type(message) is Unreadable:
            return replace(message, headers="{}", body=b"")
        try:
            return self._without_values(message)
        except _FAULTS:  # a message that a client made up: nothing of it goes on
            return replace(message, properties={}, body=b"", sha256=b"", redactions=(_WHOLE,))

    def _without_values(self, message: Record) -> Record:
        hits: dict[str, None] = {}  # in their order
        properties = self._properties(message.properties, hits) if self._of_properties else None
        body = self._body(message, hits) if self._of_body and message.body else None
        if body is not None:
            content, changes = body
            properties = {**(properties or message.properties), **changes}
            properties = {name: value for name, value in properties.items() if value is not _GONE}
            large = sha256(content).digest() if len(content) > LARGE else b""
            message = replace(message, body=content, sha256=large)
        if properties is not None and properties != message.properties:
            message = replace(message, properties=properties)
        return replace(message, redactions=tuple(hits)) if hits else message

    def _properties(self, properties: dict[str, Any], hits: dict[str, None]) -> dict[str, Any]:
        for rule in self._of_properties:
            leaf = self._leaf(rule, hits, of_table=True)
            for place in rule.places:
                if place.source is Source.payload:
                    continue
                is_header = place.source is Source.header
                tokens = ("headers", *place.tokens) if is_header else place.tokens
                properties = _put(properties, tokens, leaf)
        return properties

    def _body(self, message: Record, hits: dict[str, None]) -> tuple[bytes, dict[str, Any]] | None:
        """The body's new bytes, and changes of properties that say how to read it.

        None where none of the values is in it.
        """
        plain, tree, fault = _read(message)
        if tree is None:
            hits[f"{fault}: {UNREAD}"] = None
            return self._digest_of_body(message.body), {}
        names: dict[str, None] = {}
        try:
            for rule in self._of_body:
                leaf = self._leaf(rule, names, of_table=False)
                for place in _fields_in(rule, Source.payload):
                    tree = _put(tree, place.tokens, leaf, unfold=True)
            # A packed one may hold more: behind its end, or in a map that has a key twice.
            if not names and plain is message.body and not self._may_hide(plain):
                return None
            content = _encode(tree)
        except _FAULTS:
            hits[f"{bodies.NOT_JSON}: {UNREAD}"] = None
            return self._digest_of_body(message.body), {}
        hits.update(names)
        return content, _changes(message, plain)

    def _may_hide(self, plain: bytes) -> bool:
        places = (place for rule in self._of_body for place in _fields_in(rule))
        return any(_may_hide(plain, place.tokens) for place in places)

    def _digest_of_body(self, body: bytes) -> bytes:
        return self._digest(b"body:" + body).encode() if self._key else b""

    def _leaf(
        self, rule: Redaction, hits: dict[str, None], *, of_table: bool
    ) -> Callable[[Any], Any]:
        """Function that replaces a value by a rule, whose name is a hit if the value changes."""
        is_gone = rule.keep == "nothing" or not self._key

        def leaf(raw: Any) -> Any:
            value = _GONE if is_gone else self._replace(raw, of_table)
            if value is raw or value == raw:
                return raw
            hits[rule.name] = None
            return value

        return leaf

    def _replace(self, raw: Any, of_table: bool) -> Any:
        if raw is None or raw == "" or (type(raw) is str and raw in EMPTY_TEXTS):
            return raw  # which says nothing, and would tie together all that say nothing
        if type(raw) is list:
            return [self._replace(element, of_table) for element in raw]
        if type(raw) is str:
            return raw if _is_digest(raw) else self._digest(_octets(raw))
        if type(raw) is int:
            return self._digest(b"%d" % raw)
        if of_table and type(raw) is dict and len(raw) == 1 and type(raw.get("base64")) is str:
            with suppress(ValueError):  # a table that only looks like bytes
                return self._digest(binascii.a2b_base64(raw["base64"]))
        return self._digest(b"json:" + _canonical(raw))

    def _digest(self, value: bytes) -> str:
        return MARK + blake2b(value, digest_size=DIGEST_BYTES, key=self._key).hexdigest()


def _is_digest(text: str) -> bool:
    """Tell whether a text is a digest already, as where two rules name one place."""
    return len(text) == len(MARK) + 2 * DIGEST_BYTES and text.startswith(MARK)


def _fields_in(rule: Redaction, source: Source = Source.payload) -> list[Expression]:
    return [place for place in rule.places if place.source is source]


def _read(message: Record) -> tuple[bytes, Any, str]:
    """A body as plain text and as values, as rules of links read it; without, the reason."""
    refused: Counter[str] = Counter()
    properties = message.properties
    plain = bodies.decode_body(message.body, properties.get("content_encoding"), refused)
    if plain and not refused:
        plain = packed.json_body(plain, properties.get("content_type"), refused)
    if properties.get("type") == AMQP_1_0 and not refused:
        plain = as_text(plain) or plain
    tree = None if refused else bodies.parse(plain, refused, _decode)
    return plain, tree, next(iter(refused), bodies.NOT_JSON)


def _may_hide(plain: bytes, tokens: tuple[str, ...]) -> bool:
    """Tell whether JSON may hold a value that its reader has not seen: behind a second key.

    Then it is written anew, with what the reader saw.
    """
    return b"\\" in plain or any(form in plain for form in _last_name(tokens))


@lru_cache(MOST_RULES * MOST_PLACES)
def _last_name(tokens: tuple[str, ...]) -> tuple[bytes, ...]:
    """The last field among tokens, as each encoding of JSON has it; of none, what all JSON has."""
    names = [token for token in tokens if token != _EVERY and not _INDEX(token)]
    name = names[-1] if names else ""
    forms = [_octets(name), name.encode("utf-16-le", "surrogatepass")]
    with suppress(UnicodeEncodeError):
        forms.append(name.encode("latin-1"))
    return tuple(dict.fromkeys(forms))


def _changes(message: Record, plain: bytes) -> dict[str, Any]:
    """The properties that no longer hold for a body in JSON."""
    if plain is message.body:
        return {}
    changes: dict[str, Any] = {}
    if "content_encoding" in message.properties:
        changes["content_encoding"] = _GONE
    if "content_type" in message.properties:
        changes["content_type"] = "application/json"
    return changes


def _put(
    tree: Any, tokens: tuple[str, ...], leaf: Callable[[Any], Any], *, unfold: bool = False
) -> Any:
    """A tree with replaced values; the tree itself if it has none there.

    ``unfold``: texts on the way that begin like JSON are read as JSON. One that cannot be is
    replaced whole, and one that may hide something is written anew.
    """
    if not tokens:
        return leaf(tree)
    octets = _octets(tree.lstrip(_BEFORE)) if unfold and type(tree) is str else b""
    if bodies.begins_as_json(octets):
        inner = bodies.parse(octets, Counter(), _decode)
        if inner is None:
            return leaf(tree)
        changed = _put(inner, tokens, leaf, unfold=True)
        if changed is inner and not _may_hide(octets, tokens):
            return tree
        text = _encode(changed).decode()
        return tree if text == tree else text
    copy = tree
    for place in _steps(tree, tokens[0]):
        changed = _put(tree[place], tokens[1:], leaf, unfold=unfold)
        if changed is tree[place]:
            continue
        copy = tree.copy() if copy is tree else copy
        if changed is not _GONE:
            copy[place] = changed
        elif type(copy) is dict:
            del copy[place]
        else:
            copy[place] = None  # the others keep their places
    return copy


def _steps(tree: Any, token: str) -> Sequence[Any]:
    """The keys or indexes that a token stands for."""
    if type(tree) is dict:
        return [*tree] if token == _EVERY else [token] if token in tree else ()
    if type(tree) is not list:
        return ()
    if token == _EVERY:
        return range(len(tree))
    return [int(token)] if _INDEX(token) and -len(tree) <= int(token) < len(tree) else ()


def _octets(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
