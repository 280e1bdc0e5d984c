"""Checking a file of what an event touched: from the stamps in it alone.

Nothing here is the job's that wrote the file. An event is after another exactly if its clock has,
on the interval of the other's participant, at least the other's height; everything that a row says
is held to that, and rows are held to each other.
"""

from __future__ import annotations

import base64
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple, TypeAlias

import msgspec

from itc import ClockError, Stamp, unpack
from model.answers import Verdict, touched_sentence
from model.doubtful import MOST_DOUBTFUL
from model.evidence import ALGORITHM, CAUSE_COLUMNS, COLUMNS, FIELDS, PLACE, SIGNATURE, signed_bytes
from model.words import BY_BROKER, LINKED, EventType

Json: TypeAlias = Mapping[str, Any]

VERDICTS = tuple(map(str, Verdict))
# Edges to a later event: messages, links of these kinds, and the broker's own.
_KINDS = {kind.name for kind in LINKED}
_UNNAMED = {"message", *(kind.name for kind in BY_BROKER)}
_TYPES = {event_type.name for event_type in EventType}
_NUMBERS = ("event", "as_of", "events", *VERDICTS, "quiet", "bytes")
_KINDS_OF_FIELDS = {
    **dict.fromkeys(_NUMBERS, Annotated[int, msgspec.Meta(ge=0)]),
    "vhost": Annotated[str, msgspec.Meta(min_length=1)],
    "doubts": list[str],
    "gaps": list[Json],
    "starts": Annotated[list[Json], msgspec.Meta(min_length=1, max_length=1)],
}
_FIELDS = [(name, _KINDS_OF_FIELDS.get(name, Any)) for name in FIELDS if name != "caveats"]
# Older manifests have no sentences of their own about gaps and doubts.
_CAVEATS = ("caveats", list[str] | None, None)
_FORM = msgspec.defstruct(
    "ManifestForm", [*_FIELDS, _CAVEATS], forbid_unknown_fields=True, kw_only=True
)
_SIGNATURE = ("algorithm", "key", "value")
_READ_ERRORS = (
    *(LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError),
    *(ClockError, msgspec.ValidationError),
)


class RowPosition(NamedTuple):
    """An event by what its row says of it."""

    id: int
    participant: int
    interval: str
    seq: int
    height: int
    stamp: Stamp

    def is_at_or_before(self, event: RowPosition) -> bool:
        """Tell whether the other event is this one or happened after it."""
        return event.stamp.height_at(self.interval) >= self.height


def parse_json(content: bytes) -> Any:
    """JSON that all readers read alike; raises `ValueError` for any other.

    Fields that stand there twice, numbers beyond 64 bits, NaN, deep nesting, and what is not UTF-8
    are each read in several ways, or not at all.
    """
    try:
        return json.loads(
            content.decode(),
            object_pairs_hook=_object,
            parse_int=_whole,
            parse_float=_fraction,
            parse_constant=_refuse,
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        (name, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"the field {name!r} stands there twice")
    return table


def _whole(digits: str) -> int:
    if len(digits) > _MOST_DIGITS or not -(2**63) <= int(digits) < 2**63:
        raise ValueError("a number has more than 64 bits")
    return int(digits)


_MOST_DIGITS = 20


def _fraction(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError("a number has more than 64 bits")
    return value


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _octets(text: Any) -> bytes:
    """The bytes of base64, in the one way in which it is written."""
    octets = base64.b64decode(text, validate=True)
    if base64.b64encode(octets).decode() != text:
        raise ValueError("its base64 is not as anybody writes it")
    return octets


def sentence_of(counts: Mapping[str, int], *, complete: bool, sound: bool) -> str:
    """The service's sentence for these counts of events by verdict."""
    events, caused, may_have = sum(counts.values()), counts["caused"], counts["may_have"]
    return touched_sentence(
        1, events, caused, may_have, counts["unknown"], cut=False, complete=complete, sound=sound
    )


def faults(manifest: Json, rows: Iterable[Json | ValueError]) -> Iterator[str]:
    """Faults of the rows of a file, by its manifest, a sentence each.

    A row that could not be read is given as the reason.
    """
    try:
        check = _Check(manifest)
        yield from check.of_manifest()
    except _READ_ERRORS as error:
        yield f"the manifest cannot be read: {_reason(error)}"
        return
    for number, row in enumerate(rows, start=1):
        try:
            if isinstance(row, ValueError):
                raise row
            yield from (f"line {number}: {fault}" for fault in check.of_row(row))
        except _READ_ERRORS as error:
            yield f"line {number}: cannot be read: {_reason(error)}"
    yield from check.of_totals()


def _reason(error: Exception) -> str:
    is_sentence = isinstance(error, ValueError | msgspec.ValidationError)
    return str(error) if is_sentence else f"{type(error).__name__} {error}"


def position_of(row: Json) -> RowPosition:
    """An event's place, from a row or from the manifest."""
    clock = row["clock"]
    packed = clock if isinstance(clock, bytes) else _octets(clock)
    numbers = [row[name] for name in ("id", "participant", "seq", "height")]
    if not all(type(number) is int and number > 0 for number in numbers):
        raise ValueError("its numbers are no numbers")
    event_id, participant, seq, height = numbers
    interval = row["interval"]
    return RowPosition(event_id, participant, interval, seq, height, unpack(packed, interval))


class _Check:
    """Goes through the rows in their order."""

    def __init__(self, manifest: Json) -> None:
        self._manifest = manifest
        signed = {name: value for name, value in manifest.items() if name != SIGNATURE}
        msgspec.convert(signed, _FORM)
        [start] = manifest["starts"]
        if start.keys() != {*PLACE}:
            raise ValueError("the fields of its event are not those of an event's place")
        self._start = position_of(start)
        is_sure = not manifest["gaps"] and not manifest["doubts"]
        self._rest = "cannot_have" if is_sure else "unknown"
        # The first doubtful delivery of each participant, how many there are in all, and the last
        # one that is looked at.
        self._doubtful: dict[int, RowPosition] = {}
        self._looked_at = 0
        self._last_doubtful: int | None = None
        self._counts = dict.fromkeys(VERDICTS, 0)
        self._seen: Counter[int] = Counter()
        # Caused events, and the number of those that no clock shows, because a link came late.
        self._caused = {self._start.id: self._start}
        self._without_clock: set[int] = set()
        self._last = {self._start.participant: self._start}
        self._owners = {self._start.interval: self._start.participant}
        self._last_id = self._start.id

    def of_manifest(self) -> Iterator[str]:
        manifest, start = self._manifest, self._start
        if manifest["event"] != start.id:
            event = manifest["event"]
            yield f"the manifest is of event {event}, and has the stamp of event {start.id}"
        if manifest["complete"] is not (not manifest["gaps"]):
            yield "the manifest says complete, and names gaps, or the reverse"
        if manifest["sound"] is not (not manifest["doubts"]):
            yield "the manifest says sound, and names doubts, or the reverse"
        if start.stamp.height_at(start.interval) != start.height:
            yield f"event {start.id}, which is asked about, has another height in its clock"

    def of_row(self, row: Json) -> Iterator[str]:
        if row.keys() != COLUMNS.keys():
            raise ValueError("its fields are not those of a row")
        place, verdict = position_of(row), row["verdict"]
        if row["type"] not in _TYPES:
            yield f"event {place.id} is of no known type, but {row['type']!r}"
        if verdict not in VERDICTS:
            yield f"event {place.id} has no known verdict, but {verdict!r}"
            return
        self._counts[verdict] += 1
        yield from self._position_faults(place)
        step = row["by"]
        if step is not None:
            yield from self._of_step(place, step)
        yield from _of_equals(place, row)
        is_behind = self._is_behind(place, row["doubtful"])
        is_after = self._start.is_at_or_before(place)
        if verdict == "caused":
            if step is None:
                yield f"event {place.id} is said to be caused, and nothing says by what"
            elif not is_after and place.id not in self._without_clock:
                yield f"event {place.id} is said to be caused, and its stamp is not after"
            self._caused[place.id] = place
            return
        if step is not None:
            yield f"event {place.id} has what caused it, and is said to be {verdict}"
        rest = "unknown" if is_behind else self._rest
        expected = "may_have" if is_after else rest
        if verdict != expected:
            yield f"event {place.id} is said to be {verdict}, and by its stamp it is {expected}"

    def _is_behind(self, place: RowPosition, doubtful: Any) -> bool:
        """Tell whether an event lies behind a doubtful delivery, or is one."""
        if type(doubtful) is not bool:
            raise ValueError("it is neither doubtful nor not")
        if self._last_doubtful is not None and place.id > self._last_doubtful:
            return True
        if doubtful:
            self._doubtful.setdefault(place.participant, place)
            self._looked_at += 1
            if self._looked_at == MOST_DOUBTFUL:
                self._last_doubtful = place.id
        return any(delivery.is_at_or_before(place) for delivery in self._doubtful.values())

    def _position_faults(self, place: RowPosition) -> Iterator[str]:
        if place.id <= self._last_id:
            yield f"event {place.id} comes after event {self._last_id}"
        self._last_id = max(self._last_id, place.id)
        if place.id > self._manifest["as_of"]:
            yield f"event {place.id} is newer than the manifest says that any is"
        if place.stamp.height_at(place.interval) != place.height:
            yield f"event {place.id} has another height in its clock than it says"
        # As long as any of a participant's events is stored, its interval is nobody else's.
        if self._owners.setdefault(place.interval, place.participant) != place.participant:
            yield f"event {place.id} has the interval of another participant"
        previous = self._last.get(place.participant)
        self._last[place.participant] = place
        if previous is not None:
            if place.interval != previous.interval:
                yield f"event {place.id} has another interval than its participant"
            if place.seq != previous.seq + 1:
                position = f"after number {previous.seq} of participant {place.participant}"
                yield f"event {place.id} is number {place.seq} {position}: some are missing"
            if place.height <= previous.height or not previous.stamp.leq(place.stamp):
                yield f"event {place.id} is not after event {previous.id} of its participant"
        start = self._start
        if place.stamp.height_at(start.interval) > self._last[start.participant].height:
            yield f"event {place.id} knows more of participant {start.participant} than there was"

    def _of_step(self, place: RowPosition, step: Json) -> Iterator[str]:
        if (
            step.keys() != CAUSE_COLUMNS.keys()
            or type(step["cause"]) is not int
            or type(step["late"]) is not bool
        ):
            raise ValueError("what it has for its cause is no step")
        cause = self._caused.get(step["cause"])
        is_unnamed = step["how"] in _UNNAMED and step["rule"] is step["kind"] is None
        is_link = step["how"] == "link" and type(step["rule"]) is str and step["kind"] in _KINDS
        if not is_unnamed and not is_link:
            yield f"event {place.id} was caused by no message, no link and nothing the broker did"
        if cause is None:
            yield f"event {place.id} is said to be caused by event {step['cause']}, which was not"
            return
        if cause.id in self._without_clock or step["late"]:
            self._without_clock.add(place.id)
        if step["late"]:
            if step["how"] != "link" or not self._manifest["doubts"]:
                yield f"event {place.id} has a late link, of which the manifest says nothing"
        elif not cause.is_at_or_before(place):
            yield f"event {place.id} is not after event {cause.id}, which is said to have caused it"

    def of_totals(self) -> Iterator[str]:
        """Faults of the manifest's counts, and of what it says of them."""
        for verdict, count in self._counts.items():
            if self._manifest.get(verdict) != count:
                yield (
                    f"the manifest counts {self._manifest.get(verdict)} as {verdict}, and there are"
                    f" {count}"
                )
        total = sum(self._counts.values())
        events = self._manifest.get("events")
        if events != total:
            yield f"the manifest counts {events} events, and there are {total}"
        as_of = self._manifest["as_of"]
        if self._last_id != as_of:
            yield f"the manifest tells of all up to event {as_of}, the file up to {self._last_id}"
        is_complete, is_sound = not self._manifest["gaps"], not self._manifest["doubts"]
        sentence = sentence_of(self._counts, complete=is_complete, sound=is_sound)
        if self._manifest["sentence"] != sentence:
            yield f"the manifest's sentence is not what its file tells: {sentence}"


def _of_equals(place: RowPosition, row: Json) -> Iterator[str]:
    """Faults of what a row says of the messages of which it may be a delivery."""
    candidates, step = row["candidates"], row["by"]
    if candidates is None:
        return
    if type(candidates) is not int or candidates < 2 or row["type"] != EventType.received.name:
        raise ValueError("it is no delivery of one of several equal messages")
    if step is not None and step["how"] == "message":
        yield (
            f"event {place.id} is said to be caused by a message, and may be any of {candidates}"
            " equal ones"
        )


def signature_faults(manifest: Json, trusted: bytes | None) -> Iterator[str]:
    """Faults of a manifest's signature; ``trusted`` is the public key that it must be by.

    A manifest without one is only wrong where a key is given.
    """
    if SIGNATURE not in manifest:
        if trusted is not None:
            yield "the manifest is not signed"
        return
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    signature = manifest[SIGNATURE]
    try:
        if type(signature) is not dict or signature.keys() != {*_SIGNATURE}:
            raise ValueError("its fields are not those of a signature")
        if signature["algorithm"] != ALGORITHM:
            raise ValueError(f"the algorithm is {signature['algorithm']!r}")
        key, value = _octets(signature["key"]), _octets(signature["value"])
        public = Ed25519PublicKey.from_public_bytes(key)
    except _READ_ERRORS as error:
        yield f"the signature cannot be read: {_reason(error)}"
        return
    if trusted is not None and key != trusted:
        yield "the manifest is signed by another key"
    try:
        public.verify(value, signed_bytes(manifest))
    except InvalidSignature:
        yield "the signature does not fit the manifest"


def public_key(text: bytes) -> bytes:
    """A public key as PEM, or its 32 bytes as base64; raises `ValueError`."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if text.lstrip().startswith(b"-----BEGIN"):
        key = load_pem_public_key(text)
        if not isinstance(key, Ed25519PublicKey):
            raise ValueError("it is no Ed25519 key")
        return key.public_bytes_raw()
    raw = base64.b64decode(text.strip(), validate=True)
    return Ed25519PublicKey.from_public_bytes(raw).public_bytes_raw()
