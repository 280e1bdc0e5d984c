"""Conversations as an object-centric event log."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator

from model.words import Disposition, EdgeKind, Via
from spark_jobs.interchange.ocel import OBJECT_ATTRIBUTES, head, log_part, middle, tail
from tests.spark.histories import NOON, History, Link
from tests.spark.telling import tell

SCHEMA = Path(__file__).with_name("ocel_schema.json")


def order() -> History:
    """An order with a key that led to an invoice, both handed over."""
    history = History(pasts=False)
    shop, billing = history.join(), history.join()
    said = json.dumps({"headers": {}, "correlation_id": "order 7", "type": "order.new"})
    ordered = history.publish(shop, properties=said)
    how = {"settlement": Disposition.rejected, "settled_at": NOON + 7_000}
    got = history.receive(billing, ordered, properties=said, redelivered=True, **how)
    also = json.dumps({"headers": {}, "correlation_id": "order 7"})
    history.publish(billing, links=[Link(got)], routing_keys='["invoice"]', properties=also)
    return history


def log_of(history: History) -> dict[str, Any]:
    """As the job puts it together, of one conversation."""
    found = log_part(tell(history))
    objects = [*found.objects, *found.common.values()]
    parts = [head(), b",\n".join(found.events), middle(), b",\n".join(objects), tail(found.types)]
    log: dict[str, Any] = json.loads(b"".join(parts))
    return log


def faults(log: dict[str, Any]) -> list[str]:
    """What is wrong with a log, by the schema and by what it refers to and declares."""
    found = [
        each.message for each in Draft7Validator(json.loads(SCHEMA.read_text())).iter_errors(log)
    ]
    ids = [each["id"] for each in log["objects"]]
    if len(ids) != len({*ids}):
        found.append("an object is there twice")
    for each in (*log["events"], *log["objects"]):
        found += [
            f"{each['id']} refers to {r['objectId']}"
            for r in each.get("relationships", ())
            if r["objectId"] not in {*ids}
        ]
    for kind in ("event", "object"):
        declared = {t["name"]: {a["name"] for a in t["attributes"]} for t in log[f"{kind}Types"]}
        for each in log[f"{kind}s"]:
            if {a["name"] for a in each["attributes"]} - declared.get(each["type"], set()):
                found.append(f"{each['id']} has what is not declared")
            for name in ("time",) if kind == "event" else ():
                datetime.fromisoformat(each[name])
    return found


def related(thing: dict[str, Any]) -> set[tuple[str, str]]:
    return {(each["qualifier"], each["objectId"]) for each in thing["relationships"]}


def test_publishes_and_deliveries_are_events_by_message_type() -> None:
    log = log_of(order())
    assert faults(log) == []
    ordered, got, _ = log["events"]
    assert [each["type"] for each in log["events"]] == [
        "order.new published",
        "order.new received",
        "orders/invoice published",
    ]
    assert related(ordered) == {
        ("conversation", "conversation:1"),
        ("message", "message:1"),
        ("publisher", "participant:1"),
        ("routed to", "queue:work"),
        ("key", "key:order 7"),
    }
    assert {("receiver", "participant:2"), ("from", "queue:work")} <= related(got)
    values = {each["name"]: each["value"] for each in got["attributes"]}
    assert (values["match"], values["redelivered"], values["event"]) == ("routed", "true", "2")
    settled = (values["settlement"], values["settled_at"])
    assert settled == ("rejected", "2026-01-01T12:00:00.007000Z")
    assert not {each["name"] for each in ordered["attributes"]} & {"settlement", "settled_at"}
    assert ordered["time"] == "2026-01-01T12:00:00.001000Z"


def test_objects_say_what_led_to_what() -> None:
    objects = {each["id"]: each for each in log_of(order())["objects"]}
    assert related(objects["message:3"]) == {
        ("part of", "conversation:1"),
        ("caused by", "message:1"),
    }
    assert related(objects["conversation:1"]) == {("known by", "key:order 7")}
    assert {each["type"] for each in objects.values()} == {*OBJECT_ATTRIBUTES}
    assert objects["queue:work"]["attributes"][0]["value"] == "work"


def test_a_delivery_without_its_publish_and_odd_names_are_logged_too() -> None:
    history = History(pasts=False)
    shop = history.join()
    history.publish(shop, routing_keys="[]", exchange='é"\u2028', routed_queues='["\\u0000", "ö"]')
    history.receive(shop, None, queue="ö")
    log = log_of(history)
    assert faults(log) == []
    assert log["events"][1]["relationships"][1]["objectId"] == "message:2"


def test_a_dead_letter_is_related_to_who_rejected_it() -> None:
    history = History(pasts=False)
    shop, billing, admin = history.join(), history.join(), history.join()
    ordered = history.publish(shop)
    got = history.receive(billing, ordered)
    pusher = history.publish(shop)
    acts = [Link.act(got, EdgeKind.rejected), Link.act(pusher, EdgeKind.overflow)]
    dead = history.receive(admin, ordered, queue="dead", match=3, links=acts)
    part = log_part(tell(history, ids=[ordered, got, dead]))
    event = json.loads(part.events[-1])
    assert ("rejected by", f"participant:{billing.number}") in related(event)
    assert "overflow by" not in {word for word, _ in related(event)}


def test_an_empty_log_is_one() -> None:
    assert faults(json.loads(head() + middle() + tail(set()))) == []


def test_a_conversation_by_keys_has_its_causes_too() -> None:
    history = History(pasts=False)
    shop, billing = history.join(), history.join()
    ordered = history.publish(shop, shared=["a"])
    history.receive(billing, ordered, shared=["a"])
    history.publish(billing, shared=["a"])
    found = log_part(tell(history, Via.conversation))
    messages = [json.loads(each) for each in found.objects[1:]]
    assert ("caused by", "message:1") in related(messages[1])
