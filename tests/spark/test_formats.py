"""Each format, written by the real job and read back by a reader that is not ours."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pandas
import polars
import pyarrow.parquet as pq
import pydot
import pytest
from playwright._impl._driver import compute_driver_executable
from pyspark.sql import SparkSession

from model.event import EVENT_FIELDS
from model.exports import FORMATS, format_of, manifest_of
from model.words import Disposition, EdgeKind, EventType, Match, Via
from spark_jobs.chain import ChainRequest, run
from spark_jobs.formats import RENDERERS
from spark_jobs.formats.diagrams import _dot_text, _mermaid_text, caption
from spark_jobs.formats.lines import cell, one_line
from spark_jobs.formats.shiviz import EXPRESSION
from spark_jobs.kinds import run_job
from spark_jobs.spark.database import DatabaseAddress
from tests.spark.conftest import Stored
from tests.spark.histories import History, Link

NODE_PACKAGES = Path(__file__).parents[1] / "node" / "node_modules"
MERMAID = NODE_PACKAGES / "mermaid" / "dist" / "mermaid.core.mjs"
Export = Callable[[str], Path]


@pytest.fixture(scope="session")
def export(spark: SparkSession, stored: Stored, tmp_path_factory: pytest.TempPathFactory) -> Export:
    """Export the stored chain into a file of that name, once."""
    folder = tmp_path_factory.mktemp("exports")

    def exported(file: str) -> Path:
        target = folder / file
        if not target.exists():
            wanted = format_of(file)
            assert wanted is not None
            run(spark, ChainRequest(stored.database, stored.first, stored.last, target, wanted))
        return target

    return exported


def expected(history: History, event_id: int) -> dict[str, Any]:
    """An event of the history as the API's object, put together by other means."""
    row = history.rows[event_id - 1]
    payload, encoding = None, "string"
    if row["payload"] is not None:
        try:
            payload = row["payload"].decode()
        except UnicodeDecodeError:
            import base64

            payload, encoding = base64.b64encode(row["payload"]).decode(), "base64"
    return {
        "id": event_id,
        "vhost": "/",
        "type": EventType(row["type"]).name,
        "match": Match(row["match"]).name,
        "cause": row["cause_id"],
        "candidates": row.get("candidates"),
        "doubtful": row["doubtful"],
        "participant": row["participant"],
        "participant_name": "user{0} 127.0.0.1:{0} -> 127.0.0.1:5672 (1)".format(
            row["participant"]
        ),
        "seq": row["seq"],
        "lamport": row["lamport"],
        "recorded_at": _shown(row["recorded_at"]),
        "exchange": row["exchange"],
        "queue": row["queue"],
        "routing_keys": json.loads(row["routing_keys"]),
        "routed_queues": row["routed_queues"] and json.loads(row["routed_queues"]),
        "redelivered": row["redelivered"],
        "quiet": row["quiet"],
        "settlement": row["settlement"] and Disposition(row["settlement"]).name,
        "settled_at": row["settled_at"] and _shown(row["settled_at"]),
        "settled_by": row["settled_at"] and row["participant"],
        "node": "rabbit@localhost",
        "connection": f"127.0.0.1:{row['participant']} -> 127.0.0.1:5672",
        "channel": 1,
        "user": f"user{row['participant']}",
        "properties": json.loads(row["properties"]),
        "payload": payload,
        "payload_encoding": encoding,
        "payload_bytes": row["payload_bytes"],
        "payload_truncated": row["payload_sha256"] is not None,
        "redactions": None,
        "stamp": str(row["stamp"]),
        "links": [
            link.shown
            for link in sorted(history.links.get(event_id, ()))
            if link.kind is not EdgeKind.candidate
        ],
    }


def _shown(at: int) -> str:
    return f"2026-01-01T12:00:{at // 1_000_000 % 60:02d}.{at % 1_000_000:06d}Z"


def all_expected(stored: Stored) -> list[dict[str, Any]]:
    return [expected(stored.history, each) for each in sorted(stored.chain)]


@pytest.mark.parametrize("file", ["chain.jsonl", "without-extension"])
def test_json_lines(export: Export, stored: Stored, file: str) -> None:
    lines = export(file).read_text().split("\n")
    assert lines.pop() == ""
    events = [json.loads(line) for line in lines]
    events[0]["properties"] = without_nulls(events[0]["properties"])
    assert events == all_expected(stored)


def without_nulls(table: dict[str, Any]) -> dict[str, Any]:
    """A table as it was sent: the first line of an export has all names, null where absent."""
    return {
        name: without_nulls(value) if isinstance(value, dict) else value
        for name, value in table.items()
        if value is not None
    }


@pytest.fixture(scope="module")
def late(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An export as JSON Lines and as Parquet, whose last event alone has some properties.

    Polars looks at 100 lines and DuckDB at 20,480 before they say what is in all.
    """
    history, folder = History(pasts=False), tmp_path_factory.mktemp("late")
    shop = history.join()
    for _ in range(299):
        history.publish(shop)
    said = {"headers": {"tries": 3, "trace": {"id": "7f"}, "a\u2028b": "x"}, "message_id": "m1"}
    history.publish(shop, properties=json.dumps(said))
    database = DatabaseAddress.from_url(history.write(folder / "store.db"))
    files = folder / "chain.jsonl", folder / "chain.parquet"
    for file in files:
        run(spark, ChainRequest(database, 1, 300, file, FORMATS[file.suffix[1:]]))
    return files


def test_the_first_line_names_all_that_later_ones_have(late: tuple[Path, Path]) -> None:
    first, *others = [json.loads(line) for line in late[0].read_bytes().splitlines()]
    assert first["properties"] == {
        "headers": {"tries": None, "trace": None, "a\u2028b": None},
        "message_id": None,
    }
    assert all(each["properties"] == {"headers": {}} for each in others[:-1])
    assert len(others) == 299


def test_polars_drops_nothing_without_a_word(late: tuple[Path, Path]) -> None:
    with pytest.raises(polars.exceptions.PolarsError, match="null"):
        polars.read_ndjson(late[0])
    whole = polars.read_ndjson(late[0], infer_schema_length=None)
    assert whole["properties"].to_list()[-1] == {
        "headers": {"tries": 3, "trace": {"id": "7f"}, "a\u2028b": "x"},
        "message_id": "m1",
    }


def test_duckdb_polars_and_pandas_read_the_same_events(late: tuple[Path, Path]) -> None:
    lines, table = late
    for rows in (
        duckdb.sql(f"SELECT * FROM '{lines}'").df(),
        duckdb.sql(f"SELECT * FROM '{table}'").df(),
        polars.read_parquet(table).to_pandas(),
        pandas.read_parquet(table),
    ):
        assert rows["id"].tolist() == [*range(1, 301)]
        assert (
            rows["recorded_at"].dt.tz_convert("UTC").iloc[-1].isoformat(timespec="microseconds")
            == "2026-01-01T12:00:00.300000+00:00"
        )
        said = rows["properties"].iloc[-1]
        said = json.loads(said) if isinstance(said, str) else said
        # DuckDB reads headers of several types as texts.
        assert (said["message_id"], str(said["headers"]["tries"])) == ("m1", "3")


def test_data_tools_read_an_archive(spark: SparkSession, tmp_path: Path) -> None:
    history = History(pasts=False)
    shop, billing = history.join(), history.join()
    for body in (b"\xff\x00", b"", None, "größe".encode()):
        size = len(body or b"")
        sent = history.publish(shop, payload=body, payload_bytes=size)
        history.receive(billing, sent, payload=body, payload_bytes=size)
    url = history.write(tmp_path / "store.db")
    request = {"vhost": "/", "before": 10**16, "archives": str(tmp_path / "archives")}
    run_job(spark, url, "archive", request, lambda progress: None)
    files = [str(each) for each in (tmp_path / "archives").rglob("*.parquet")]
    wanted = {row["id"]: (row["recorded_at"], row["payload"] or b"") for row in history.rows}
    for rows in (
        duckdb.read_parquet(files, hive_partitioning=False).df(),
        polars.read_parquet(files, hive_partitioning=False).to_pandas(),
        pandas.concat(pandas.read_parquet(each, partitioning=None) for each in files),
    ):
        read = zip(rows["id"], rows["recorded_at"], rows["payload"], strict=True)
        assert {key: (at, bytes(body or b"")) for key, at, body in read} == wanted


def test_an_empty_text_is_no_missing_one_where_a_reader_can_tell(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = History(pasts=False)
    shop = history.join()
    history.publish(shop, exchange="", payload=b"", payload_bytes=0)
    history.publish(shop, exchange="a,b", payload=None)
    database = DatabaseAddress.from_url(history.write(tmp_path / "store.db"))
    for name in ("csv", "exact.csv"):
        file = tmp_path / f"chain.{name}"
        run(spark, ChainRequest(database, 1, 2, file, FORMATS[name]))
        wanted = [("", "", None), ("a,b", None, None)]
        read = polars.read_csv(file)
        columns = ("exchange", "payload", "queue")
        assert [*zip(*(read[name].to_list() for name in columns), strict=True)] == wanted
        unquoted = f"FROM read_csv('{file}', allow_quoted_nulls=false)"
        assert duckdb.sql(f"SELECT {', '.join(columns)} {unquoted}").fetchall() == wanted


def test_json_holds_the_summary_and_the_events(export: Export, stored: Stored) -> None:
    document = json.loads(export("chain.json").read_text())
    caused = stored.last in stored.history.evident(stored.first, stored.last, Via.links)
    answer = "caused" if caused else "may have"
    sentence = document["sentence"]
    assert sentence.startswith(f"event {stored.first} ")
    assert document.pop("events") == all_expected(stored)
    assert document == {
        "from": stored.first,
        "to": stored.last,
        "vhost": "/",
        "via": "any",
        "relation": "before",
        "answer": answer,
        "sentence": sentence,
        "complete": True,
        "gaps": [],
        "sound": True,
        "doubts": [],
        "quiet": 0,
        "caveats": [],
    }


def test_comma_separated_values(export: Export, stored: Stored) -> None:
    with export("chain.exact.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row, event in zip(rows, all_expected(stored), strict=True):
        for name, value in event.items():
            if name in ("routing_keys", "routed_queues", "properties", "links"):
                assert row[name] == "" if value is None else json.loads(row[name]) == value
            elif isinstance(value, bool):
                assert row[name] == json.dumps(value)
            else:
                assert row[name] == ("" if value is None else str(value))


def test_comma_separated_values_are_safe_in_a_spreadsheet(export: Export, stored: Stored) -> None:
    with (
        export("chain.csv").open(newline="") as file,
        export("chain.exact.csv").open(newline="") as exact_file,
    ):
        rows, exact = list(csv.DictReader(file)), list(csv.DictReader(exact_file))
    for row, exact_row in zip(rows, exact, strict=True):
        for name, text in row.items():
            assert text == cell(exact_row[name])
            assert not text.startswith(("=", "+", "-", "@", "\t", "\r"))


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("\n=1", "'\n=1"),
        ("\uff1d1", "'\uff1d1"),
        ("\0=1", "\\u0000=1"),
        ("a=1", "a=1"),
        ("two\nlines\tof größe", "two\nlines\tof größe"),
        ("invoice\u202efdp.exe", "invoice\\u202efdp.exe"),
        ("\u2066\u061c\u200e\u200f\x1b[2J\x7f", "\\u2066\\u061c\\u200e\\u200f\\u001b[2J\\u007f"),
    ],
)
def test_a_cell_is_no_formula_and_hides_nothing(sent: str, shown: str) -> None:
    assert cell(sent) == shown


@pytest.mark.parametrize("character", [*"\u061c\u200e\u200f\u202a\u202e\u2066\u2069\x00\x1b\x9b\r"])
def test_labels_and_text_show_what_would_hide_something(character: str) -> None:
    escape = f"\\u{ord(character):04x}"
    assert one_line(f"a{character}b") == f"a{escape}b"
    assert character not in _dot_text(f"a{character}b")
    assert character not in _mermaid_text(f"a{character}b")


def test_parquet(export: Export, stored: Stored) -> None:
    table = pq.read_table(export("chain.parquet"))
    assert table.column_names == [*EVENT_FIELDS, "links"]
    for row, event in zip(table.to_pylist(), all_expected(stored), strict=True):
        for name in ("recorded_at", "settled_at"):
            row[name] = row[name] and row[name].strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        row["properties"] = json.loads(row["properties"])
        assert row == event
    assert json.loads(table.schema.metadata[b"chain"])["from"] == stored.first


def test_labelled_text_has_one_block_per_event(export: Export, stored: Stored) -> None:
    text = export("chain.txt").read_text()
    # A payload's own line of "=" is indented, so the rule alone parts the blocks.
    blocks = re.split(r"^={80}\n", text, flags=re.MULTILINE)[1:]
    for block, event in zip(blocks, all_expected(stored), strict=True):
        assert re.match(rf"\S+Z: Event {event['id']}, message {event['type']}\n", block)
        labels = dict(re.findall(r"^(\w[\w ]*): +(.*)$", block, flags=re.MULTILINE))
        assert labels["Stamp"] == event["stamp"]
        assert labels["User"] == event["user"]
        assert labels.get("Queue") == event["queue"]
        assert labels.get("Settlement") == event["settlement"]
        assert labels.get("Settled") == event["settled_at"]
        assert ("Cause" in labels) == (event["cause"] is not None)


def test_shiviz_reads_its_log_with_the_expression_on_the_first_line(
    export: Export, stored: Stored
) -> None:
    expression, executions, log = export("chain.shiviz").read_text().split("\n", 2)
    assert expression == EXPRESSION
    assert executions == ""
    python = re.compile(re.sub(r"\(\?<(\w+)>", r"(?P<\1>", expression))
    found = [match.groupdict() for match in python.finditer(log)]
    assert [int(each["event"].split()[0]) for each in found] == sorted(stored.chain)
    clocks = {int(f["event"].split()[0]): json.loads(f["clock"]) for f in found}
    own: dict[str, int] = {}
    for each in found:
        own[each["host"]] = own.get(each["host"], 0) + 1
        assert json.loads(each["clock"])[each["host"]] == own[each["host"]]
    assert_clocks_tell_the_truth(stored, clocks)


# What ShiViz does with a log: the first line is the expression, and every match is an event.
READ_BY_JAVASCRIPT = """
const [expression, , ...lines] = require("fs").readFileSync(0, "utf8").split("\\n");
const log = lines.join("\\n");
const matches = [...log.matchAll(new RegExp(expression, "gm"))];
const rest = matches.reduce((text, match) => text.replace(match[0], () => ""), log);
console.log(JSON.stringify({
  rest: rest.trim(),
  events: matches.map(({ groups }) => ({ ...groups, clock: JSON.parse(groups.clock) })),
}));
"""


def test_shiviz_expression_is_javascripts_and_takes_the_whole_log(
    export: Export, stored: Stored
) -> None:
    node, _ = compute_driver_executable()
    ran = subprocess.run(
        [node, "-e", READ_BY_JAVASCRIPT],
        input=export("chain.shiviz").read_bytes(),
        capture_output=True,
        check=True,
        timeout=120,
    )
    read = json.loads(ran.stdout)
    assert read["rest"] == ""
    assert [int(each["event"].split()[0]) for each in read["events"]] == sorted(stored.chain)
    counts: dict[str, int] = {}
    for each in read["events"]:
        host, clock = each["host"], each["clock"]
        counts[host] = counts.get(host, 0) + 1
        assert clock[host] == counts[host], "a host's own clock counts one by one"
        # What it knows of others has happened, and stands earlier in the log.
        assert all(0 < known <= counts[other] for other, known in clock.items())


def assert_clocks_tell_the_truth(stored: Stored, clocks: dict[int, dict[str, int]]) -> None:
    """Vector clocks order a sample of pairs as the causal pasts do."""
    ids = sorted(clocks)[::7]
    for a in ids:
        for b in ids:
            dominated = all(clocks[b].get(host, 0) >= n for host, n in clocks[a].items())
            assert dominated == (a in stored.history.past[b])


def arrows(stored: Stored) -> set[tuple[int, int]]:
    """(cause, effect) of the messages with both ends in the chain."""
    rows = (stored.history.rows[each - 1] for each in stored.chain)
    return {(row["cause_id"], row["id"]) for row in rows if row["cause_id"] in stored.chain}


# What reads it takes a second for a hundred events.
@pytest.mark.parametrize("most", [150, pytest.param(None, marks=pytest.mark.long(10))])
def test_graphviz_has_the_chains_events_messages_and_orders(
    spark: SparkSession, stored: Stored, tmp_path: Path, most: int | None
) -> None:
    stored = replace(stored, last=sorted(stored.chain)[:most][-1])
    target = tmp_path / "chain.dot"
    wanted = format_of(target.name)
    assert wanted is not None
    run(spark, ChainRequest(stored.database, stored.first, stored.last, target, wanted))
    assert len(stored.chain) > 100
    (graph,) = pydot.graph_from_dot_data(target.read_text()) or []
    lanes = graph.get_subgraphs()
    ids = {
        node.get_name(): int(node.get_label().strip('"').split()[0])
        for lane in lanes
        for node in lane.get_nodes()
    }
    assert sorted(ids.values()) == sorted(stored.chain)
    actors = {stored.history.rows[each - 1]["participant"] for each in stored.chain}
    assert len({lane.get_name() for lane in lanes}) == len(actors)
    assert sum(lane.get_label() is not None for lane in lanes) == len(actors), "each has a name"
    edges = [
        (ids[edge.get_source()], ids[edge.get_destination()], edge.get_style())
        for edge in graph.get_edges()
    ]
    assert {(a, b) for a, b, style in edges if style is None} == arrows(stored)
    orders = [(a, b) for a, b, style in edges if style == "dashed"]
    assert len(orders) == len(stored.chain) - len(actors)
    assert all(a < b for a, b in orders)


@pytest.mark.parametrize(
    "text", ['a"b', "a\\", '\\"', "</b>&lt;", "{a|b}", "\u202eא\U0001f600", "\\N"]
)
def test_graphviz_reads_any_name_as_text(text: str) -> None:
    (graph,) = pydot.graph_from_dot_data(f"digraph {{ a [label={_dot_text(text)}] }}") or []
    (node,) = graph.get_nodes()
    assert re.sub(r"\\(.)", r"\1", node.get_label()[1:-1]) == one_line(text)


def test_mermaid_has_one_line_per_event(export: Export, stored: Stored) -> None:
    first, *lines = export("chain.mmd").read_text().splitlines()
    assert first == "sequenceDiagram"
    participants = [line for line in lines if line.startswith("    participant P")]
    rest = lines[len(participants) :]
    messages = [re.fullmatch(r"    P\d+->>P\d+: (\d+) [^;>:]*(?:#\d+;[^;>:]*)*", s) for s in rest]
    notes = [re.fullmatch(r"    Note over P\d+: (\d+) [^;>:]*(?:#\d+;[^;>:]*)*", s) for s in rest]
    ids = [int((a or b)[1]) for a, b in zip(messages, notes, strict=True) if a or b]  # type: ignore[index]
    assert ids == sorted(stored.chain)
    assert len([each for each in messages if each]) == len(arrows(stored))


def test_chrome_trace_events(export: Export, stored: Stored) -> None:
    document = json.loads(export("chain.trace.json").read_text())
    events = document["traceEvents"]
    slices = {e["args"]["id"]: e for e in events if e["ph"] == "X"}
    assert sorted(slices) == sorted(stored.chain)
    begun = {e["id"]: e for e in events if e["ph"] == "s"}
    ended = {e["id"]: e for e in events if e["ph"] == "f"}
    found = {(slices[each]["args"]["cause_id"], each) for each in begun}
    assert found == arrows(stored)
    assert begun.keys() == ended.keys()
    assert all({"ph", "name", "pid"} <= e.keys() for e in events)
    assert all(e["bp"] == "e" for e in ended.values())
    assert all(
        (begun[n]["cat"], begun[n]["name"]) == (e["cat"], e["name"]) for n, e in ended.items()
    )
    for cause, effect in found:
        assert begun[effect]["ts"] <= ended[effect]["ts"]
        assert begun[effect]["ts"] == slices[cause]["ts"]
        assert begun[effect]["tid"] == slices[cause]["tid"]
        assert ended[effect]["ts"] == slices[effect]["ts"]
    names = {e["tid"] for e in events if e["name"] == "thread_name"}
    assert names == {e["tid"] for e in slices.values()}


@pytest.fixture(scope="module")
def with_quiet(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A chain of four events, whose third is a quiet delivery of the first, by its format."""
    history = History()
    sender, receiver = history.join(), history.join()
    sent = history.publish(sender)
    history.receive(receiver, sent)
    history.receive(receiver, None, match=1, cause_id=sent, quiet=True)
    history.publish(receiver)
    folder = tmp_path_factory.mktemp("quiet")
    database = DatabaseAddress.from_url(history.write(folder / "store.db"))
    files = {name: folder / f"chain.{name}" for name in ("dot", "mmd", "trace.json", "shiviz")}
    for name, file in files.items():
        run(spark, ChainRequest(database, 1, 4, file, FORMATS[name]))
    return {name: file.read_text() for name, file in files.items()}


def test_no_arrow_leads_to_a_quiet_delivery(with_quiet: dict[str, str]) -> None:
    solid = re.findall(r"^  (p\d_\d) -> (p\d_\d) \[label", with_quiet["dot"], re.MULTILINE)
    assert solid == [("p1_1", "p2_1")]
    lines = with_quiet["mmd"].splitlines()
    assert [line for line in lines if "->>" in line] == [
        "    P1->>P2: 2 received from work [#34;order.new#34;], cause 1"
    ]
    assert "    Note over P2: 3 received from work [#34;order.new#34;] (quiet)" in lines
    events = json.loads(with_quiet["trace.json"])["traceEvents"]
    assert [event["id"] for event in events if event["ph"] in "sf"] == [2, 2]


@pytest.mark.parametrize("name", ["dot", "mmd", "trace.json", "shiviz"])
def test_a_quiet_delivery_is_marked(with_quiet: dict[str, str], name: str) -> None:
    marked = [line for line in with_quiet[name].splitlines() if "(quiet)" in line]
    assert len(marked) == 1
    assert "3 received from work" in marked[0]
    assert "not in the chain" not in marked[0]


@pytest.mark.parametrize("name", FORMATS)
def test_every_export_has_a_manifest_with_its_digest(export: Export, name: str) -> None:
    file = export(f"chain.{name}")
    manifest = json.loads(manifest_of(file).read_text())
    content = file.read_bytes()
    assert manifest["sha256"] == hashlib.sha256(content).hexdigest()
    assert manifest["bytes"] == len(content)
    assert manifest["file"] == file.name
    assert manifest["versions"]["pyspark"]


def test_the_longest_extension_picks_the_format() -> None:
    def name(file: str) -> str | None:
        found = format_of(file)
        return found and found.name

    assert name("a.json") == "json"
    assert name("a.trace.json") == "trace.json"
    assert name("plain") == "jsonl"
    assert name("a.b.csv") == "csv"
    assert name("a.exe") is None
    assert name("a.json.bak") is None


def test_each_format_has_a_renderer() -> None:
    assert RENDERERS.keys() == FORMATS.keys()


def test_a_delivery_of_one_of_several_equal_messages_says_so() -> None:
    event = {"id": 7, "type": EventType.received, "queue": "work", "routing_keys": '["a"]'}
    said = caption({**event, "quiet": False, "candidates": 2})
    assert said == '7 received from work ["a"] (one of 2 equal messages)'
    assert caption({**event, "quiet": False, "candidates": None}) == '7 received from work ["a"]'


# Names that mean something to a reader, or on a screen.
ODD = [
    *(
        "$ref",
        "__proto__",
        "constructor",
        "",
        " ",
        "end",
        "null",
        "=1+1",
        "a,b",
        "-->",
        "--",
        "->>",
    ),
    *(
        '"',
        "'",
        "`",
        "\\",
        '\\"',
        "\\N",
        "two\nlines",
        "a\r\nb",
        "a\tb",
        "a;b",
        "a:b",
        "%%{init}%%",
    ),
    *(
        "<b>bold</b>",
        "<script>alert(1)</script>",
        "&lt;",
        "#35;",
        "{a|b}",
        "[x]",
        "\u202eabc\u202c",
    ),
    *("größe", "\U0001f600", "\u05d0\u05d1", "\u2028", "\x85", "\x7f", "a" * 255),
]


class Odd(NamedTuple):
    """A chain whose exchanges, queues, keys, participants and bodies have odd names, by format."""

    events: dict[int, str]  # each of them -> its name
    lanes: dict[int, str]  # participant -> its name
    files: dict[str, Path]


@pytest.fixture(scope="module")
def odd(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Odd:
    history = History()
    folder = tmp_path_factory.mktemp("odd")
    actors = [history.join() for _ in ODD]
    events = {}
    for actor, other, name in zip(actors, [*actors[1:], actors[0]], ODD, strict=True):
        said = json.dumps({"headers": {name: name}, "type": name})
        body = json.dumps({name: name}).encode()
        fields = {"exchange": name, "routing_keys": json.dumps([name]), "properties": said}
        fields |= {"payload": body, "payload_bytes": len(body)}
        sent = history.publish(actor, **fields, routed_queues=json.dumps([name]))
        events |= {sent: name, history.receive(other, sent, **fields, queue=name or "q"): name}
    url = history.write(folder / "store.db")
    lanes = {actor.number: name for actor, name in zip(actors, ODD, strict=True)}
    with closing(sqlite3.connect(folder / "store.db")) as file, file:
        file.executemany(
            "UPDATE participants SET name = ? WHERE number = ?",
            [(name, number) for number, name in lanes.items()],
        )
    files = {name: folder / f"chain.{name}" for name in RENDERERS}
    for name, target in files.items():
        run(
            spark,
            ChainRequest(DatabaseAddress.from_url(url), 1, 2 * len(ODD), target, FORMATS[name]),
        )
    return Odd(events, lanes, files)


def test_odd_names_are_read_back_from_json_tables_and_parquet(odd: Odd) -> None:
    read = {
        "jsonl": [json.loads(line) for line in odd.files["jsonl"].read_bytes().splitlines()],
        "json": json.loads(odd.files["json"].read_text())["events"],
        "parquet": pq.read_table(odd.files["parquet"]).to_pylist(),
    }
    with odd.files["exact.csv"].open(newline="") as file:
        read["exact.csv"] = list(csv.DictReader(file))
    for kind, rows in read.items():
        assert {int(row["id"]): row["exchange"] for row in rows} == odd.events, kind
        for row in rows:
            keys, said, name = row["routing_keys"], row["properties"], row["exchange"]
            assert (keys if isinstance(keys, list) else json.loads(keys)) == [name], kind
            said = without_nulls(said if isinstance(said, dict) else json.loads(said))
            assert (said["headers"], said["type"]) == ({name: name}, name), kind
            assert json.loads(row["payload"]) == {name: name}, kind
            assert row["participant_name"] == odd.lanes[int(row["participant"])], kind


def test_graphviz_reads_odd_names(odd: Odd) -> None:
    read = subprocess.run(
        ["dot", "-Tdot_json", odd.files["dot"]], capture_output=True, check=True, timeout=120
    )
    graph = json.loads(read.stdout)
    labels = [re.sub(r"\\(.)", r"\1", each["label"]) for each in graph["objects"]]
    lanes, nodes = labels[: len(odd.lanes)], labels[len(odd.lanes) :]
    assert sorted(lanes) == sorted(map(one_line, odd.lanes.values()))
    assert {int(each.split()[0]) for each in nodes} == odd.events.keys()
    for each in nodes:
        event_id, _, _, place = each.split(" ", 3)
        name = odd.events[int(event_id)]
        assert place.startswith(one_line(name) or ("(default)", "q")), each
    edges = [each for each in graph["edges"] if each.get("style") != "dashed"]
    names = [re.sub(r"\\(.)", r"\1", each["label"]) for each in edges]
    assert sorted(names) == sorted(one_line(name or "q") for name in ODD)


# What Mermaid makes of a diagram: each actor's name, and each line's text, as it would show them.
READ_BY_MERMAID = """
const { default: mermaid } = await import(process.argv[1]);
const { readFileSync } = await import("node:fs");
const text = readFileSync(0, "utf8");
await mermaid.parse(text);
const { db } = await mermaid.mermaidAPI.getDiagramFromText(text);
const shown = (text) => text.replace(/ﬂ°°(\\d+)¶ß/g, (_, code) => String.fromCodePoint(code));
const actors = [...db.getActors().values()].map((each) => shown(each.description));
console.log(JSON.stringify({ actors, lines: db.getMessages().map((each) => shown(each.message)) }));
"""


def read_by_mermaid(file: Path) -> dict[str, list[str]]:
    node, _ = compute_driver_executable()  # the Node that Playwright brings
    ran = subprocess.run(
        [node, "--input-type=module", "-e", READ_BY_MERMAID, str(MERMAID)],
        input=file.read_bytes(),
        capture_output=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr.decode()[-2000:]
    read: dict[str, list[str]] = json.loads(ran.stdout)
    return read


def test_mermaid_reads_odd_names(odd: Odd) -> None:
    read = read_by_mermaid(odd.files["mmd"])
    assert read["actors"] == [one_line(name).strip() for name in odd.lanes.values()]
    assert [int(each.split()[0]) for each in read["lines"]] == [*odd.events]
    for each, name in zip(read["lines"], odd.events.values(), strict=True):
        assert each.split(" ", 3)[3].startswith(one_line(name) or ("(default)", "q")), each


@pytest.fixture(scope="module")
def long_diagram(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of 1,200 events in Mermaid's language, in which 300 participants act one by one."""
    history, folder = History(pasts=False), tmp_path_factory.mktemp("long")
    actors = [history.join() for _ in range(300)]
    sent = history.publish(actors[0])
    for actor in actors[1:] * 2:
        got = history.receive(actor, sent)
        sent = history.publish(actor, links=[Link(got)], exchange="größe \U0001f600 <&>")
    database = DatabaseAddress.from_url(history.write(folder / "store.db"))
    run(spark, ChainRequest(database, 1, sent, folder / "chain.mmd", FORMATS["mmd"]))
    return folder / "chain.mmd"


def test_a_diagram_that_mermaid_would_not_draw_ends_earlier_and_says_so(long_diagram: Path) -> None:
    text = long_diagram.read_text()
    assert 45_000 < len(text.encode("utf-16-le")) // 2 <= 50_000
    *lines, last = text.splitlines()
    events = [int(found[1]) for line in lines if (found := re.search(r": (\d+) [pr]", line))]
    assert events == [*range(1, len(events) + 1)]
    assert f"the first {len(events)} of 1197 events" in last
    lanes = {*re.findall(r"participant (P\d+)", text)}
    assert lanes == {*re.findall(r"\b(P\d+)\b", "".join(line.partition(":")[0] for line in lines))}


def test_mermaid_reads_the_diagram_that_ends_earlier(long_diagram: Path) -> None:
    read = read_by_mermaid(long_diagram)
    assert read["lines"][-1].endswith("Mermaid draws 50000 characters")


def test_perfetto_would_read_odd_names(odd: Odd) -> None:
    """By Chrome's description of the format: Perfetto's own reader cannot be had as a package."""
    events = json.loads(odd.files["trace.json"].read_text())["traceEvents"]
    for event in events:
        assert event["ph"] in "MXsf"
        assert type(event["name"]) is str
        assert type(event["pid"]) is int
        assert event["ph"] == "M" or type(event["tid"]) is type(event["ts"]) is int
    slices = {e["args"]["id"]: e["args"]["exchange"] for e in events if e["ph"] == "X"}
    assert slices == odd.events
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == odd.lanes


def test_shiviz_and_labelled_text_keep_an_odd_name_on_its_line(odd: Odd) -> None:
    expression, _, log = odd.files["shiviz"].read_text().split("\n", 2)
    python = re.compile(re.sub(r"\(\?<(\w+)>", r"(?P<\1>", expression))
    found = [match.groupdict() for match in python.finditer(log)]
    assert [int(each["event"].split()[0]) for each in found] == [*odd.events]
    blocks = re.split(r"^={80}\n", odd.files["txt"].read_text(), flags=re.MULTILINE)[1:]
    assert len(blocks) == len(odd.events)
    for block, name in zip(blocks, odd.events.values(), strict=True):
        assert re.findall(r"^Exchange: +?(.*)$", block, re.MULTILINE)[0].lstrip() in (
            one_line(name).lstrip(),
            one_line(name),
        )
