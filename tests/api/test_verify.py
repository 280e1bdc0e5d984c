"""`rabbitmq-itc verify`, and the files that it checks over HTTP, with a fake for Spark."""

from __future__ import annotations

import base64
import hashlib
import json
import random
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from typer.testing import CliRunner

from app.cli import app
from model.evidence import CAUSE_COLUMNS, COLUMNS, TouchedSummary, signed_bytes
from model.exports import manifest_of
from model.jobs import Served
from model.words import BY_BROKER
from tests.api.conftest import World, connected
from tests.api.described import conforms
from tests.api.story import ORDERED
from tests.api.test_chains import ASYNC, ended, files
from tests.spark.histories import linked_history
from tests.verdicts import touched, written

TYPES = {"int64": pa.int64(), "string": pa.string(), "bool": pa.bool_(), "binary": pa.binary()}
STEP = pa.struct([(name, TYPES[kind]) for name, kind in CAUSE_COLUMNS.items()])
SCHEMA = pa.schema([(name, TYPES.get(kind, STEP)) for name, kind in COLUMNS.items()])
HISTORY = linked_history(random.Random(12), 160, present=5)
START = 43
URL = f"/itc_db/touched/{ORDERED}/all.jsonl"


def verify(*words: object) -> tuple[int, str]:
    ended = CliRunner().invoke(app, ["verify", *map(str, words)])
    said = ended.output if ended.exception is None else f"{ended.output}{ended.exception}"
    return ended.exit_code, said


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path, *touched(HISTORY, START))


def sign(file: Path, key: Ed25519PrivateKey) -> None:
    manifest = json.loads(manifest_of(file).read_text())
    manifest["signature"] = {
        "algorithm": "ed25519",
        "key": base64.b64encode(key.public_key().public_bytes_raw()).decode(),
        "value": base64.b64encode(key.sign(signed_bytes(manifest))).decode(),
    }
    manifest_of(file).write_text(json.dumps(manifest))


def test_a_true_file_passes(file: Path) -> None:
    code, said = verify(file)
    assert code == 0
    assert "each verdict follows from its stamps" in said
    assert "not signed" in said
    assert said.splitlines()[-1].startswith(f"event {START}: of 82 events since, ")


def test_a_changed_line_is_named(file: Path) -> None:
    lines = file.read_text().splitlines()
    at = next(n for n, line in enumerate(lines) if '"may_have"' in line)
    lines[at] = lines[at].replace('"may_have"', '"cannot_have"')
    file.write_text("\n".join(lines) + "\n")
    code, said = verify(file)
    event = json.loads(lines[at])["id"]
    assert code == 1
    assert (
        f"WRONG line {at + 1}: event {event} is said to be cannot_have, and by its stamp it is"
        " may_have"
    ) in said
    assert "its SHA-256 differs" in said
    _, as_json = verify(file, "--json")
    assert json.loads(as_json.splitlines()[0])["faults"]


def test_what_the_broker_did_is_a_step_and_has_no_rule(file: Path) -> None:
    acts = {kind.name for kind in BY_BROKER}
    lines = file.read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    at = next(n for n, row in enumerate(rows) if row["by"] and row["by"]["how"] in acts)
    rows[at]["by"]["rule"] = "mine"
    lines[at] = json.dumps(rows[at])
    file.write_text("\n".join(lines) + "\n")
    code, said = verify(file)
    assert (code, f"event {rows[at]['id']} was caused by no message" in said) == (1, True)


@pytest.mark.parametrize("text", ["", "{", "null\n", '{"id": 1}\n', "\x00\n"])
def test_what_is_no_such_file_is_said_to_be_wrong(file: Path, text: str) -> None:
    file.write_text(text)
    code, said = verify(file)
    assert (code, "WRONG" in said) == (1, True)


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"starts": 1}'])
def test_what_is_no_manifest_is_wrong(file: Path, text: str | None) -> None:
    manifest_of(file).unlink()
    if text is not None:
        manifest_of(file).write_text(text)
    code, said = verify(file)
    assert code == 1
    assert "Traceback" not in said


def test_a_signature_is_held_to_the_key_that_is_given(file: Path, tmp_path: Path) -> None:
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    public = tmp_path / "public.pem"
    public.write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    assert verify(file, "--key", public)[0] == 1  # not signed
    sign(file, key)
    for given in (public, base64.b64encode(key.public_key().public_bytes_raw()).decode()):
        code, said = verify(file, "--key", given)
        assert (code, "signed by the key that was given" in said) == (0, True)
    assert verify(file)[0] == 0
    wrong = base64.b64encode(other.public_key().public_bytes_raw()).decode()
    code, said = verify(file, "--key", wrong)
    assert (code, "signed by another key" in said) == (1, True)
    manifest = json.loads(manifest_of(file).read_text())
    manifest_of(file).write_text(json.dumps({**manifest, "sentence": "it touched nothing"}))
    code, said = verify(file, "--key", public)
    assert (code, "the signature does not fit the manifest" in said) == (1, True)
    code, said = verify(file, "--key", "nonsense")
    assert "not an Ed25519 public key" in said


def test_parquet_is_checked_too(tmp_path: Path) -> None:
    manifest, rows = touched(HISTORY, START)
    file = written(tmp_path, manifest, rows).with_suffix(".parquet")
    for row in rows:
        row["clock"] = base64.b64decode(row["clock"])
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), file)
    sums = json.loads(manifest_of(file.with_suffix(".jsonl")).read_text())
    content = file.read_bytes()
    sums |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    sums |= {"format": "parquet", "file": file.name}
    manifest_of(file).write_text(json.dumps(sums))
    assert verify(file)[0] == 0
    file.write_bytes(content[:-9])
    assert verify(file)[0] == 1


# The files over HTTP


async def test_a_file_is_made_downloaded_and_removed(
    world: World, client: httpx2.AsyncClient
) -> None:
    made = await client.put(URL)
    conforms(made.json(), (TouchedSummary, Served))
    download = await client.get(made.headers["location"])
    manifest = await client.get(f"{URL}.manifest.json")
    again = await client.get(URL, headers={"if-none-match": download.headers["etag"]})
    usage = (await client.get("/itc_db/exports")).json()
    removed = await client.delete(URL)

    assert (made.status_code, made.json()["location"]) == (201, URL)
    assert download.content == b'{"id": 1}\n'
    assert download.headers["content-disposition"] == 'attachment; filename="all.jsonl"'
    assert manifest.json()["events"] == 1
    assert again.status_code == 304
    assert usage == []
    assert removed.status_code == 204
    assert (await client.get(URL)).status_code == 404
    assert files(world) == []


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("/itc_db/touched/1/x.csv", 400),
        ("/itc_db/touched/1/x.jsonl.manifest.json", 400),
        ("/itc_db/touched/1/.jsonl", 400),
        ("/itc_db/touched/99/x.jsonl", 404),
        ("/itc_db/touched/8/x.jsonl", 404),  # of a virtual host that is not seen
    ],
)
async def test_what_cannot_be_written_is_refused(
    world: World, client: httpx2.AsyncClient, url: str, status: int
) -> None:
    assert (await client.put(url)).status_code == status
    assert (files(world), world.spark.runs) == ([], 0)


async def test_readers_download_and_do_not_write(world: World) -> None:
    async with connected(world.app(), auth=("watcher", "secret")) as client:
        assert (await client.put(URL)).status_code == 401
        assert (await client.put(URL, auth=("admin", "secret"))).status_code == 201
        assert (await client.get(URL)).status_code == 200
        assert (await client.delete(URL)).status_code == 401


async def test_a_file_that_is_being_made_is_not_there_yet(
    world: World, client: httpx2.AsyncClient
) -> None:
    world.spark.go.clear()
    job = (await client.put(URL, headers=ASYNC)).json()
    early = await client.get(URL)
    world.spark.go.set()
    done: Any = await ended(client, job["id"])
    assert (early.status_code, job["kind"]) == (409, "touched")
    assert (done["state"], done["result"]["location"]) == ("succeeded", URL)
