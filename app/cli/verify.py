"""``verify``: check a file of what an event touched; ``touched``: count it, or have it written."""

from __future__ import annotations

import hashlib
import json as json_
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from app.cli.chains import Output, download
from app.cli.client import Client, segment
from app.cli.events import end_by_certainty, say_caveats, show_events
from app.cli.exits import CommandError, Exit
from app.cli.following import followed, submit
from app.cli.options import Json, RequireComplete, RequireSound, Url, User
from app.cli.output import as_json, complain, printable, say
from app.cli.verifying import faults, public_key, signature_faults
from model.answers import Verdict
from model.evidence import SIGNATURE
from model.exports import MANIFEST, manifest_of

_SHOWN = 20
_PIECE = 1 << 20

File = Annotated[Path, typer.Argument(help="The file; its manifest is beside it.")]
Key = Annotated[
    str | None,
    typer.Option(help="The public key that it must be signed with: a file, or base64."),
]
Events = Annotated[list[int], typer.Argument(metavar="EVENT…", min=1, help="Events' ids.")]
Listed = Annotated[
    Verdict | None, typer.Option("--verdict", help="List these: caused, may_have, cannot_have.")
]
Limit = Annotated[int, typer.Option("-n", "--limit", min=1, max=1_000, help="How many to list.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(touched)
    app.command()(verify)


def touched(
    events: Events,
    verdict: Listed = None,
    limit: Limit = 100,
    output: Output = None,
    require_complete: RequireComplete = False,
    require_sound: RequireSound = False,
    json: Json = False,
    url: Url = None,
    user: User = None,
) -> None:
    """What came since some events: what they caused, may have, and cannot have.

    With -o (.jsonl or .parquet) all that came since one, with the evidence, and its manifest.
    """
    client = Client.from_environment(url, user)
    if output is not None:
        answer = _written(client, events, output)
    else:
        asked = {"verdict": None if verdict is None else verdict.value, "limit": limit}
        listed = ",".join(map(str, events))
        answer = client.get(
            "/itc_db/touched", events=listed, payload=None if json else "none", **asked
        )
    if json:
        as_json(answer)
    else:
        say(printable(answer["sentence"]))
        if answer.get("items"):
            show_events(answer["items"])
        say_caveats(answer)
        if answer.get("next"):
            complain("there are more: -n says how many to list, -o FILE writes them all")
    end_by_certainty(answer, require_complete, require_sound)


def _written(client: Client, events: list[int], output: Path) -> dict[str, Any]:
    if len(events) != 1:
        raise CommandError(Exit.usage, "-o writes what one event touched: name one")
    path = f"/itc_db/touched/{events[0]}/{segment(output.name)}"
    summary = followed(client, submit(client, path))
    download(client, f"{path}{MANIFEST}", manifest_of(output))
    download(client, path, output)
    return summary


def verify(file: File, key: Key = None, json: Json = False) -> None:
    """Check a file of what an event touched: its sum, its signature, and each verdict again.

    From the stamps in it alone, without a service. Exits with 0 if nothing is wrong, otherwise
    with 1, and says what is wrong with which line.
    """
    trusted = _trusted(key)
    try:
        manifest = msgspec.json.decode(manifest_of(file).read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise CommandError(Exit.failure, f"{manifest_of(file)}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise CommandError(Exit.failure, f"{manifest_of(file)}: {error}") from error
    found = [*_of_file(file, manifest), *signature_faults(manifest, trusted)]
    found += islice(faults(manifest, _rows(file)), 1_000)
    if json:
        as_json({"file": str(file), "faults": found, "signed": SIGNATURE in manifest})
    else:
        _say(file, manifest, found, trusted)
    if found:
        raise typer.Exit(Exit.failure)


def _trusted(key: str | None) -> bytes | None:
    if key is None:
        return None
    try:
        text = Path(key).read_bytes() if Path(key).is_file() else key.encode()
        return public_key(text)
    except (OSError, ValueError) as error:
        raise CommandError(Exit.usage, f"--key: not an Ed25519 public key: {error}") from error


def _of_file(file: Path, manifest: dict[str, Any]) -> Iterator[str]:
    digest, size = hashlib.sha256(), 0
    try:
        with file.open("rb") as opened:
            while piece := opened.read(_PIECE):
                digest.update(piece)
                size += len(piece)
    except OSError as error:
        raise CommandError(Exit.failure, f"{file}: {error.strerror}") from error
    if size != manifest.get("bytes"):
        yield f"the file has {size} bytes, and the manifest says {manifest.get('bytes')}"
    if digest.hexdigest() != manifest.get("sha256"):
        yield "the file is not the one that the manifest is of: its SHA-256 differs"


def _rows(file: Path) -> Iterable[Any]:
    if file.suffix == ".parquet":
        return _parquet_rows(file)
    return _json_rows(file)


def _json_rows(file: Path) -> Iterator[Any]:
    with file.open("rb") as lines:
        for line in lines:
            try:
                yield json_.loads(line)
            except ValueError:
                yield None  # is said of the line


def _parquet_rows(file: Path) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as opened:
            for batch in opened.iter_batches(4_096):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError):
        yield None


def _say(file: Path, manifest: dict[str, Any], found: list[str], trusted: bytes | None) -> None:
    for fault in found[:_SHOWN]:
        say(f"WRONG {printable(fault)}")
    if len(found) > _SHOWN:
        say(f"WRONG and {len(found) - _SHOWN} more")
    if found:
        return
    say(printable(f"{file}: {manifest['events']} events, each verdict follows from its stamps"))
    if SIGNATURE in manifest:
        whose = "the key that was given" if trusted else manifest[SIGNATURE]["key"]
        say(printable(f"signed by {whose}"))
    else:
        say("not signed: whoever had the file may have changed it together with its manifest")
    say(printable(manifest["sentence"]))
