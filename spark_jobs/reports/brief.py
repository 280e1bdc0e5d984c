"""Briefs of conversations, each one line of JSON: of what variant, what led to what.

Spark makes a brief of each conversation once, and everything that is learnt is learnt from briefs.
Nothing here does I/O.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from model.conversations import Conversation, Message
from model.deaths import headers_of
from model.described import json_of
from model.gaps import Gap
from model.reports.learning import FeatureKind
from model.variants import failures_of, messages_of_events, variant_of, waits
from model.words import EventType

if TYPE_CHECKING:
    from spark_jobs.reports.gathering import ConversationRows

Json: TypeAlias = dict[str, Any]
Row: TypeAlias = Mapping[str, Any]

MOST_FEATURES = 200
"""So many features of a conversation are kept: those of its first messages."""
LONGEST_FEATURE = 120
MOST_KNOWN = 10_000
"""Of so many variants a task knows that it has described them."""
_BETWEEN = "\x1f"
_LEAST_SIZE = 256  # bytes; below that, bodies are all alike


class Case(NamedTuple):
    """A message, as one of its type: what it led to, and what was known to be before it.

    Attributes:
        at: when it was published (µs).
        waited: until each of its copies was first handed over (µs); None if one was not.
        effects: by type how many messages it led to directly, and the time to the first (µs).
        before: types of messages of this conversation that happened before it.
        marks: how it failed, in words, and ``waiting`` for a copy that was not handed over.
    """

    event: int
    type: str
    at: int
    waited: int | None
    effects: dict[str, tuple[int, int]]
    before: list[str]
    marks: list[str]


class Brief(NamedTuple):
    """A conversation; ``root`` and ``last`` are its first and last events, times in µs.

    ``shape`` describes the variant, in one brief at least of each. ``is_whole`` is false where a
    delivery's publish is not stored.
    """

    root: int
    last: int
    type: str
    began_at: int
    ended_at: int
    variant: str
    shape: Json | None
    is_whole: bool
    is_cut: bool
    cases: list[Case]
    features: list[str]


def text_of(brief: Brief) -> str:
    """A brief as a line."""
    return json.dumps(brief, separators=(",", ":"))


def brief_in(text: str) -> Brief:
    """The brief of a line."""
    *facts, cases, features = json.loads(text)
    return Brief._make([*facts, [Case(*case) for case in cases], features])


def brief_of(told: ConversationRows, described: set[str]) -> Brief:
    """The brief of a conversation; ``described`` are variants whose shape was told before."""
    conversation, rows = told.conversation, told.rows
    variant = variant_of(conversation)
    is_new = variant.digest not in described
    if is_new and len(described) < MOST_KNOWN:
        described.add(variant.digest)
    of_event = messages_of_events(conversation)
    before = _before(conversation, of_event)
    effects: defaultdict[int, dict[str, list[int]]] = defaultdict(dict)
    for message in conversation.messages:
        named = (of_event.get(cause.event) for cause in message.led_by)
        for cause in {each.it.id: each for each in named if each is not None}.values():
            if cause is not message:
                times = effects[cause.it.id].setdefault(message.it.message_type, [])
                times.append(message.it.at - cause.it.at)
    cases = [
        Case(
            message.it.id,
            message.it.message_type,
            message.it.at,
            _waited(message),
            {name: (len(times), min(times)) for name, times in effects[message.it.id].items()},
            before[message.it.id],
            [*failures_of(message), *(["waiting"] if waits(message) else [])],
        )
        for message in conversation.messages
        if not message.unseen
    ]
    return Brief(
        conversation.root,
        max(rows),
        conversation.type,
        conversation.began_at,
        conversation.ended_at,
        variant.digest,
        json_of(variant.flow()) if is_new else None,
        not any(message.unseen for message in conversation.messages),
        told.is_cut,
        cases,
        features_of(conversation, rows),
    )


def _waited(message: Message) -> int | None:
    first = [copy.deliveries[0].it.at if copy.deliveries else None for copy in message.copies]
    known = [at for at in first if at is not None]
    if not known or len(known) < len(first):
        return None
    return max(0, max(known) - message.it.at)


def _before(conversation: Conversation, of_event: Mapping[int, Message]) -> dict[int, list[str]]:
    """Of each message the types that happened before it: by causes, and by who did what in turn.

    A set of types is a number with a bit for each, because there is one for every event.
    """
    types: list[str] = []
    bits: dict[str, int] = {}
    known: dict[int, int] = {}  # by event
    done: dict[int, int] = {}  # by participant: up to its last event
    found: dict[int, list[str]] = {}
    by_id = {message.it.id: message for message in conversation.messages}
    for event, owner, participant in sorted(_events(conversation)):
        past = done.get(participant, 0)
        message = by_id.get(event)
        if message is None:  # a delivery of a message
            past |= known.get(owner, 0)
        else:
            for cause in message.led_by:
                past |= known.get(cause.event, 0)
            found[event] = [name for name in types if past & bits[name]]
            name = message.it.message_type
            if name not in bits:
                bits[name] = 1 << len(types)
                types.append(name)
            past |= bits[name]
        known[event] = done[participant] = past
    return found


def _events(conversation: Conversation) -> Iterator[tuple[int, int, int]]:
    """Each event, the message that it is of, and who acted."""
    for message in conversation.messages:
        yield message.it.id, message.it.id, message.it.participant
        for copy in message.copies:
            for delivery in copy.deliveries:
                if delivery.it.id != message.it.id:
                    yield delivery.it.id, message.it.id, delivery.it.participant


def features_of(conversation: Conversation, rows: Mapping[int, Row]) -> list[str]:
    """List what a conversation may share with others: who and where, headers, exchanges, sizes.

    Each is a line of a kind, a type and a value, see `parts_of`.
    """
    found: dict[str, None] = {}
    for message in conversation.messages:
        row, name = rows.get(message.it.id), message.it.message_type
        found[feature("message", name, "")] = None
        if row is not None and message.it.type is EventType.published:
            found[feature("exchange", "", message.it.exchange or "(default)")] = None
            found[feature("size", name, size_of(row["payload_bytes"]))] = None
            for header, value in headers_of(row["properties"]).items():
                if isinstance(value, (str, int, bool)):
                    found[feature("header", name, f"{header}={value}")] = None
    for row in rows.values():
        found[feature("participant", "", row["participant_name"])] = None
        found[feature("place", "", row["place"])] = None
    short = (each for each in found if len(each) <= LONGEST_FEATURE)
    return [each for each, _ in zip(short, range(MOST_FEATURES), strict=False)]


def feature(kind: FeatureKind, name: str, value: str) -> str:
    """A feature of a kind; of a message of a type, or of none."""
    return f"{kind}{_BETWEEN}{name}{_BETWEEN}{value}"


def parts_of(feature: str) -> tuple[FeatureKind, str | None, str]:
    """A feature's kind, the type of the message that has it, if it is of one, and its value."""
    kind, name, value = feature.split(_BETWEEN, 2)
    return cast(FeatureKind, kind), name or None, value


def size_of(count: int) -> str:
    """In what range a body's size is, in bytes: each reaches to four times where it begins."""
    if count < _LEAST_SIZE:
        return f"under {_LEAST_SIZE} bytes"
    least = _LEAST_SIZE
    while count >= 4 * least:
        least *= 4
    return f"{least:,} bytes or more" if least >= 4**10 else f"{least:,} to {4 * least - 1:,} bytes"


class Horizon:
    """Up to when a record tells what a conversation led to: its end, or a gap's beginning."""

    def __init__(self, until: int, gaps: Sequence[Gap] = ()) -> None:
        self._until = until
        self._gaps = sorted(gaps, key=lambda gap: gap.after_event_id)
        self._after = [gap.after_event_id for gap in self._gaps]

    def is_known(self, brief: Brief) -> bool:
        """Tell whether a conversation is whole, and spans no gap."""
        return brief.is_whole and not any(
            gap.spanned_by(brief.root, brief.last) for gap in self._gaps
        )

    def until(self, brief: Brief) -> int:
        """Up to when a conversation that is known was observed (µs)."""
        at = bisect_left(self._after, brief.last)
        return min([self._until, *(gap.since for gap in self._gaps[at:])])
