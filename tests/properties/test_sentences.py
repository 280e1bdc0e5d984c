"""The table of sentences: short ones, each spoken, and none spoken anywhere else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from model.wording import Sentence

ROOT = Path(__file__).parents[2]
MOST_WORDS = 20
LEAST_WORDS = 6  # of a part between names and numbers that would be a sentence of its own
FIELD = re.compile(r"\{[^}]*\}")
PRODUCT = ("app", "model", "spark_jobs", "statements", "web/app")


def texts(path: Path) -> Iterator[str]:
    """The texts of a source, without comments and docstrings."""
    source = path.read_text()
    if path.suffix == ".js":
        yield " ".join(re.sub(r"/\*.*?\*/|^\s*//.*?$", "", source, flags=re.S | re.M).split())
        return
    tree = ast.parse(source)
    plain = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in plain:
            yield node.value


SOURCES = {
    path.relative_to(ROOT): "\n".join(texts(path))
    for room in PRODUCT
    for path in sorted((ROOT / room).rglob("*"))
    if path.suffix in (".py", ".js") and path != ROOT / "model" / "wording.py"
}


@pytest.mark.parametrize("sentence", Sentence, ids=lambda each: each.name)
def test_a_sentence_has_at_most_twenty_words(sentence: Sentence) -> None:
    words = FIELD.sub("name", sentence).split()
    assert len(words) <= MOST_WORDS, f"{len(words)}: {sentence}"


def test_each_sentence_is_spoken() -> None:
    code = "\n".join((ROOT / path).read_text() for path in SOURCES if path.suffix == ".py")
    spoken = {*re.findall(r"\bSentence\.(\w+)", code)}
    assert {sentence.name for sentence in Sentence} - spoken == set()


def test_nobody_has_a_second_copy_of_a_sentence() -> None:
    parts = {
        part.strip()
        for sentence in Sentence
        for part in FIELD.split(sentence)
        if len(part.split()) >= LEAST_WORDS
    }
    assert len(parts) > len(Sentence) / 2
    copies = [(path, part) for path, text in SOURCES.items() for part in parts if part in text]
    assert not copies
