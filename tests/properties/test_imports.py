"""Dependencies point inwards: who may import whom, checked against the code."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from textwrap import dedent

import pytest

from tests.properties.import_chains import Tree

ROOT = Path(__file__).parents[2]
PRODUCT = ("app", "itc", "model", "spark_jobs", "statements")
OURS = (*PRODUCT, "tools", "bench", "drills", "tests")

# A room, and which of ours it may import besides itself.
MAY_IMPORT = {
    "itc": (),
    # What the service and Spark's jobs share; they import nothing of each other.
    "model": ("itc",),
    "statements": ("model",),
    "spark_jobs": ("itc", "model", "statements"),
    "app.errors": (),
    "app.extras": ("app.errors",),
    "app.round_robin": (),
    "app.background": ("app.errors",),
    "app.interpreter": (),
    "app.orders": ("app.background", "app.errors", "app.interpreter", "app.settings", "model.jobs"),
    "app.children": ("app.priority",),
    "app.priority": (),
    "app.secret_url": (),
    "app.assertion_files": ("model",),
    "app.settings": ("app.errors", "app.secret_url", "model.sampling"),
    "app.version": (),
    "app.tracker": ("itc", "model"),
    "app.broker": (
        "app.background",
        "app.errors",
        "app.stored.capture",
        "app.tracker",
        "model.texts",
    ),
    "app.stored": ("app.errors", "app.tracker", "itc", "model"),
    # Its module `process` puts together what it needs, as `app.main` does for the service.
    "app.restamp.restamper": ("app.stored", "app.tracker", "model"),
    "app.restamp.replay": (
        "app.errors",
        "app.restamp.restamper",
        "app.stored",
        "app.traces.pipeline",
        "app.tracker",
        "model",
    ),
    "app.store": ("app.errors", "app.stored", "app.tracker", "itc", "model", "statements"),
    # Archived events are read by the code that wrote them, loaded when one is asked for.
    "app.jobs": (
        "app.background",
        "app.children",
        "app.errors",
        "app.extras",
        "app.round_robin",
        "app.secret_url",
        "app.stored.jobs",
        "model",
        "spark_jobs.events.archive",
    ),
    # Traces know the store's and the tracker's values; broker and store come as ports.
    "app.traces": (
        "app.background",
        "app.children",
        "app.errors",
        "app.stored",
        "app.tracker",
        "itc",
        "model",
    ),
    # What comes of assertions while events come, and telling others of it.
    "app.watch": (
        "app.background",
        "app.children",
        "app.errors",
        "app.extras",
        "app.secret_url",
        "app.stored",
        "itc",
        "model",
    ),
    # Spans for a collector. Its module `process` puts together what it needs.
    "app.collector": (
        "app.background",
        "app.children",
        "app.errors",
        "app.jobs",
        "app.orders",
        "app.settings",
        "app.store",
        "app.stored",
        "app.version",
        "model",
    ),
    "app.api": (
        "app.assertion_files",
        "app.collector.following",
        "app.errors",
        "app.jobs",
        "app.restamp.replay",
        "app.round_robin",
        "app.settings",
        "app.stored",
        "app.traces",
        "app.tracker",
        "app.version",
        "app.watch",
        "itc",
        "model",
    ),
}

# Rooms within the API: what the routes are built from knows nothing of them.
BEHIND_ROUTES = ("app.api.layers", "app.api.signin")

DATABASE = ("sqlalchemy", "alembic", "asyncpg", "aiosqlite")
BROKER = ("aio_pika", "aiormq")
WEB = ("fastapi", "starlette")
SPARK = ("pyspark", "py4j")

# Libraries that a room never loads, neither by itself nor through what it imports.
NEVER_LOADS = {
    "itc": None,  # standard library only
    "model": None,
    "statements": None,
    "app.tracker": ("asyncio", "httpx2", *DATABASE, *BROKER, *WEB, *SPARK),
    "app.stored": ("asyncio", "httpx2", *DATABASE, *BROKER, *WEB, *SPARK),
    "app.api": (*DATABASE, *BROKER, *SPARK),
    "app.store": (*BROKER, *WEB, *SPARK),
    "app.broker": (*DATABASE, *WEB, *SPARK),
    "app.traces": (*DATABASE, *BROKER, *WEB, *SPARK),
    "app.jobs": (*DATABASE, *BROKER, *WEB, *SPARK),
    "app.watch": (*DATABASE, *BROKER, *WEB, *SPARK),
    "app.collector.process": (*BROKER, *WEB, *SPARK),
    "app.collector.following": (*DATABASE, *BROKER, *WEB, *SPARK),
    "app.restamp.restamper": ("asyncio", "httpx2", *DATABASE, *BROKER, *WEB, *SPARK),
    "app.restamp.replay": (*DATABASE, *BROKER, *WEB, *SPARK),
    "app.restamp.process": (*BROKER, *WEB, *SPARK),
    "app.main": SPARK,  # Spark has a process of its own
    "spark_jobs": (*DATABASE, *BROKER, *WEB),
}


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree(ROOT, OURS)


@cache
def imports_in(file: Path, *, types: bool = False) -> tuple[str, ...]:
    """Every module that a file imports, wherever in it; those for ``types`` alone only if asked."""
    return tuple(_imports(ast.parse(file.read_text()), types))


def _imports(tree: ast.Module, types: bool) -> Iterator[str]:
    for node in _nodes(tree, types):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _nodes(node: ast.AST, types: bool) -> Iterator[ast.AST]:
    yield node
    is_typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    if not is_typing or types:
        for child in ast.iter_child_nodes(node):
            yield from _nodes(child, types)


def within(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(place + ".") for place in places)


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_room_imports_only_what_is_further_in(room: str, tree: Tree) -> None:
    allowed = (room, *MAY_IMPORT[room])
    wrong = {
        f"{name}: {module}"
        for name in tree.within(room)
        for module in imports_in(tree.files[name])
        if module.partition(".")[0] in OURS
        and not within(module, allowed)
        and not any(place.startswith(module + ".") for place in allowed)
    }
    assert wrong == set()


def test_what_may_be_imported_has_rules_of_its_own() -> None:
    """So the rules hold along every chain: each of its steps belongs to one room."""
    allowed = {place for places in MAY_IMPORT.values() for place in places}
    assert {place for place in allowed if not within(place, tuple(MAY_IMPORT))} == set()


def test_the_model_says_nothing_in_sql(tree: Tree) -> None:
    words = re.compile(r"\b(SELECT|FROM|WHERE|JOIN|BETWEEN|IS NULL)\b")
    wrong = {
        f"{name}: {node.value}"
        for name in tree.within("model")
        for node in ast.walk(ast.parse(tree.files[name].read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if words.search(node.value)
    }
    assert wrong == set()


@pytest.mark.parametrize("room", sorted(NEVER_LOADS))
def test_a_room_loads_only_its_own_libraries(room: str, tree: Tree) -> None:
    unseen = NEVER_LOADS[room]
    wrong = {
        " → ".join(chain)
        for module, chain in tree.loaded_by(room).items()
        if not within(module, (room,))
        and (
            module.partition(".")[0] not in {*sys.stdlib_module_names, *OURS}
            if unseen is None
            else within(module, unseen)
        )
    }
    assert wrong == set()


@pytest.mark.parametrize("room", BEHIND_ROUTES)
def test_what_routes_are_made_of_knows_no_route(room: str, tree: Tree) -> None:
    for name in tree.within(room):
        assert not any(within(each, ("app.api.routes",)) for each in imports_in(tree.files[name]))


def test_no_module_imports_itself_through_others(tree: Tree) -> None:
    """Not even for types, and in no room: what goes in a circle cannot be read one by one."""
    names = {name for name in tree.files if within(name, PRODUCT)}
    modules = {name: {*imports_in(tree.files[name], types=True)} & names - {name} for name in names}
    for name, imported in modules.items():
        # A package names what is in it, and is not what a module in it needs of another.
        modules[name] = {each for each in imported if tree.files[each].name != "__init__.py"}
    TopologicalSorter(modules).prepare()  # raises CycleError, which names the circle


def test_no_room_imports_itself_through_its_neighbours(tree: Tree) -> None:
    """Not for types either. Modules of a package are no rooms: `app.main` knows all, for one."""
    names = {name for name in tree.files if within(name, PRODUCT)}
    rooms = {name for name in names if tree.files[name].name == "__init__.py"}
    neighbours: dict[str, dict[str, set[str]]] = {}
    for name in names:
        for module in names.intersection(imports_in(tree.files[name], types=True)):
            for room, imported in _neighbours(name, module, rooms):
                house = neighbours.setdefault(room.rpartition(".")[0], {})
                house.setdefault(room, set()).add(imported)
    assert {"app", "spark_jobs", "app.store"} <= neighbours.keys()
    for house in neighbours.values():
        TopologicalSorter(house).prepare()


def _neighbours(module: str, imported: str, rooms: set[str]) -> Iterator[tuple[str, str]]:
    """The two rooms next to each other that an import leads from and to, if there are such."""
    parts, imported_parts = module.split("."), imported.split(".")
    pairs = zip(parts, imported_parts, strict=False)
    common = next((n for n, (a, b) in enumerate(pairs) if a != b), 0)
    ends = ".".join(parts[: common + 1]), ".".join(imported_parts[: common + 1])
    if common and rooms.issuperset(ends):
        yield ends


# They begin a process; people give `chain` to spark-submit.
SPARK_PROCESSES = ("spark_jobs.chain", "spark_jobs.daemon", "spark_jobs.worker")


def test_what_runs_on_spark_is_called_a_job(tree: Tree) -> None:
    """Outside `spark_jobs.spark` a noun loads no Spark: ``NOUN_job`` runs it."""
    rooms = ("spark_jobs.spark", "spark_jobs.kinds", *SPARK_PROCESSES)
    names = [name for name in tree.within("spark_jobs") if not within(name, rooms)]
    jobs = tuple(name for name in names if name.endswith("_job"))
    assert len(jobs) > 10
    for name in {*names}.difference(jobs):
        wrong = [m for m in imports_in(tree.files[name]) if within(m, (*SPARK, *jobs))]
        assert wrong == [], name


@pytest.fixture
def made_up(tmp_path: Path) -> Tree:
    """A tree in which ``door`` loads SQLAlchemy by way of two modules, and Spark never at once."""
    modules = {
        "app/__init__.py": "",
        "app/door.py": "from app.hall import lamp, key",
        "app/hall/__init__.py": "",
        "app/hall/lamp.py": "key = 1",
        "app/hall/key.py": """
            from typing import TYPE_CHECKING
            try:
                import app.cellar
            except ImportError:
                pass
            if TYPE_CHECKING:
                import aio_pika
            else:
                import alembic.op

            def turn():
                import pyspark

            class Lock:
                from json import loads

                def open(self):
                    import py4j
        """,
        "app/cellar.py": "from sqlalchemy.ext import asyncio\nfrom app import door",
    }
    for name, text in modules.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_text(dedent(text))
    return Tree(tmp_path, ["app"])


def test_a_library_is_found_through_any_number_of_modules(made_up: Tree) -> None:
    loaded = made_up.loaded_by("app.door")
    assert loaded["sqlalchemy"] == ("app.door", "app.hall.key", "app.cellar", "sqlalchemy")
    assert loaded["alembic"] == ("app.door", "app.hall.key", "alembic")
    assert loaded["json"] == ("app.door", "app.hall.key", "json")


def test_a_package_is_loaded_with_each_of_its_modules(made_up: Tree) -> None:
    assert made_up.loaded_by("app.hall.lamp").keys() == {"app.hall.lamp", "app.hall", "app"}
    assert made_up.loaded_by("app.door")["app.hall"] == ("app.door", "app.hall")


def test_what_waits_for_a_call_or_is_for_types_is_not_loaded(made_up: Tree) -> None:
    loaded = made_up.loaded_by("app.door")
    assert not {"pyspark", "py4j", "aio_pika"} & loaded.keys()
