"""Deliveries of a kind that leads to nothing, while their receiver publishes for others."""

from __future__ import annotations

import pytest

from app.store import Store
from model.words import Via
from tests.contract.endings import APPLICATIONS, JOINS, UNEVEN, run, verdict


async def test_what_leads_to_nothing_leaves_no_conversation_open_that_has_a_key(
    store: Store,
) -> None:
    records = run(APPLICATIONS["a worker that answers one type of two"].programs, 8, 3)
    at_rest = await verdict(store, "keys", records, 1.0, Via.conversation)
    assert at_rest.decided == at_rest.ended == 8
    by_links = await verdict(store, "links", records, 1.0, Via.links)
    assert by_links.decided < 8


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


@pytest.mark.parametrize("name", JOINS)
async def test_who_waits_for_two_keys_does_not_leave_the_other_one_done(
    store: Store, name: str
) -> None:
    records = run(JOINS[name].programs, 8, 3)
    while_busy = await verdict(store, "busy", records, 0.9, Via.conversation, 4)
    assert while_busy.lies == []
    at_rest = await verdict(store, "rest", records, 1.0, Via.conversation)
    # The credits that were matched with orders, by the orders' keys or new ones.
    assert at_rest.outcomes["ended: unknown"] >= 8
    reason = " has published since, but only for other messages"
    assert all(sentence.endswith(reason) for sentence in at_rest.sentences)


@pytest.mark.long(180)
@pytest.mark.parametrize("via", [Via.links, Via.conversation])
@pytest.mark.parametrize("name", UNEVEN)
async def test_who_works_unevenly_is_waited_for(store: Store, name: str, via: Via) -> None:
    for seed, share in enumerate((0.4, 0.71, 0.83, 0.9)):
        records = run(UNEVEN[name].programs, 110, seed)
        newest = await verdict(store, f"{share}", records, share, via, 24)
        assert newest.lies == []
        assert newest.outcomes["goes on: done"] == 0
