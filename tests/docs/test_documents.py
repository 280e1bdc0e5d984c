"""What the documents name exists: files, headings, routes, settings, commands, options."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import typer

from app.cli import app as command_line
from app.settings import unknown_variables
from tests.docs.documents import (
    CHECKOUT,
    DOCUMENTS,
    anchors,
    blocks,
    code,
    links,
    name_of,
    prose,
)

_COMMAND = re.compile(
    r"(?:^ *|\$\(|[|&!] |bin/|exec |until |if )rabbitmq-itc ([^\n|;)&>#]*)", re.MULTILINE
)

LONG = 100  # lines

every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)


def test_no_file_holds_the_marks_of_a_merge() -> None:
    marks, elsewhere = "^(<<<<<<<|=======|>>>>>>>)( |$)", ":(exclude,glob)**/vendor/**"
    searched = subprocess.run(
        ["git", "grep", "-nIE", marks, "--", ".", elsewhere],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    assert (searched.returncode, searched.stdout) == (1, ""), searched.stderr


@every_document
def test_links_lead_somewhere(document: Path) -> None:
    dead = []
    for link in links(document):
        parts = urlsplit(link)
        if parts.scheme:
            continue  # other people's pages are not ours to check, nor always reachable
        target = (document.parent / unquote(parts.path)).resolve() if parts.path else document
        if not target.exists() or (parts.fragment and parts.fragment not in anchors(target)):
            dead.append(link)
    assert not dead


@every_document
def test_a_long_document_begins_with_its_contents(document: Path) -> None:
    headings = re.findall(r"^## (.+)$", prose(document), re.MULTILINE)
    if document.name == "CHANGELOG.md" or len(document.read_text().splitlines()) <= LONG:
        return
    before_all, _, _ = prose(document).partition("\n## ")
    _, named, listed = before_all.partition("\nContents:")
    assert named, f"{name_of(document)} has {len(headings)} headings, and no line of contents"
    words = re.findall(r"\[([^]]+)\]\(#[^)]+\)", listed)
    assert words == [heading.replace("`", "") for heading in headings]


@every_document
def test_shell_blocks_are_shell(document: Path) -> None:
    for block in blocks(document):
        if block.kind.startswith("sh"):
            checked = subprocess.run(["bash", "-n", "-c", block.text], capture_output=True)
            assert checked.returncode == 0, checked.stderr.decode() + block.text


@every_document
def test_routes_are_served(document: Path, routes: list[str]) -> None:
    assert not {path for path in _paths(code(document)) if not _is_served(path, routes)}


def _paths(text: str) -> Iterator[str]:
    for found in re.findall(r"(?<![\w.])/itc_db[^\s`\"')\]|?;,]*", text):
        if "…" not in found and "$" not in found and "<" not in found:
            yield found


def _is_served(path: str, routes: list[str]) -> bool:
    """Whether a path is an example of a route; a route's parameters stand for one segment each."""
    return any(
        re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(route)), path.rstrip("/"))
        for route in routes
    )


@every_document
def test_settings_are_settings(document: Path) -> None:
    named = re.findall(r"\bITC_[A-Z_]+[A-Z]\b", document.read_text())
    assert unknown_variables(dict.fromkeys(named, "")) == []


@every_document
def test_make_targets_are_in_the_makefile(document: Path) -> None:
    targets = re.findall(r"^([\w-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    assert {*re.findall(r"(?:^|\s)make ([\w-]+)", code(document))} <= {*targets}


@every_document
def test_commands_and_options_are_the_command_line_s(document: Path) -> None:
    for words in _commands(code(document)):
        command: Any = typer.main.get_command(command_line)
        while hasattr(command, "commands") and words and not words[0].startswith("-"):
            name = words.pop(0)
            assert name in command.commands, f"rabbitmq-itc has no command {name}"
            command = command.commands[name]
        given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
        assert given <= known | {"--help", "-h"}, f"rabbitmq-itc {command.name} has no such option"


def _commands(text: str) -> Iterator[list[str]]:
    """The words after each ``rabbitmq-itc`` that is a command, up to the shell's next command."""
    joined = text.replace("\\\n", " ")
    for line in _COMMAND.findall(joined):
        lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
        lexer.whitespace_split = True
        try:
            yield list(lexer)
        except ValueError:  # a quote that ends after a character at which we cut
            yield line.split()
