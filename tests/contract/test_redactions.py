"""Rules of redaction, and the sets of rules before them, by which messages are recognised."""

from __future__ import annotations

import pytest

from app.errors import BadRequestError, NotFoundError
from app.store import Store
from app.tracker.redaction import FORMER_RULES, Redaction


def rule(name: str, place: str = "$message.header#/x") -> Redaction:
    return Redaction.from_json({"name": name, "places": place})


async def test_rules_stand_in_order_and_earlier_sets_behind_them(
    store: Store, trace_id: int
) -> None:
    put = store.redactions.put
    assert [await put(trace_id, rule(name), has_key=True) for name in "ba"] == [True, True]
    assert await put(trace_id, rule("b", "$message.header#/y"), has_key=True) is False
    await put(trace_id, rule("a"), has_key=True)  # the same again changes nothing
    stored = await store.redactions.of_trace(trace_id)
    assert stored.rules == (rule("b", "$message.header#/y"), rule("a"))
    assert stored.former == ((rule("b"), rule("a")), (rule("b"),), ())

    await store.redactions.remove(trace_id, "b")
    with pytest.raises(NotFoundError):
        await store.redactions.remove(trace_id, "b")
    with pytest.raises(BadRequestError, match="ITC_REDACTION_KEY"):
        await put(trace_id, rule("c"), has_key=False)
    for number in range(FORMER_RULES + 2):
        await put(trace_id, rule(f"r{number}"), has_key=True)
    assert len((await store.redactions.of_trace(trace_id)).former) == FORMER_RULES
