"""A field of an event is described once: `model.event` says what it is, a row's line what goes in.

Both and a migration are added to a copy of the sources, and the copy is asked wherever fields show.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from app.errors import SettingsError
from app.store import Store, migrate
from tests.contract.history import History

CHECKOUT = Path(__file__).parents[2]
SOURCES = ("alembic", "app", "itc", "model", "spark_jobs", "statements")

BEFORE = "    redelivered: Annotated["
LINE = """\
    entry: Annotated[
        str | None,
        Storage("events.entry", null=True),
        Display("Entry", "Where the message came in.", usual=True, width=12),
    ]
"""
ROWS = "app/store/capture/_rows.pyx"
TAKEN_BEFORE = "            (<bytes>encode(properties)).decode(),\n"
TAKEN = "            at(record, places.exchange) or absent,\n"
MIGRATION = """
    import sqlalchemy as sa
    from alembic import op

    revision = "r9999"
    down_revision = {head!r}
    branch_labels = depends_on = None


    def upgrade():
        op.add_column("events", sa.Column("entry", sa.Text, nullable=True))
"""
SCRIPT = """
    import asyncio, json, sys

    from app.api.described import components, schema_of
    from app.api.events import EventObject, event_view
    from app.api.signin.permissions import EVERYTHING_READ
    from app.cli.events import SHOWN_COLUMNS
    from app.store import Store, migrate
    from app.stored.reading import EventFilter
    from history import History
    from model.event import EVENT_FIELDS
    from spark_jobs.spark.columns import restore, select
    from spark_jobs.spark.database import DatabaseAddress
    from spark_jobs.formats.fields import EVENT_COLUMNS, event_fields, json_texts
    from spark_jobs.formats.parquet import SCHEMA

    url = sys.argv[1]


    async def stored():
        await migrate(url)
        store = await Store.open(url)
        trace = await store.traces.create("/", "channel")
        await store.batches.append(trace.id, History(seed=1).batch(40))
        rows = (await store.events.find(EventFilter(), after=0, limit=100)).items
        await store.close()
        return rows


    rows = asyncio.run(stored())
    database = DatabaseAddress.from_url(url)
    [batch] = database.query(f"{select(EVENT_COLUMNS, database.dialect)} ORDER BY e.id")
    fields = event_fields(restore(batch, EVENT_COLUMNS))
    views = [event_view(row, EVERYTHING_READ) for row in rows]
    print(json.dumps({
        "rows": [row.entry for row in rows],
        "exchanges": [row.exchange for row in rows],
        "views": [view["entry"] for view in views],
        "export": [json.loads(text) for text in json_texts("entry", fields["entry"])],
        "parquet": str(SCHEMA.field("entry").type),
        "schema": components(schema_of(EventObject))["Event"]["properties"]["entry"],
        "command": {label: of(views[0]) for label, of in SHOWN_COLUMNS.items()},
        "listed": [name for name, field in EVENT_FIELDS.items() if field.display.usual],
    }))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources with one more field."""
    root = tmp_path_factory.mktemp("copy")
    for name in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / name, root / name, ignore=ignored)
    shutil.copy(CHECKOUT / "tests" / "contract" / "history.py", root)
    for file, before, line in (
        ("model/event.py", BEFORE, LINE),
        (ROWS, TAKEN_BEFORE, TAKEN),
    ):
        text = (root / file).read_text()
        assert text.count(before) == 1
        (root / file).write_text(text.replace(before, line + before))
    versions = root / "alembic" / "versions"
    head = max(file.name for file in versions.glob("*.py"))[:5]
    (versions / "r9999_entry.py").write_text(dedent(MIGRATION).format(head=head))
    program = (CHECKOUT / "setup.py").read_text()
    only, count = re.subn(
        r"COMPILED = \{.*?\n\}\n", f"COMPILED = {{{ROWS!r}: []}}\n", program, flags=re.S
    )
    assert count == 1
    (root / "setup.py").write_text(only)
    shutil.copy(CHECKOUT / "pyproject.toml", root)
    build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(build, cwd=root, check=True, capture_output=True)
    return root


def test_a_new_field_shows_wherever_fields_show(copy: Path, database_url: str) -> None:
    asked = subprocess.run(
        [sys.executable, "-c", dedent(SCRIPT), database_url],
        cwd=copy,
        env={"PYTHONPATH": str(copy)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    said: dict[str, Any] = json.loads(asked.stdout)
    assert said["rows"] == [exchange or None for exchange in said["exchanges"]]
    assert None in said["rows"]
    assert said["views"] == said["rows"] == said["export"]
    assert said["parquet"] == "string"
    assert said["schema"]["description"] == "Where the message came in."
    assert said["command"]["ENTRY"] == (said["rows"][0] or "")
    assert "entry" in said["listed"]


EVENTS = """
    import asyncio, json, sys

    from app.store import Store, migrate
    from app.stored.reading import EventFilter


    async def read(url):
        state = await migrate(url)
        store = await Store.open(url)
        rows = (await store.events.find(EventFilter(), after=0, limit=100)).items
        await store.close()
        entries = {getattr(row, "entry", None) for row in rows}
        return [state.found, [[row.id, str(row.stamp)] for row in rows], list(entries)]


    print(json.dumps(asyncio.run(read(sys.argv[1]))))
"""


def _read(sources: Path, url: str) -> list[Any]:
    """The tables' version and the events, as a program of these sources migrates and reads them."""
    command = [sys.executable, "-c", dedent(EVENTS), url]
    done = subprocess.run(
        command, cwd=sources, env={"PYTHONPATH": str(sources)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    answer: list[Any] = json.loads(done.stdout)
    return answer


def _restore(backup: Path, file: Path) -> None:
    for each in file.parent.glob(f"{file.name}*"):
        each.unlink()
    shutil.copy(backup, file)


async def test_the_next_release_opens_this_store_and_a_backup_leads_back(
    copy: Path, tmp_path: Path
) -> None:
    """As docs/upgrading.md and docs/operations.md say it, on SQLite."""
    file, backup = tmp_path / "itc.db", tmp_path / "backup.db"
    url = f"sqlite:///{file}"
    await migrate(url)
    store = await Store.open(url)
    trace = await store.traces.create("/", "channel")
    await store.batches.append(trace.id, History(seed=1).batch(40))
    await store.close()
    head, events, _ = _read(CHECKOUT, url)
    sqlite3.connect(file).execute("vacuum into ?", [str(backup)])

    assert _read(copy, url) == [head, events, [None]], "its migration leaves events as they are"
    assert _read(copy, url)[0] == "r9999"
    with pytest.raises(SettingsError, match=r"newer version \(r9999\)"):
        await Store.open(url)
    _restore(backup, file)
    assert _read(CHECKOUT, url) == [head, events, [None]]
    assert len(events) > 20
