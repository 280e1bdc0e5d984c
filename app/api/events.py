"""The event object, and the answers about events and their causes.

Lists of events are made here; their schema comes from the same `model.event.EVENT_FIELDS`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypedDict

import msgspec

from app.api.signin.permissions import ReadRights
from app.stored.causality import LINKS, CausalPath, Named, PathStep
from app.stored.reading import VectorEntry
from app.stored.spans import HandlingTime
from itc import Relation, encode, packed_texts
from model.answers import Answer, statement_of
from model.conversations.messages import CopyWord
from model.event import EVENT_FIELDS, NOTHING_LARGE, WITHOUT_CONTENT, Event, Large, ShownField
from model.sound import Certainty
from model.words import WalkWord

# Apart from these characters, the paper's notation of a tree is JSON.
_BRACKETS = str.maketrans("()", "[]", " ")


def _type_of(field: ShownField) -> Any:
    kinds = {"text": str, "words": list[str], "table": dict[str, Any]}
    plain = field.type if field.kind == "text" and field.type is not bytes else None
    kind: Any = plain or kinds.get(field.kind, field.type)
    return Annotated[kind | None if field.nullable else kind, field.display.meaning]


if TYPE_CHECKING:
    EventObject: TypeAlias = dict[str, Any]
    EventColumns: TypeAlias = dict[str, Any]
else:
    _MEMBERS = {field.name: _type_of(field) for field in EVENT_FIELDS.values()}
    _LINKS = Annotated[list[Named], f"{LINKS} With `links=true`."]
    EventObject = TypedDict("Event", _MEMBERS)
    EventObject.__doc__ = "A stored, stamped occurrence."
    EventColumns = TypedDict("EventColumns", {**_MEMBERS, "links": _LINKS}, total=False)
    EventColumns.__doc__ = "An event of which only some columns were asked for, or its links, too."

Events: TypeAlias = list[EventObject] | list[EventColumns]

Tree: TypeAlias = Annotated[
    int | list[Any],
    "The paper's tree as nested arrays: an id is 0, 1 or [left, right], an event a count or "
    "[count, left, right].",
]


class ItcClock(msgspec.Struct, frozen=True):
    """The stamp in three forms: the paper's text, trees, and bit code."""

    text: str
    id: Tree
    event: Tree
    code: Annotated[str, "Hexadecimal."]


class Clocks(msgspec.Struct, frozen=True):
    """The three clocks of one event."""

    lamport: int
    vector: list[VectorEntry]
    itc: ItcClock


class EventDetail(msgspec.Struct, frozen=True):
    """One event with its clocks and its links."""

    clocks: Clocks
    handled: Annotated[
        list[HandlingTime],
        "Who handled the message of a publish, or what was received here. Empty without spans, and "
        "where they do not tell of which delivery they are.",
    ]


class PageItems(msgspec.Struct, frozen=True):
    """The events of a page."""

    items: Events


class EventWalk(msgspec.Struct, frozen=True):
    """Causes or effects of an event, nearest first."""

    event: int
    items: Events
    truncated: bool
    next: Annotated[
        int | None, "Where it is truncated: `after` for more effects, `before` for more causes."
    ]


class CopyFate(msgspec.Struct, frozen=True):
    """The fate of the copy that one queue got."""

    queue: str
    state: Annotated[
        CopyWord, "`handed_over` also where it or an equal message was, which `remark` says."
    ]
    deliveries: Events
    dead_letters: Events
    dead_lettered_to: list[str]
    remark: Annotated[str | None, "What became of it where no delivery is known to be of it."]


class Deliveries(msgspec.Struct, frozen=True):
    """A publish's fate, queue by queue."""

    event: int
    routed_queues: int
    handed_over: Annotated[
        int, "For how many of them; without copies of which it or an equal message was."
    ]
    sentence: str
    queues: list[CopyFate]


class Pair(msgspec.Struct, frozen=True):
    """The relation of two events."""

    a: int
    b: int


class Related(msgspec.Struct, frozen=True):
    """The relation of two events, in one word and in a sentence."""

    vhost: str
    relation: Relation
    sentence: str
    answer: Annotated[Answer, "Whether the earlier of the two had a part in the later."]
    path: Annotated[
        list[PathStep] | None,
        "A shortest way of messages, links and what the broker did, from the earlier to the later.",
    ]


class ChainEnds(msgspec.Struct, frozen=True):
    """The chain between two events, as it is found at once."""

    a: int = msgspec.field(name="from")
    b: int = msgspec.field(name="to")
    via: WalkWord
    start: Annotated[int, "The smaller of the two ids."]
    end: Annotated[int, "The larger of the two ids."]
    events: Annotated[Events, "Its events, by id."]


class TouchedEvents(msgspec.Struct, frozen=True):
    """Counts of the events since some: these caused them, may have influenced them, or did not."""

    events: list[int]
    vhost: str
    sentence: str
    items: Annotated[Events | None, "The events with the verdict that is asked for, by id."]


def large_of(columns: Collection[str] | None, payload: bool) -> Large:
    fields = (
        field.large for name, field in EVENT_FIELDS.items() if columns is None or name in columns
    )
    large = NOTHING_LARGE.union(*fields)
    return large if payload else large - {"payload"}


def event_view(
    event: Event, content: ReadRights, columns: Collection[str] | None = None
) -> EventObject:
    fields = EVENT_FIELDS if content.allow(event) else WITHOUT_CONTENT
    return {
        name: field.value(event)
        for name, field in fields.items()
        if columns is None or name in columns
    }


def event_detail(
    event: Event, vector: Iterable[VectorEntry], handled: Iterable[HandlingTime]
) -> EventDetail:
    stamp = event.stamp
    id_tree, event_tree = packed_texts(stamp.packed, event.interval)
    itc = ItcClock(
        f"({id_tree}, {event_tree})",
        _json_tree(id_tree),
        _json_tree(event_tree),
        encode(stamp).hex(),
    )
    return EventDetail(Clocks(event.lamport, [*vector], itc), [*handled])


def _json_tree(text: str) -> Any:
    return msgspec.Raw(text.translate(_BRACKETS).encode())


def relate(
    a: Event,
    b: Event,
    relation: Relation,
    path: CausalPath | None,
    certainty: Certainty,
    doubtful: str | None,
) -> Related:
    """The relation of two events of one trace; ``path`` is from the earlier to the later.

    ``doubtful`` as of `statement_of`. A path by a link that no clock has also means that the
    earlier event was before.
    """
    steps = None if path is None else path.steps
    if steps is not None and relation is Relation.concurrent:
        relation = Relation.before if a.id < b.id else Relation.after
    count = 0 if steps is None else len(steps) - 1
    path_text = f"through {count} event{'s' * (count > 1)}" if count else "directly"
    answer = statement_of(
        a.id,
        b.id,
        relation,
        None if steps is None else path_text,
        complete=certainty.complete,
        sound=certainty.sound,
        doubtful=doubtful,
        candidates=max(a, b, key=lambda event: event.id).candidates,
    )
    return Related(a.vhost, relation, answer.sentence, answer.answer, steps)
