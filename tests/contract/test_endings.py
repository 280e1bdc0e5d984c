"""What is said of conversations that have ended, and of those that go on, while programs work."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.store import Store
from model.words import Via
from tests.contract.endings import (
    APPLICATIONS,
    LONG,
    MILLISECOND,
    MOMENTS,
    Program,
    Reaction,
    run,
    verdict,
)

BEGINNINGS = 16


@pytest.fixture
async def store(migrated_file: Path, tmp_path: Path) -> AsyncIterator[Store]:
    """One kind of database: what they answer is compared elsewhere."""
    shutil.copy(migrated_file, tmp_path / "itc.db")
    store = await Store.open(f"sqlite:///{tmp_path / 'itc.db'}")
    yield store
    await store.close()


@pytest.mark.parametrize("via", [Via.links, Via.conversation])
@pytest.mark.parametrize("name", APPLICATIONS)
async def test_what_goes_on_is_never_done_and_what_has_ended_is_where_messages_tell(
    store: Store, name: str, via: Via
) -> None:
    application = APPLICATIONS[name]
    records = run(application.programs, BEGINNINGS, 3)
    verdicts = [await verdict(store, f"{share}", records, share, via) for share in MOMENTS]
    assert not [lie for each in verdicts for lie in each.lies]
    at_rest = verdicts[-1]
    assert at_rest.ended >= BEGINNINGS
    if via in application.tells:
        assert at_rest.decided >= 0.95 * at_rest.ended, at_rest.sentences


async def test_what_leads_to_nothing_ends_where_a_queue_is_busy(store: Store) -> None:
    """Of such a queue's newest deliveries none is old enough to say what comes of its kind."""
    application = APPLICATIONS["a worker that answers one type of two"]
    records = run(application.programs, 120, 3, every=1_000)
    while_busy = await verdict(store, "/", records, 0.8, Via.conversation)
    assert while_busy.decided >= 0.9 * while_busy.ended
    assert while_busy.lies == []


async def test_a_program_is_given_time_for_the_first_that_it_publishes(store: Store) -> None:
    """Of few messages it may have each in work, for longer than is waited for others."""
    programs = [
        Program("shop", begins="placed"),
        Program("reports", ("placed",), {"placed": [Reaction("reported", work=(20_000, 40_000))]}),
        Program("archive", ("reported",)),
    ]
    records = run(programs, BEGINNINGS, 3)
    while_at_work = await verdict(store, "/", records, 0.5, later=17_000 * MILLISECOND)
    assert (while_at_work.ended, while_at_work.outcomes) == (0, {"goes on: open": BEGINNINGS})
    at_rest = await verdict(store, "at rest", records, 1, later=10 * LONG)
    assert at_rest.outcomes == {"ended: done": BEGINNINGS}


async def test_where_messages_tell_nothing_what_would_tell_is_said(store: Store) -> None:
    records = run(APPLICATIONS["nothing"].programs, BEGINNINGS, 1)
    at_rest = await verdict(store, "/", records, 1.0, Via.links)
    assert at_rest.decided == 0
    for sentence in at_rest.sentences:
        assert sentence.endswith("to know, have messages carry their cause's id or a key")
