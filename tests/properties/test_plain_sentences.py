"""Docstrings and comments name their thing first: no relative clause stands for a noun."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("app", "itc", "model", "spark_jobs", "statements", "web/app")

# "What is read" is the rows or the fields that are read; "how long it may take" is a time. But a
# comment behind code may go on with the code's own noun: `MOST = 9  # of a queue`.
CLAUSE = re.compile(
    r"(what|who|whom)(ever)?\b|(whose|whether|where|wherever|how)\b|which(ever)? \w+ (is|are|of)\b"
    r"|(?-i:Those|That|Of|Which)\b",
    re.IGNORECASE,
)
# "This many" of a bound; but "so many that …".
SO_MANY = re.compile(r"\bso (many|few)\b(?! (\w+ )*?that\b)", re.IGNORECASE)


def python_texts(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = [token for token in tokens if token.type == tokenize.COMMENT]
    yield from blocks(
        (token.start[0], token.string.lstrip("#: "), token.line.lstrip().startswith("#"))
        for token in comments
    )


def blocks(comments: Iterator[tuple[int, str, bool]]) -> Iterator[str]:
    """Comments with the lines that continue them: (line, text, is alone in its line)."""
    numbered = enumerate(comments)
    for _, block in groupby(numbered, lambda item: item[0] - item[1][0] if item[1][2] else item):
        yield " ".join(text for _, (_, text, _) in block).strip()


def compiled_texts(source: str) -> Iterator[str]:
    """Texts of Cython."""
    yield from re.findall(r'"""(.*?)"""', source, re.DOTALL)
    yield from commented(source, r"^\s*#(?!cython|\s*distutils)()\s*(.*)$")


def script_texts(source: str) -> Iterator[str]:
    for text in re.findall(r"/\*\*?(.*?)\*/", source, re.DOTALL):
        yield re.sub(r"\s*\n\s*\*?\s*", " ", text).strip()
    yield from commented(source, r"^\s*//()\s*(.*)$")


def commented(source: str, pattern: str) -> Iterator[str]:
    lines = enumerate(source.splitlines())
    matches = ((number, re.match(pattern, line)) for number, line in lines)
    yield from blocks((number, match[2], True) for number, match in matches if match)


READERS = {".py": python_texts, ".pyx": compiled_texts, ".js": script_texts}


@cache
def texts() -> dict[str, list[str]]:
    files = (file for room in ROOMS for file in sorted((ROOT / room).rglob("*.*")))
    return {
        str(file.relative_to(ROOT)): [*READERS[file.suffix](file.read_text())]
        for file in files
        if file.suffix in READERS
    }


def faults(pattern: re.Pattern[str], *, at_start: bool) -> list[str]:
    search = pattern.match if at_start else pattern.search
    return [
        f"{path}: {text[:90]}" for path, lines in texts().items() for text in lines if search(text)
    ]


def test_texts_begin_with_a_noun_or_a_verb() -> None:
    found = faults(CLAUSE, at_start=True)
    assert not found, "name the thing that it is\n" + "\n".join(found)


def test_a_bound_is_this_many() -> None:
    found = faults(SO_MANY, at_start=False)
    assert not found, "say “this many”\n" + "\n".join(found)


def test_only_a_bool_is_told_by_whether() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for room in ROOMS
        for file in sorted((ROOT / room).rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (ast.get_docstring(node) or "").lower().startswith("tell whether")
        if node.returns is None or "bool" not in ast.unparse(node.returns)
    ]
    assert not found, "“Tell whether” returns a bool\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("reader", "source", "expected"),
    [
        (
            python_texts,
            '"""Rows."""\n# One\n# block\n\nn = 1  # where it is\nm = 2  # how\n#: of it\n',
            ["Rows.", "One block", "where it is", "how", "of it"],
        ),
        (
            script_texts,
            "/** What\n * is it. */\n// Two\n  // lines\nx; // no\n",
            ["What is it.", "Two lines"],
        ),
        (
            compiled_texts,
            'def f():\n    """Doc"""\n    # What it does\n    # here\n',
            ["Doc", "What it does here"],
        ),
    ],
)
def test_texts_are_read_in_each_language(reader, source, expected) -> None:  # type: ignore[no-untyped-def]
    assert [text for text in reader(source) if text] == expected
