"""Briefs of conversations, each one line of JSON: its variant, and what led to what.

Spark makes a brief of each conversation once; expectations are learnt from briefs alone. Nothing
here does I/O.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from model.conversations.conversation import Conversation
from model.conversations.messages import Message
from model.deaths import headers_of
from model.described import json_of
from model.gaps import Gap
from model.remaining import direct_effects
from model.reports.learning import FeatureKind
from model.variants import failures_of, messages_of_events, variant_of, waits
from model.words import EventType

if TYPE_CHECKING:
    from spark_jobs.reports.conversations import ConversationRows

Json: TypeAlias = dict[str, Any]
Row: TypeAlias = Mapping[str, Any]

MOST_FEATURES = 200
"""Features kept of a conversation: those of its first messages."""
LONGEST_FEATURE = 120
MOST_KNOWN = 10_000
"""Variants that a task remembers to have described."""
_SEPARATOR = "\x1f"
_LEAST_SIZE = 256  # bytes; below that, bodies are all alike


class Case(NamedTuple):
    """A message, as a case of its type: what it led to, and what was before it.

    Attributes:
        published_at: when it was published (µs).
        wait: until each of its copies was first handed over (µs); None if one was not.
        effects: by type, the messages it led to directly, and the time to the first (µs).
        predecessors: types of messages of this conversation that happened before it.
        marks: how it failed, in words, and ``waiting`` for a copy that was not handed over.
    """

    event: int
    type: str
    published_at: int
    wait: int | None
    effects: dict[str, tuple[int, int]]
    predecessors: list[str]
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


def text_of_brief(brief: Brief) -> str:
    return json.dumps(brief, separators=(",", ":"))


def brief_in(text: str) -> Brief:
    *facts, cases, features = json.loads(text)
    return Brief._make([*facts, [Case(*case) for case in cases], features])


def brief_of(conversation_rows: ConversationRows, described: set[str]) -> Brief:
    """The brief of a conversation; ``described`` are variants with a shape in earlier briefs."""
    conversation, rows = conversation_rows.conversation, conversation_rows.rows
    variant = variant_of(conversation)
    is_new = variant.digest not in described
    if is_new and len(described) < MOST_KNOWN:
        described.add(variant.digest)
    of_event = messages_of_events(conversation)
    types_before = _types_before(conversation, of_event)
    effects = direct_effects(conversation)
    cases = [
        Case(
            message.record.id,
            message.record.message_type,
            message.record.recorded_at,
            _waiting_time(message),
            {
                name: (len(messages), min(each.at for each in messages) - message.at)
                for name, messages in effects[message.event].items()
            },
            types_before[message.record.id],
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
        conversation_rows.is_cut,
        cases,
        features_of(conversation, rows),
    )


def _waiting_time(message: Message) -> int | None:
    first = [
        copy.deliveries[0].record.recorded_at if copy.deliveries else None
        for copy in message.copies
    ]
    times = [handed_at for handed_at in first if handed_at is not None]
    if not times or len(times) < len(first):
        return None
    return max(0, max(times) - message.record.recorded_at)


def _types_before(
    conversation: Conversation, of_event: Mapping[int, Message]
) -> dict[int, list[str]]:
    """The types that happened before each message, by causes and by participants' order.

    Every event has a set of types, so a set is a number with a bit for each.
    """
    types: list[str] = []
    bits: dict[str, int] = {}
    pasts: dict[int, int] = {}  # by event
    last_pasts: dict[int, int] = {}  # by participant: up to its last event
    types_before: dict[int, list[str]] = {}
    by_id = {message.record.id: message for message in conversation.messages}
    for event, owner, participant in sorted(_events(conversation)):
        past = last_pasts.get(participant, 0)
        message = by_id.get(event)
        if message is None:  # a delivery of a message
            past |= pasts.get(owner, 0)
        else:
            for cause in message.led_by:
                past |= pasts.get(cause.event, 0)
            types_before[event] = [name for name in types if past & bits[name]]
            name = message.record.message_type
            if name not in bits:
                bits[name] = 1 << len(types)
                types.append(name)
            past |= bits[name]
        pasts[event] = last_pasts[participant] = past
    return types_before


def _events(conversation: Conversation) -> Iterator[tuple[int, int, int]]:
    """Each event with its message and its participant."""
    for message in conversation.messages:
        yield message.record.id, message.record.id, message.record.participant
        for copy in message.copies:
            for delivery in copy.deliveries:
                if delivery.record.id != message.record.id:
                    yield delivery.record.id, message.record.id, delivery.record.participant


def features_of(conversation: Conversation, rows: Mapping[int, Row]) -> list[str]:
    """Features that other conversations may share: participants, headers, exchanges, sizes.

    Each is a line of a kind, a type and a value, see `parts_of`.
    """
    features: dict[str, None] = {}
    for message in conversation.messages:
        row, name = rows.get(message.record.id), message.record.message_type
        features[feature("message", name, "")] = None
        if row is not None and message.record.type is EventType.published:
            features[feature("exchange", "", message.record.exchange or "(default)")] = None
            features[feature("size", name, size_of(row["payload_bytes"]))] = None
            for header, value in headers_of(row["properties"]).items():
                if isinstance(value, (str, int, bool)):
                    features[feature("header", name, f"{header}={value}")] = None
    for row in rows.values():
        features[feature("participant", "", row["participant_name"])] = None
        features[feature("place", "", row["place"])] = None
    short = (line for line in features if len(line) <= LONGEST_FEATURE)
    return [line for line, _ in zip(short, range(MOST_FEATURES), strict=False)]


def feature(kind: FeatureKind, name: str, value: str) -> str:
    return f"{kind}{_SEPARATOR}{name}{_SEPARATOR}{value}"


def parts_of_feature(feature: str) -> tuple[FeatureKind, str | None, str]:
    """A feature's kind, the type of its message, if it is of one, and its value."""
    kind, name, value = feature.split(_SEPARATOR, 2)
    return cast(FeatureKind, kind), name or None, value


def size_of(count: int) -> str:
    """The range of a body's size in bytes: each range ends at four times its beginning."""
    if count < _LEAST_SIZE:
        return f"under {_LEAST_SIZE} bytes"
    lower = _LEAST_SIZE
    while count >= 4 * lower:
        lower *= 4
    return f"{lower:,} bytes or more" if lower >= 4**10 else f"{lower:,} to {4 * lower - 1:,} bytes"


class Horizon:
    """The end of what was observed: the record's end, or the beginning of a gap."""

    def __init__(self, until: int, gaps: Sequence[Gap] = ()) -> None:
        self._until = until
        self._gaps = sorted(gaps, key=lambda gap: gap.after_event_id)
        self._gap_starts = [gap.after_event_id for gap in self._gaps]

    def is_known(self, brief: Brief) -> bool:
        """Tell whether a conversation is whole, and spans no gap."""
        return brief.is_whole and not any(
            gap.is_spanned(brief.root, brief.last) for gap in self._gaps
        )

    def end_for(self, brief: Brief) -> int:
        """The time up to which a known conversation was observed (µs)."""
        index = bisect_left(self._gap_starts, brief.last)
        return min([self._until, *(gap.since for gap in self._gaps[index:])])
