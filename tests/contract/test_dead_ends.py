"""Deliveries of a kind that leads to nothing, while their receiver publishes for others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.store import Store
from app.stored.conversations import ConversationFilter
from app.stored.reading import EventFilter
from app.tracker import Publish
from model.conversations.messages import Outcome
from model.words import Via
from tests.contract.endings import (
    APPLICATIONS,
    BATCHES,
    GATHERED,
    JOINS,
    MILLISECOND,
    UNEVEN,
    Program,
    Reaction,
    run,
    verdict,
)


@pytest.mark.parametrize("via", [Via.links, Via.conversation])
async def test_what_leads_to_nothing_leaves_no_conversation_open(store: Store, via: Via) -> None:
    records = run(APPLICATIONS["a worker that answers one type of two"].programs, 8, 3)
    at_rest = await verdict(store, "/", records, 1.0, via)
    assert at_rest.decided == at_rest.ended == 8
    page = await store.conversations.list(EventFilter(), ConversationFilter(), via)
    assert {each.outcome for each in page.items} == {Outcome.done}, "lists say the same"


@pytest.mark.parametrize("via", [Via.links, Via.conversation])
async def test_a_burst_of_another_type_hides_no_dead_end(store: Store, via: Via) -> None:
    """As where all of a type are handled before the first of another, and in the same queue."""
    records = run(APPLICATIONS["a worker that answers one type of two"].programs, 80, 3)
    noted = [each for each in records if each.record.properties["type"] == "noted"]
    burst = [each for each in records if each not in noted[12:]]
    at_rest = await verdict(store, "/", burst, 1.0, via)
    assert at_rest.decided == at_rest.ended == 80, at_rest.sentences


async def test_messages_without_keys_are_told_by_links_in_a_conversation_too(store: Store) -> None:
    programs = [
        replace(program, begins_with_key=False)
        for program in APPLICATIONS["a worker that answers one type of two"].programs
    ]
    at_rest = await verdict(store, "/", run(programs, 8, 3), 1.0, Via.conversation)
    assert at_rest.decided == at_rest.ended == 8


async def test_quiet_events_before_its_first_do_not_hide_how_a_program_began(
    store: Store,
) -> None:
    """As Celery's workers, which greet each other before they have anything to do."""
    records = run(APPLICATIONS["a worker that answers others"].programs, 8, 3)
    channels = dict.fromkeys(record.record.channel for record in records)
    greetings = [
        records[0]._replace(record=Publish(channel, "celeryev", ("worker.online",), (), {}, b""))
        for channel in channels
    ]
    at_rest = await verdict(store, "/", [*greetings, *records], 1.0)
    assert at_rest.decided == at_rest.ended == 16


async def test_who_is_slow_with_a_type_is_waited_for(store: Store) -> None:
    records = run(APPLICATIONS["a worker that is slow with one type of two"].programs, 8, 3)
    verdicts = [
        await verdict(store, f"{share}", records, share, Via.conversation)
        for share in (0.5, 0.7, 0.9, 0.95)
    ]
    assert not [lie for each in verdicts for lie in each.lies]
    assert any(
        each.outcomes["goes on: open"] or each.outcomes["goes on: unknown"] for each in verdicts
    )


@pytest.mark.parametrize(
    ("name", "via", "one_way"),
    [(name, Via.conversation, False) for name in JOINS]
    + [(name, Via.links, True) for name in JOINS if "names" in name],
)
async def test_who_waits_for_two_messages_does_not_leave_the_other_one_done(
    store: Store, name: str, via: Via, one_way: bool
) -> None:
    records = run(JOINS[name].programs, 8, 3, one_way=one_way)
    while_busy = await verdict(store, "busy", records, 0.9, via, 4)
    assert while_busy.lies == []
    at_rest = await verdict(store, "rest", records, 1.0, via)
    # The credits that were matched with orders, by the orders' keys or new ones.
    assert at_rest.outcomes["ended: unknown"] >= 8
    reason = " has published since, but only for other messages"
    assert all(reason in sentence for sentence in at_rest.sentences)


@pytest.mark.parametrize("name", BATCHES)
async def test_what_waits_in_a_batch_is_not_done(store: Store, name: str) -> None:
    """Of the last ones that were handed over before, too, none led anywhere by itself."""
    records = run(BATCHES[name].programs, 2 * GATHERED, 3)
    in_batch = await verdict(store, "/", records, 0.96, Via.conversation, 85)
    assert in_batch.lies == []
    assert in_batch.outcomes["goes on: open"] + in_batch.outcomes["goes on: unknown"] >= 80


@pytest.mark.parametrize("via", [Via.links, Via.conversation])
async def test_who_was_handed_many_at_once_may_be_at_its_first_batch(
    store: Store, via: Via
) -> None:
    """Whoever never published is no dead end for all that it took in."""
    programs = [
        Program("shop", begins="placed"),
        Program(
            "statistics",
            ("placed",),
            {"placed": [Reaction("counted", gathers=40, work=(30_000, 30_000))]},
        ),
        Program("board", ("counted",)),
    ]
    records = run(programs, 40, 3, every=10)
    while_at_work = await verdict(store, "/", records, 80 / 82, via, later=25_000 * MILLISECOND)
    assert while_at_work.outcomes == {"goes on: open": 40}


@pytest.mark.parametrize("answers", [{}, {"accepted": [Reaction("reserved")]}])
async def test_who_is_handed_messages_of_a_new_type_is_given_time_for_the_first(
    store: Store, answers: dict[str, list[Reaction]]
) -> None:
    """Whatever it did with others, which may be nothing at all, for minutes."""
    later = Reaction("filed", work=(15_000, 15_000))
    programs = [
        Program("shop", begins="accepted"),
        Program("press", begins="noted", begins_after=110_000),
        Program("stock", ("accepted", "noted"), {"noted": [later], **answers}),
        Program("desk", ("filed", "reserved")),
    ]
    records = run(programs, 24, 3, every=5_000)
    noted = [n for n, each in enumerate(records) if each.record.properties["type"] == "noted"]
    verdicts = [
        await verdict(store, f"{share}", records, share, Via.conversation)
        for share in ((n + 1.5) / len(records) for n in noted[:8])
    ]
    assert not [lie for each in verdicts for lie in each.lies]


@pytest.mark.long(180)
@pytest.mark.parametrize("via", [Via.links, Via.conversation])
@pytest.mark.parametrize("name", UNEVEN)
async def test_who_works_unevenly_is_waited_for(store: Store, name: str, via: Via) -> None:
    for seed, share in enumerate((0.4, 0.71, 0.83, 0.9)):
        records = run(UNEVEN[name].programs, 110, seed)
        newest = await verdict(store, f"{share}", records, share, via, 24)
        assert newest.lies == []
        assert newest.outcomes["goes on: done"] == 0
