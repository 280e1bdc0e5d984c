"""Forged evidence: `rabbitmq-itc verify` refuses each with a sentence, and none makes it crash."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from app.cli import app
from app.cli.exits import CommandError
from app.cli.verifying import VERDICTS, sentence_of
from model.evidence import signed_bytes
from model.exports import manifest_of
from tests.spark.histories import linked_history
from tests.verdicts import place, touched, written

Json = dict[str, Any]

HISTORY = linked_history(random.Random(1), 160, present=5)
START = 15
OURS, THEIRS = Ed25519PrivateKey.from_private_bytes(b"1" * 32), Ed25519PrivateKey.generate()
MANIFEST, ROWS = touched(HISTORY, START)
PUBLIC = base64.b64encode(OURS.public_key().public_bytes_raw()).decode()


@dataclass
class Evidence:
    """A file and its manifest, in the hands of a forger who can make sums and sign by a key."""

    file: Path

    @property
    def manifest(self) -> Json:
        return json.loads(manifest_of(self.file).read_text())

    def write(self, manifest: Json) -> None:
        manifest_of(self.file).write_text(json.dumps(manifest))

    def change(self, **fields: object) -> None:
        """Change the manifest."""
        self.write({**self.manifest, **fields})

    def fill(self, content: bytes) -> None:
        """Change the file, and make the manifest's sums fit."""
        self.file.write_bytes(content)
        self.change(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())

    def lines(self, change: Callable[[list[bytes]], object]) -> None:
        lines = self.file.read_bytes().splitlines(keepends=True)
        change(lines)
        self.fill(b"".join(lines))

    def rows(self, change: Callable[[list[Json]], object]) -> None:
        """Change rows, and make what the manifest counts fit."""
        rows = [json.loads(line) for line in self.file.read_text().splitlines()]
        change(rows)
        self.fill(b"".join(json.dumps(row).encode() + b"\n" for row in rows))

    def sign(self, by: Ed25519PrivateKey, **fields: object) -> None:
        manifest = self.manifest
        signature = {
            "algorithm": "ed25519",
            "key": base64.b64encode(by.public_key().public_bytes_raw()).decode(),
            "value": base64.b64encode(by.sign(signed_bytes(manifest))).decode(),
        }
        self.write({**manifest, "signature": {**signature, **fields}})

    def raw(self, change: Callable[[bytes], bytes]) -> None:
        """Change the manifest's own bytes."""
        manifest_of(self.file).write_bytes(change(manifest_of(self.file).read_bytes()))


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    return Evidence(written(tmp_path, MANIFEST, ROWS))


def verify(*words: object) -> tuple[int, str]:
    """How it ends and what it says; anything but a sentence on its way out is raised."""
    ended = CliRunner().invoke(app, ["verify", *map(str, words)])
    if isinstance(ended.exception, CommandError):
        return ended.exception.code, str(ended.exception)
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return ended.exit_code, ended.output


def _without_last(rows: list[Json]) -> None:
    rows.pop()


def _other_start(evidence: Evidence) -> None:
    evidence.change(event=START + 1, starts=[place(HISTORY, START + 1)])


def _link(evidence: Evidence, path: Path) -> None:
    elsewhere = evidence.file.with_name("elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def _replaced(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def _in_front(first: bytes) -> Callable[[Evidence], None]:
    """Another field of a name before the true ones of a manifest that is signed."""

    def forge(evidence: Evidence) -> None:
        evidence.sign(OURS)
        evidence.raw(lambda content: b"{" + first + b", " + content[1:])

    return forge


def _row(**fields: object) -> Callable[[Evidence], None]:
    return lambda evidence: evidence.rows(lambda rows: rows[3].update(fields))


# By what is done, and a part of what is said of it.
FORGERIES: dict[str, tuple[Callable[[Evidence], object], str]] = {
    # The signature
    "no signature where one is expected": (lambda e: None, "is not signed"),
    "a signature of null": (lambda e: e.change(signature=None), "signature cannot be read"),
    "an empty signature": (lambda e: e.change(signature={}), "signature cannot be read"),
    "a list as signature": (lambda e: e.change(signature=[1]), "signature cannot be read"),
    "true as signature": (lambda e: e.change(signature=True), "signature cannot be read"),
    "a signature with one field more": (lambda e: e.sign(OURS, note="x"), "signature cannot"),
    "another algorithm": (lambda e: e.sign(OURS, algorithm="none"), "the algorithm is 'none'"),
    "another key": (lambda e: e.sign(THEIRS), "signed by another key"),
    "our key beside another's signature": (lambda e: e.sign(THEIRS, key=PUBLIC), "does not fit"),
    "a key of zeros": (lambda e: e.sign(OURS, key=base64.b64encode(bytes(32)).decode()), "another"),
    "a short key": (lambda e: e.sign(OURS, key="AAAA"), "signature cannot be read"),
    "a short value": (lambda e: e.sign(OURS, value="AAAA"), "does not fit"),
    "a value that is no base64": (lambda e: e.sign(OURS, value="é"), "signature cannot be read"),
    "a value with spaces": (lambda e: e.sign(OURS, value="AA AA"), "signature cannot be read"),
    "a value with loose bits": (lambda e: e.sign(OURS, value="AB=="), "signature cannot be read"),
    "a number as key": (lambda e: e.sign(OURS, key=7), "signature cannot be read"),
    "a changed manifest": (lambda e: (e.sign(OURS), e.change(vhost="other")), "does not fit"),
    "a sentence put under a signature": (
        lambda e: (e.sign(OURS), e.change(sentence="it touched nothing")),
        "does not fit",
    ),
    # Fields twice
    "the sentence twice": (_in_front(b'"sentence": "nothing"'), "'sentence' stands there twice"),
    "the event twice": (_in_front(b'"event": 1'), "'event' stands there twice"),
    "the signature twice": (_in_front(b'"signature": null'), "'signature' stands there twice"),
    "a field twice, once as escapes": (
        _in_front(b'"\\u0065vent": 1'),
        "'event' stands there twice",
    ),
    "a field of a row twice": (
        lambda e: e.lines(lambda lines: lines.insert(0, b'{"id": 1, ' + lines.pop(0)[1:])),
        "line 1: cannot be read: the field 'id' stands there twice",
    ),
    # What the manifest says
    "another sentence": (
        lambda e: e.change(sentence="it touched nothing"),
        f"of {len(ROWS)} events since",
    ),
    "a sentence with unicode's digits": (
        lambda e: e.change(sentence=e.manifest["sentence"].replace("6", "\uff16")),
        "sentence is not what its file tells",
    ),
    "a sentence that no text can hold": (lambda e: e.change(sentence="\ud800"), "sentence is not"),
    "another event": (
        lambda e: e.change(event=START + 1),
        f"is of event {START + 1}, and has the stamp of",
    ),
    "another event and its stamp": (_other_start, f"line 1: event {START + 1} is not after event"),
    "two events": (
        lambda e: e.change(starts=e.manifest["starts"] * 2),
        "length <= 1 - at `$.starts`",
    ),
    "no virtual host": (lambda e: e.change(vhost=""), "at `$.vhost`"),
    "a number as virtual host": (lambda e: e.change(vhost=1), "at `$.vhost`"),
    "another file": (lambda e: e.change(file="other.jsonl"), "called 'other.jsonl', and not"),
    "another format": (lambda e: e.change(format="parquet"), "in the format 'parquet'"),
    "another sum": (lambda e: e.change(sha256="0" * 64), "its SHA-256 differs"),
    "another size": (lambda e: e.change(bytes=1), "and the manifest says 1"),
    "gaps that are hidden": (lambda e: e.change(gaps={}), "at `$.gaps`"),
    "gaps that are none": (lambda e: e.change(gaps=[1], complete=False), "at `$.gaps[0]`"),
    "doubts that are none": (lambda e: e.change(doubts=[1], sound=False), "at `$.doubts[0]`"),
    "true as a number": (lambda e: e.change(unknown=False), "at `$.unknown`"),
    "a fraction as a number": (lambda e: e.change(events=38.0), "at `$.events`"),
    "less than nothing": (lambda e: e.change(quiet=-1), "at `$.quiet`"),
    "a field that nobody knows": (lambda e: e.change(verified=True), "field `verified`"),
    "a field in wide letters": (
        lambda e: e.write({**e.manifest, "\uff45vent": 1}),
        "unknown field",
    ),
    "an event that is newer": (lambda e: e.change(as_of=10**6), "up to event 1000000, the file up"),
    # How the manifest is written
    "a manifest cut short": (lambda e: e.raw(lambda text: text[:-9]), "no manifest"),
    "an empty manifest": (lambda e: e.raw(lambda text: b""), "no manifest"),
    "two manifests": (lambda e: e.raw(lambda text: text * 2), "no manifest"),
    "a list as manifest": (lambda e: e.raw(lambda text: b"[%b]" % text), "it is no table"),
    "a manifest in UTF-16": (
        lambda e: e.raw(lambda text: text.decode().encode("utf-16")),
        "no manifest",
    ),
    "a manifest in UTF-16 without a mark": (
        lambda e: e.raw(lambda text: text.decode().encode("utf-16-le")),
        "no manifest",
    ),
    "a manifest in UTF-32": (
        lambda e: e.raw(lambda text: text.decode().encode("utf-32")),
        "no manifest",
    ),
    "a manifest with a mark": (lambda e: e.raw(lambda text: b"\xef\xbb\xbf" + text), "no manifest"),
    "a manifest that is no UTF-8": (
        lambda e: e.raw(lambda text: text.replace(b'"/"', b'"\xff"')),
        "no manifest",
    ),
    "a manifest nested deeply": (
        lambda e: e.raw(lambda text: text[:-1] + b', "x": ' + b"[" * 10**5 + b"]" * 10**5 + b"}"),
        "nested too deeply",
    ),
    "tables nested deeply": (
        lambda e: e.raw(lambda text: text[:-1] + b', "x": ' + b'{"a":' * 10**5),
        "nested too deeply",
    ),
    "a number of thousands of digits": (
        lambda e: e.raw(lambda text: text[:-1] + b', "x": ' + b"9" * 10**5 + b"}"),
        "more than 64 bits",
    ),
    "a number beyond 64 bits": (lambda e: e.change(as_of=2**63), "more than 64 bits"),
    "a number without an end": (
        lambda e: e.raw(lambda text: text[:-1] + b', "x": 1e999}'),
        "more than 64 bits",
    ),
    "not a number": (lambda e: e.change(quiet=float("nan")), "NaN is no JSON"),
    # The rows
    "a line less": (lambda e: e.rows(_without_last), "the manifest counts"),
    "a line less, counted": (
        lambda e: (e.rows(_without_last), _counted(e)),
        "the manifest tells of all up to event",
    ),
    "a line appended": (
        lambda e: e.lines(lambda lines: lines.append(lines[-1])),
        "comes after event",
    ),
    "rubbish appended": (
        lambda e: e.lines(lambda lines: lines.append(b"x\n")),
        f"line {len(ROWS) + 1}: cannot",
    ),
    "an empty line appended": (
        lambda e: e.lines(lambda lines: lines.append(b"\n")),
        f"line {len(ROWS) + 1}: cannot be read",
    ),
    "null appended": (
        lambda e: e.lines(lambda lines: lines.append(b"null\n")),
        f"line {len(ROWS) + 1}: cannot",
    ),
    "a line without an end": (
        lambda e: e.lines(lambda lines: lines.append(lines.pop()[:-1])),
        f"line {len(ROWS)}: cannot be read: it has no end",
    ),
    "a line cut short": (
        lambda e: e.lines(lambda lines: lines.append(lines.pop()[:-9])),
        f"line {len(ROWS)}: cannot be read",
    ),
    "two lines exchanged": (
        lambda e: e.rows(lambda rows: rows.insert(0, rows.pop(1))),
        "line 2: event",
    ),
    "another order": (lambda e: e.rows(lambda rows: rows.reverse()), "comes after event"),
    "rows in UTF-16": (
        lambda e: e.fill(e.file.read_text().encode("utf-16")),
        "line 1: cannot be read",
    ),
    "rows with a mark": (lambda e: e.fill(b"\xef\xbb\xbf" + e.file.read_bytes()), "line 1: cannot"),
    "a row nested deeply": (
        lambda e: e.lines(lambda lines: lines.append(b"[" * 10**5 + b"\n")),
        f"line {len(ROWS) + 1}: cannot be read: it is nested too deeply",
    ),
    "a row with a number of thousands of digits": (
        lambda e: e.lines(lambda lines: lines.append(b'{"id": %b}\n' % (b"9" * 10**5))),
        f"line {len(ROWS) + 1}: cannot be read: a number has more than 64 bits",
    ),
    "a field more in a row": (_row(note="verified"), "line 4: cannot be read: its fields"),
    "another verdict's letters": (_row(verdict="c\u0430used"), "has no known verdict"),
    "a list as verdict": (_row(verdict=["caused"]), "has no known verdict"),
    "an unknown type": (_row(type="imagined"), "is of no known type"),
    "a list as type": (_row(type=[]), "line 4: cannot be read"),
    "a fraction as id": (_row(id=11.0), "line 4: cannot be read"),
    "true as height": (_row(height=True), "line 4: cannot be read"),
    "a huge clock": (_row(clock="A" * 10**6), "line 4: cannot be read"),
    "a clock with loose bits": (_row(clock="AB=="), "line 4: cannot be read: its base64"),
    "an odd interval": (_row(interval="\u0660\u0661"), "line 4"),
    "a long interval": (_row(interval="01" * 10**5), "line 4"),
    "a number as interval": (_row(interval=1), "line 4"),
    "a step of another kind": (
        _row(
            verdict="caused",
            by={"cause": START, "how": "link", "rule": "r", "kind": "candidate", "late": False},
        ),
        "by no message, no link and nothing the broker did",
    ),
    "a step that is true": (
        _row(
            verdict="caused",
            by={"cause": True, "how": "message", "rule": None, "kind": None, "late": False},
        ),
        "is no step",
    ),
    # What is no file
    "a link to the file": (lambda e: _link(e, e.file), "a symbolic link"),
    "a link to the manifest": (lambda e: _link(e, manifest_of(e.file)), "a symbolic link"),
    "a link to nothing": (
        lambda e: _replaced(e.file, lambda path: path.symlink_to("nowhere")),
        "a symbolic link",
    ),
    "a link to itself": (
        lambda e: _replaced(e.file, lambda path: path.symlink_to(path)),
        "a symbolic link",
    ),
    "a link to endless zeros": (
        lambda e: _replaced(manifest_of(e.file), lambda path: path.symlink_to("/dev/zero")),
        "a symbolic link",
    ),
    "a folder as file": (lambda e: _replaced(e.file, Path.mkdir), "not the file itself"),
    "a folder as manifest": (lambda e: _replaced(manifest_of(e.file), Path.mkdir), "not the file"),
    "a pipe as file": (lambda e: _replaced(e.file, os.mkfifo), "not the file itself"),
    "a pipe as manifest": (lambda e: _replaced(manifest_of(e.file), os.mkfifo), "not the file"),
    "no file": (lambda e: e.file.unlink(), "No such file"),
    "no manifest": (lambda e: manifest_of(e.file).unlink(), "No such file"),
}


def _counted(evidence: Evidence) -> None:
    """Make a manifest's counts and its sentence fit the rows."""
    rows = [json.loads(line) for line in evidence.file.read_text().splitlines()]
    counts = {name: sum(row["verdict"] == name for row in rows) for name in VERDICTS}
    sentence = sentence_of(counts, complete=True, sound=True)
    evidence.change(**counts, events=len(rows), sentence=sentence)


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forgery_is_refused_with_a_sentence(evidence: Evidence, name: str) -> None:
    forge, expected = FORGERIES[name]
    forge(evidence)
    code, said = verify(evidence.file, "--key", PUBLIC)
    assert (code, expected in said) == (1, True), said
    assert "it touched nothing" not in said


# Only a key that is given tells these from what somebody may have signed, or left unsigned.
BY_KEY = ("no signature where one is expected", "another key", "a key of zeros")


@pytest.mark.parametrize("name", [each for each in FORGERIES if each not in BY_KEY])
def test_a_forgery_is_refused_where_no_key_is_given(evidence: Evidence, name: str) -> None:
    forge, expected = FORGERIES[name]
    forge(evidence)
    code, said = verify(evidence.file, "--json")
    assert (code, expected in said.replace("\\\\", "\\")) == (1, True), said
    if said.startswith("{"):
        answer = json.loads(said.splitlines()[0])
        assert answer["faults"]
        assert answer["sentence"] is None


def test_what_is_true_and_signed_passes_and_says_whose_words_are_whose(evidence: Evidence) -> None:
    true = copy.deepcopy(evidence.manifest)
    evidence.sign(OURS)
    code, said = verify(evidence.file, "--key", PUBLIC)
    assert code == 0
    assert said.splitlines()[1:] == [
        "signed by the key that was given, as of the virtual host '/'",
        f"event {START}: {true['sentence']}",
    ]
    evidence.write(true)
    evidence.sign(THEIRS)
    code, said = verify(evidence.file)
    assert code == 0
    assert "check with --key that this is the service's" in said
    answer = json.loads(verify(evidence.file, "--json")[1])
    assert (answer["signed"], answer["faults"]) == (True, [])
    evidence.write(true)
    answer = json.loads(verify(evidence.file, "--json")[1])
    assert (answer["signed"], answer["faults"]) == (False, [])
