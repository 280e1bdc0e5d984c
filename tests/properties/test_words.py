"""The glossary names what the code has, and each of its names stands for one thing."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "architecture.md").read_text().partition("## Words")[2]
ROWS = re.findall(
    r"^\| ([a-z ]+) \| .* \| `([\w.]+)` \|$", GLOSSARY.partition("\n## ")[0], re.MULTILINE
)


@functools.cache
def classes() -> Counter[str]:
    """How often each name of a class is given."""
    files = (
        file
        for room in ("app", "itc", "model", "spark_jobs", "statements")
        for file in (ROOT / room).rglob("*.py")
    )
    return Counter(
        node.name
        for file in files
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.ClassDef)
    )


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
