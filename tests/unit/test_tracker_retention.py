"""Retention in the middle of a run: what stays is related as before, reused ids confuse nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.tracker import Bounds, Policy, StampedEvent, Tracker
from itc import Relation, compare
from itc.trees import RelativeTree
from model.words import Match
from tests.model_broker.broker import ModelBroker, layout_of_queues
from tests.model_broker.manners import MANNERS

QUEUES = ("red", "green")
STEPS_OF_A_GENERATION = 6  # then other channels come, and the earlier ones fall silent


def played(broker: ModelBroker, keeps: list[tuple[int, int]]) -> tuple[list[StampedEvent], int]:
    """Stamp a run, forgetting in between; returns all events, and the first id that is kept.

    Each of ``keeps`` says after how many more events retention runs, and how many it keeps.
    """
    tracker = Tracker(Policy.channel, Bounds())
    events: list[StampedEvent] = []
    begin = 1
    due = dict(_due(keeps))
    for number, record in enumerate(broker.records, 1):
        (event,) = tracker.apply(record, number)
        event.reference.id = number
        events.append(event)
        if number in due:
            begin = max(begin, number + 1 - due[number])
            tracker.checkpoint()
            gone = tracker.forget_before(begin)
            stored = {each.participant for each in events[begin - 1 :]}
            assert stored.isdisjoint(gone)
            assert len(tracker.participants) == len(stored)
    return events, begin


def _due(keeps: list[tuple[int, int]]) -> list[tuple[int, int]]:
    at, due = 0, []
    for more, stay in keeps:
        at += more
        due.append((at, stay))
    return due


NAMES = ("ann", "bob", "cid")


def broker_of(names: list[str]) -> ModelBroker:
    return ModelBroker(layout_of_queues(*QUEUES), MANNERS["3.10"], names)


def broker_of_generations(count: int) -> ModelBroker:
    return broker_of([f"{name}{number}" for number in range(count) for name in NAMES])


def test_ids_are_reused_in_these_runs() -> None:
    """The runs do test something: intervals go from one participant to another."""
    broker = broker_of_generations(10)
    for step in range(60):
        broker.publish(f"ann{step // STEPS_OF_A_GENERATION}", "x", "", str(step))
    events, _ = played(broker, [(10, 1)] * 6)
    owners: dict[str, set[int]] = {}
    for event in events:
        owners.setdefault(event.stamp.interval, set()).add(event.participant)
    assert max(map(len, owners.values())) > 1


@st.composite
def runs_of_short_lives(draw: st.DrawFn) -> ModelBroker:
    """A random run in which new participants come all the time, and old messages stay queued."""
    broker = broker_of_generations(7)
    for step in range(draw(st.integers(10, 40))):
        who = draw(st.sampled_from(NAMES)) + str(step // STEPS_OF_A_GENERATION)
        full = [name for name, queue in broker.queues.items() if queue.ready]
        if not full or draw(st.booleans()):
            key, *copied = draw(st.permutations([*QUEUES, "none"]))[: draw(st.integers(1, 3))]
            broker.publish(who, "", key, str(step), copied=tuple(copied), message_id=str(step))
            continue
        queue = draw(st.sampled_from(full))
        broker.get(who, queue)
        if draw(st.integers(0, 3)) == 0:  # by somebody who does nothing until it is handed over
            broker.settle(who, 0, "nack")
            broker.get(draw(st.sampled_from([*broker.programs])), queue)
    return broker


retention = st.lists(st.tuples(st.integers(1, 15), st.integers(0, 12)), min_size=1, max_size=6)


@given(runs_of_short_lives(), retention)
def test_what_stays_is_related_as_its_histories_say(
    broker: ModelBroker, keeps: list[tuple[int, int]]
) -> None:
    events, begin = played(broker, keeps)
    for b in range(begin - 1, len(events)):
        for a in range(begin - 1, b):
            expected = Relation.before if broker.past[b] >> a & 1 else Relation.concurrent
            assert compare(events[a].stamp, events[b].stamp) is expected
            dot = events[b].stamp.height_at(events[a].stamp.interval) >= events[a].height
            assert dot is (expected is Relation.before)


@given(runs_of_short_lives(), retention)
def test_no_two_owners_of_what_is_stored_share_a_piece_of_an_id(
    broker: ModelBroker, keeps: list[tuple[int, int]]
) -> None:
    events, begin = played(broker, keeps)
    owners = {(e.participant, e.stamp.interval) for e in events[begin - 1 :]}
    assert len({participant for participant, _ in owners}) == len(owners)
    for participant, interval in owners:
        for other, piece in owners - {(participant, interval)}:
            assert not interval.startswith(piece), (participant, other)


@given(runs_of_short_lives(), retention)
def test_a_number_is_never_given_twice_and_seq_begins_at_one_with_each(
    broker: ModelBroker, keeps: list[tuple[int, int]]
) -> None:
    events, _ = played(broker, keeps)
    seqs: dict[int, list[int]] = {}
    channels: dict[int, set[str]] = {}
    for event in events:
        seqs.setdefault(event.participant, []).append(event.seq)
        channels.setdefault(event.participant, set()).add(event.record.channel.connection)
    assert all(each == list(range(1, len(each) + 1)) for each in seqs.values())
    assert all(len(each) == 1 for each in channels.values())


@given(runs_of_short_lives(), retention)
def test_retention_changes_no_match_except_those_whose_publish_went(
    broker: ModelBroker, keeps: list[tuple[int, int]]
) -> None:
    whole, _ = played(broker, [])
    events, _ = played(broker, keeps)
    for event, without in zip(events, whole, strict=True):
        if event.cause is not None and without.cause is not None:
            assert (event.match, event.cause.id) == (without.match, without.cause.id)
        else:
            assert event.match in (without.match, Match.unmatched)


def heights(tree: RelativeTree) -> int:
    """How many heights an event tree is made of."""
    return 1 if isinstance(tree, int) else heights(tree[1]) + heights(tree[2])


def test_clocks_shrink_again_after_a_time_of_many_participants() -> None:
    """Each takes what the one before sent, sends on and ends: 300 of them, and then a few."""
    broker = broker_of([f"actor{number}" for number in range(400)])
    for number, actor in enumerate(broker.programs):
        broker.get(actor, "red")
        broker.publish(actor, "", "red", str(number))
    events, begin = played(broker, [(600, 20)] + [(20, 20)] * 8)
    many, few = (heights(event.stamp.trees()[1]) for event in (events[598], events[-1]))
    assert (many >= 300, len(events) - begin) == (True, 58)
    assert few <= 60, "one for each that is stored, has gone since, or is free"
