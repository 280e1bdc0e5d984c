"""The demo must be able to fail: its own account of causality, and comparing an export with it."""

from __future__ import annotations

from tools.demo.history import Action, History
from tools.demo.judge import SETTLEMENTS_ARE_OFF, Recorded

ROLES = {"a -> b": "shop", "c -> b": "clerk", "d -> b": "auditor", "e -> b": "bystander"}


def small_history() -> History:
    """The shop asks the clerk, who answers; a bystander talks to itself; a rejected request."""
    history = History()
    history.published("shop", "orders", "ask")
    history.published("bystander", "orders", "noise")
    history.received("clerk", "orders", "todo", "ask")
    history.received("bystander", "orders", "own", "noise")
    history.published("clerk", "", "answer")
    history.received("shop", "", "replies", "answer")
    history.published("shop", "orders", "poison")
    history.rejected(history.received("clerk", "orders", "todo", "poison"))
    history.received("auditor", "dead", "letters", "poison")
    return history


def event(number: int, action: Action, cause: int | None = None) -> dict[str, object]:
    connection = next(name for name, role in ROLES.items() if role == action.role)
    return {
        "id": number,
        "connection": connection,
        "type": action.type,
        "exchange": action.exchange,
        "queue": action.queue,
        "payload": action.payload,
        "cause": cause,
        "quiet": False,
        "recorded_at": "2026-11-26T12:00:00Z",
        "settled_at": None,
        "settlement": None,
    }


def recorded(history: History) -> Recorded:
    numbers = {action: number for number, action in enumerate(history.actions, 1)}
    causes = {action: history.cause(action) for action in numbers}
    events = {
        action: event(number, action, numbers[cause] if (cause := causes[action]) else None)
        for action, number in numbers.items()
    }
    return Recorded(history, ROLES, events)


def test_a_chain_holds_what_is_between_and_nothing_else() -> None:
    history = small_history()
    first, last = history.actions[0], history.actions[-1]
    assert [(a.role, a.payload) for a in history.chain(first, last)] == [
        ("shop", "ask"),
        ("clerk", "ask"),
        ("clerk", "answer"),
        ("shop", "answer"),
        ("shop", "poison"),
        ("clerk", "poison"),
        ("auditor", "poison"),  # the dead letter follows from the publish, and from the rejection
    ]


def test_a_chain_against_the_arrow_of_time_is_empty() -> None:
    history = small_history()
    assert history.chain(history.actions[-1], history.actions[0]) == []


def test_the_expected_export_has_no_faults() -> None:
    history = small_history()
    judge = recorded(history)
    chain = history.chain(history.actions[0], history.actions[-1])
    assert judge.faults_of([judge.events[action] for action in chain], chain) == []
    assert judge.wrong_causes() == []


def test_a_missing_a_foreign_and_a_repeated_event_are_faults() -> None:
    history = small_history()
    judge = recorded(history)
    chain = history.chain(history.actions[0], history.actions[-1])
    exported = [judge.events[action] for action in chain]
    noise = judge.events[history.actions[1]]
    assert judge.faults_of(exported[1:], chain) == [f"it lacks: {chain[0]}"]
    assert judge.faults_of([*exported, noise], chain) == [
        f"it should not hold: {history.actions[1]}"
    ]
    assert judge.faults_of([*exported, {"id": 99, "quiet": False}], chain) == [
        "it should not hold: event 99"
    ]
    assert judge.faults_of([*exported, exported[0]], chain) == ["it holds an event twice"]


def test_heartbeats_are_no_faults() -> None:
    history = small_history()
    judge = recorded(history)
    chain = history.chain(history.actions[0], history.actions[-1])
    exported = [judge.events[action] for action in chain]
    assert judge.faults_of([*exported, {"id": 99, "quiet": True}], chain) == []


def test_a_delivery_matched_to_another_publish_is_found() -> None:
    history = small_history()
    judge = recorded(history)
    delivery = history.actions[2]
    judge.events[delivery]["cause"] = 2
    assert judge.wrong_causes() == [delivery]


def test_what_became_of_deliveries_is_said_in_a_sentence_and_compared() -> None:
    history = small_history()
    judge = recorded(history)
    assert judge.settlements == SETTLEMENTS_ARE_OFF, "without the broker plugin"
    events = [{**each} for each in judge.events.values()]
    for each in events:
        if each["type"] == "received":
            each["settlement"] = "rejected" if each["payload"] == "poison" else "acknowledged"
            each["settled_at"] = f"2026-11-26T12:00:0{each['id']}.5Z"
    judge.take_settlements(events)
    assert judge.settlements == (
        "The consumers acknowledged 3 of 5 deliveries and rejected 2; "
        "the slowest was held for 9.50 s."
    )
    assert judge.wrong_settlements() == [history.actions[-1]], "the dead letter was acknowledged"


def test_events_of_others_are_no_actions_of_ours() -> None:
    judge = recorded(small_history())
    foreign = {**event(1, judge.history.actions[0]), "connection": "x -> b"}
    assert judge.action(foreign) is None
