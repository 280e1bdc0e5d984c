"""Chains along links and conversations, by the real job: all forms, answers, archives, formats."""

from __future__ import annotations

import csv
import json
import random
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pydot
import pytest
from pyspark.sql import SparkSession

from model import ways
from model.exports import FORMATS, ChainSummary, format_of
from model.jobs import Problem
from model.words import EdgeKind, Via
from spark_jobs.chain import ChainRequest, main, run
from spark_jobs.chains.plan import Form
from spark_jobs.errors import JobError
from spark_jobs.kinds import run_job
from spark_jobs.spark.database import DatabaseAddress
from tests.spark.histories import NOON, History, Link, linked_history, linked_pairs
from tests.spark.test_archive import CUT, DAY, prune
from tests.spark.test_formats import READ_BY_JAVASCRIPT, expected

Exported = Callable[..., ChainSummary]
EVIDENT = (Via.links, Via.conversation)


@pytest.fixture(scope="module")
def history() -> History:
    return linked_history(random.Random(12), 480, present=5)


@pytest.fixture(scope="module")
def url(history: History, tmp_path_factory: pytest.TempPathFactory) -> str:
    return history.write(tmp_path_factory.mktemp("evident") / "store.db")


@pytest.fixture
def export(spark: SparkSession, url: str, tmp_path: Path) -> Exported:
    def exported(ends: tuple[int, int], via: Via, form: Form | None = None) -> ChainSummary:
        request = ChainRequest(
            DatabaseAddress.from_url(url),
            *ends,
            tmp_path / "chain.jsonl",
            FORMATS["jsonl"],
            form,
            via=via,
        )
        return run(spark, request)

    return exported


def longest(history: History, via: Via) -> tuple[int, int]:
    """The ends of a long chain."""
    ends = linked_pairs(random.Random(4), history, 300)
    return max(ends, key=lambda each: len(history.evident(*each, via)))


def written(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "chain.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("via", EVIDENT)
def test_both_forms_write_the_true_chain_in_the_order_of_ids(
    export: Exported, history: History, tmp_path: Path, via: Via
) -> None:
    ends = longest(history, via)
    truth = sorted(history.evident(*ends, via))
    assert 5 < len(truth) < len(history.chain(*ends))
    digests = set()
    for form in ("walk", "scan", None):
        summary = export(ends, via, form)
        assert summary.plan.form == (form or "walk")
        assert (summary.via, summary.relation.name) == (via.value, "before")
        assert written(tmp_path) == [expected(history, each) for each in truth]
        assert summary.events == len(truth)
        acting = {history.rows[each - 1]["participant"] for each in truth}
        assert summary.participants == len(acting)
        digests.add(summary.sha256)
    assert len(digests) == 1
    backwards = export(ends[::-1], via)
    assert (backwards.relation.name, backwards.sha256) == ("after", digests.pop())


@pytest.mark.parametrize("via", EVIDENT)
def test_a_walk_that_goes_too_far_becomes_a_scan(
    export: Exported, history: History, tmp_path: Path, via: Via, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ways, "MOST_STEPS", 1)
    ends = longest(history, via)
    summary = export(ends, via)
    assert summary.plan.form == "scan"
    assert f"The span of {ends[1] - ends[0] + 1} ids was read" in summary.plan.reason
    assert [each["id"] for each in written(tmp_path)] == sorted(history.evident(*ends, via))


@pytest.fixture
def relay(spark: SparkSession, tmp_path: Path) -> Exported:
    """1 is handed over as 2, which 3 names, received as 4; 5 names nothing, 6 is somebody's own."""
    history = History()
    shop, billing, audit = history.join(), history.join(), history.join()
    history.publish(shop, shared=["order"])
    history.receive(billing, 1, shared=["order"])
    history.publish(billing, links=[Link(2)])
    history.receive(shop, 3)
    history.publish(billing, shared=["order"])
    history.publish(audit)
    database = DatabaseAddress.from_url(history.write(tmp_path / "relay.db"))

    def exported(first: int, last: int, via: Via, form: Form | None = None) -> ChainSummary:
        target = tmp_path / f"{first}-{last}.jsonl"
        format = FORMATS["jsonl"]
        return run(spark, ChainRequest(database, first, last, target, format, form, via=via))

    return exported


@pytest.mark.parametrize(
    ("first", "last", "via", "events", "answer", "sentence"),
    [
        (1, 4, Via.links, 4, "caused", "event 1 caused event 4, by messages and links"),
        (4, 1, Via.links, 4, "caused", "event 4 was caused by event 1, by messages and links"),
        (1, 4, Via.any, 4, "caused", "event 1 caused event 4, by messages and links"),
        (
            1,
            5,
            Via.links,
            0,
            "may have",
            "event 1 may have caused event 5, but no link or message says so",
        ),
        (
            5,
            1,
            Via.links,
            0,
            "may have",
            "event 5 may have been caused by event 1, but no link or message says so",
        ),
        (
            1,
            5,
            Via.conversation,
            3,
            "may have",
            "event 1 happened before event 5, and may have influenced it",
        ),
        (
            3,
            5,
            Via.conversation,
            0,
            "may have",
            "event 3 may have caused event 5, but no link, message or conversation says so",
        ),
        (
            1,
            5,
            Via.any,
            4,
            "may have",
            "event 1 happened before event 5, and may have influenced it",
        ),
        *(
            (
                1,
                6,
                via,
                0,
                "cannot have",
                "events 1 and 6 are concurrent: neither can have influenced the other",
            )
            for via in Via
        ),
    ],
)
def test_a_chain_says_what_caused_what_may_have_and_cannot_have(
    relay: Exported, first: int, last: int, via: Via, events: int, answer: str, sentence: str
) -> None:
    summary = relay(first, last, via)
    assert (summary.events, summary.answer, summary.sentence) == (events, answer, sentence)
    assert (summary.file is None) == (events == 0)
    assert (summary.relation.name == "concurrent") == (last == 6)


def test_a_link_that_no_clock_has_is_followed_all_the_same(relay: Exported, tmp_path: Path) -> None:
    """It was found after its effect had been stamped."""
    with closing(sqlite3.connect(tmp_path / "relay.db")) as connection, connection:
        connection.execute("INSERT INTO edges VALUES (1, 6, 4, 'late', 0, 0)")
    for via in EVIDENT:
        for first, last, relation in ((1, 6, "before"), (6, 1, "after")):
            summary = relay(first, last, via)
            assert (summary.relation.name, summary.answer) == (relation, "caused")
            assert summary.events == 5
    assert relay(1, 6, Via.any).relation.name == "concurrent"


@pytest.mark.parametrize(("via", "form"), [(Via.any, "walk"), (Via.links, "ranges")])
def test_a_form_that_does_not_find_such_a_chain_is_refused(
    relay: Exported, via: Via, form: Form
) -> None:
    with pytest.raises(JobError, match=r"ask (via=links|via=any) for it|ask via=any for it") as no:
        relay(1, 4, via, form)
    assert no.value.problem is Problem.bad_request


def test_the_job_on_its_own_takes_via(
    spark: SparkSession, relay: Exported, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = ["--database-url", f"sqlite:///{tmp_path / 'relay.db'}", "--from", "1"]
    output = ["--output", str(tmp_path / "own.jsonl"), "--via", "links"]
    assert main([*ends, "--to", "4", *output]) == 0
    assert json.loads(capsys.readouterr().out)["via"] == "links"
    assert main([*ends, "--to", "5", *output]) == 3
    assert json.loads(capsys.readouterr().out)["answer"] == "may have"


# Archives


@pytest.fixture(scope="module")
def days() -> History:
    """A history of three days."""
    history = linked_history(random.Random(12), 480, present=5)
    for row in history.rows:
        row["recorded_at"] = NOON + row["id"] * DAY // 200
    return history


@pytest.fixture(scope="module")
def archived(
    spark: SparkSession, days: History, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """Its first half was archived and pruned."""
    folder = tmp_path_factory.mktemp("archived")
    url = days.write(folder / "store.db")
    before = days.rows[CUT]["recorded_at"]
    request = {"vhost": "/", "before": before, "archives": str(folder / "archives")}
    run_job(spark, url, "archive", request, lambda progress: None)
    prune(folder / "store.db", CUT)
    return url, folder / "archives"


@pytest.mark.parametrize("via", Via)
def test_a_chain_over_archived_and_stored_events_is_the_true_one(
    spark: SparkSession, archived: tuple[str, Path], days: History, tmp_path: Path, via: Via
) -> None:
    ends = [
        each
        for each in linked_pairs(random.Random(9), days, 3_000)
        if each[0] <= CUT and each[1] > CUT
    ]
    ordered = sorted(ends, key=lambda each: len(days.evident(*each, via)))
    for first, last in (*ordered[-2:], ordered[0]):
        truth = days.evident(first, last, via) if via in EVIDENT else days.chain(first, last)
        request = ChainRequest(
            DatabaseAddress.from_url(archived[0]), first, last, tmp_path / "chain.jsonl",
            FORMATS["jsonl"], archives=archived[1], via=via,
        )  # fmt: skip
        summary = run(spark, request)
        assert summary.plan.form == "followed"
        assert summary.relation.name == ("before" if days.chain(first, last) else "concurrent")
        assert (summary.answer == "caused") == bool(days.evident(first, last, Via.links))
        assert summary.events == len(truth)
        if truth:
            found = {event["id"]: event["links"] for event in written(tmp_path)}
            assert found == {each: expected(days, each)["links"] for each in sorted(truth)}


# In an ordinary run every other format, and the ones between in `test_archive.py`.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if number % 2 else pytest.mark.long(2))
        for number, name in enumerate(FORMATS)
    ],
)
def test_the_file_is_the_one_of_before_archiving(
    spark: SparkSession, archived: tuple[str, Path], days: History, tmp_path: Path, name: str
) -> None:
    """With links from stored events to archived ones."""
    whole = days.write(tmp_path / "whole.db")
    ends = max(
        (e for e in linked_pairs(random.Random(9), days, 3_000) if e[0] <= CUT < e[1]),
        key=lambda each: len(days.evident(*each, Via.links)),
    )
    digests = set()
    for url, archives in ((whole, None), archived):
        request = ChainRequest(
            DatabaseAddress.from_url(url), *ends, tmp_path / f"chain.{name}", FORMATS[name],
            archives=archives, via=Via.links,
        )  # fmt: skip
        digests.add(run(spark, request).sha256)
    assert len(digests) == 1


# Formats

Export = Callable[[str], Path]


@pytest.fixture(scope="module")
def drawn(
    spark: SparkSession, url: str, history: History, tmp_path_factory: pytest.TempPathFactory
) -> Export:
    """A chain along links in a file of that name."""
    folder = tmp_path_factory.mktemp("drawn")
    ends = longest(history, Via.links)

    def exported(name: str) -> Path:
        target = folder / name
        wanted = format_of(name)
        assert wanted is not None
        request = ChainRequest(DatabaseAddress.from_url(url), *ends, target, wanted, via=Via.links)
        run(spark, request)
        return target

    return exported


Drawn: TypeAlias = tuple[int | str, ...]


@pytest.fixture(scope="module")
def members(history: History) -> list[int]:
    return sorted(history.evident(*longest(history, Via.links), Via.links))


@pytest.fixture(scope="module")
def links(history: History, members: list[int]) -> set[Drawn]:
    """(cause, effect, words) of what is drawn apart from messages, with both ends in the chain."""
    return {
        (link.cause, event, *link.words)
        for event in members
        for link in history.links.get(event, ())
        if link.cause in members
        and link.kind is not EdgeKind.candidate
        and not history.rows[event - 1]["quiet"]
    }


@pytest.fixture(scope="module")
def messages(history: History, members: list[int]) -> set[tuple[int, int]]:
    rows = (history.rows[event - 1] for event in members)
    return {
        (row["cause_id"], row["id"])
        for row in rows
        if row["cause_id"] in members and not row["quiet"]
    }


def test_graphviz_draws_links_apart(
    drawn: Export,
    history: History,
    members: list[int],
    links: set[Drawn],
    messages: set[tuple[int, int]],
) -> None:
    (graph,) = pydot.graph_from_dot_data(drawn("chain.dot").read_text()) or []
    ids = {
        node.get_name(): int(node.get_label().strip('"').split()[0])
        for lane in graph.get_subgraphs()
        for node in lane.get_nodes()
    }
    assert sorted(ids.values()) == members
    edges = [
        (ids[edge.get_source()], ids[edge.get_destination()], edge.get_style(), edge.get_label())
        for edge in graph.get_edges()
    ]
    assert {(a, b) for a, b, style, _ in edges if style is None} == messages
    named = {(a, b, f'"{": ".join(map(str, words))}"') for a, b, *words in links}
    assert {(a, b, label) for a, b, style, label in edges if style == "bold"} == named
    orders = {(a, b) for a, b, style, _ in edges if style == "dashed"}
    by_actor: dict[int, list[int]] = {}
    for event in members:
        by_actor.setdefault(history.rows[event - 1]["participant"], []).append(event)
    assert orders == {pair for events in by_actor.values() for pair in pairwise(events)}
    kinds = {words[0] for _, _, *words in links}
    assert kinds >= {"parent", "returned", "rejected", "overflow"}


def test_mermaid_draws_links_dotted(
    drawn: Export, history: History, members: list[int], links: set[Drawn]
) -> None:
    lines = drawn("chain.mmd").read_text().splitlines()
    events = [line for line in lines if "->>" in line or "Note over" in line]
    dotted = [line for line in events if "-->>" in line]
    assert len(events) == len(members) + len(dotted)

    def lane(event: int) -> str:
        return f"P{history.rows[event - 1]['participant']}"

    assert sorted(dotted) == sorted(
        f"    {lane(a)}-->>{lane(b)}: {b} {'names' if rule else 'after'} {a}"
        f" ({', '.join([kind, *rule])})"
        for a, b, kind, *rule in links
    )


def test_chrome_trace_events_have_links_as_flows_of_their_own(
    drawn: Export, links: set[Drawn], messages: set[tuple[int, int]]
) -> None:
    events = json.loads(drawn("chain.trace.json").read_text())["traceEvents"]
    at = {(e["ts"], e["tid"]): e["args"]["id"] for e in events if e["ph"] == "X"}
    flows: dict[tuple[str, str, int], dict[str, dict[str, Any]]] = {}
    for event in events:
        if event["ph"] in "sf":
            ends = flows.setdefault((event["cat"], event["name"], event["id"]), {})
            assert event["ph"] not in ends, "no two flows are the same"
            ends[event["ph"]] = event
    drawn_links, drawn_messages = set(), set()
    for (category, name, _), ends in flows.items():
        cause, effect = (at[ends[ph]["ts"], ends[ph]["tid"]] for ph in "sf")
        if category == "link":
            drawn_links.add((cause, effect, name))
        else:
            drawn_messages.add((cause, effect))
    assert drawn_links == {(a, b, ", ".join([f"{kind} {a}", *rule])) for a, b, kind, *rule in links}
    assert drawn_messages == messages


def test_shiviz_has_links_as_a_field(drawn: Export, members: list[int], links: set[Drawn]) -> None:
    expression, _, log = drawn("chain.shiviz").read_text().split("\n", 2)
    python = re.compile(re.sub(r"\(\?<(\w+)>", r"(?P<\1>", expression))
    found = [match.groupdict() for match in python.finditer(log)]
    assert [int(each["event"].split()[0]) for each in found] == members
    own: dict[str, int] = {}
    for each in found:
        own[each["host"]] = own.get(each["host"], 0) + 1
        assert json.loads(each["clock"])[each["host"]] == own[each["host"]]
    said = {
        (int(cause), int(each["event"].split()[0]), kind, *rule)
        for each in found
        for kind, cause, *rule in (link.split(":") for link in each["links"].split())
    }
    assert said == links


@pytest.mark.skipif(not shutil.which("node"), reason="needs node")
def test_shiviz_s_expression_reads_links_in_javascript(
    drawn: Export, members: list[int], links: set[Drawn]
) -> None:
    ran = subprocess.run(
        ["node", "-e", READ_BY_JAVASCRIPT],
        input=drawn("chain.shiviz").read_bytes(),
        capture_output=True,
        check=True,
        timeout=120,
    )
    read = json.loads(ran.stdout)
    assert read["rest"] == ""
    assert len(read["events"]) == len(members)
    assert sum(len(each["links"].split()) for each in read["events"]) == len(links)


def test_parquet_has_links_as_a_list(drawn: Export, history: History, members: list[int]) -> None:
    table = pq.read_table(drawn("chain.parquet"))
    link = pa.struct([("cause", pa.int64()), ("rule", pa.string()), ("kind", pa.string())])
    assert table.schema.field("links").type == pa.list_(link)
    assert table.column("links").to_pylist() == [
        expected(history, each)["links"] for each in members
    ]
    assert json.loads(table.schema.metadata[b"chain"])["via"] == "links"


def test_values_and_text_have_links(drawn: Export, history: History, members: list[int]) -> None:
    with drawn("chain.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    truth = [expected(history, each)["links"] for each in members]
    assert [json.loads(row["links"]) for row in rows] == truth
    blocks = re.split(r"^={80}\n", drawn("chain.txt").read_text(), flags=re.MULTILINE)[1:]
    for block, named in zip(blocks, truth, strict=True):
        said = re.findall(r"^Links: +(.*)$", block, flags=re.MULTILINE)
        words = [
            f"{each['cause']} ({', named by '.join(filter(None, (each['kind'], each['rule'])))})"
            for each in named
        ]
        assert said == ([", ".join(words)] if words else [])
