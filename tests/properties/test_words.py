"""The glossary names what the code has, and each of its names stands for one thing."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections import Counter
from pathlib import Path
from typing import TypeAlias

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "architecture.md").read_text().partition("## Words")[2]
ROWS = re.findall(
    r"^\| ([a-z ]+) \| .* \| `([\w.]+)` \|$", GLOSSARY.partition("\n## ")[0], re.MULTILINE
)


# Words that are easily given to other things, and where the glossary's thing is at home. A position
# in a file, a field of a message, a kind of knowledge and a setting have names of their own.
HOMES = {
    "place": ("app.tracker.identity",),
    "mark": ("app.broker", "app.doctor", "app.traces.losses", "app.traces.runs.run"),
    "rule": (
        *("app.api.routes.bodies", "app.api.routes.links", "app.cli.rules", "app.main"),
        *("app.store.capture.link_rules", "app.store.capture.proposals"),
        *("app.store.causality.links", "app.stored.capture", "app.stored.proposals"),
        *("app.traces", "app.tracker.links", "model.reports.correlations"),
        *("spark_jobs.interchange.asyncapi", "spark_jobs.reports.key_pairs"),
    ),
    "way": (
        *("app.api.routes.links", "app.store.causality", "app.store.conversations.roots"),
        *("app.stored.causality", "model.ways", "spark_jobs.chains"),
    ),
}
# What several modules do alike, each for what it is about.
ALIKE = {"answer", "as_json", "install", "main", "make", "parse", "read", "run"}
Definition: TypeAlias = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def trees() -> dict[str, ast.Module]:
    """The product's modules by their names."""
    rooms = ("app", "itc", "model", "spark_jobs", "statements")
    files = [file for room in rooms for file in (ROOT / room).rglob("*.py")]
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files]
    return {
        name.removesuffix(".__init__"): ast.parse(file.read_text())
        for name, file in zip(names, files, strict=True)
    }


@functools.cache
def classes() -> Counter[str]:
    """How often each name of a class is given."""
    nodes = (node for tree in trees().values() for node in tree.body)
    return Counter(node.name for node in nodes if isinstance(node, ast.ClassDef))


def words_in(name: str) -> set[str]:
    """The words of a name, in the singular."""
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower().split("_")
    return {part.removesuffix("s") for part in parts}


def test_there_are_some_thirty_words_and_each_stands_once() -> None:
    words = [word for word, _ in ROWS]
    assert 25 <= len(words) == len({*words}) <= 40


@pytest.mark.parametrize(("word", "name"), ROWS)
def test_a_word_is_where_the_glossary_says(word: str, name: str) -> None:
    module, _, last = name.rpartition(".")
    assert hasattr(importlib.import_module(module), last), word
    assert classes()[last] <= 1


def test_no_two_classes_share_a_name() -> None:
    assert [name for name, times in classes().items() if times > 1] == []


@pytest.mark.parametrize("word", HOMES)
def test_a_word_is_said_where_its_thing_is_at_home(word: str) -> None:
    names = {
        f"{module}: {name}"
        for module, tree in trees().items()
        if not f"{module}.".startswith(tuple(f"{home}." for home in HOMES[word]))
        for name in (
            module.rpartition(".")[2],
            *(node.name for node in ast.walk(tree) if isinstance(node, Definition)),
        )
        if word in words_in(name)
    }
    assert names == set()
    assert word in {row for row, _ in ROWS}


def test_no_two_modules_have_a_function_of_one_name() -> None:
    """Commands and routes apart, which are verbs of those who use the service."""
    counts = Counter(
        node.name
        for module, tree in trees().items()
        if not module.startswith(("app.api.routes.", "app.cli"))
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_"
    )
    assert {name for name, count in counts.items() if count > 1} == ALIKE


def test_no_two_modules_of_spark_jobs_or_model_share_a_name() -> None:
    """In `app` a subject has one name in every room: its routes, commands, values and tables."""
    names = {name for name in trees() if name.startswith(("itc.", "model.", "spark_jobs."))}
    modules = names - {name.rpartition(".")[0] for name in names}
    counts = Counter((name.partition(".")[0], name.rpartition(".")[2]) for name in modules)
    assert [name for name, count in counts.items() if count > 1] == []


def _aliases(file: Path) -> dict[str, str]:
    """The tables by the names that a module gives to their columns."""
    pairs = (
        pair
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        for pair in (
            zip(target.elts, node.value.elts, strict=True)
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
            else [(target, node.value)]
        )
    )
    return {
        ast.unparse(name): match[1]
        for name, value in pairs
        if (match := re.fullmatch(r"tables\.(\w+)\.c", ast.unparse(value)))
    }


def test_the_columns_of_a_table_have_its_name_everywhere() -> None:
    aliases = [pair for file in ROOT.glob("app/**/*.py") for pair in _aliases(file).items()]
    assert len(aliases) > 50
    assert [(name, table) for name, table in aliases if name != f"_{table}"] == []
