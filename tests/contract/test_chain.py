"""The chain between two events at once, and what events touched, against looking everywhere."""

from __future__ import annotations

import random
from collections import Counter
from types import ModuleType

import pytest
from sqlalchemy import text

from app.errors import BadRequestError, NotFoundError
from app.store import Store
from app.store.causality import chains, touched, walks
from app.store.database import chunks
from app.stored.causality import Touched
from app.tracker import Deliver
from app.tracker.events import StampedEvent
from itc import Relation, compare
from model import ways as walk
from model.answers import Verdict
from model.words import Match, Via
from tests.contract.history import History
from tests.contract.links import LinkedHistory
from tests.contract.test_links import Closure, _id, _stored


def ordered(events: list[StampedEvent], a: StampedEvent, b: StampedEvent) -> list[int]:
    """The chain from a to b, as their stamps have it."""
    if compare(a.stamp, b.stamp) is not Relation.before:
        return []
    return [_id(e) for e in events if a.stamp.leq(e.stamp) and e.stamp.leq(b.stamp)]


def lying(closure: Closure, a: StampedEvent, b: StampedEvent) -> list[int]:
    """What lies on the ways from a to b."""
    after = {_id(a), *closure.reached(_id(a), closure.after)}
    before = {_id(b), *closure.reached(_id(b), closure.before)}
    return sorted(after & before) if _id(b) in after else []


@pytest.mark.parametrize("via", [*Via])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long(3))])
async def test_a_chain_is_all_that_lies_between_by_pages(
    store: Store, trace_id: int, via: Via, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 40)
    monkeypatch.setattr(walks, "FRONTIER", 8)
    history = LinkedHistory(seed, channels=(3, 6)[seed % 2], acts=True)
    await _stored(store, trace_id, history)
    dice = random.Random(seed)
    closure = Closure(history.linked, via)

    def between(a: StampedEvent, b: StampedEvent) -> list[int]:
        return ordered(history.linked, a, b) if via is Via.any else lying(closure, a, b)

    lengths = []
    ends = [sorted(dice.sample(history.linked, 2), key=_id) for _ in range(60)]
    ends.sort(key=lambda pair: len(between(*pair)))
    for a, b in (ends[0], ends[30], *ends[-4:]):
        expected = between(a, b)
        lengths.append(len(expected))
        whole = await store.chains.find(_id(a), _id(b), 1_000, via=via)
        assert [each.id for each in whole.items] == expected
        assert (whole.count, whole.truncated) == (len(expected), False)
        acting = {each.participant for each in history.linked if _id(each) in set(expected)}
        assert whole.participants == len(acting)
        turned = await store.chains.find(_id(b), _id(a), 1_000, via=via)
        assert [each.id for each in turned.items] == expected
        shown = {each.id for each in whole.items}
        steps = {(step.cause, step.effect) for step in whole.steps}
        evident = Closure(history.linked, Via.links).before
        assert steps == {(c, e) for e in shown for c in evident[e] if c in shown}
        for limit in (50,) if len(expected) > 8 else (1, 3):
            assert await paged(store, a, b, via, limit) == expected
    assert max(lengths) > 3
    assert min(lengths) == 0


async def paged(store: Store, a: StampedEvent, b: StampedEvent, via: Via, limit: int) -> list[int]:
    found: list[int] = []
    while True:
        cursor = found[-1] if found else None
        page = await store.chains.find(_id(a), _id(b), limit, via=via, after=cursor)
        assert len(page.items) <= limit
        found += [each.id for each in page.items]
        if not page.truncated:
            return found
        assert len(page.items) == limit


async def test_a_chain_of_too_many_participants_is_not_counted(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = LinkedHistory(3)
    await _stored(store, trace_id, history)
    monkeypatch.setattr(chains, "MOST_COUNTED", 2)
    whole = await store.chains.find(_id(history.linked[0]), _id(history.linked[-1]), 10)
    assert (whole.count, whole.participants) == (None, None)


@pytest.mark.parametrize(("module", "bound"), [(chains, "MOST_REACHED"), (walk, "MOST_STEPS")])
async def test_a_chain_that_is_too_long_to_follow_says_so(
    store: Store, trace_id: int, module: ModuleType, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = LinkedHistory(0, channels=3)
    await _stored(store, trace_id, history)
    closure = Closure(history.linked, Via.links)
    first = max(map(_id, history.linked), key=lambda e: len(closure.reached(e, closure.after)))
    last = max(closure.reached(first, closure.after))
    monkeypatch.setattr(module, bound, 1)
    found = await store.chains.find(first, last, 100, via=Via.links)
    assert (found.items, found.truncated, found.count) == ([], True, None)


async def test_an_unknown_end_of_a_chain_is_an_error(store: Store, trace_id: int) -> None:
    await _stored(store, trace_id, LinkedHistory(0))
    for a, b in ((1, 10**6), (10**6, 1)):
        with pytest.raises(NotFoundError):
            await store.chains.find(a, b, 10)


async def late_link(store: Store, trace_id: int, cause: StampedEvent, effect: StampedEvent) -> None:
    """A link that was found after its effect had been stamped."""

    async def note(connection) -> None:  # type: ignore[no-untyped-def]
        row = {"t": trace_id, "e": _id(effect), "c": _id(cause)}
        await connection.execute(
            text(
                "INSERT INTO edges (trace_id, effect_id, cause_id, rule, kind, way)"
                " VALUES (:t, :e, :c, 'late', 0, 0)"
            ),
            row,
        )
        await connection.execute(
            text("INSERT INTO late_edges (trace_id, effect_id, cause_id) VALUES (:t, :e, :c)"), row
        )

    await store._database.write(note)


async def test_links_that_clocks_do_not_have_lead_along_links_alone(
    store: Store, trace_id: int
) -> None:
    history = LinkedHistory(4, channels=6, acts=True)
    await _stored(store, trace_id, history)
    events = history.linked
    closure = Closure(events, Via.links)
    dice = random.Random(4)
    added = 0
    while added < 12:
        cause, effect = sorted(dice.sample(events, 2), key=_id)
        its = closure.before[_id(effect)]
        if effect.quiet or compare(cause.stamp, effect.stamp) is not Relation.concurrent:
            continue
        await late_link(store, trace_id, cause, effect)
        closure.after[_id(cause)].add(_id(effect))
        its.add(_id(cause))
        added += 1
    for _ in range(4):
        a, b = sorted(dice.sample(events, 2), key=_id)
        whole = await store.chains.find(_id(a), _id(b), 1_000)
        assert [each.id for each in whole.items] == ordered(events, a, b)
        assert whole.count == len(whole.items)
        along = await store.chains.find(_id(a), _id(b), 1_000, via=Via.links)
        assert [each.id for each in along.items] == lying(closure, a, b)
        await check_touched(store, events, closure, [a])


# What events touched


def verdicts(
    events: list[StampedEvent], closure: Closure, asked: list[StampedEvent]
) -> dict[Verdict, list[int]]:
    """Each event after the first of some, by looking at all of them."""
    own = {_id(each) for each in asked}
    caused: set[int] = set()
    for each in asked:
        caused |= closure.reached(_id(each), closure.after).keys()
    doubtful = [
        each for each in events if each.is_doubtful and not each.quiet and _id(each) > min(own)
    ]
    found: dict[Verdict, list[int]] = {verdict: [] for verdict in Verdict}
    for event in events:
        if _id(event) in own or _id(event) < min(own):
            continue
        verdict = Verdict.cannot_have
        if _id(event) in caused:
            verdict = Verdict.caused
        elif any(each.stamp.leq(event.stamp) for each in asked):
            verdict = Verdict.may_have
        elif any(each.stamp.leq(event.stamp) for each in doubtful):
            verdict = Verdict.unknown
        found[verdict].append(_id(event))
    return found


async def check_touched(
    store: Store,
    events: list[StampedEvent],
    closure: Closure,
    asked: list[StampedEvent],
    to: int | None = None,
) -> dict[Verdict, list[int]]:
    if to is not None:
        events = [each for each in events if _id(each) <= to]
    until = _id(events[-1]) if to is None else to
    expected = verdicts(events, closure, asked)
    ids = [_id(each) for each in asked]
    found = await store.touched.effects_of(ids, last_id=until)
    await check_services(store, events, expected, found)
    handed = {_id(each): each.record for each in events if isinstance(each.record, Deliver)}
    queues = [handed[each].queue for each in expected[Verdict.caused] if each in handed]
    assert [(each.name, each.deliveries) for each in found.queues] == [*Counter(queues).items()]
    counts = (found.caused, found.may_have, found.cannot_have, found.unknown)
    assert (found.since, *counts) == (
        sum(map(len, expected.values())),
        *(len(expected[verdict]) for verdict in Verdict),
    )
    assert (found.as_of, found.caused_truncated) == (_id(events[-1]), False)
    for verdict in Verdict:
        for limit in (1, 100) if to is None else (100,):
            listed: list[int] = []
            page, cursor = found, None
            while cursor is not None or page is found:
                page = await store.touched.effects_of(
                    ids, verdict=verdict, limit=limit, after=cursor, last_id=until
                )
                listed += [each.id for each in page.items]
                assert len(page.items) <= limit
                cursor = page.next
                if limit == 1 and len(listed) > 1:
                    break
            assert listed == expected[verdict][: len(listed)]
            assert limit == 1 or listed == expected[verdict]
    return expected


async def check_services(
    store: Store, events: list[StampedEvent], expected: dict[Verdict, list[int]], found: Touched
) -> None:
    """Who did something since: each with the strongest verdict of its events."""
    trace = (await store.events.get(_id(events[0]))).trace_id
    names = {
        each.participant: each.client or each.user for each in await store.participants.list(trace)
    }
    whose = {_id(event): event.participant for event in events}
    strongest = [Verdict.caused, Verdict.may_have, Verdict.unknown, Verdict.cannot_have]
    services: dict[str, tuple[Verdict, int]] = {}
    firsts: dict[str, int] = {}
    for name in {*names.values()}:
        its = [
            (verdict, event)
            for verdict in strongest
            for event in expected[verdict]
            if names[whose[event]] == name
        ]
        if its:
            services[name] = (its[0][0], len({whose[event] for _, event in its}))
            if its[0][0] is Verdict.caused:
                firsts[name] = its[0][1]
    shown = found.services
    assert {each.name: (each.verdict, each.participants) for each in shown} == services
    assert {each.name: each.first for each in shown if each.name in firsts} == firsts
    heard = {Verdict.caused, Verdict.may_have}
    assert all((each.first is not None) == (each.verdict in heard) for each in shown)
    assert (found.all_heard_at is not None) == (
        bool(shown) and all(each.verdict in heard for each in shown)
    )


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long(5))])
async def test_what_events_touched_is_what_stamps_and_links_say(
    store: Store, trace_id: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 40)
    monkeypatch.setattr(touched, "MOST_LOOKED_AT", 150)
    history = LinkedHistory(seed, channels=(6, 12)[seed % 2])
    await _stored(store, trace_id, history)
    closure = Closure(history.linked, Via.links)
    dice = random.Random(seed)
    seen = dict.fromkeys(Verdict, 0)
    asked = [dice.sample(history.linked[:200], count) for count in (1, 2, 5)]
    for each in (*asked, [history.linked[0]], [history.linked[-1]]):
        found = await check_touched(store, history.linked, closure, each)
        await check_touched(store, history.linked, closure, each, max(map(_id, each)) + 20)
        for verdict in Verdict:
            seen[verdict] += len(found[verdict])
    assert min(seen.values()) > 0


async def test_the_last_event_within_some_time_is_found(store: Store, trace_id: int) -> None:
    history = LinkedHistory(3)
    await _stored(store, trace_id, history)
    times = {_id(each): each.recorded_at for each in history.linked}
    whole = times[max(times)] - times[min(times)]
    for event in [*times][::50]:
        for time in (0, whole // 10, whole):
            last = max(each for each, at in times.items() if at <= times[event] + time)
            assert await store.touched.last_within(event, time) == last


async def test_services_beyond_those_listed_have_to_have_heard_of_it_too(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = LinkedHistory(0)
    await _stored(store, trace_id, history)
    for event in map(_id, history.linked):
        found = await store.touched.effects_of([event], last_id=event + 12)
        if {Verdict.caused, Verdict.cannot_have} <= _of(found):
            break
    monkeypatch.setattr(touched, "MOST_SERVICES", 1)
    found = await store.touched.effects_of([event], last_id=event + 12)
    assert _of(found) == {Verdict.caused}
    assert found.all_heard_at is None


def _of(found: Touched) -> set[Verdict]:
    return {each.verdict for each in found.services}


async def test_more_than_can_be_followed_is_said_to_be_only_possible(
    store: Store, trace_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = LinkedHistory(0, channels=3)
    await _stored(store, trace_id, history)
    closure = Closure(history.linked, Via.links)
    start = max(history.linked, key=lambda each: len(closure.reached(_id(each), closure.after)))
    expected = verdicts(history.linked, closure, [start])
    assert len(expected[Verdict.caused]) > 3
    monkeypatch.setattr(touched, "MOST_CAUSED", 3)
    found = await store.touched.effects_of([_id(start)], verdict=Verdict.caused, limit=100)
    assert ([e.id for e in found.items], found.caused_truncated) == (
        expected[Verdict.caused][:3],
        True,
    )
    assert found.cannot_have == len(expected[Verdict.cannot_have])
    assert found.caused + found.may_have == sum(map(len, expected.values())) - found.cannot_have


async def test_events_of_two_traces_touch_nothing_together(store: Store, trace_id: int) -> None:
    await _stored(store, trace_id, LinkedHistory(0))
    rows = [(await store.events.get(each)).trace_id for each in range(1, 90)]
    strange = rows.index(next(each for each in rows if each != trace_id)) + 1
    with pytest.raises(BadRequestError, match="two virtual hosts"):
        await store.touched.effects_of([1, strange])
    with pytest.raises(NotFoundError):
        await store.touched.effects_of([10**6])


async def test_deliveries_whose_publish_is_unknown_are_judged_by_their_stamps(
    store: Store, trace_id: int
) -> None:
    history = History(seed=5, channels=4)
    await store.batches.append(trace_id, history.batch(60))
    closure = Closure(history.events, Via.links)
    unmatched = [each for each in history.events if each.match is Match.unmatched]
    assert unmatched
    for event in (history.events[0], unmatched[0]):
        await check_touched(store, history.events, closure, [event])
