"""What the documents hold, as data: blocks, links, and the names that they use.

A fenced block that begins with ```` ```sh run ```` is carried out, all such blocks of a document
one after the other in one shell. A ```` ```text ```` block right behind one shows what it prints:
each of its lines must be among the printed ones, whatever the numbers in it. A ```` ```sh ````
block is checked for its syntax alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
DOCUMENTS = (
    *sorted(CHECKOUT.glob("*.md")),
    *sorted((CHECKOUT / "docs").glob("*.md")),
)

_FENCED = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block: what follows the opening backticks, and the text between them."""

    kind: str
    text: str


def name_of(document: Path) -> str:
    """The document's path from the top of the checkout."""
    return str(document.relative_to(CHECKOUT))


def blocks(document: Path) -> list[Block]:
    """All fenced blocks, in order."""
    return [Block(kind, text) for kind, text in _FENCED.findall(document.read_text())]


def prose(document: Path) -> str:
    """The document without its fenced blocks."""
    return _FENCED.sub("", document.read_text())


def code(document: Path) -> str:
    """Everything that is set as code, in blocks and in lines."""
    fenced = "\n".join(block.text for block in blocks(document))
    return fenced + "\n" + "\n".join(_CODE.findall(prose(document)))


def links(document: Path) -> Iterator[str]:
    """Where the document's links lead."""
    yield from _LINK.findall(prose(document))


def anchors(document: Path) -> set[str]:
    """The headings, as a link to one of them names it."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(prose(document))
    }


def script(document: Path) -> str:
    """The blocks that are run, as one script."""
    return "\n".join(block.text for block in blocks(document) if block.kind == "sh run")


def shown(document: Path) -> list[str]:
    """The lines that the document says its script prints."""
    found = blocks(document)
    return [
        line
        for before, block in pairwise(found)
        if before.kind == "sh run" and block.kind == "text"
        for line in block.text.splitlines()
        if line.strip(" …")
    ]
