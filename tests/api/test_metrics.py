"""Metrics keep Prometheus's conventions, and dashboard and alerts ask only for what there is."""

from __future__ import annotations

import json
import re
from pathlib import Path

import httpx2
import pytest
import yaml
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from app.store import Store
from app.store.watch import durations as counting
from app.stored.causality import CopiesInHand, QueueCopies, busiest_queues
from app.stored.reading import EventFilter
from app.tracker import Policy, Settlement
from tests.api.conftest import World
from tests.api.described import conforms
from tests.contract.failing import ADMIN, BILLING, SHOP, death, handed, letter, message
from tests.contract.outbox import START, tell, tracker_by

DEPLOY = Path(__file__).parents[2] / "deploy"
OWN = ("itc_",)
LIBRARYS = ("process_", "python_")
TRACE = "/itc_db/%2F/undefined/undefined/undefined"


QUEUES = "/metrics/queues"


async def scraped(client: httpx2.AsyncClient, path: str = "/metrics") -> dict[str, Metric]:
    answer = await client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {metric.name: metric for metric in text_string_to_metric_families(answer.text)}


@pytest.fixture
async def metrics(world: World, client: httpx2.AsyncClient) -> dict[str, Metric]:
    """What is scraped from a service that has done a little of everything."""
    await client.put(TRACE)
    await client.put("/itc_db/undefined/1/3/x.jsonl")
    await client.get("/itc_db/events/99")
    calm = {"name": "calm", "no": "*", "causes_more_than": 9}
    await client.put("/itc_db/assertions/%2F", json={"assertions": [calm]})
    order = message(1)
    rejected = letter(ADMIN, order, death("orders"))
    world.tellers["/"].settle("channel", BILLING, pid="<1>", next_tag=1)
    await world.tell(order, handed(BILLING, order), handed(BILLING, order, again=True))
    world.tellers["/"].settle("settled", BILLING, outcome="acknowledged", delivery_tag=1)
    await world.tell(rejected)
    await count(world.store)
    return await scraped(client) | await scraped(client, QUEUES)


async def count(store: Store) -> None:
    """Count all durations, as the service does beside capture."""
    while places := await store.durations.behind([1, 2]):
        for place in places:
            await store.durations.count(await store.durations.next(place, 100))


def value(metrics: dict[str, Metric], name: str, **labels: str) -> float:
    """The one sample of that name with these labels."""
    [found] = [
        sample.value
        for metric in metrics.values()
        for sample in metric.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return found


async def test_names_and_units_are_conventional(metrics: dict[str, Metric]) -> None:
    for name, metric in metrics.items():
        assert name.startswith(OWN + LIBRARYS)
        assert re.fullmatch(r"[a-z_][a-z0-9_]*", name)
        assert metric.documentation, name
        assert not re.search(r"_(milliseconds|ms|kb|kilobytes|minutes|percent)(_|$)", name), name
        if metric.type == "counter":
            assert all(s.name.endswith(("_total", "_created")) for s in metric.samples), name
        elif name.startswith(OWN):
            assert not name.endswith(("_total", "_count", "_sum")), name
        if metric.type in ("histogram", "summary"):
            assert name.endswith("_seconds"), name


async def test_what_happened_is_counted(metrics: dict[str, Metric]) -> None:
    assert value(metrics, "itc_events_total", vhost="/", type="published") == 3
    assert value(metrics, "itc_events_total", vhost="/", type="received") == 4
    assert value(metrics, "itc_trace_state", vhost="/", state="running") == 1
    assert value(metrics, "itc_trace_state", vhost="/", state="failed") == 0
    assert value(metrics, "itc_trace_queue_messages", vhost="/") == 0
    assert value(metrics, "itc_batch_duration_seconds_count", vhost="/") == 2
    assert value(metrics, "itc_stamp_duration_seconds_count", vhost="/") == 7
    assert value(metrics, "itc_audit_missing_total", vhost="/") == 0
    assert value(metrics, "itc_audit_suspected", vhost="/") == 5
    assert value(metrics, "itc_audit_excess_total", vhost="/") == 3
    assert value(metrics, "itc_settlements_total", vhost="/", outcome="acknowledged") == 3
    assert value(metrics, "itc_jobs", state="succeeded") == 1
    assert value(metrics, "itc_connections_announced") == 1
    assert value(metrics, "itc_build_info") == 1
    assert (
        value(
            metrics,
            "itc_http_request_duration_seconds_count",
            route="/itc_db/events/{event_id}",
            method="GET",
            status="404",
        )
        == 1
    )


async def test_labels_stay_few_whatever_is_asked(client: httpx2.AsyncClient) -> None:
    for number in range(20):
        await client.get(f"/nowhere/{number}")
        await client.get(f"/itc_db/events/{number + 1}")
        await client.request(f"METHOD{number}", "/itc_db")
    requests = (await scraped(client))["itc_http_request_duration_seconds"]
    series = {
        (s.labels["method"], s.labels["route"], s.labels["status"])
        for s in requests.samples
        if s.name.endswith("_count")
    }

    assert len(series) <= 5
    assert {method for method, _, _ in series} <= {"GET", "other"}


async def test_no_name_of_a_message_or_user_is_a_label(metrics: dict[str, Metric]) -> None:
    labels = {
        label
        for m in metrics.values()
        for s in m.samples
        if m.name.startswith(OWN)
        for label in s.labels
    }

    # Rules and assertions are named by whoever made them, and there are few.
    ours = {"vhost", "type", "state", "rule", "outcome", "way", "reason", "assertion", "delivery"}
    of_names = {"queue", "service"}  # which are bounded
    assert labels == {*ours, *of_names, "method", "route", "status", "le", "version", "bound"}


async def test_every_metric_is_documented(metrics: dict[str, Metric]) -> None:
    documented = set(re.findall(r"`(itc_[a-z_]+)`", (DEPLOY.parent / "docs/api.md").read_text()))
    own = {
        f"{name}_total" if metric.type == "counter" else name
        for name, metric in metrics.items()
        if name.startswith(OWN)
    }

    assert documented == own


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"\bitc_[a-z_]+", expression))


def series(metrics: dict[str, Metric]) -> set[str]:
    names = {sample.name for metric in metrics.values() for sample in metric.samples}
    return names | set(metrics)


async def test_the_alert_rules_load_and_ask_for_what_there_is(metrics: dict[str, Metric]) -> None:
    rules = yaml.safe_load((DEPLOY / "prometheus" / "rabbitmq-itc.rules.yml").read_text())
    alerts = [rule for group in rules["groups"] for rule in group["rules"]]

    assert alerts
    for alert in alerts:
        assert set(alert) == {"alert", "expr", "for", "labels", "annotations"}
        assert alert["labels"]["severity"] in ("warning", "critical")
        assert {"summary", "description"} <= set(alert["annotations"])
        assert re.fullmatch(r"[0-9]+[smhd]", alert["for"])
        assert alert["expr"].count("(") == alert["expr"].count(")")
        assert names_in(alert["expr"]) <= series(metrics), alert["alert"]


@pytest.mark.parametrize("name", ["rabbitmq-itc", "rabbitmq-itc-queues"])
async def test_each_dashboard_loads_and_asks_for_what_there_is(
    metrics: dict[str, Metric], name: str
) -> None:
    board = json.loads((DEPLOY / "grafana" / f"{name}.json").read_text())
    panels = [panel for panel in board["panels"] if panel["type"] != "row"]

    assert board["uid"] == name
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        for target in panel["targets"]:
            names = names_in(target["expr"])
            assert names, panel["title"]
            assert names <= series(metrics), panel["title"]
            assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


async def test_what_consumers_hold_is_told_of_running_traces_alone(
    world: World, client: httpx2.AsyncClient
) -> None:
    trace = await world.store.traces.create("shop", Policy.connection)
    tracker, order = tracker_by(Policy.connection), message(1)
    tracker.settle(Settlement("channel", BILLING, START, pid="<1>", next_tag=1), START)
    ids = await tell(world.store, trace.id, tracker, [order, *[handed(BILLING, order)] * 2])

    trace_of_shop = TRACE.replace("%2F", "shop")
    await client.put(trace_of_shop)
    fate = f"/itc_db/events/{ids[0]}/deliveries"
    assert "has held orders's for" in (await client.get(fate)).json()["sentence"]
    await client.delete(trace_of_shop)
    ended = "billing@10.0.0.6 #2 held orders's when this was last traced"
    assert (await client.get(fate)).json()["sentence"].endswith(ended)
    assert (await client.get("/itc_db/in_hand")).json()["count"] == 0
    await client.put(trace_of_shop)
    held = (await client.get("/itc_db/in_hand?vhost=shop")).json()

    conforms(held, (CopiesInHand,))
    [one] = held["items"]
    assert (held["count"], one["count"], one["oldest"]) == (2, 2, ids[1])
    assert one["holder"]["name"] == "billing@10.0.0.6 #2"
    assert (await client.get("/itc_db/in_hand?vhost=%2F")).json()["items"] == []
    metrics = await scraped(client)
    assert value(metrics, "itc_in_hand_messages", vhost="shop") == 2
    since = value(metrics, "itc_in_hand_oldest_timestamp_seconds", vhost="shop")
    assert since == START / 1e6 + 1


async def test_each_queue_says_what_waits_how_long_and_what_failed(
    world: World, client: httpx2.AsyncClient
) -> None:
    trace = await world.store.traces.create("shop", Policy.connection)
    tracker, order, late = tracker_by(Policy.connection), message(1), message(2)
    tracker.settle(Settlement("channel", BILLING, START, pid="<1>", next_tag=1), START)
    records = [order, *(handed(BILLING, order, again=e) for e in (False, True)), late, message(3)]
    ids = await tell(world.store, trace.id, tracker, records)
    rejected = letter(ADMIN, order, death("orders"))
    reply = message(4, "amq.gen-1")
    await tell(world.store, trace.id, tracker, [rejected, reply, message(5, "audit")])
    await count(world.store)
    assert (await client.get(QUEUES)).text.count("\n") == len(await scraped(client, QUEUES)) * 2
    await client.put(TRACE.replace("%2F", "shop"))
    metrics = await scraped(client, f"{QUEUES}?vhost=shop")
    ours = {"vhost": "shop", "queue": "orders"}

    assert value(metrics, "itc_queue_waiting_messages", **ours) == 2
    oldest = "itc_queue_waiting_oldest_timestamp_seconds"
    events = (await world.store.events.find(EventFilter(), after=0)).items
    [since] = [event.recorded_at for event in events if event.id == ids[3]]
    assert value(metrics, oldest, **ours) == since / 1e6
    assert value(metrics, "itc_queue_waiting_messages", queue="audit") == 1
    assert value(metrics, "itc_queue_in_hand_messages", **ours) == 2
    held = "itc_queue_in_hand_oldest_timestamp_seconds"
    assert value(metrics, held, **ours) == START / 1e6 + 1
    assert value(metrics, "itc_queue_delivery_seconds_count", **ours) == 1
    assert value(metrics, "itc_queue_delivery_seconds_sum", **ours) == pytest.approx(1, rel=0.05)
    buckets = {
        float(sample.labels["le"]): sample.value
        for sample in metrics["itc_queue_delivery_seconds"].samples
        if sample.name.endswith("_bucket") and sample.labels["queue"] == "orders"
    }
    assert {limit: limit >= 1 for limit in buckets} == buckets
    assert value(metrics, "itc_service_delivery_seconds_count", service="billing") == 1
    assert value(metrics, "itc_queue_deaths_total", **ours, reason="rejected") == 1
    assert value(metrics, "itc_queue_returns_total", **ours) == 1
    assert "amq." not in (await client.get(QUEUES)).text


async def test_families_virtual_hosts_and_queues_are_chosen(
    world: World, client: httpx2.AsyncClient
) -> None:
    await client.put(TRACE)
    await world.tell(message(1), message(2, "other"), handed(SHOP, message(1)))
    await count(world.store)

    two = await scraped(client, f"{QUEUES}?family=waiting&family=returns&vhost=%2F&queue=other")
    assert {*two} == {
        "itc_queue_waiting_messages",
        "itc_queue_waiting_oldest_timestamp_seconds",
        "itc_queue_returns",
    }
    assert {s.labels["queue"] for m in two.values() for s in m.samples} == {"other"}
    times = await scraped(client, f"{QUEUES}?family=delivery&queue=orders")
    labels = {(s.labels.get("queue"), s.labels.get("service")) for s in samples_of(times)}
    assert labels == {("orders", None)}
    await client.put(TRACE.replace("%2F", "shop"))
    unknown = await client.get(f"{QUEUES}?vhost=nowhere")
    assert (unknown.status_code, unknown.json()["error"]) == (404, "Object Not Found")
    wrong = await client.get(f"{QUEUES}?family=waiting&family=nonsense")
    assert wrong.status_code == 400
    assert "'waiting', 'in_hand', 'delivery'" in wrong.json()["reason"]
    assert (await client.get(f"{QUEUES}?queue=a&queue=b")).status_code == 400


def samples_of(metrics: dict[str, Metric]) -> list[Sample]:
    return [sample for metric in metrics.values() for sample in metric.samples]


async def test_queues_beyond_the_bound_are_counted_together(
    world: World, client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MOST_OWNERS", 1)
    await client.put(TRACE)
    orders = [message(number, queue) for number, queue in enumerate("abb")]
    await world.tell(*orders, *(handed(SHOP, order, order.routing_keys[0]) for order in orders))
    await count(world.store)
    times = await scraped(client, f"{QUEUES}?family=delivery")
    assert value(times, "itc_queue_delivery_seconds_count", queue="b") == 2
    assert value(times, "itc_queue_delivery_seconds_count", queue="") == 3
    copies = [QueueCopies("a", 1, 7), QueueCopies("b", 2, 8), QueueCopies("c", 3, 9)]
    assert busiest_queues(copies, 2) == [copies[2], copies[1], QueueCopies("", 1, 7)]
