"""Dependencies point inwards: who may import whom, held against the code."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("app", "itc", "spark_jobs", "tools", "bench", "tests")

# A room, and what it may import of ours besides itself.
MAY_IMPORT = {
    "itc": (),
    "spark_jobs": ("itc",),
    "app.environment": (),
    "app.errors": (),
    "app.secret_url": (),
    "app.settings": ("app.errors", "app.secret_url"),
    "app.tracker": ("itc",),
    "app.broker": ("app.errors", "app.tracker", "itc.core"),
    "app.store": ("app.errors", "app.job", "app.tracker", "itc"),
    # What an export is called, what lies beside it, what is archived; none of them loads Spark.
    "app.jobs": (
        "app.environment",
        "app.errors",
        "app.job",
        "spark_jobs.archived",
        "spark_jobs.export",
        "spark_jobs.formats",
    ),
    # Traces know the store's and the tracker's values; broker and store come as ports.
    "app.traces": ("app.environment", "app.errors", "app.store", "app.tracker", "itc"),
    "app.api": (
        "app.errors",
        "app.job",
        "app.jobs",
        "app.settings",
        "app.store",
        "app.traces",
        "app.tracker",
        "app.version",
        "itc",
    ),
}

# Libraries that a room never sees.
NEVER_SEES = {
    "itc": None,  # standard library only
    "app.tracker": ("asyncio", "aio_pika", "aiormq", "sqlalchemy", "httpx", "fastapi", "pyspark"),
    "app.api": ("aio_pika", "aiormq", "sqlalchemy", "pyspark"),
    "app.store": ("aio_pika", "aiormq", "fastapi", "pyspark"),
    "app.broker": ("sqlalchemy", "fastapi", "pyspark"),
    "app.traces": ("aio_pika", "aiormq", "sqlalchemy", "fastapi", "pyspark"),
    "app.jobs": ("aio_pika", "aiormq", "sqlalchemy", "fastapi", "pyspark"),
    "spark_jobs": ("sqlalchemy", "fastapi", "aio_pika", "aiormq"),
}


@cache
def imports_in(file: Path) -> tuple[str, ...]:
    """Every module that a file imports, wherever in it."""
    return tuple(_imports(ast.parse(file.read_text())))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_of(room: str) -> Iterator[tuple[Path, str]]:
    """Yield (file, imported module) for everything in a room."""
    place = ROOT / room.replace(".", "/")
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    assert files, f"{room} has moved: mend this test"
    for file in files:
        yield from ((file, module) for module in imports_in(file))


def within(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(place + ".") for place in places)


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_room_imports_only_what_lies_further_in(room: str) -> None:
    allowed = (room, *MAY_IMPORT[room])
    wrong = {
        f"{file.relative_to(ROOT)}: {module}"
        for file, module in imports_of(room)
        if module.partition(".")[0] in OURS
        and not within(module, allowed)
        and not any(place.startswith(module + ".") for place in allowed)
    }
    assert wrong == set()


@pytest.mark.parametrize("room", sorted(NEVER_SEES))
def test_a_room_sees_only_its_own_libraries(room: str) -> None:
    unseen = NEVER_SEES[room]
    for file, module in imports_of(room):
        top = module.partition(".")[0]
        if unseen is None:
            assert top in sys.stdlib_module_names or top == room, f"{file} imports {module}"
        else:
            assert top not in unseen, f"{file} imports {module}"
