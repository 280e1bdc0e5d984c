"""What an event touched, by the real job: against the truth, and checked again from the stamps."""

from __future__ import annotations

import base64
import json
import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from pyspark.sql import SparkSession

from app.cli.verifying import faults, signature_faults
from model.answers import Verdict
from model.evidence import COLUMNS
from model.exports import manifest_of
from model.jobs import Problem
from model.words import BY_BROKER, Via
from spark_jobs.chains import touched_job
from spark_jobs.errors import JobError
from spark_jobs.kinds import run_job
from tests.spark.histories import History, doubtful_history

Made = Callable[..., dict[str, Any]]
START = 7


@pytest.fixture(scope="module")
def history() -> History:
    return doubtful_history(random.Random(12), 480, present=5)


@pytest.fixture(scope="module")
def url(history: History, tmp_path_factory: pytest.TempPathFactory) -> str:
    return history.write(tmp_path_factory.mktemp("touched") / "store.db")


@pytest.fixture
def make(spark: SparkSession, url: str, tmp_path: Path) -> Made:
    def made(event: int, name: str = "touched.jsonl", **more: Any) -> dict[str, Any]:
        request = {
            "event": event,
            "output": str(tmp_path / name),
            "format": name.rpartition(".")[2],
            **more,
        }
        return run_job(spark, more.pop("url", url), "touched", request, lambda progress: None)

    return made


def truth(history: History, event: int, rest: str = "cannot_have") -> dict[int, str]:
    """Each later event of the same trace, by looking at all of them."""
    trace = history.rows[event - 1]["trace_id"]
    found = {}
    for row in history.rows[event:]:
        if row["trace_id"] != trace:
            continue
        verdict = "unknown" if history.is_behind_doubtful(event, row["id"]) else rest
        if event in history.past[row["id"]]:
            verdict = "may_have"
        if event in history.evident_past(row["id"], Via.links):
            verdict = "caused"
        found[row["id"]] = verdict
    return found


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", ["touched.jsonl", "touched.parquet"])
def test_every_event_since_has_its_true_verdict_and_evidence(
    make: Made, history: History, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = max(
        (row["id"] for row in history.rows[:100]),
        key=lambda each: min(Counter([*Verdict, *truth(history, each).values()]).values()),
    )
    manifest = make(event, name)
    rows = rows_of(tmp_path / name)
    rest = "cannot_have" if manifest["sound"] else "unknown"
    expected = truth(history, event, rest)
    assert {row["id"]: row["verdict"] for row in rows} == expected
    counts = Counter(expected.values())
    assert counts["caused"] > 2
    assert counts["may_have"] > 2
    assert counts["unknown"] > 2
    assert {word: manifest[word] for word in counts} == counts
    equal = {row["id"]: row["candidates"] for row in rows if row["candidates"]}
    assert equal == {i: n for i in expected if (n := history.rows[i - 1].get("candidates"))}
    assert equal
    steps = [row["by"] for row in rows if row["by"]]
    acts = [step for step in steps if step["how"] in {kind.name for kind in BY_BROKER}]
    assert {(step["rule"], step["kind"]) for step in acts} == {(None, None)}
    assert manifest["events"] == len(expected)
    assert manifest == json.loads(manifest_of(tmp_path / name).read_text())
    assert [*faults(manifest, rows)] == []
    assert {each.name: str(each.type) for each in touched_job.SCHEMA} == COLUMNS
    assert (manifest["bytes"], "signature" in manifest) == ((tmp_path / name).stat().st_size, False)
    monkeypatch.setattr(touched_job, "MOST_CAUSED", 1)
    with pytest.raises(JobError, match="choose a later event") as refused:
        make(event, name)
    assert refused.value.problem is Problem.bad_request


def test_the_newest_event_touched_nothing(make: Made, history: History, tmp_path: Path) -> None:
    last = max(row["id"] for row in history.rows if row["trace_id"] == 1)
    manifest = make(last)
    assert (manifest["events"], manifest["as_of"]) == (0, last)
    assert (tmp_path / "touched.jsonl").read_bytes() == b""
    assert [*faults(manifest, [])] == []


def test_a_manifest_is_signed_where_there_is_a_key(make: Made, tmp_path: Path) -> None:
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    file = tmp_path / "key.pem"
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(pem)
    manifest = make(START, key_file=str(file))
    public = key.public_key().public_bytes_raw()
    assert base64.b64decode(manifest["signature"]["key"]) == public
    assert [*signature_faults(manifest, public)] == [*signature_faults(manifest, None)] == []
    assert [*signature_faults(manifest, other.public_key().public_bytes_raw())] == [
        "the manifest is signed by another key"
    ]
    changed = {**manifest, "caused": manifest["caused"] + 1}
    assert [*signature_faults(changed, public)] == ["the signature does not fit the manifest"]
    file.write_text("no key")
    with pytest.raises(JobError, match="ITC_SIGNING_KEY_FILE holds no Ed25519"):
        make(START, "other.jsonl", key_file=str(file))
    assert not (tmp_path / "other.jsonl").exists()


def test_gaps_and_late_links_leave_nothing_impossible(
    spark: SparkSession, history: History, tmp_path: Path
) -> None:
    url = history.write(tmp_path / "late.db")
    trace = history.rows[START - 1]["trace_id"]
    beside = [each for each, word in truth(history, START).items() if word == "cannot_have"]
    late = next(each for each in beside if not history.rows[each - 1]["type"])
    with closing(sqlite3.connect(tmp_path / "late.db")) as connection, connection:
        connection.execute("INSERT INTO edges VALUES (?, ?, ?, 'late', 0, 0)", (trace, late, START))
        connection.execute(
            "INSERT INTO late_edges (trace_id, effect_id, cause_id) VALUES (?, ?, ?)",
            (trace, late, START),
        )
        connection.execute(
            "INSERT INTO gaps (trace_id, after_event_id, since, reason, suspected)"
            " VALUES (?, 20, 0, 'lost', 0)",
            (trace,),
        )
    output = tmp_path / "touched.jsonl"
    request = {"event": START, "output": str(output), "format": "jsonl"}
    manifest = run_job(spark, url, "touched", request, lambda progress: None)
    rows = rows_of(output)
    found = {row["id"]: row for row in rows}
    assert found[late]["verdict"] == "caused"
    assert found[late]["by"]["late"] is True
    assert "cannot_have" not in {row["verdict"] for row in rows}
    assert manifest["cannot_have"] == 0
    assert manifest["unknown"] > 0
    assert "cannot" not in manifest["sentence"]
    assert [*faults(manifest, rows)] == []
