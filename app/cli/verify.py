"""``verify``: check a file of what an event touched; ``touched``: count it, or have it written."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from app.cli.client import ServiceClient, segment
from app.cli.events import SHOWN_COLUMNS
from app.cli.exits import CommandError, Exit
from app.cli.files import download
from app.cli.following import follow, submit
from app.cli.options import Json, Output, PageLimit, Requirements, say_caveats
from app.cli.output import as_json, complain, printable, say, table
from app.cli.verifying import (
    VERDICTS,
    faults,
    parse_json,
    public_key,
    sentence_of,
    signature_faults,
)
from app.extras import check_spark
from model.answers import Verdict
from model.evidence import COLUMNS, SIGNATURE
from model.exports import MANIFEST, manifest_of
from model.words import Until, number_of

_FAULTS = 20
_PIECE = 1 << 20
_MOST_MANIFEST = 1 << 26
_LONGEST_LINE = 1 << 26

File = Annotated[Path, typer.Argument(help="The file; its manifest is beside it.")]
Key = Annotated[
    str | None, typer.Option(help="The public key that it must be signed with: a file, or base64.")
]
Events = Annotated[list[int], typer.Argument(metavar="EVENT…", min=1, help="Events' ids.")]
VerdictOption = Annotated[
    Verdict | None,
    typer.Option("--verdict", help="List these: caused, may_have, cannot_have, unknown."),
]


def touched(
    client: ServiceClient,
    requirements: Requirements,
    events: Events,
    verdict: VerdictOption = None,
    limit: PageLimit = 100,
    to: Annotated[int | None, typer.Option(min=1, help="Only events up to this one.")] = None,
    until: Annotated[
        Until, typer.Option(help="Only events of the minute after them, or before the next gap.")
    ] = Until.now,
    output: Output = None,
    json: Json = False,
) -> None:
    """List what came after events by verdict: caused, may have been, cannot have been, unknown.

    With -o (.jsonl or .parquet), save all that came after one event, with evidence and a manifest.
    """
    if output is not None:
        answer = _write_touched(client, events, output)
    else:
        parameters: dict[str, Any] = {"verdict": verdict and verdict.value, "limit": limit}
        ids = ",".join(map(str, events))
        payload = None if json else "none"
        parameters |= {"to": to, "until": until.value}
        answer = client.get("/itc_db/touched", events=ids, payload=payload, **parameters)
    if json:
        as_json(answer)
    else:
        say(printable(answer["sentence"]))
        for line in touched_lines(answer):
            say(printable(line))
        if answer.get("items"):
            table(SHOWN_COLUMNS, answer["items"])
        say_caveats(answer)
        if answer.get("next"):
            complain("there are more: -n says how many to list, -o FILE writes them all")
    requirements.check(answer)


def touched_lines(answer: dict[str, Any]) -> Iterator[str]:
    """The services by verdict, those touched first at the top, and the queues."""
    for verdict, group in groupby(answer.get("services", ()), key=itemgetter("verdict")):
        names = [service["name"] for service in group]
        count = number_of(len(names), "service")
        yield f"{verdict.replace('_', ' ')}, {count}: {', '.join(names)}"
    if queues := [queue["name"] for queue in answer.get("queues", ())]:
        yield f"caused, {number_of(len(queues), 'queue')}: {', '.join(queues)}"


def _write_touched(client: ServiceClient, events: list[int], output: Path) -> dict[str, Any]:
    if len(events) != 1:
        raise CommandError(Exit.usage, "-o writes what one event touched: name one")
    path = f"/itc_db/touched/{events[0]}/{segment(output.name)}"
    summary = follow(client, submit(client, path))
    download(client, f"{path}{MANIFEST}", manifest_of(output))
    download(client, path, output)
    return summary


def verify(file: File, key: Key = None, json: Json = False) -> None:
    """Check a file of what an event touched: its checksum, its signature, and each verdict.

    Needs no service: it goes by the stamps in the file and counts for itself. Exits with 0 if
    nothing is wrong, otherwise with 1, and says what is wrong in which line.
    """
    trusted = _trusted_key(key)
    manifest = _manifest(manifest_of(file))
    unsigned = [*signature_faults(manifest, trusted)]
    with _open(file) as content:
        errors = [*_of_file(file, content, manifest), *unsigned]
        content.seek(0)
        errors += islice(faults(manifest, _rows(file, content)), 1_000)
    is_signed = SIGNATURE in manifest and not unsigned
    if json:
        sentence = None if errors else _sentence(manifest)
        as_json({"file": str(file), "faults": errors, "signed": is_signed, "sentence": sentence})
    else:
        _say(file, manifest, errors, trusted)
    if errors:
        raise typer.Exit(Exit.failure)


def _trusted_key(key: str | None) -> bytes | None:
    if key is None:
        return None
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        text = Path(key).read_bytes() if Path(key).is_file() else key.encode()
        return public_key(text)
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise CommandError(Exit.usage, f"--key: not an Ed25519 public key: {error}") from error


@contextmanager
def _open(path: Path) -> Iterator[BinaryIO]:
    """A file itself: what a link leads to may be exchanged, and a pipe is read but once."""
    try:
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a symbolic link" if stat.S_ISLNK(mode) else "something else"
            raise CommandError(Exit.failure, f"{path}: {kind}, and not the file itself")
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise CommandError(Exit.failure, f"{path}: {error.strerror}") from error


def _manifest(path: Path) -> dict[str, Any]:
    with _open(path) as file:
        content = file.read(_MOST_MANIFEST + 1)
    if len(content) > _MOST_MANIFEST:
        raise CommandError(Exit.failure, f"{path}: no manifest: more than {_MOST_MANIFEST} bytes")
    try:
        manifest = parse_json(content)
    except ValueError as error:
        raise CommandError(Exit.failure, f"{path}: no manifest: {error}") from error
    if not isinstance(manifest, dict):
        raise CommandError(Exit.failure, f"{path}: no manifest: it is no table")
    return manifest


def _of_file(file: Path, content: BinaryIO, manifest: dict[str, Any]) -> Iterator[str]:
    digest, size = hashlib.sha256(), 0
    while piece := content.read(_PIECE):
        digest.update(piece)
        size += len(piece)
    if size != manifest.get("bytes"):
        yield f"the file has {size} bytes, and the manifest says {manifest.get('bytes')}"
    if digest.hexdigest() != manifest.get("sha256"):
        yield "the file is not the one that the manifest is of: its SHA-256 differs"
    name = manifest.get("file")
    if name != file.name:
        yield f"the manifest is of a file that is called {name!r}, and not {file.name!r}"
    if file.suffix != f".{manifest.get('format')}":
        yield f"the manifest is of a file in the format {manifest.get('format')!r}"


def _rows(file: Path, content: BinaryIO) -> Iterator[Any]:
    if file.suffix == ".parquet":
        yield from _parquet_rows(content)
        return
    while line := content.readline(_LONGEST_LINE):
        try:
            yield parse_json(line) if line.endswith(b"\n") else ValueError("it has no end")
        except ValueError as error:
            yield error  # is said of the line


def _parquet_rows(content: BinaryIO) -> Iterator[Any]:
    check_spark("Parquet files need")
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(content) as table:
            columns = [(column.name, str(column.type)) for column in table.schema_arrow]
            if columns != [*COLUMNS.items()]:
                yield ValueError("its columns are not those of such a file")
                return
            for batch in table.iter_batches(4_096):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        yield ValueError(str(error))


def _sentence(manifest: dict[str, Any]) -> str:
    counts = {name: manifest[name] for name in VERDICTS}
    return sentence_of(counts, complete=manifest["complete"], sound=manifest["sound"])


def _say(file: Path, manifest: dict[str, Any], errors: list[str], trusted: bytes | None) -> None:
    for fault in errors[:_FAULTS]:
        say(f"WRONG {printable(fault)}")
    if len(errors) > _FAULTS:
        say(f"WRONG and {len(errors) - _FAULTS} more")
    if errors:
        return
    events = number_of(manifest["events"], "event")
    say(printable(f"{file}: {events}, each verdict follows from its stamps"))
    event, vhost = manifest["event"], manifest["vhost"]
    if SIGNATURE not in manifest:
        say("not signed: anybody with the file could have changed it and its manifest")
    elif trusted is None:
        say(f"signed by {manifest[SIGNATURE]['key']}: check with --key that this is the service's")
    else:
        # No stamp tells of a virtual host.
        say(printable(f"signed by the key that was given, as of the virtual host {vhost!r}"))
    say(f"event {event}: {_sentence(manifest)}")
