"""Which conversations are of one variant, and how a variant is described."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from model import variants
from model.conversations.assembly import conversation_of
from model.conversations.conversation import Conversation
from model.deaths import Death
from model.described import json_of
from model.happened import Cause, ConversationEvent
from model.variants import Flow, Variant, variant_of
from model.words import EventType, Match


class Sent(NamedTuple):
    """A message: its type, the messages (by place) whose deliveries led to it, how it went."""

    type: str
    causes: tuple[int, ...] = ()
    handed: bool = True
    died: str | None = None
    routed: bool = True


def told(*messages: Sent, base: int = 0) -> Conversation:
    """A conversation of messages that were published in this order, each handed over at once."""
    events, causes, handed = [], {}, {}
    numbers = itertools.count(base + 1)
    for place, one in enumerate(messages):
        number = next(numbers)
        queues = ("work",) if one.routed else ()
        publish = ConversationEvent(
            number,
            EventType.published,
            Match.none,
            None,
            1,
            "shop",
            1_000 * number,
            "",
            (one.type,),
            None,
            queues,
            False,
            one.type,
        )
        events.append(publish)
        if one.causes:
            causes[number] = tuple(Cause(handed[each], "r", "parent") for each in one.causes)
        if not one.handed or not one.routed:
            continue
        for match in (Match.routed, Match.dead_lettered)[: 2 if one.died else 1]:
            last = next(numbers)
            deaths = (
                (Death("work", one.died, 1),) if match is Match.dead_lettered and one.died else ()
            )
            queue = "dead" if deaths else "work"
            events.append(
                publish._replace(
                    id=last,
                    type=EventType.received,
                    match=match,
                    cause=number,
                    participant=2,
                    recorded_at=1_000 * last,
                    queue=queue,
                    routed_queues=(),
                    deaths=deaths,
                )
            )
            handed[place] = last
    return conversation_of(events[0], events, causes)


def variant(*messages: Sent) -> Variant:
    return variant_of(told(*messages))


ORDER = Sent("order")
INVOICE, PARCEL = Sent("invoice", (0,)), Sent("parcel", (0,))


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ([ORDER, INVOICE, PARCEL], [ORDER, PARCEL, INVOICE], True),
        ([ORDER, INVOICE], [ORDER, INVOICE, PARCEL], False),
        ([ORDER, INVOICE], [ORDER, INVOICE, INVOICE], False),
        # Led to by something else
        ([ORDER, INVOICE, Sent("parcel", (1,))], [ORDER, INVOICE, PARCEL], False),
        ([ORDER, INVOICE, Sent("mail", (1,))], [ORDER, INVOICE, Sent("mail", (0,))], False),
        # Which of two that are alike led to more makes no difference
        (
            [ORDER, INVOICE, INVOICE, Sent("mail", (1,))],
            [ORDER, INVOICE, INVOICE, Sent("mail", (2,))],
            True,
        ),
        (
            [ORDER, INVOICE, INVOICE, Sent("mail", (1,)), Sent("mail", (2,))],
            [ORDER, INVOICE, INVOICE, Sent("mail", (2,)), Sent("mail", (2,))],
            False,
        ),
        # Failures count
        ([ORDER, INVOICE], [ORDER, INVOICE._replace(died="rejected")], False),
        ([ORDER, INVOICE], [ORDER, INVOICE._replace(routed=False)], False),
        ([ORDER, INVOICE], [ORDER, INVOICE._replace(handed=False)], False),
        # So do further causes, by their types
        (
            [ORDER, INVOICE, PARCEL, Sent("bill", (1, 2))],
            [ORDER, INVOICE, PARCEL, Sent("bill", (1,))],
            False,
        ),
    ],
)
def test_what_makes_two_conversations_alike(
    one: Sequence[Sent], other: Sequence[Sent], alike: bool
) -> None:
    assert (variant(*one) == variant(*other)) is alike


def test_a_variant_is_described_as_a_tree_with_counts() -> None:
    found = variant(
        ORDER,
        INVOICE,
        INVOICE,
        Sent("mail", (1,)),
        Sent("mail", (2,)),
        PARCEL._replace(died="rejected"),
    )

    def step(name: str, count: int, *steps: Any, failures: Sequence[str] = ()) -> dict[str, Any]:
        said = {"failures": [*failures], "waits": False, "also_after": []}
        return {"type": name, "count": count, **said, "steps": [*steps]}

    assert json_of(found.flow()) == {
        "messages": 6,
        "steps": [
            step(
                "order",
                1,
                step("invoice", 2, step("mail", 1)),
                step("parcel", 1, failures=["died work rejected"]),
            )
        ],
        "truncated": False,
    }


def test_a_long_description_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    line = [ORDER, *(Sent(f"step {n}", (n,)) for n in range(2_000))]
    found = variant(*line)
    assert found.messages == 2_001
    flow = json_of(found.flow())
    assert flow["truncated"]
    assert str(flow).count("'type'") == variants.MOST_SHOWN
    assert Flow.from_json(flow) == found.flow()
    assert variant(*line[:-1]) != found


@pytest.mark.parametrize("seed", range(30))
def test_the_order_of_concurrent_messages_never_counts(seed: int) -> None:
    dice = random.Random(seed)
    size = dice.randrange(2, 12)
    parents = [None, *(dice.randrange(place) for place in range(1, size))]
    types = [dice.choice("abc") for _ in range(size)]

    def in_some_order() -> list[Sent]:
        """The same tree, published in another order that puts causes first."""
        place, left, made = dict[int, int](), {0}, list[Sent]()
        while left:
            chosen = dice.choice(sorted(left))
            left.remove(chosen)
            left |= {each for each in range(size) if parents[each] == chosen}
            place[chosen] = len(made)
            parent = parents[chosen]
            made.append(Sent(types[chosen], () if parent is None else (place[parent],)))
        return made

    found = {variant(*in_some_order()) for _ in range(8)}
    assert len(found) == 1
    changed = in_some_order()
    changed[-1] = changed[-1]._replace(type="another")
    assert variant(*changed) not in found
