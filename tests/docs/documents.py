"""What the documents hold, as data: blocks, links, and the names that they use.

A fenced block that begins with ```` ```sh run ```` is carried out, all such blocks of a document
one after the other in one shell. A ```` ```text ```` block right behind one shows what it prints:
all of it, line by line, but for what a line with ``…`` alone stands for, a job's progress, and what
differs from one run to the next: times, ids of events, versions. A ```` ```sh ```` block is
checked for its syntax alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
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


BEHIND = "---- what was printed before this is block"
"""The line that a script prints behind each block, with the block's number from 0."""


def script(document: Path) -> str:
    """The blocks that are run, as one script that says where each ends; empty if there is none.

    What its commands say of errors stands among what they print.
    """
    run = [block.text for block in blocks(document) if block.kind == "sh run"]
    lines = (f"{text}\necho; echo '{BEHIND} {n}'" for n, text in enumerate(run))
    return "\n".join(["exec 2>&1; export PYTHONUNBUFFERED=1", *lines]) if run else ""


def shown(document: Path) -> dict[int, list[str]]:
    """The lines that the document says its script prints, by the number of the block."""
    found = [each for each in blocks(document) if each.kind in ("sh run", "text")]
    numbers = count()
    run = [next(numbers) if each.kind == "sh run" else None for each in found]
    return {
        number: block.text.splitlines()
        for number, block in zip(run, found[1:], strict=False)
        if number is not None and block.kind == "text"
    }


_VARYING = re.compile(
    r"(?P<time>(?:under )?[0-9][0-9.,]* ?(?:ms|s)\b)"
    r"|(?P<event>\bevents? [0-9]+(?: and [0-9]+)?|\"(?:id|cause)\":[0-9]+|^\[[0-9]+\]$)"
    r"|(?P<path>/[0-9]+/[0-9]+/)"
    r"|(?P<size>[0-9][0-9,]* bytes)"
    r"|(?P<version>(?:Python|RabbitMQ) [0-9.]+)"
)


_PROGRESS = re.compile(r"job [0-9]+: ")  # of which there is more on a slow machine


def masked(line: str) -> str:
    """A line without what differs from one run to the next; all other digits count."""
    return " ".join(_VARYING.sub(lambda found: f"<{found.lastgroup}>", line).split())


def unlike(shown: list[str], printed: list[str]) -> str | None:
    """The first line of ``shown`` that is not printed in its place, or the first printed besides.

    None if all is as it is shown.
    """
    rest = [line for line in map(masked, printed) if line and not _PROGRESS.match(line)]
    leaps = False
    for line in shown:
        if not line.strip(" …"):
            leaps = leaps or "…" in line
            continue
        wanted = masked(line)
        skipped = rest.index(wanted) if wanted in rest and leaps else 0
        if rest[skipped : skipped + 1] != [wanted]:
            return line
        rest, leaps = rest[skipped + 1 :], False
    return rest[0] if rest and not leaps else None
